"""Walks a quadruped along: which feet stand when, and where, is given; the motion and all forces are found.

A problem of optimal control whose controls are accelerations and the forces on the feet. Inverse dynamics say what the
motors must supply, within their limits, and that nothing else holds the body. Feet that stand stay where they are and
push within their friction pyramids; feet in the air are not pushed, and touch down without speed.

The robot is the Unitree Go2 of the package example-robot-data if that is installed, else one made of boxes; or any
other file. Prints what the motion needs, and how well forward dynamics agree with it, and writes a plot. Run:

    python examples/quadruped_walk.py [--robot go2.urdf --feet FL_foot FR_foot RL_foot RR_foot] [--steps 4]
        [--output output/quadruped_walk.png]
"""

import argparse
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxcfa
from _robots import installed
from jaxcfa.joints import Revolute
from jaxcfa.optimal_control import (
    Bounds,
    ContactForce,
    Cost,
    Equality,
    FramePosition,
    FrictionPyramid,
    JointTorques,
    PointVelocity,
    Posture,
    Problem,
    RobotInverseDynamics,
    Solution,
    SolveStatus,
    Stage,
    Velocity,
    solve,
)

FEET = ("FL_foot", "FR_foot", "RL_foot", "RR_foot")
PAIRS = ((0, 3), (1, 2))  # of feet that step together: a trot
LEG = (0.0, 0.8, -1.5)  # angles of a standing leg: hip, thigh, calf [rad]
STRIDE, CLEARANCE = 0.16, 0.06  # of a foot, along and over the ground [m]
TIME_STEP, SWING, STAND = 0.025, 10, 3  # [s], and in time steps: a foot in the air, all feet on the ground
FRICTION = 0.6
WEIGHTS = {"torque": 10.0, "acceleration": 1e-4, "posture": 20.0, "velocity": 0.5, "clearance": 1e5}


class Gait(NamedTuple):
    """**Fields:** `swings` of each foot, from the stage in which it leaves the ground to that in which it is back;
    `steps` in all; `places` of the feet on the ground at all stages (T + 1, 4, 3) [m]."""

    swings: list[list[tuple[int, int]]]
    steps: int
    places: np.ndarray

    def stands(self, foot: int) -> list[tuple[int, int]]:
        """Stages in which a foot can push, as pairs (first, end)."""
        edges = [0, *(stage for swing in self.swings[foot] for stage in swing), self.steps]
        return [(edges[i], edges[i + 1]) for i in range(0, len(edges), 2)]


def gait(places: np.ndarray, steps: int) -> Gait:
    """The pairs step in turn, half as far at first and at last; from the `places` (4, 3) where the feet stand."""
    swings: list[list[tuple[int, int]]] = [[], [], [], []]
    total = STAND + steps * (SWING + STAND)
    way = np.repeat(places[None], total + 1, axis=0)
    for k in range(steps):
        first = STAND + k * (SWING + STAND)
        length = STRIDE / 2 if k in (0, steps - 1) else STRIDE
        for foot in PAIRS[k % 2]:
            swings[foot].append((first, first + SWING))
            way[first + 1 :, foot, 0] += length * np.clip(np.arange(1, total + 1 - first) / SWING, 0, 1)
    return Gait(swings, total, way)


def walk(model: jaxcfa.Model, feet: tuple[str, ...], steps: int):
    """The problem, its start and a guess."""
    q = standing(model, feet)
    plan = gait(np.stack([jaxcfa.frame_pose(model, q, foot).translation for foot in feet]), steps)
    dynamics = RobotInverseDynamics(model, TIME_STEP, feet)
    places, nv, dt = jnp.asarray(plan.places), model.nv, TIME_STEP
    constraints = [Bounds(JointTorques(), -model.limits.effort, model.limits.effort)]
    costs = []
    for k, foot in enumerate(feet):
        swings = plan.swings[k]

        def place(stage: Stage, foot=foot, k=k):
            return FramePosition(foot)(stage) - places[stage.t, k]

        # The state in which a foot leaves still has it on the ground.
        constraints += [
            Equality(place, during=[(first, min(end + 1, plan.steps)) for first, end in plan.stands(k)]),
            Bounds(FrictionPyramid(foot, FRICTION), lower=0.0, during=plan.stands(k)),
        ]
        if swings:
            middle = [(first + SWING // 2, first + SWING // 2 + 1) for first, _ in swings]
            high = FramePosition(foot, jnp.array([0.0, 0.0, places[0, k, 2] + CLEARANCE]))
            costs.append(Cost(high, WEIGHTS["clearance"] * jnp.array([0.0, 0.0, dt]), during=middle))
            constraints += [
                Equality(ContactForce(foot), during=swings),
                Equality(PointVelocity(foot), during=[(end, end + 1) for _, end in swings]),
            ]
    # The body goes as the feet do on average, at their average speed.
    body = jnp.tile(q, (plan.steps + 1, 1)).at[:, 0].add((places - places[0])[:, :, 0].mean(axis=1))
    effort = model.limits.effort
    driven = jnp.isfinite(effort)
    costs += [
        Cost(JointTorques(), WEIGHTS["torque"] * dt * jnp.where(driven, 1 / jnp.where(driven, effort, 1), 0) ** 2),
        Cost(lambda stage: stage.u[:nv], WEIGHTS["acceleration"] * dt),
        Cost(lambda stage: Posture(body[stage.t])(stage), WEIGHTS["posture"] * dt),
        Cost(Velocity(), WEIGHTS["velocity"] * dt),
    ]
    problem = Problem(
        dynamics,
        plan.steps,
        costs,
        constraints=constraints,
        end_constraints=[
            *(Equality(FramePosition(foot, places[-1, k])) for k, foot in enumerate(feet)),
            Equality(Velocity()),
        ],
    )
    weight = jnp.sum(model.mass) * -model.gravity
    stands = np.zeros((plan.steps, len(feet)))
    for k in range(len(feet)):
        for first, end in plan.stands(k):
            stands[first:end, k] = 1
    share = stands / stands.sum(axis=1, keepdims=True)
    forces = (share[:, :, None] * weight).reshape(plan.steps, -1)
    still = jnp.zeros((plan.steps + 1, nv))
    guess = jnp.concatenate([body, still], axis=1), jnp.concatenate([still[:-1], forces], axis=1)
    return problem, plan, (q, still[0]), guess


def standing(model: jaxcfa.Model, feet: tuple[str, ...]) -> jax.Array:
    """The posture (nq,) with the feet at height zero on average."""
    q = jaxcfa.neutral(model).at[7:].set(jnp.tile(jnp.array(LEG), 4))
    heights = [jaxcfa.frame_pose(model, q, foot).translation[2] for foot in feet]
    return q.at[2].set(-sum(heights) / len(feet))


def quadruped() -> jaxcfa.Model:
    """A body of a box, and legs of three joints with Go2's lengths and masses."""
    builder = jaxcfa.ModelBuilder()
    builder.add_body("body", None, jaxcfa.joints.Free(), mass=7.0, inertia=(0.025, 0.1, 0.11), joint_name="floating")
    for name, along, side in (("FL", 1, 1), ("FR", 1, -1), ("RL", -1, 1), ("RR", -1, -1)):
        parts = (
            ("hip", "body", (0.19 * along, 0.047 * side, 0.0), (1.0, 0.0, 0.0), 0.7, (0.0, 0.0, 0.0), 23.7),
            ("thigh", f"{name}_hip", (0.0, 0.0955 * side, 0.0), (0.0, 1.0, 0.0), 1.1, (0.0, 0.0, -0.03), 23.7),
            ("calf", f"{name}_thigh", (0.0, 0.0, -0.213), (0.0, 1.0, 0.0), 0.2, (0.0, 0.0, -0.1), 45.4),
        )
        for part, parent, start, axis, mass, com, effort in parts:
            builder.add_body(
                f"{name}_{part}",
                parent,
                Revolute(axis),
                start,
                mass=mass,
                com=com,
                inertia=(0.002, 0.002, 0.0005),
                joint_name=f"{name}_{part}_joint",
                effort_limit=effort,
            )
        builder.add_frame(f"{name}_foot", f"{name}_calf", (0.0, 0.0, -0.213))
    return builder.build()


def robot_model(robot: Path | None) -> tuple[str, jaxcfa.Model]:
    """A file's robot on a floating base, or Go2 if its package is installed, or the one of boxes; and its name."""
    robot = robot or installed("go2.urdf")
    if robot is None:
        return "quadruped", quadruped()
    with warnings.catch_warnings():
        # What files hold beyond inertias and joints does not matter here.
        warnings.simplefilter("ignore", jaxcfa.io.ModelWarning)
        return robot.stem, jaxcfa.load_model(robot, floating_base=True)


class Found(NamedTuple):
    """What the motion is: joint torques (T, nv), forces (T, 4, 3) and places (T + 1, 4, 3) of the feet, and how far
    the accelerations are from those of forward dynamics, relative to the largest."""

    torques: np.ndarray
    forces: np.ndarray
    places: np.ndarray
    difference: float


def examined(problem: Problem, solution: Solution, feet: tuple[str, ...]) -> Found:
    """Torques and forces of a motion, and the accelerations that they make by themselves."""
    dynamics, model = problem.dynamics, problem.dynamics.model

    @jax.jit
    @jax.vmap
    def at_stage(x, u, t):
        stage = Stage(dynamics, x, u, t)
        passive = jaxcfa.passive_forces(model, stage.q, stage.v, dynamics.friction_velocity)
        qdd = jaxcfa.forward_dynamics(model, stage.q, stage.v, stage.tau + passive, dynamics.wrenches_at(stage))
        return stage.tau, jnp.stack([dynamics.force(u, foot) for foot in feet]), qdd

    stages = jnp.arange(problem.steps)
    torques, forces, qdd = map(np.asarray, at_stage(solution.states[:-1], solution.controls, stages))
    places = jax.vmap(lambda q: jnp.stack([jaxcfa.frame_pose(model, q, foot).translation for foot in feet]))(solution.q)
    wanted = np.asarray(solution.controls[:, : model.nv])
    return Found(torques, forces, np.asarray(places), float(np.abs(qdd - wanted).max() / np.abs(wanted).max()))


def plot(solution: Solution, found: Found, feet: tuple[str, ...], path: Path) -> None:
    """The ways of body and feet from the side, and how hard each foot pushes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    side, pushes = figure.subplots(1, 2)
    side.plot(solution.q[:, 0], solution.q[:, 2], color="black", label="body")
    for k, foot in enumerate(feet):
        side.plot(found.places[:, k, 0], found.places[:, k, 2], ".-", markersize=3, label=foot)
    side.set(xlabel="x [m]", ylabel="z [m]", aspect="equal")
    side.legend(fontsize="small")
    t = TIME_STEP * np.arange(len(found.forces))
    for k, foot in enumerate(feet):
        pushes.step(t, found.forces[:, k, 2], where="post", label=foot)
    pushes.set(xlabel="time [s]", ylabel="vertical force [N]")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", type=Path, help="URDF or MJCF file of a quadruped with twelve joints")
    parser.add_argument("--feet", nargs=4, default=FEET, help="frames: front left and right, rear left and right")
    parser.add_argument("--steps", type=int, default=4, help="how often a pair of feet is moved")
    parser.add_argument("--output", type=Path, default=Path("output/quadruped_walk.png"), help="file of the plot")
    arguments = parser.parse_args()

    jax.config.update("jax_enable_x64", True)
    feet = tuple(arguments.feet)
    name, model = robot_model(arguments.robot)
    problem, plan, x0, guess = walk(model, feet, arguments.steps)
    times = [time.perf_counter()]
    for _ in range(2):
        solution = jax.block_until_ready(solve(problem, x0, guess))
        times.append(time.perf_counter())
    first, again = np.diff(times)
    print(f"{name}: {SolveStatus(int(solution.status)).name}, cost {solution.cost:.4g}", end=" ")
    print(f"after {solution.iterations} iterations in {again:.2f} s; the first time with compiling {first:.0f} s")
    found = examined(problem, solution, feet)
    pushing = found.forces[..., 2] > 1.0
    across = np.abs(found.forces[..., :2]).max(axis=-1)[pushing] / found.forces[..., 2][pushing]
    effort = np.asarray(model.limits.effort)
    for label, value in {
        "way of the body [m]": solution.q[-1, 0] - solution.q[0, 0],
        "duration [s]": TIME_STEP * plan.steps,
        "largest violation of dynamics, feet and limits": solution.violation,
        "difference from forward dynamics": found.difference,
        "largest torque / limit": np.abs(found.torques / effort).max(),
        "largest force along the ground / upward": across.max(),
        "highest foot [m]": found.places[:, :, 2].max(),
    }.items():
        print(f"{label:48}{float(value):12.5g}")
    plot(solution, found, feet, arguments.output)
    print(f"Plot: {arguments.output}")


if __name__ == "__main__":
    main()
