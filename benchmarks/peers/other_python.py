"""Optimal control by crocoddyl and ipopt, in a Python of their own that answers line by line.

This file is also what that Python runs, so that it imports nothing of this package.
"""

import contextlib
import functools
import importlib.util
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

VARIABLE = "JAXCFA_BENCH_PYTHON"


def other_python(task: str, which: str):
    """A process that has built the problem, and solves it whenever it is sent a line."""
    from ..case import Prepared

    if VARIABLE not in os.environ:
        raise ModuleNotFoundError(f"{VARIABLE} names no Python with crocoddyl and casadi (`make bench` does)")
    process = subprocess.Popen(
        [os.environ[VARIABLE], __file__, task, str(which)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def answer() -> dict:
        for line in process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise RuntimeError(f"{os.environ[VARIABLE]} has ended with status {process.wait()}")

    def run() -> dict:
        process.stdin.write("solve\n")
        process.stdin.flush()
        return answer()

    def note(found: dict) -> str:
        ending = "" if found.get("solved", True) else ", not solved"
        return f"cost {found['cost']:.7g}, {found['iterations']:g} iterations{ending}"

    return Prepared(run, answer(), None, note=note)


def cart_pole_step(x, u, dt, functions):
    """Semi-implicit Euler: position, angle from hanging down and their velocities after `dt`, for any arithmetic."""
    cart, pole, length, gravity = 1.0, 0.3, 0.5, 9.81
    s, c = functions.sin(x[1]), functions.cos(x[1])
    moved = cart + pole * s * s
    dp = x[2] + dt * (u + pole * s * (length * x[3] ** 2 + gravity * c)) / moved
    torque = u * c + pole * length * x[3] ** 2 * c * s + (cart + pole) * gravity * s
    dth = x[3] - dt * torque / (length * moved)
    return [x[0] + dt * dp, x[1] + dt * dth, dp, dth]


def displacements(number: int, size: int) -> np.ndarray:
    """From a state to that many starts around it, in the tangent space."""
    return 0.1 * np.random.default_rng(0).normal(size=(number, size))


def _reach(which: str):
    """`which` is "steps", or "steps/starts": then from that many, one after the other."""
    import crocoddyl
    import example_robot_data
    import pinocchio as pin

    steps, *number = map(int, which.split("/"))
    model = example_robot_data.load("kinova").model
    state = crocoddyl.StateMultibody(model)
    actuation = crocoddyl.ActuationModelFull(state)
    x0 = np.concatenate([model.referenceConfigurations["arm_up"], np.zeros(model.nv)])
    target = pin.SE3(np.eye(3), np.array([0.6, 0.2, 0.5]))
    frame = model.getFrameId("j2s6s200_end_effector")

    def stage(weights: dict[str, float], dt: float):
        residuals = {
            "pose": crocoddyl.ResidualModelFramePlacement(state, frame, target),
            "state": crocoddyl.ResidualModelState(state, x0),
            "control": crocoddyl.ResidualModelControl(state),
        }
        costs = crocoddyl.CostModelSum(state)
        for name, weight in weights.items():
            costs.addCost(name, crocoddyl.CostModelResidual(state, residuals[name]), weight)
        return crocoddyl.IntegratedActionModelEuler(
            crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, costs), dt
        )

    running = stage({"pose": 1.0, "state": 0.1, "control": 0.1}, 0.01)
    problem = crocoddyl.ShootingProblem(x0, [running] * steps, stage({"pose": 1e3}, 0.0))
    starts = [state.integrate(x0, d) for d in displacements(*number, state.ndx)] if number else [x0]

    def solution(start: np.ndarray):
        problem.x0 = start
        solver = crocoddyl.SolverFDDP(problem)
        solver.th_stop = 1e-14
        solver.solve([start] * (steps + 1), [np.zeros(model.nv)] * steps, 1000, False)
        return solver

    def solve() -> dict:
        found = [solution(start) for start in starts]
        costs = [solver.cost for solver in found]
        return {"cost": np.median(costs), "iterations": np.median([solver.iter for solver in found]), "costs": costs}

    return solve


def _cart_pole(which: str):
    import casadi

    steps = int(which)
    dt, end = 2.0 / steps, [0.5, np.pi, 0.0, 0.0]
    opti = casadi.Opti()
    x, u = opti.variable(4, steps + 1), opti.variable(1, steps)
    for t in range(steps):
        opti.subject_to(x[:, t + 1] == casadi.vertcat(*cart_pole_step([x[i, t] for i in range(4)], u[t], dt, casadi)))
    opti.subject_to(x[:, 0] == np.zeros(4))
    opti.subject_to(x[:, steps] == end)
    opti.subject_to(opti.bounded(-20, u, 20))
    opti.subject_to(opti.bounded(-1, x[0, :steps], 1))
    opti.minimize(dt * casadi.sumsqr(u))
    opti.solver("ipopt", {"print_time": False}, {"print_level": 0, "sb": "yes", "tol": 1e-8})

    def solve() -> dict:
        opti.set_initial(x, np.linspace(np.zeros(4), end, steps + 1).T)
        opti.set_initial(u, 0)
        found = opti.solve()
        return {"cost": found.value(opti.f), "iterations": found.stats()["iter_count"]}

    return solve


def _collection(which: str):
    """A problem of `control_collection.py`, "family/name", by multiple shooting."""
    import casadi

    spec = importlib.util.spec_from_file_location("collection", Path(__file__).parents[1] / "control_collection.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    posed = functools.reduce(lambda found, key: found[key], which.split("/"), module.COLLECTION)
    n, m, steps = len(posed.start), len(posed.lower), posed.steps
    opti = casadi.Opti()
    x, u = opti.variable(n, steps + 1), opti.variable(m, steps)
    states = [[x[i, t] for i in range(n)] for t in range(steps + 1)]
    controls = [[u[i, t] for i in range(m)] for t in range(steps)]
    cost = 0
    for i in set(range(n)) - set(posed.free):
        opti.subject_to(states[0][i] == posed.start[i])
    for t, (now, control) in enumerate(zip(states, controls, strict=False)):
        opti.subject_to(x[:, t + 1] == casadi.vertcat(*posed.step(now, control, casadi)))
        for value, low, high in zip(control, posed.lower, posed.upper, strict=True):
            if math.isfinite(low):
                opti.subject_to(opti.bounded(low, value, high))
        for row in posed.outside(now, casadi) if posed.outside else []:
            opti.subject_to(row <= 0)
        rest = posed.rest or (0,) * m
        cost += sum(w * (a - b) ** 2 / 2 for w, a, b in zip(posed.effort, control, rest, strict=False))
        cost += sum(w * a**2 / 2 for w, a in zip(posed.states, now, strict=False))
    for i, low, high in posed.bounds():
        for state in states[1:]:
            opti.subject_to(opti.bounded(low, state[i], high))
    for i, value in posed.ends():
        opti.subject_to(states[-1][i] == value)
    for row in posed.reached(states[-1], casadi) if posed.reached else []:
        opti.subject_to(row == 0)
    opti.minimize(cost + (posed.final(states[-1]) if posed.final else 0))
    options = {"print_level": 0, "sb": "yes", "tol": 1e-8, "max_iter": 500}
    opti.solver("ipopt", {"print_time": False, "detect_simple_bounds": True}, options)

    def solve() -> dict:
        opti.set_initial(x, np.tile(np.array(posed.start, float)[:, None], steps + 1))
        opti.set_initial(u, 0)
        with contextlib.suppress(RuntimeError):  # not solved
            opti.solve()
        cost, stats = float(opti.debug.value(opti.f)), opti.stats()
        return {"cost": cost, "iterations": stats["iter_count"], "solved": bool(stats["success"])}

    return solve


def _serve(task: str, which: str) -> None:
    started = time.perf_counter()
    solve = {"reach": _reach, "cart_pole": _cart_pole, "collection": _collection}[task](which)
    print(json.dumps({"model": time.perf_counter() - started}), flush=True)
    for _ in sys.stdin:
        print(json.dumps(solve()), flush=True)


if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose files have the names of packages
    _serve(sys.argv[1], sys.argv[2])
