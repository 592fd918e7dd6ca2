"""Simulates a space robot with two arms by two algorithms, which agree, and plots what its first joint has to bear.

The robot and the test are those of F. Liu, Q. Hu and J. Zhang, "Constraint force algorithm for tree-like multibody
system dynamics", Chinese Journal of Theoretical and Applied Mechanics 48(1), 2016, section 4. Its text gives: a body
that floats freely, a hexagonal prism 1.2 m long with sides of 0.8 m, its frame in the centre of mass; two equal arms
driven by torques; the same excitation for the constraint force algorithm and for a recursive one, 10 s in steps of
2 ms; plots of the body's attitude, the angles of arm 1, the constraint force and moment between the body and the first
link of arm 1, and the difference of the algorithms. Its text does not give, so these are chosen here: that an arm has
six revolute joints, their axes and places, masses and lengths, the torques, and the state at the start.

Both algorithms follow two motions: one of moving arms without torques, which keeps momentum and energy, and one under
torques, which keeps momentum. Run:

    python examples/space_robot.py [--duration 10] [--step 0.002] [--output output/space_robot.png]
"""

import argparse
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.progress import track

import jaxcfa
from jaxcfa.joints import Free, Revolute

SIDE, LENGTH = 0.8, 1.2  # of the hexagonal prism [m], from the paper
BODY_MASS = 500.0  # kg
BODY_VELOCITY = (0.02, -0.01, 0.03, 0.05, -0.03, 0.04)  # at the start, linear [m/s] and angular [rad/s]


class Link(NamedTuple):
    """A link of an arm, a rod along x, with its joint."""

    axis: tuple[float, float, float]
    length: float  # m
    mass: float  # kg
    radius: float  # m
    angle: float  # at the start [rad]
    rate: float  # at the start of the motion without torques [rad/s]
    torque: float  # amplitude in the motion under torques [N m]


ARM = (
    Link((0.0, 0.0, 1.0), 0.15, 8.0, 0.08, 0.3, 0.2, 12.0),
    Link((0.0, 1.0, 0.0), 1.0, 16.0, 0.06, -0.6, -0.2, -3.0),
    Link((0.0, 1.0, 0.0), 1.0, 12.0, 0.05, 1.0, 0.3, 1.0),
    Link((1.0, 0.0, 0.0), 0.15, 4.0, 0.05, 0.2, 0.3, 0.4),
    Link((0.0, 1.0, 0.0), 0.15, 4.0, 0.05, 0.9, -0.1, 0.4),
    Link((1.0, 0.0, 0.0), 0.2, 5.0, 0.05, 0.0, 0.4, -0.002),
)
ARMS = {"right": 1.0, "left": -1.0}  # along x or -x, and with rates and torques of this sign
PERIOD = 4.0  # of the torques [s]

MOTIONS = {"unforced": (1.0, 0.0), "under torques": (0.0, 1.0)}  # factors of the rates and of the torques
METHODS = {"CFA": jaxcfa.CFA(), "ABA": jaxcfa.ABA()}
CHUNK = 50  # steps in one call of the compiled program; between calls there is time to show progress

# The classical Runge-Kutta method: each stage goes this part of the step along the slope before, and counts this much.
STAGES = np.array([[0.0, 1 / 6], [1 / 2, 1 / 3], [1 / 2, 1 / 3], [1.0, 1 / 6]])


def space_robot() -> jaxcfa.Model:
    """A hexagonal prism that floats without gravity, with two equal arms on opposite sides, 18 degrees of freedom.

    The prism's axis is z. The arms point along x and -x from the midpoints of opposite side faces.
    """
    builder = jaxcfa.ModelBuilder()
    across = BODY_MASS * (5 * SIDE**2 / 24 + LENGTH**2 / 12)
    along = BODY_MASS * 5 * SIDE**2 / 12
    builder.add_body("body", joint=Free(), joint_name="root_joint", mass=BODY_MASS, inertia=(across, across, along))
    for name, direction in ARMS.items():
        parent, start = "body", direction * SIDE * np.sqrt(3) / 2
        for number, link in enumerate(ARM, start=1):
            axial = link.mass * link.radius**2 / 2
            transverse = link.mass * (3 * link.radius**2 + link.length**2) / 12
            builder.add_body(
                f"{name}{number}",
                parent,
                Revolute(link.axis),
                (start, 0.0, 0.0),
                mass=link.mass,
                com=(direction * link.length / 2, 0.0, 0.0),
                inertia=(axial, transverse, transverse),
            )
            parent, start = f"{name}{number}", direction * link.length
        builder.add_frame(f"{name}_hand", parent, (start, 0.0, 0.0))
    return builder.build(gravity=(0.0, 0.0, 0.0))


def of_both_arms(name):
    """One of the last fields of `Link` for all joints of the arms (12,)."""
    return np.array([sign * getattr(link, name) for sign in ARMS.values() for link in ARM])


def initial_state(model):
    """The state at time zero of all motions, (motions, nq) and (motions, nv)."""
    q = jaxcfa.neutral(model).at[7:].set(np.tile([link.angle for link in ARM], len(ARMS)))
    v = [np.concatenate([BODY_VELOCITY, factor * of_both_arms("rate")]) for factor, _ in MOTIONS.values()]
    return jnp.tile(q, (len(MOTIONS), 1)), jnp.array(v)


def torques(t):
    """Smooth torques (nv,) in the arms at time t, none on the body."""
    return jnp.concatenate([jnp.zeros(6), jnp.cos(2 * jnp.pi * t / PERIOD) * of_both_arms("torque")])


def runge_kutta_step(method, model, q, v, t, step, factor):
    """The state after one step of the classical Runge-Kutta method, and the wrenches of the joints before it.

    In a step the configuration is `integrate(model, q, u)`, where u is in a vector space (Munthe-Kaas 1998). The rate
    of u is that of `difference(model, q, ...)` along the motion: the velocity itself, but for joints with quaternions.
    """

    def stage(carry, coefficients):
        (slope, total), (part, weight) = carry, coefficients
        u, change = part * step * slope
        now, v_now = jaxcfa.integrate(model, q, u), v + change
        tau = factor * torques(t + part * step)
        qdd, wrenches = jaxcfa.joint_reactions(model, now, v_now, tau, method=method)

        def displacement(s):
            return jaxcfa.difference(model, q, jaxcfa.integrate(model, now, s * v_now))

        _, rate = jax.jvp(displacement, (jnp.zeros_like(t),), (jnp.ones_like(t),))
        slope = jnp.stack([rate, qdd])
        return (slope, total + weight * slope), wrenches

    still = jnp.zeros((2, model.nv))
    (_, mean), wrenches = jax.lax.scan(stage, (still, still), jnp.array(STAGES))
    u, change = step * mean
    return jaxcfa.integrate(model, q, u), v + change, wrenches[0]


@jax.jit
def advance(method, model, q, v, t, step):
    """All motions after `CHUNK` steps, and the configurations, velocities and wrenches of joints before each step."""
    factors = jnp.array([factor for _, factor in MOTIONS.values()])

    def body(state, t):
        q, v = state
        q_next, v_next, wrenches = jax.vmap(
            lambda q, v, factor: runge_kutta_step(method, model, q, v, t, step, factor)
        )(q, v, factors)
        return (q_next, v_next), (q, v, wrenches)

    return jax.lax.scan(body, (q, v), t + step * jnp.arange(CHUNK))


def simulate(program, method, model, step, steps, title=""):
    """Configurations, velocities and wrenches of all motions (t, motions, ...), before each step and at the end."""
    state, pieces = initial_state(model), []
    for chunk in track(range(steps // CHUNK + 1), title, console=Console(stderr=True), disable=not title):
        state, records = program(method, model, *state, chunk * CHUNK * step, step)
        pieces.append(jax.device_get(records))
    return [np.concatenate(piece)[: steps + 1] for piece in zip(*pieces, strict=True)]


@jax.jit
@partial(jax.vmap, in_axes=(None, 0, 0))
@partial(jax.vmap, in_axes=(None, 0, 0))
def conserved(model, q, v):
    """Angular momentum about the world's origin (3,), linear momentum (3,) and kinetic energy (1,)."""
    angular, linear = jnp.split(jaxcfa.momentum(model, q, v), 2)
    angular += jnp.cross(jaxcfa.center_of_mass(model, q), linear)
    return angular, linear, jaxcfa.kinetic_energy(model, q, v)[None]


def drift(values):
    """The largest change of a quantity (t, motions, n) since the start, relative to its norm there: (motions,)."""
    change = np.linalg.norm(values - values[:1], axis=-1)
    return change.max(axis=0) / np.linalg.norm(values[0], axis=-1)


def orders(program, model):
    """The order of the integrator, from one second in steps of 20, 10 and 5 ms: of configurations and of energy."""
    runs = [simulate(program, METHODS["ABA"], model, 0.02 / k, 50 * k) for k in (1, 2, 4)]
    differences = [np.abs(a[0][-1] - b[0][-1]).max() for a, b in pairwise(runs)]
    energies = [drift(np.asarray(conserved(model, q[[0, -1]], v[[0, -1]])[2]))[0] for q, v, _ in runs]
    return np.log2(differences[0] / differences[1]), np.log2(energies[0] / energies[1])


def plot(model, t, results, path):
    """The body, the joints of one arm, the wrench on its first link in world axes, and the methods' difference."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    (q, _, wrenches), (other, *_) = results.values()
    gap = np.maximum(np.abs(q - other).max(axis=-1, keepdims=True), 1e-17)
    attitude = jax.jit(jax.vmap(jax.vmap(lambda q: jaxcfa.difference(model, jaxcfa.neutral(model), q)[3:6])))(q)
    moment, force = np.split(wrenches[:, :, model.body_index("right1")], 2, axis=-1)
    rows = {
        "attitude, as a\nrotation vector [rad]": (attitude, "xyz"),
        "position of\nthe body [m]": (q[..., :3], "xyz"),
        "joint angles of\nthe right arm [rad]": (q[..., 7:13], "123456"),
        "force on right1 by\nthe body [N]": (force, "xyz"),
        "moment on right1 by\nthe body [N m]": (moment, "xyz"),
        "CFA - ABA, largest\n[m, rad]": (gap, ""),
    }
    figure = Figure(figsize=(11, 14), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(rows), len(MOTIONS), sharex=True, sharey="row")
    for row, (label, (values, names)) in zip(axes, rows.items(), strict=True):
        for motion, axis in enumerate(row):
            axis.plot(t, values[:, motion], label=list(names) or None)
            axis.grid(visible=True, alpha=0.3)
        row[0].set_ylabel(label)
        if names:
            row[-1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    for axis, title in zip(axes[0], MOTIONS, strict=True):
        axis.set_title(title)
    for axis in axes[-1]:
        axis.set(yscale="log", xlabel="time [s]")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def report(model, results, program):
    """Prints how far the methods differ, what drifts, and the order."""
    (q, v, _), _ = results.values()
    gaps = [np.abs(a - b).max(axis=(0, *range(2, a.ndim))) for a, b in zip(*results.values(), strict=True)]
    angular, linear, energy = (drift(np.asarray(x)) for x in conserved(model, q, v))
    print(f"{'':40}" + "".join(f"{name:>15}" for name in MOTIONS))
    for label, values in {
        "CFA - ABA: configurations [m, rad]": gaps[0],
        "CFA - ABA: velocities [m/s, rad/s]": gaps[1],
        "CFA - ABA: wrenches of joints [N, N m]": gaps[2],
        "drift of momentum, angular, relative": angular,
        "drift of momentum, linear, relative": linear,
        "drift of kinetic energy, relative": energy[:1],  # torques change it
    }.items():
        print(f"{label:40}" + "".join(f"{value:15.1e}" for value in values))
    print("order: {:.2f} of configurations, {:.2f} of kinetic energy".format(*orders(program, model)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--duration", type=float, default=10.0, help="of the motions [s]")
    parser.add_argument("--step", type=float, default=0.002, help="of the integrator [s]")
    parser.add_argument("--output", type=Path, default=Path("output/space_robot.png"), help="file of the plot")
    arguments = parser.parse_args()
    step, steps = arguments.step, round(arguments.duration / arguments.step)

    jax.config.update("jax_enable_x64", True)
    model = space_robot()
    print(f"{model.nb} bodies, {model.nv} degrees of freedom; two motions at once, {steps} steps of {1e3 * step:g} ms")
    programs, results = {}, {}
    for name, method in METHODS.items():
        times = [time.perf_counter()]
        programs[name] = advance.lower(method, model, *initial_state(model), 0.0, step).compile()
        times.append(time.perf_counter())
        results[name] = simulate(programs[name], method, model, step, steps, name)
        times.append(time.perf_counter())
        compiling, running = np.diff(times)
        print(f"{name}: {running:.1f} s after {compiling:.1f} s of compiling")
    report(model, results, programs["ABA"])
    plot(model, step * np.arange(steps + 1), results, arguments.output)
    print(f"Plot: {arguments.output}")


if __name__ == "__main__":
    main()
