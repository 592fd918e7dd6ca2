"""Brings a chain of 100 links, which swings in a vertical plane, to rest in a given time.

Each joint has a motor with a small torque. The problem has 200 states and 100 controls at each instant, and no
constraints but the dynamics: multiple shooting and FDDP solve it from the same guess, in which no motor does anything.
Torques and velocities cost a little, and angles and velocities at the end much. Prints a table and writes a plot. Run:

    python examples/long_chain.py [--links 100] [--steps 20] [--output output/long_chain.png]
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
    FDDP,
    Control,
    Cost,
    MultipleShooting,
    Posture,
    Problem,
    RobotDynamics,
    Solution,
    SolveStatus,
    Velocity,
    solve,
)

LENGTH, MASS = 2.0, 2.0  # of the whole chain [m, kg]
DAMPING = 1e-3  # of a joint [N m s]
STEP = 0.02  # s
ANGLE, RATE = 0.3, 1.0  # of the first joint at the start [rad, rad/s]
SOLVERS = {"MultipleShooting": MultipleShooting(max_iterations=50), "FDDP": FDDP(max_iterations=50)}


def hanging_chain(links: int) -> jaxcfa.Model:
    """Equal rods that hang down when their angles are zero."""
    builder, parent, place = jaxcfa.ModelBuilder(), None, 0.0
    length, mass = LENGTH / links, MASS / links
    across = mass * length**2 / 12
    for i in range(links):
        builder.add_body(
            f"link{i + 1}",
            parent,
            Revolute((0.0, 1.0, 0.0)),
            (0.0, 0.0, place),
            mass=mass,
            com=(0.0, 0.0, -length / 2),
            inertia=(across, across, across / 10),
            damping=DAMPING,
        )
        parent, place = f"link{i + 1}", -length
    return builder.build()


def swinging(links: int, steps: int) -> tuple[Problem, jax.Array]:
    """The problem and its start (2 links,)."""
    model = hanging_chain(links)
    problem = Problem(
        RobotDynamics(model, STEP),
        steps,
        costs=[Cost(Control(), STEP), Cost(Velocity(), 0.1 * STEP)],
        end_costs=[Cost(Posture(jnp.zeros(links)), 100.0), Cost(Velocity(), 10.0)],
    )
    return problem, jnp.zeros(2 * links).at[0].set(ANGLE).at[links].set(RATE)


def outlines(model: jaxcfa.Model, states: jax.Array) -> np.ndarray:
    """The joints' places in x and z (T, links, 2) [m]."""
    origins = jax.jit(jax.vmap(lambda x: jaxcfa.forward_kinematics(model, x[: model.nq]).translation))(states)
    return np.asarray(origins)[..., ::2]


def plot(model: jaxcfa.Model, solutions: dict[str, Solution], path: Path) -> None:
    """The chain at some instants, its velocities, and the solvers' progress."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4), layout="constrained")
    FigureCanvasAgg(figure)
    chain, rates, costs = figure.subplots(1, 3)
    solution = next(iter(solutions.values()))
    places = outlines(model, solution.states)
    for t in np.linspace(0, len(places) - 1, 6).astype(int):
        chain.plot(*places[t].T, color="tab:blue", alpha=0.2 + 0.8 * t / len(places))
    chain.set(xlabel="x [m]", ylabel="z [m]", aspect="equal")
    rates.plot(STEP * np.arange(len(places)), solution.v, linewidth=0.5)
    rates.set(xlabel="time [s]", ylabel="velocity [rad/s]")
    for name, found in solutions.items():
        costs.semilogy(found.history.cost, ".-", label=name)
    costs.set(xlabel="iteration", ylabel="cost")
    costs.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--links", type=int, default=100, help="of the chain")
    parser.add_argument("--steps", type=int, default=20, help="of the motion")
    parser.add_argument("--output", type=Path, default=Path("output/long_chain.png"), help="file of the plot")
    arguments = parser.parse_args()

    jax.config.update("jax_enable_x64", True)
    problem, x0 = swinging(arguments.links, arguments.steps)
    solutions = {}
    print(f"{'':20}{'status':>12}{'iterations':>12}{'cost':>12}{'gap':>10}", end="")
    print(f"{'rate at the end [rad/s]':>26}{'compile, run [s]':>20}")
    for name, solver in SOLVERS.items():
        times = [time.perf_counter()]
        for _ in range(2):
            solution = solutions[name] = jax.block_until_ready(solve(problem, x0, None, solver))
            times.append(time.perf_counter())
        first, again = np.diff(times)
        rate, status = float(jnp.max(jnp.abs(solution.v[-1]))), SolveStatus(int(solution.status)).name
        print(f"{name:20}{status:>12}{int(solution.iterations):12}{float(solution.cost):12.5f}", end="")
        print(f"{float(solution.gap):10.1e}{rate:26.1e}{first - again:13.0f}, {again:5.1f}")
    plot(problem.dynamics.model, solutions, arguments.output)
    print(f"Plot: {arguments.output}")


if __name__ == "__main__":
    main()
