"""Finds joint torques that bring a robot arm's hand to a target, at rest after one second, by gradients of its motion.

The motion is a rollout of the arm's dynamics, and JAX differentiates its end with respect to the accelerations that its
motors aim at. Adam improves these, from zero, where torques hold the arm against gravity. Torques are clipped to the
limits of the motors. One target first, then many at once by `jax.vmap`: the same function with one more axis.

The arm is the Franka Panda of the package example-robot-data if that is installed, else a small one that comes with
jaxcfa; or any other file. Prints a table, and writes a plot and an animation. Run:

    python examples/reach_target.py [--robot arm.urdf --frame hand] [--targets 64] [--output output/reach_target]
"""

import argparse
import time
import warnings
from functools import partial
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float
from rich.console import Console
from rich.progress import track
from rich.table import Table

import jaxcfa
from _robots import arm_file
from jaxcfa.simulation import Trajectory, rollout

DURATION, STEP = 1.0, 0.02  # of the motion [s]
KNOTS = 6  # accelerations are linear between these instants
HOLD = 1e3  # damping of joints that do not move the hand, such as those of fingers [N m s, N s]
DISTANCE, SPEED = 0.01, 0.1  # what counts one in the cost [m; rad/s and m/s]
EFFORT = 1e-3  # what one rad/s^2 counts
UNLIMITED = 100.0  # stands for limits that the file does not give [N m, N]
RATE = 1.0  # of Adam at the start [rad/s^2]
CHUNK = 10  # iterations in one call of the compiled program; between calls there is time to show progress


class Arm(eqx.Module):
    """An arm at rest, and the limits of its torques, zero where it is not driven.

    `hand` is the name of a frame or body, `path` are the bodies from the base to it.
    """

    model: jaxcfa.Model
    q: Float[Array, "nq"]
    limit: Float[Array, "nv"]
    hand: str = eqx.field(static=True)
    path: tuple[int, ...] = eqx.field(static=True)


def load_arm(path: Path, hand: str | None = None) -> Arm:
    """The arm of a robot file; `hand` is the last frame by default. It starts in the middle of its joints' limits."""
    with warnings.catch_warnings():
        # What files hold beyond inertias and joints, such as the Panda's safety controllers, does not matter here.
        warnings.simplefilter("ignore", jaxcfa.io.ModelWarning)
        model = jaxcfa.load_model(path)
    hand = hand or (*model.body_names, *model.frame_names)[-1]
    body, bodies = model.locate(hand)[0], []
    while body >= 0:
        bodies.append(body)
        body = int(model.topology.parents[body])
    driven = np.zeros(model.nv, bool)
    for body in bodies:
        driven[model.v_slice(body)] = True
    model = eqx.tree_at(lambda m: m.damping, model, jnp.where(driven, model.damping, HOLD))
    lower, upper = model.limits.lower, model.limits.upper
    q = jnp.where(jnp.isfinite(lower + upper), (lower + upper) / 2, jaxcfa.neutral(model))
    effort = model.limits.effort
    effort = jnp.where(jnp.isfinite(effort) & (effort > 0), effort, UNLIMITED)  # zero: the file has none
    return Arm(model, q, driven * effort, hand, tuple(bodies[::-1]))


def hand_position(arm: Arm, q: Float[Array, "nq"]) -> Float[Array, "3"]:
    return jaxcfa.frame_pose(arm.model, q, arm.hand).translation


def draw_targets(arm: Arm, count: int, seed: int = 0) -> Float[Array, "count 3"]:
    """Positions (count, 3) that the hand can reach: those it has when every joint is turned by up to 40 degrees."""
    turns = jax.random.uniform(jax.random.key(seed), (count, arm.model.nv), minval=-0.7, maxval=0.7)
    turns = turns * (arm.limit > 0)
    return jax.jit(jax.vmap(lambda dq: hand_position(arm, jaxcfa.integrate(arm.model, arm.q, dq))))(turns)


def motion(arm: Arm, parameters: Float[Array, "knots nv"]) -> Trajectory:
    """The trajectory for accelerations [rad/s^2] at the knots, linear between them, as far as the limits allow.

    The torques are those of inverse dynamics, clipped. So parameters have equal weight from shoulder to wrist, though
    these need torques of different size, and where they are zero the arm is held against gravity.
    """
    steps = round(DURATION / STEP)

    def policy(t, q, v):
        place = jnp.clip(t / DURATION, 0, 1) * (KNOTS - 1)
        # The largest of these hats is at the nearest knot, the two about a place have the sum one.
        hats = jnp.maximum(0.0, 1 - jnp.abs(place - jnp.arange(KNOTS)))
        tau = jaxcfa.inverse_dynamics(arm.model, q, v, hats @ parameters)
        return jnp.clip(tau, -arm.limit, arm.limit)

    return rollout(arm.model, arm.q, jnp.zeros(arm.model.nv), policy, STEP, steps=steps)


def cost(arm: Arm, parameters: Float[Array, "knots nv"], target: Float[Array, "3"]) -> tuple[Array, Trajectory]:
    """Distance and speed at the end, and a little for accelerations."""
    trajectory = motion(arm, parameters)
    distance = (hand_position(arm, trajectory.q[-1]) - target) / DISTANCE
    speed = trajectory.v[-1] / SPEED
    return jnp.sum(distance**2) + jnp.sum(speed**2) + EFFORT * jnp.mean(parameters**2), trajectory


def optimiser(iterations: int) -> optax.GradientTransformation:
    return optax.adam(optax.cosine_decay_schedule(RATE, iterations))


@eqx.filter_jit
def improve(arm, parameters, memory, targets, iterations):
    """Parameters and the optimiser's memory after `CHUNK` iterations, the costs (CHUNK, n), and the last motions."""
    slopes = jax.vmap(jax.value_and_grad(partial(cost, arm), has_aux=True))

    def body(carry, _):
        parameters, memory, _ = carry
        (values, trajectories), gradient = slopes(parameters, targets)
        updates, memory = optimiser(iterations).update(gradient, memory)
        return (optax.apply_updates(parameters, updates), memory, trajectories), values

    empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(slopes, parameters, targets)[0][1])
    (parameters, memory, trajectories), costs = jax.lax.scan(body, (parameters, memory, empty), length=CHUNK)
    return parameters, memory, costs, trajectories


class Result(NamedTuple):
    """Motions to `targets` (n, 3), with costs (iterations, n), the hand's `path` (n, steps + 1, 3) and times [s]."""

    targets: np.ndarray
    costs: np.ndarray
    trajectories: Trajectory
    path: np.ndarray
    compiling: float
    running: float

    def distance(self) -> np.ndarray:
        """From the hand to the target (n, steps + 1) [m]."""
        return np.linalg.norm(self.path - self.targets[:, None], axis=-1)


def optimise(arm: Arm, targets: Float[Array, "n 3"], iterations: int, title: str = "") -> Result:
    """Torques for all targets, with a bar of progress if there is a title."""
    parameters = jnp.zeros((len(targets), KNOTS, arm.model.nv))
    memory = optimiser(iterations).init(parameters)
    times = [time.perf_counter()]
    program = improve.lower(arm, parameters, memory, targets, iterations).compile()
    times.append(time.perf_counter())
    costs = []
    for _ in track(range(-(-iterations // CHUNK)), title, console=Console(stderr=True), disable=not title):
        parameters, memory, values, trajectories = program(arm, parameters, memory, targets, iterations)
        costs.append(jax.block_until_ready(values))
    times.append(time.perf_counter())
    path = jax.jit(jax.vmap(jax.vmap(partial(hand_position, arm))))(trajectories.q)
    return Result(*map(np.asarray, (targets, np.concatenate(costs))), trajectories, np.asarray(path), *np.diff(times))


def print_table(arm: Arm, results: list[Result]) -> None:
    table = Table(
        "targets", "compile [s]", "optimise [s]", "distance at the end [mm]", "speed there [rad/s]", "torque / limit"
    )
    for result in results:
        distance, speed = 1e3 * result.distance()[:, -1], np.abs(result.trajectories.v[:, -1]).max(axis=-1)
        used = np.abs(result.trajectories.tau / np.where(arm.limit > 0, arm.limit, np.inf)).max()
        spread = [f"{np.median(x):.2g}, at most {x.max():.2g}" for x in (distance, speed)]
        table.add_row(
            str(len(result.targets)), f"{result.compiling:.1f}", f"{result.running:.1f}", *spread, f"{used:.0%}"
        )
    Console(width=130).print(table)


def plot(arm: Arm, results: list[Result], path: Path) -> None:
    """How the costs fall, and the distances and torques of the motions."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    one, many = results[0], results[-1]
    figure = Figure(figsize=(13, 4), layout="constrained")
    FigureCanvasAgg(figure)
    costs, distances, torques = figure.subplots(1, 3)
    t = np.asarray(one.trajectories.t[0])
    for result, style in ((many, {"color": "tab:gray", "alpha": 0.3, "linewidth": 0.7}), (one, {"color": "tab:red"})):
        costs.semilogy(result.costs, **style)
        distances.semilogy(t, result.distance().T, **style)
    driven = np.flatnonzero(np.asarray(arm.limit))
    torques.step(t[:-1], (one.trajectories.tau[0] / np.where(arm.limit > 0, arm.limit, 1.0))[:, driven], where="post")
    torques.legend(driven + 1, title="coordinate", fontsize="small", ncols=2)
    costs.set(xlabel="iteration", ylabel="cost")
    distances.set(xlabel="time [s]", ylabel="distance to the target [m]")
    torques.set(xlabel="time [s]", ylabel="torque / limit, first target")
    figure.savefig(path)


def animate(arm: Arm, result: Result, path: Path) -> None:
    """The arm as a stick figure on its way to the first target, in real time, with a rest at the end."""
    from matplotlib.animation import FuncAnimation, PillowWriter
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    origins = jax.jit(jax.vmap(lambda q: jaxcfa.forward_kinematics(arm.model, q).translation))(result.trajectories.q[0])
    base = np.zeros((len(origins), 1, 3))
    sticks = np.concatenate([base, np.asarray(origins)[:, arm.path], result.path[0][:, None]], axis=1)
    figure = Figure(figsize=(5, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(projection="3d")
    (arm_line,) = axes.plot(*sticks[0].T, "o-", color="tab:blue", linewidth=3, markersize=4)
    (trace,) = axes.plot(*result.path[0][:1].T, color="tab:red", linewidth=1)
    axes.plot(*result.targets[:1].T, "x", color="tab:red")
    reach = np.abs(sticks).max()
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), zlim=(min(0.0, sticks[..., 2].min()), reach))
    axes.set(xlabel="x [m]", ylabel="y [m]", zlabel="z [m]")

    def draw(frame: int):
        now = min(frame, len(sticks) - 1)
        arm_line.set_data_3d(*sticks[now].T)
        trace.set_data_3d(*result.path[0][: now + 1].T)
        axes.set_title(f"{now * STEP:.2f} s")
        return arm_line, trace

    frames = [*range(0, len(sticks), 2), *[len(sticks) - 1] * 10]
    FuncAnimation(figure, draw, frames=frames, blit=False).save(path, PillowWriter(fps=round(0.5 / STEP)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", type=Path, help="URDF or MJCF file of an arm with a fixed base")
    parser.add_argument("--frame", help="the hand: a frame or body; by default the last one in the file")
    parser.add_argument("--targets", type=int, default=64, help="in the batch")
    parser.add_argument("--iterations", type=int, default=150, help="of the optimiser")
    parser.add_argument("--seed", type=int, default=0, help="of the targets")
    parser.add_argument("--output", type=Path, default=Path("output/reach_target"), help="folder of plot and animation")
    arguments = parser.parse_args()

    robot = arguments.robot or arm_file()
    arm = load_arm(robot, arguments.frame)
    print(f"{robot.stem}: {arm.model.nv} degrees of freedom, {len(arm.path)} of them to {arm.hand}")
    targets = draw_targets(arm, arguments.targets, arguments.seed)
    results = [
        optimise(arm, targets[:1], arguments.iterations, "one target"),
        optimise(arm, targets, arguments.iterations, f"{len(targets)} targets"),
    ]
    print_table(arm, results)
    arguments.output.mkdir(parents=True, exist_ok=True)
    plot(arm, results, arguments.output / "optimisation.png")
    animate(arm, results[0], arguments.output / "motion.gif")
    print(f"Plot and animation: {arguments.output}")


if __name__ == "__main__":
    main()
