"""Swings a double pendulum up that is driven at its second joint only, and keeps to that motion by its feedback gains.

Multiple shooting finds torques within a limit that bring both links from hanging to standing at rest. The solution has
feedback gains, which are optimal near its motion. The motion is then simulated with a second link that is heavier than
in the model: under the same torques the pendulum falls over, under the gains it arrives. Prints a table and writes a
plot. Run:

    python examples/swing_up.py [--steps 60] [--output output/swing_up.png]
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxcfa
from jaxcfa.joints import Revolute
from jaxcfa.optimal_control import (
    Bounds,
    Control,
    Cost,
    MultipleShooting,
    Problem,
    RobotDynamics,
    Solution,
    SolveStatus,
    StateDifference,
    Velocity,
    solve,
)

DURATION = 3.0  # of the motion [s]
LENGTH, MASS = 0.5, 1.0  # of a link [m, kg]
TORQUE = 3.0  # the limit [N m]
HEAVIER = 1.03  # the simulated second link, in relation to the model's
UPRIGHT = (np.pi, 0.0, 0.0, 0.0)


def double_pendulum(second_mass: float = MASS) -> jaxcfa.Model:
    """Two rods that hang down when their angles are zero."""
    builder, parent, place = jaxcfa.ModelBuilder(), None, 0.0
    for name, joint, mass in (("upper", "shoulder", MASS), ("lower", "elbow", second_mass)):
        across = mass * LENGTH**2 / 12
        builder.add_body(
            name,
            parent,
            Revolute((0.0, 1.0, 0.0)),
            (0.0, 0.0, place),
            mass=mass,
            com=(0.0, 0.0, -LENGTH / 2),
            inertia=(across, across, 1e-3),
            joint_name=joint,
        )
        parent, place = name, -LENGTH
    return builder.build()


def swing_up(steps: int) -> tuple[Problem, Solution, float, float]:
    """The problem, the motion, and the seconds that it took the first time, with compiling, and again."""
    dt = DURATION / steps
    problem = Problem(
        RobotDynamics(double_pendulum(), dt, actuated=["elbow"]),
        steps,
        costs=[Cost(Control(), dt), Cost(Velocity(), 0.1 * dt)],
        constraints=[Bounds(Control(), -TORQUE, TORQUE)],
        end_costs=[Cost(StateDifference(jnp.array(UPRIGHT)), 1000.0)],
    )
    # The straight way from hanging to standing, which no torque of the second joint can make.
    states = jnp.linspace(0, 1, steps + 1)[:, None] * jnp.array(UPRIGHT)
    guess = states, jnp.zeros((steps, 1))
    times = [time.perf_counter()]
    for _ in range(2):
        solution = jax.block_until_ready(solve(problem, jnp.zeros(4), guess, MultipleShooting()))
        times.append(time.perf_counter())
    return problem, solution, *np.diff(times)


def simulate(problem: Problem, solution: Solution, feedback: bool) -> tuple[jax.Array, jax.Array]:
    """States (T + 1, 4) and torques (T, 1) of the heavier pendulum, under the limit of torque."""
    heavy = RobotDynamics(double_pendulum(HEAVIER * MASS), problem.dynamics.dt, actuated=["elbow"])

    def step(x, t):
        u = solution.control(problem, t, x) if feedback else solution.controls[t]
        u = jnp.clip(u, -TORQUE, TORQUE)
        after = heavy.step(x, u, t)
        return after, (after, u)

    start = solution.states[0]
    _, (states, torques) = jax.lax.scan(step, start, jnp.arange(len(solution.controls)))
    return jnp.concatenate([start[None], states]), torques


def plot(solution: Solution, motions: dict[str, tuple[jax.Array, jax.Array]], path: Path) -> None:
    """The angles and torques of all motions, and the solver's progress."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4), layout="constrained")
    FigureCanvasAgg(figure)
    angles, torques, costs = figure.subplots(1, 3)
    for (name, (states, controls)), color in zip(motions.items(), ("black", "tab:red", "tab:blue"), strict=True):
        t = np.linspace(0, DURATION, len(states))
        angles.plot(t, states[:, 0], color=color, label=name)
        angles.plot(t, states[:, 1], color=color, linestyle="--")
        torques.step(t[:-1], controls[:, 0], color=color, where="post")
    angles.set(xlabel="time [s]", ylabel="angles, shoulder and elbow (dashed) [rad]", ylim=(-5, 5))
    angles.legend()
    torques.set(xlabel="time [s]", ylabel="torque of the elbow [N m]")
    costs.semilogy(solution.history.cost, label="cost")
    costs.semilogy(np.maximum(solution.history.violation, 1e-16), label="violation")
    costs.set(xlabel="iteration")
    costs.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60, help="of the motion")
    parser.add_argument("--output", type=Path, default=Path("output/swing_up.png"), help="file of the plot")
    arguments = parser.parse_args()

    jax.config.update("jax_enable_x64", True)
    problem, solution, first, again = swing_up(arguments.steps)
    print(f"{SolveStatus(int(solution.status)).name}, cost {solution.cost:.4g}", end=" ")
    print(f"after {solution.iterations} iterations in {again:.2f} s; the first time with compiling {first:.0f} s")
    motions = {
        "planned": (solution.states, solution.controls),
        "heavier, same torques": simulate(problem, solution, feedback=False),
        "heavier, feedback": simulate(problem, solution, feedback=True),
    }
    print(f"{'':24}{'from upright at the end [rad, rad/s]':>38}{'largest torque [N m]':>24}")
    for name, (states, torques) in motions.items():
        error = jnp.max(jnp.abs(states[-1] - jnp.array(UPRIGHT)))
        print(f"{name:24}{error:38.4f}{jnp.max(jnp.abs(torques)):24.3f}")
    plot(solution, motions, arguments.output)
    print(f"Plot: {arguments.output}")


if __name__ == "__main__":
    main()
