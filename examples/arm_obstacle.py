"""Moves an arm's hand from one side of a ball to the other, within the limits of torque, position and velocity.

A problem of optimal control, solved by multiple shooting: torques as small as possible; the arm starts at rest, and its
hand ends in a given pose, at rest. The elbow, the wrist and the hand keep clear of a ball that lies in the hand's way.

The arm is the Franka Panda of the package example-robot-data if that is installed, else the one that comes with jaxcfa;
or any other file. Prints how near the motion comes to each limit, and writes a plot. Run:

    python examples/arm_obstacle.py [--robot arm.urdf] [--steps 40] [--output output/arm_obstacle.png]
"""

import argparse
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxcfa
from _robots import arm_file
from jaxcfa.optimal_control import (
    Bounds,
    Control,
    Cost,
    Equality,
    FrameDistance,
    FramePose,
    MultipleShooting,
    Position,
    Problem,
    RobotDynamics,
    Solution,
    SolveStatus,
    Stage,
    Velocity,
    solve,
)

DURATION = 1.2  # of the motion [s]
TURN = 0.7  # of the first joint, from the middle to the start and to the end [rad]
RADIUS, CLEARANCE = 0.08, 0.06  # of the ball, and of the bodies' origins from its surface [m]
ABOVE = 0.15  # the ball's centre above the hand's place in the middle [m]
UNLIMITED = 100.0  # stands for limits of torque that the file does not give [N m, N]


def hand_of(model: jaxcfa.Model) -> str:
    """The last frame of the file, else the last body."""
    return (*model.body_names, *model.frame_names)[-1]


def effort_of(model: jaxcfa.Model) -> jax.Array:
    """The largest torques and forces (nv,)."""
    effort = model.limits.effort
    return jnp.where(jnp.isfinite(effort) & (effort > 0), effort, UNLIMITED)


def task(model: jaxcfa.Model, steps: int) -> tuple[Problem, jax.Array, jax.Array, dict[str, Bounds]]:
    """The problem, its start (nq,), the ball's centre (3,), and the bounds by name."""
    limits, hand, effort = model.limits, hand_of(model), effort_of(model)
    # Not in the middle of all limits, where the axes of many arms are in line.
    between = 0.4 * limits.lower + 0.6 * limits.upper
    posture = jnp.where(jnp.isfinite(between), between, jaxcfa.neutral(model)).at[0].set(0.0)
    ball = jaxcfa.frame_pose(model, posture, hand).translation + jnp.array([0.0, 0.0, ABOVE])
    target = jaxcfa.frame_pose(model, posture.at[0].add(TURN), hand)
    # Bodies before the elbow cannot reach the ball.
    near = [*model.body_names[3:7], hand]
    of_states = {
        "position [rad]": Bounds(Position(), limits.lower, limits.upper),
        "velocity [rad/s]": Bounds(Velocity(), -limits.velocity, limits.velocity),
        **{f"{name}'s distance [m]": Bounds(FrameDistance(name, point=ball), RADIUS + CLEARANCE) for name in near},
    }
    bounds = {"torque [N m]": Bounds(Control(), -effort, effort), **of_states}
    dt = DURATION / steps
    problem = Problem(
        RobotDynamics(model, dt, passive_forces=False),
        steps,
        costs=[Cost(Control(), dt * (10 / effort) ** 2), Cost(Velocity(), 10 * dt)],
        constraints=list(bounds.values()),
        end_constraints=[Equality(FramePose(hand, target)), Equality(Velocity()), *of_states.values()],
    )
    return problem, posture.at[0].add(-TURN), ball, bounds


def first_guess(model: jaxcfa.Model, q: jax.Array, steps: int) -> tuple[jax.Array, jax.Array]:
    """The first joint turns, through the ball, and the arm is held against gravity."""
    turned = jnp.tile(q, (steps + 1, 1)).at[:, 0].add(jnp.linspace(0, 2 * TURN, steps + 1))
    still = jnp.zeros(model.nv)
    held = jax.vmap(lambda q: jaxcfa.inverse_dynamics(model, q, still, still))(turned[:-1])
    return jnp.concatenate([turned, jnp.zeros((steps + 1, model.nv))], axis=1), held


def least_room(problem: Problem, solution: Solution, bounds: dict[str, Bounds]) -> dict[str, float]:
    """How far the motion stays from each bound at least, in its unit: negative if it violates it."""
    stages = jnp.arange(problem.steps + 1)
    # The last state has no control: that before stands for it, which is looked at anyway.
    controls = jnp.concatenate([solution.controls, solution.controls[-1:]])

    def least(bound: Bounds) -> float:
        def rows(x, u, t):
            return bound.rows(Stage(problem.dynamics, x, u, t))

        return float(jnp.min(-jax.vmap(rows)(solution.states, controls, stages)))

    return {name: least(bound) for name, bound in bounds.items()}


def plot(model: jaxcfa.Model, solution: Solution, ball: jax.Array, path: Path) -> None:
    """The hand's path beside the ball from above and from the side, and the torques within their limits."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle

    points = np.asarray(jax.vmap(lambda q: jaxcfa.frame_pose(model, q, hand_of(model)).translation)(solution.q))
    figure = Figure(figsize=(14, 4), layout="constrained")
    FigureCanvasAgg(figure)
    above, side, torques = figure.subplots(1, 3)
    for axes, (i, j) in ((above, (0, 1)), (side, (1, 2))):
        axes.plot(points[:, i], points[:, j], ".-", label="hand")
        axes.add_patch(Circle((ball[i], ball[j]), RADIUS, color="tab:red", alpha=0.5))
        axes.add_patch(Circle((ball[i], ball[j]), RADIUS + CLEARANCE, fill=False, color="tab:red", linestyle="--"))
        axes.set(xlabel=f"{'xyz'[i]} [m]", ylabel=f"{'xyz'[j]} [m]", aspect="equal")
    t = DURATION * np.arange(len(solution.controls)) / len(solution.controls)
    driven = np.flatnonzero(np.abs(solution.controls).max(axis=0) > 0.1)
    torques.step(t, (solution.controls / effort_of(model))[:, driven], where="post", label=[f"{i + 1}" for i in driven])
    torques.hlines([-1, 1], 0, DURATION, color="black", linestyle="--")
    torques.set(xlabel="time [s]", ylabel="torque / limit")
    torques.legend(title="joint", fontsize="small", ncols=2)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", type=Path, help="URDF or MJCF file of an arm with a fixed base and 7 joints or more")
    parser.add_argument("--steps", type=int, default=40, help="of the motion")
    parser.add_argument("--output", type=Path, default=Path("output/arm_obstacle.png"), help="file of the plot")
    arguments = parser.parse_args()

    jax.config.update("jax_enable_x64", True)
    robot = arguments.robot or arm_file()
    with warnings.catch_warnings():
        # What files hold beyond inertias and joints, such as the Panda's safety controllers, does not matter here.
        warnings.simplefilter("ignore", jaxcfa.io.ModelWarning)
        model = jaxcfa.load_model(robot)
    problem, q, ball, bounds = task(model, arguments.steps)
    x0, guess = (q, jnp.zeros(model.nv)), first_guess(model, q, arguments.steps)
    times = [time.perf_counter()]
    for _ in range(2):
        solution = jax.block_until_ready(solve(problem, x0, guess, MultipleShooting(steps="linear")))
        times.append(time.perf_counter())
    first, again = np.diff(times)
    print(f"{robot.stem}: {SolveStatus(int(solution.status)).name}, cost {solution.cost:.4g}", end=" ")
    print(f"after {solution.iterations} iterations in {again:.2f} s; the first time with compiling {first:.0f} s")
    print(f"{'largest violation of dynamics, end and bounds':56}{float(solution.violation):10.1e}")
    for name, room in least_room(problem, solution, bounds).items():
        print(f"{f'least room to the bounds of {name}':56}{room:10.1e}")
    plot(model, solution, ball, arguments.output)
    print(f"Plot: {arguments.output}")


if __name__ == "__main__":
    main()
