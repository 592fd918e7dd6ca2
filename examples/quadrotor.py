"""Flies a quadrotor through a tilted slit, and keeps to that motion by feedback when it carries more than planned.

The slit is too narrow to pass upright: in its plane the quadrotor must be at its centre, tilted as it is. Multiple
shooting finds the thrusts of the four rotors, within their limits, from hovering before it to hovering behind it. The
flight is then simulated with a payload that the plan knows nothing of: under the same thrusts, and under the
feedback gains that the solution has. Prints a table and writes a plot. Run:

    python examples/quadrotor.py [--tilt 60] [--payload 0.05] [--output output/quadrotor.png]
"""

import argparse
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxcfa
from jaxcfa.joints import Free
from jaxcfa.optimal_control import (
    Bounds,
    Control,
    Cost,
    Equality,
    FrameDirection,
    FramePosition,
    Posture,
    Problem,
    RobotDynamics,
    Solution,
    SolveStatus,
    Velocity,
    solve,
)

DURATION, STEPS = 1.5, 60  # of the flight [s]
MASS, INERTIA, ARM = 0.8, (0.005, 0.005, 0.009), 0.12  # [kg, kg m^2, m]
DRAG = 0.016  # of a rotor: moment about its axis for each newton of thrust [m]
THRUST = 6.0  # the most that a rotor gives [N]
START, SLIT, GOAL = (0.0, 0.0, 1.0), (1.5, 0.0, 1.2), (3.0, 0.0, 1.0)  # [m]


def quadrotor(payload: float = 0.0) -> jaxcfa.Model:
    """A rigid body with four rotors, of which neighbours turn in opposite directions; the payload hangs under it."""
    builder = jaxcfa.ModelBuilder()
    builder.add_body("body", joint=Free(), mass=MASS, inertia=INERTIA)
    for i, (x, y) in enumerate(((1, 1), (1, -1), (-1, -1), (-1, 1))):
        builder.add_frame(f"rotor{i}", "body", (ARM * x, ARM * y, 0.02))
    moments = [[0.0, 0.0, DRAG * (-1) ** i] for i in range(4)]
    rotors = [f"rotor{i}" for i in range(4)]
    model = jaxcfa.add_thrusters(builder.build(), rotors, moment=moments, lower=0.0, upper=THRUST)
    return jaxcfa.add_payload(model, "body", payload, com=(0.0, 0.0, -0.05))


def dynamics(model: jaxcfa.Model) -> RobotDynamics:
    """Steps under the thrusts of the rotors."""
    return RobotDynamics(model, DURATION / STEPS, actuated="actuators")


def at(model: jaxcfa.Model, place: tuple[float, float, float]) -> jax.Array:
    """The configuration (7,) of a quadrotor that is upright."""
    return jaxcfa.neutral(model).at[:3].set(jnp.array(place))


def fly(tilt: float) -> tuple[Problem, Solution, float, float]:
    """The problem, the motion, and the seconds that it took the first time, with compiling, and again."""
    model = quadrotor()
    hover = float(-MASS * model.gravity[2]) / 4
    normal = jnp.array([0.0, -np.sin(tilt), np.cos(tilt)])
    middle, dt = (STEPS // 2, STEPS // 2 + 1), DURATION / STEPS
    problem = Problem(
        dynamics(model),
        STEPS,
        costs=[Cost(Control(hover), dt), Cost(Velocity(), dt * jnp.array([0.1] * 3 + [0.3] * 3))],
        constraints=[
            Bounds(Control(), 0.0, THRUST),
            Equality(FramePosition("body", jnp.array(SLIT)), during=middle),
            Equality(lambda stage: FrameDirection("body", normal)(stage)[:2], during=middle),
        ],
        end_constraints=[Equality(Posture(at(model, GOAL))), Equality(Velocity())],
    )
    start = at(model, START), jnp.zeros(model.nv)
    times = [time.perf_counter()]
    for _ in range(2):
        solution = jax.block_until_ready(solve(problem, start))
        times.append(time.perf_counter())
    return problem, solution, *np.diff(times)


@jax.jit
@partial(jax.vmap, in_axes=(None, None, None, 0))
def simulate(problem: Problem, solution: Solution, payload: float, feedback: float) -> tuple[jax.Array, jax.Array]:
    """States (T + 1, 13) and thrusts (T, 4) of the quadrotor with a payload, under a part of the feedback."""
    loaded = dynamics(quadrotor(payload))

    def step(x, t):
        planned = solution.controls[t]
        u = jnp.clip(planned + feedback * (solution.control(problem, t, x) - planned), 0.0, THRUST)
        after = loaded.step(x, u, t)
        return after, (after, u)

    start = solution.states[0]
    _, (states, thrusts) = jax.lax.scan(step, start, jnp.arange(STEPS))
    return jnp.concatenate([start[None], states]), thrusts


@jax.jit
def tilts(model: jaxcfa.Model, states: jax.Array) -> jax.Array:
    """Angles (T + 1,) between the rotors' axis and the vertical [degrees]."""
    up = jax.vmap(lambda x: jaxcfa.frame_pose(model, x[:7], "body").rotation[2, 2])(states)
    return jnp.degrees(jnp.arccos(jnp.clip(up, -1, 1)))


def plot(problem: Problem, motions: dict[str, tuple[jax.Array, jax.Array]], path: Path) -> None:
    """The way and the tilt of all motions, and the thrusts of the plan."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4), layout="constrained")
    FigureCanvasAgg(figure)
    way, angles, thrusts = figure.subplots(1, 3)
    t = np.linspace(0, DURATION, STEPS + 1)
    for (name, (states, _)), color in zip(motions.items(), ("black", "tab:red", "tab:blue"), strict=True):
        way.plot(states[:, 0], states[:, 2], color=color, label=name)
        angles.plot(t, tilts(problem.dynamics.model, states), color=color)
    way.plot(SLIT[0], SLIT[2], "o", color="tab:orange", label="slit")
    way.set(xlabel="x [m]", ylabel="z [m]", aspect="equal", adjustable="datalim")
    way.legend()
    angles.set(xlabel="time [s]", ylabel="tilt [degrees]")
    thrusts.step(t[:-1], motions["planned"][1], where="post", label=[f"rotor {i}" for i in range(4)])
    thrusts.set(xlabel="time [s]", ylabel="thrusts of the plan [N]")
    thrusts.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tilt", type=float, default=60.0, help="of the slit [degrees]")
    parser.add_argument("--payload", type=float, default=0.05, help="that the plan does not know [kg]")
    parser.add_argument("--output", type=Path, default=Path("output/quadrotor.png"), help="file of the plot")
    arguments = parser.parse_args()

    jax.config.update("jax_enable_x64", True)
    problem, solution, first, again = fly(np.deg2rad(arguments.tilt))
    print(f"{SolveStatus(int(solution.status)).name}, cost {solution.cost:.4g}", end=" ")
    print(f"after {solution.iterations} iterations in {again:.2f} s; the first time with compiling {first:.0f} s")
    loaded = simulate(problem, solution, arguments.payload, jnp.array([0.0, 1.0]))
    names = "with payload, same thrusts", "with payload, feedback"
    motions = {"planned": (solution.states, solution.controls)}
    motions |= {name: jax.tree.map(lambda x, k=k: x[k], loaded) for k, name in enumerate(names)}
    print(
        f"{'':28}{'from the slit [m]':>20}{'tilt there [deg]':>20}{'from the goal [m]':>20}{'largest thrust [N]':>20}"
    )
    for name, (states, thrusts) in motions.items():
        middle = states[STEPS // 2]
        aside, ahead = (jnp.linalg.norm(x[:3] - jnp.array(y)) for x, y in ((middle, SLIT), (states[-1], GOAL)))
        tilt = tilts(problem.dynamics.model, states)[STEPS // 2]
        print(f"{name:28}{aside:20.4f}{tilt:20.2f}{ahead:20.4f}{jnp.max(thrusts):20.3f}")
    plot(problem, motions, arguments.output)
    print(f"Plot: {arguments.output}")


if __name__ == "__main__":
    main()
