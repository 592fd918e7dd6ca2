"""Two arms carry a bar together from one place to another, turned, as one mechanism with a closed loop.

The bar is a link of the one arm's hand, and the other arm's hand is connected with its far end by a pin, a constraint
of the dynamics. The forces in the pin come with every step, and the problem of optimal control has nothing but torques,
within their limits. The loop is stabilised (Baumgarte), so that it opens by millimetres only. Prints a table and
writes a plot. Run:

    python examples/two_arms_carry.py [--steps 40] [--output output/two_arms_carry.png]
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxcfa
from jaxcfa.closed_chains import Baumgarte, connect
from jaxcfa.joints import Revolute
from jaxcfa.optimal_control import (
    Bounds,
    Control,
    Cost,
    Equality,
    MultipleShooting,
    Problem,
    RobotDynamics,
    Solution,
    SolveStatus,
    Velocity,
    solve,
)

DURATION = 1.5  # of the motion [s]
APART = 1.0  # the arms' bases [m]
LENGTH, MASS = 0.5, 2.0  # of a link; each arm has two [m, kg]
BAR, BAR_MASS = 0.6, 3.0  # [m, kg]
TORQUE = 40.0  # the limit [N m]
ACTUATED = ("left1", "left2", "right1", "right2")
START = (0.35, 0.6, -0.5)  # of the bar: its centre's x and z [m], its angle [rad]
END = (0.65, 0.75, 0.6)


def two_arms() -> jaxcfa.Model:
    """Planar arms in a vertical plane, along x when their angles are zero; the bar is the left arm's last link."""
    builder = jaxcfa.ModelBuilder()

    def link(name, parent, start, length, mass):
        across = mass * length**2 / 12
        builder.add_body(
            f"{name}_link",
            parent,
            Revolute((0.0, -1.0, 0.0)),
            start,
            mass=mass,
            com=(length / 2, 0.0, 0.0),
            inertia=(1e-3, across, across),
            joint_name=name,
        )

    link("left1", None, (0.0, 0.0, 0.0), LENGTH, MASS)
    link("left2", "left1_link", (LENGTH, 0.0, 0.0), LENGTH, MASS)
    link("bar", "left2_link", (LENGTH, 0.0, 0.0), BAR, BAR_MASS)
    link("right1", None, (APART, 0.0, 0.0), LENGTH, MASS)
    link("right2", "right1_link", (LENGTH, 0.0, 0.0), LENGTH, MASS)
    builder.add_frame("bar_end", "bar_link", (BAR, 0.0, 0.0))
    builder.add_frame("right_hand", "right2_link", (LENGTH, 0.0, 0.0))
    return builder.build()


def posture(bar: jax.Array) -> jax.Array:
    """The angles (5,) of a place of the bar (x, z, angle), with both elbows outward."""
    center, angle = bar[:2], bar[2]
    along = BAR / 2 * jnp.array([jnp.cos(angle), jnp.sin(angle)])

    def arm(reach, side):
        half = jnp.arccos(jnp.linalg.norm(reach) / (2 * LENGTH))
        return jnp.arctan2(reach[1], reach[0]) + side * half, -2 * side * half

    left, right = arm(center - along, 1), arm(center + along - jnp.array([APART, 0.0]), -1)
    return jnp.array([*left, angle - left[0] - left[1], *right])


def carry(steps: int) -> tuple[Problem, Solution, float, float]:
    """The problem, the motion, and the seconds that it took the first time, with compiling, and again."""
    model, dt = two_arms(), DURATION / steps
    places = jnp.linspace(jnp.array(START), jnp.array(END), steps + 1)
    way = jax.vmap(posture)(places)
    dynamics = RobotDynamics(
        model,
        dt,
        actuated=ACTUATED,
        constraints=connect(model, "bar_end", "right_hand"),
        stabilization=Baumgarte(0.5 / dt),
    )
    problem = Problem(
        dynamics,
        steps,
        costs=[Cost(Control(), dt), Cost(Velocity(), 10 * dt)],
        constraints=[Bounds(Control(), -TORQUE, TORQUE)],
        # The left arm and the bar: the right arm follows, as the loop is closed.
        end_constraints=[Equality(lambda stage: stage.q[:3] - way[-1, :3]), Equality(lambda stage: stage.v[:3])],
    )
    guess = jnp.concatenate([way, jnp.zeros_like(way)], axis=1), jnp.zeros((steps, len(ACTUATED)))
    start = way[0], jnp.zeros(model.nv)
    times = [time.perf_counter()]
    for _ in range(2):
        solution = jax.block_until_ready(solve(problem, start, guess, MultipleShooting(steps="linear")))
        times.append(time.perf_counter())
    return problem, solution, *np.diff(times)


def corners(model: jaxcfa.Model, solution: Solution) -> np.ndarray:
    """Of the left arm, the bar, and the right arm back to its base, in x and z (T + 1, 7, 2) [m]."""
    names = ("left1_link", "left2_link", "bar_link", "bar_end", "right_hand", "right2_link", "right1_link")

    def places(q):
        return jnp.stack([jaxcfa.frame_pose(model, q, name).translation[::2] for name in names])

    return np.asarray(jax.jit(jax.vmap(places))(solution.q))


def plot(solution: Solution, places: np.ndarray, path: Path) -> None:
    """The arms at some instants, and the torques; `places` are `corners`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    arms, torques = figure.subplots(1, 2)
    for t in np.linspace(0, len(places) - 1, 6).astype(int):
        shade = 0.2 + 0.8 * t / len(places)
        arms.plot(*places[t, :4].T, "o-", color="tab:blue", alpha=shade, markersize=3)
        arms.plot(*places[t, 4:].T, "o-", color="tab:green", alpha=shade, markersize=3)
        arms.plot(*places[t, 2:4].T, color="tab:red", alpha=shade, linewidth=4)
    arms.set(xlabel="x [m]", ylabel="z [m]", aspect="equal")
    t = np.linspace(0, DURATION, len(places))[:-1]
    torques.step(t, solution.controls, where="post", label=ACTUATED)
    torques.hlines([-TORQUE, TORQUE], 0, DURATION, color="black", linestyle="--")
    torques.set(xlabel="time [s]", ylabel="torque [N m]")
    torques.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40, help="of the motion")
    parser.add_argument("--output", type=Path, default=Path("output/two_arms_carry.png"), help="file of the plot")
    arguments = parser.parse_args()

    jax.config.update("jax_enable_x64", True)
    problem, solution, first, again = carry(arguments.steps)
    print(f"{SolveStatus(int(solution.status)).name}, cost {solution.cost:.4g}", end=" ")
    print(f"after {solution.iterations} iterations in {again:.2f} s; the first time with compiling {first:.0f} s")
    places = corners(problem.dynamics.model, solution)
    center = places[-1, 2:4].mean(axis=0)
    for label, value in {
        "the bar's centre at the end, x [m]": center[0],
        "the bar's centre at the end, z [m]": center[1],
        "largest violation of dynamics, end and limits": solution.violation,
        "largest gap in the loop [m]": np.linalg.norm(places[:, 3] - places[:, 4], axis=-1).max(),
        "largest torque [N m]": jnp.max(jnp.abs(solution.controls)),
    }.items():
        print(f"{label:48}{float(value):12.5g}")
    plot(solution, places, arguments.output)
    print(f"Plot: {arguments.output}")


if __name__ == "__main__":
    main()
