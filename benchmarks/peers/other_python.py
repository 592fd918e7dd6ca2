"""Optimal control by crocoddyl and ipopt, in a Python of their own that answers line by line.

This file is also what that Python runs, so that it imports nothing of this package.
"""

import json
import os
import subprocess
import sys
import time

import numpy as np

VARIABLE = "JAXCFA_BENCH_PYTHON"


def other_python(task: str, steps: int):
    """A process that has built the problem, and solves it whenever it is sent a line."""
    from ..case import Prepared

    if VARIABLE not in os.environ:
        raise ModuleNotFoundError(f"{VARIABLE} is not the path of a Python with crocoddyl and casadi")
    process = subprocess.Popen(
        [os.environ[VARIABLE], __file__, task, str(steps)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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
        return f"cost {found['cost']:.7g}, {found['iterations']} iterations"

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


def _reach(steps: int):
    import crocoddyl
    import example_robot_data
    import pinocchio as pin

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

    def solve() -> dict:
        solver = crocoddyl.SolverFDDP(problem)
        solver.th_stop = 1e-14
        solver.solve([x0] * (steps + 1), [np.zeros(model.nv)] * steps, 1000, False)
        return {"cost": solver.cost, "iterations": solver.iter}

    return solve


def _cart_pole(steps: int):
    import casadi

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


def _serve(task: str, steps: int) -> None:
    started = time.perf_counter()
    solve = {"reach": _reach, "cart_pole": _cart_pole}[task](steps)
    print(json.dumps({"model": time.perf_counter() - started}), flush=True)
    for _ in sys.stdin:
        print(json.dumps(solve()), flush=True)


if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose files have the names of packages
    _serve(sys.argv[1], int(sys.argv[2]))
