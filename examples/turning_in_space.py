"""Turns a floating space robot by moving its arms only, and brings the arms back to where they were.

No force acts from outside, so momentum stays zero; attitude changes all the same, because the arms go round in shape
space (as a falling cat does). Multiple shooting finds torques of the arms' joints that turn the body by a given angle
about its axis, within limits of torque and rate, and end at rest in the first posture. Prints a table and writes a
plot. Run:

    python examples/turning_in_space.py [--angle 30] [--steps 40] [--output output/turning_in_space.png]
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxcfa
from jaxcfa.joints import Free, Revolute
from jaxcfa.optimal_control import (
    Bounds,
    Control,
    Cost,
    Equality,
    FrameOrientation,
    MultipleShooting,
    Problem,
    RobotDynamics,
    Solution,
    SolveStatus,
    Velocity,
    solve,
)
from jaxcfa.simulation import RungeKutta4

DURATION = 6.0  # of the motion [s]
BODY_MASS, SIZE = 50.0, 0.6  # of a cube [kg, m]
LINK_MASS, LENGTH = 4.0, 0.6  # of a rod; each arm has two [kg, m]
POSTURE = {"right_shoulder": 0.5, "right_elbow": -1.0, "left_shoulder": 0.5, "left_elbow": -1.0}  # rad
TORQUE, RATE = 10.0, 1.5  # limits [N m, rad/s]


def space_robot() -> jaxcfa.Model:
    """A cube that floats without gravity, with two planar arms on opposite sides, 10 degrees of freedom."""
    builder = jaxcfa.ModelBuilder()
    builder.add_body("body", joint=Free(), joint_name="root", mass=BODY_MASS, inertia=BODY_MASS * SIZE**2 / 6)
    for side, direction in (("right", 1.0), ("left", -1.0)):
        parent, start = "body", direction * SIZE / 2
        for part in ("shoulder", "elbow"):
            across = LINK_MASS * LENGTH**2 / 12
            name = f"{side}_{part}_link"
            builder.add_body(
                name,
                parent,
                Revolute((0.0, 0.0, 1.0)),
                (start, 0.0, 0.0),
                mass=LINK_MASS,
                com=(direction * LENGTH / 2, 0.0, 0.0),
                inertia=(1e-2, across, across),
                joint_name=f"{side}_{part}",
            )
            parent, start = name, direction * LENGTH
    return builder.build(gravity=(0.0, 0.0, 0.0))


def turn(angle: float, steps: int) -> tuple[Problem, Solution, float, float]:
    """The problem, the motion, and the seconds that it took the first time, with compiling, and again."""
    model, dt = space_robot(), DURATION / steps
    q = jaxcfa.neutral(model).at[7:].set(jnp.array(list(POSTURE.values())))
    c, s = np.cos(angle), np.sin(angle)
    turned = jnp.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    rates = jnp.where(jnp.arange(model.nv) < 6, jnp.inf, RATE)
    problem = Problem(
        RobotDynamics(model, dt, RungeKutta4(), actuated=list(POSTURE)),
        steps,
        costs=[Cost(Control(), dt), Cost(Velocity(), 0.1 * dt)],
        constraints=[Bounds(Control(), -TORQUE, TORQUE), Bounds(Velocity(), -rates, rates)],
        end_constraints=[
            Equality(FrameOrientation("body", turned)),
            Equality(lambda stage: stage.q[7:] - q[7:]),
            Equality(lambda stage: stage.v[6:]),
        ],
    )
    # Each elbow follows its shoulder by a quarter of a period: a loop in shape space.
    phase = 2 * jnp.pi * jnp.linspace(0, 1, steps + 1)
    swing = jnp.stack([jnp.sin(phase), 1 - jnp.cos(phase)], axis=1)
    states = jnp.tile(jnp.concatenate([q, jnp.zeros(model.nv)]), (steps + 1, 1))
    states = states.at[:, 7:11].add(0.5 * jnp.tile(swing, 2))
    guess = states, jnp.zeros((steps, len(POSTURE)))
    times = [time.perf_counter()]
    for _ in range(2):
        start = q, jnp.zeros(model.nv)
        solution = jax.block_until_ready(solve(problem, start, guess, MultipleShooting(steps="linear")))
        times.append(time.perf_counter())
    return problem, solution, *np.diff(times)


def momenta(model: jaxcfa.Model, solution: Solution) -> tuple[jax.Array, jax.Array]:
    """Angular momentum about the centre of mass and linear momentum, (T + 1, 3) each [kg m^2/s, kg m/s]."""
    angular, linear = jnp.split(jax.vmap(lambda q, v: jaxcfa.momentum(model, q, v))(solution.q, solution.v), 2, axis=1)
    return angular, linear


def angles(solution: Solution) -> np.ndarray:
    """Of the body about z (T + 1,) [rad]."""
    return 2 * np.arctan2(solution.q[:, 6], solution.q[:, 3])


def plot(solution: Solution, path: Path) -> None:
    """The body's angle, the joints' angles, their path in shape space, and torques."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 4), layout="constrained")
    FigureCanvasAgg(figure)
    body, shape, torques = figure.subplots(1, 3)
    t = np.linspace(0, DURATION, len(solution.q))
    body.plot(t, np.rad2deg(angles(solution)), color="black", label="body")
    body.plot(t, np.rad2deg(solution.q[:, 7:]), linewidth=0.8, label=list(POSTURE))
    body.set(xlabel="time [s]", ylabel="angle [degrees]")
    body.legend(fontsize="small")
    for start in (7, 9):
        shape.plot(solution.q[:, start], solution.q[:, start + 1], ".-", label=list(POSTURE)[start - 7].split("_")[0])
    shape.set(xlabel="shoulder [rad]", ylabel="elbow [rad]")
    shape.legend()
    torques.step(t[:-1], solution.controls, where="post", label=list(POSTURE))
    torques.set(xlabel="time [s]", ylabel="torque [N m]")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--angle", type=float, default=30.0, help="of the body's turn [degrees]")
    parser.add_argument("--steps", type=int, default=40, help="of the motion")
    parser.add_argument("--output", type=Path, default=Path("output/turning_in_space.png"), help="file of the plot")
    arguments = parser.parse_args()

    jax.config.update("jax_enable_x64", True)
    problem, solution, first, again = turn(np.deg2rad(arguments.angle), arguments.steps)
    print(f"{SolveStatus(int(solution.status)).name}, cost {solution.cost:.4g}", end=" ")
    print(f"after {solution.iterations} iterations in {again:.2f} s; the first time with compiling {first:.0f} s")
    angular, linear = momenta(problem.dynamics.model, solution)
    posture = solution.q[-1, 7:] - solution.q[0, 7:]
    for label, value in {
        "the body's turn [degrees]": np.rad2deg(angles(solution)[-1]),
        "the arms' change of posture [rad]": jnp.max(jnp.abs(posture)),
        "largest violation of dynamics, end and limits": solution.violation,
        "largest angular momentum [kg m^2/s]": jnp.max(jnp.abs(angular)),
        "largest linear momentum [kg m/s]": jnp.max(jnp.abs(linear)),
        "largest torque [N m]": jnp.max(jnp.abs(solution.controls)),
        "largest rate of a joint [rad/s]": jnp.max(jnp.abs(solution.v[:, 6:])),
    }.items():
        print(f"{label:48}{float(value):12.5g}")
    plot(solution, arguments.output)
    print(f"Plot: {arguments.output}")


if __name__ == "__main__":
    main()
