"""Learns what an arm's motions minimise, from demonstrations: the weights of a cost, through the solver.

Somebody moves an arm from rest to several places. The motions minimise effort and the velocities of the joints, each
with a weight of its own, which nobody tells. Here they are found by gradient descent: the weights are arrays in a
problem of optimal control, its solution is compared with the demonstrations, and the derivative of the difference goes
through the solution by the implicit function theorem. All motions are solved at once. Then the arm moves to a place
that was not demonstrated. Prints a table and writes a plot. Run:

    python examples/learn_weights.py [--robot arm.urdf] [--iterations 150] [--output output/learn_weights.png]
"""

import argparse
import time
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import jaxcfa
from jaxcfa.optimal_control import Control, Cost, FramePosition, Problem, RobotDynamics, Solution, Velocity, solve

DURATION, STEPS = 1.0, 20  # of a motion [s]
DEMONSTRATIONS, NOISE = 4, 2e-3  # of the angles that are seen [rad]
SPREAD, REACH = 1.0, 0.5  # of the logarithms of the weights, and of the joints' angles at the targets [rad]
LEARNING_RATE = 0.15


class Task(NamedTuple):
    """**Fields:** `model`; its `hand`; where all motions start, `q` (nq,)."""

    model: jaxcfa.Model
    hand: str
    q: jax.Array

    @staticmethod
    def of(path: Path) -> "Task":
        model = jaxcfa.load_model(path)
        lower, upper = model.limits.lower, model.limits.upper
        bounded = jnp.isfinite(lower) & jnp.isfinite(upper)
        # Not in the middle of all limits, where the axes of many arms are in line.
        q = jnp.where(bounded, 0.4 * lower + 0.6 * upper, 0.3)
        return Task(model, (*model.body_names, *model.frame_names)[-1], q)

    def motion(self, logs: jax.Array, target: jax.Array) -> Solution:
        """The best motion to a place (3,); `logs` of the weights (nv + 1,) of the effort and of each velocity."""
        dt = DURATION / STEPS
        # Only ratios of weights matter: that of the target is known.
        problem = Problem(
            RobotDynamics(self.model, dt, passive_forces=False),
            STEPS,
            costs=[Cost(Control(), 1e-3 * dt * jnp.exp(logs[0])), Cost(Velocity(), dt * jnp.exp(logs[1:]))],
            end_costs=[Cost(FramePosition(self.hand, target), 1e3), Cost(Velocity(), 10.0)],
        )
        return solve(problem, (self.q, jnp.zeros(self.model.nv)))


class Learned(NamedTuple):
    """**Fields:** `logs` of the weights before each iteration; the `losses`; `seconds` with compiling, and again."""

    logs: np.ndarray
    losses: np.ndarray
    seconds: tuple[float, float]


def learn(task: Task, targets: jax.Array, seen: jax.Array, iterations: int) -> Learned:
    """From weights of one on, to the angles `seen` (demonstrations, T + 1, nq)."""
    optimiser = optax.adam(LEARNING_RATE)

    def loss(logs):
        return jnp.mean((jax.vmap(task.motion, (None, 0))(logs, targets).q - seen) ** 2)

    def iteration(carry, _):
        logs, state = carry
        value, slope = jax.value_and_grad(loss)(logs)
        updates, state = optimiser.update(slope, state)
        return (optax.apply_updates(logs, updates), state), (logs, value)

    @jax.jit
    def run(logs):
        return jax.lax.scan(iteration, (logs, optimiser.init(logs)), length=iterations)[1]

    times = [time.perf_counter()]
    for _ in range(2):
        logs, losses = map(np.asarray, jax.block_until_ready(run(jnp.zeros(task.model.nv + 1))))
        times.append(time.perf_counter())
    first, again = np.diff(times)
    return Learned(logs, losses, (first, again))


def plot(learned: Learned, logs: np.ndarray, path: Path) -> None:
    """The weights on their way to the true ones."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    FigureCanvasAgg(figure)
    losses, weights = figure.subplots(1, 2)
    losses.semilogy(1e3 * np.sqrt(learned.losses))
    losses.axhline(1e3 * NOISE, color="black", linestyle="--", label="noise of what is seen")
    losses.set(xlabel="iteration", ylabel="difference of the angles [mrad]")
    losses.legend()
    for i, true in enumerate(logs):
        (line,) = weights.semilogy(np.exp(learned.logs[:, i]), label="effort" if i == 0 else f"velocity {i}")
        weights.axhline(np.exp(true), color=line.get_color(), linestyle=":")
    weights.set(xlabel="iteration", ylabel="weight (dotted: true)")
    weights.legend(fontsize="small", ncols=2)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arm = Path(str(resources.files("jaxcfa") / "data" / "arm7.urdf"))
    parser.add_argument("--robot", type=Path, default=arm, help="URDF or MJCF file of an arm with a fixed base")
    parser.add_argument("--iterations", type=int, default=150, help="of gradient descent")
    parser.add_argument("--output", type=Path, default=Path("output/learn_weights.png"), help="file of the plot")
    arguments = parser.parse_args()

    jax.config.update("jax_enable_x64", True)
    task, rng = Task.of(arguments.robot), np.random.default_rng(0)
    true = jnp.asarray(rng.uniform(-SPREAD, SPREAD, task.model.nv + 1))
    places = task.q + rng.uniform(-REACH, REACH, (DEMONSTRATIONS + 1, task.model.nv))
    targets = jax.vmap(lambda q: jaxcfa.frame_pose(task.model, q, task.hand).translation)(places)
    motions = jax.jit(jax.vmap(task.motion, (None, 0)))
    shown = motions(true, targets)
    seen = shown.q[:-1] + NOISE * jnp.asarray(rng.normal(size=shown.q[:-1].shape))
    learned = learn(task, targets[:-1], seen, arguments.iterations)

    def missed(logs) -> float:
        """Of the motion that was not demonstrated, the largest difference of an angle [rad]."""
        return float(jnp.abs(motions(logs, targets).q[-1] - shown.q[-1]).max())

    first, again = learned.seconds
    print(
        f"{arguments.robot.stem}: {DEMONSTRATIONS} demonstrations, {arguments.iterations} iterations in {again:.1f} s;",
        end=" ",
    )
    print(f"the first time with compiling {first:.0f} s")
    before, after = jnp.zeros_like(true), jnp.asarray(learned.logs[-1])
    print(f"{'':44}{'at first':>12}{'learned':>12}")
    for label, function in {
        "difference of all angles, rms [mrad]": lambda i: 1e3 * np.sqrt(learned.losses[i]),
        "largest error of a weight [%]": lambda i: 100 * np.abs(np.expm1(learned.logs[i] - np.asarray(true))).max(),
    }.items():
        print(f"{label:44}{function(0):12.4g}{function(-1):12.4g}")
    print(f"{'a motion not demonstrated, largest [mrad]':44}{1e3 * missed(before):12.4g}{1e3 * missed(after):12.4g}")
    plot(learned, np.asarray(true), arguments.output)
    print(f"Plot: {arguments.output}")


if __name__ == "__main__":
    main()
