"""Swings a double pendulum up that is driven at its second joint only, and keeps to that motion by its feedback gains.

Multiple shooting finds torques within a limit that bring both links from hanging to standing at rest. The solution has
feedback gains, which are optimal near its motion. The motion is then simulated with links that are heavier than in the
model: under the same torques the pendulum falls over, under the gains it arrives. Prints a table and writes a plot. Run:

    python examples/swing_up.py [--steps 100] [--output output/swing_up.png]
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
    Equality,
    MultipleShooting,
    Problem,
    RobotDynamics,
    Solution,
    SolveStatus,
    StateDifference,
    Velocity,
    solve,
)
from jaxcfa.simulation import RungeKutta4

DURATION = 3.0  # of the motion [s]
LENGTH, MASS = 0.5, 1.0  # of a link [m, kg]
TORQUE = 6.0  # the limit [N m]
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


def swing_up(steps: int) -> tuple[Solution, float, float]:
    """The motion, and the seconds that it took the first time, with compiling, and again."""
    dt = DURATION / steps
    problem = Problem(
        RobotDynamics(double_pendulum(), dt, RungeKutta4(), actuated=["elbow"]),
        steps,
        costs=[Cost(Control(), dt), Cost(Velocity(), 0.1 * dt)],
        constraints=[Bounds(Control(), -TORQUE, TORQUE)],
        end_constraints=[Equality(StateDifference(jnp.array(UPRIGHT)))],
    )
    # The straight way from hanging to standing, which no torque of the second joint can make.
    states = jnp.linspace(0, 1, steps + 1)[:, None] * jnp.array(UPRIGHT)
    guess = states, jnp.zeros((steps, 1))
    times = [time.perf_counter()]
    for _ in range(2):
        solution = jax.block_until_ready(solve(problem, jnp.zeros(4), guess, MultipleShooting()))
        times.append(time.perf_counter())
    return solution, *np.diff(times)


def simulate(solution: Solution, feedback: bool) -> tuple[jax.Array, jax.Array]:
    """States (T + 1, 4) and torques (T, 1) of the heavier pendulum, under the limit of torque."""
    old = solution.problem.dynamics
    heavy = RobotDynamics(double_pendulum(HEAVIER * MASS), old.dt, RungeKutta4(), actuated=["elbow"])

    def step(x, t):
        u = solution.control(t, x) if feedback else solution.controls[t]
        u = jnp.clip(u, -TORQUE, TORQUE)
        after = heavy.step(x, u, t)
        return after, (after, u)

    start = solution.states[0]
    _, (states, torques) = jax.lax.scan(step, start, jnp.arange(len(solution.controls)))
    return jnp.concatenate([start[None], states]), torques
