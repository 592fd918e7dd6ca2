"""Finds masses, centres of mass and inertias of a robot arm from noisy torques along a trajectory.

Inverse dynamics is linear in the inertial parameters, `tau = Y pi + armature * qdd`, and `jaxcfa.dynamics.regressor` is
Y. Linear least squares for pi fits torques well, but gives bodies that cannot exist: negative masses, or moments of
inertia that break the triangle inequality. Here the unknowns are log-Cholesky parameters, with which every body can
exist, whatever their values, and the Levenberg-Marquardt method finds them without constraints.

Torques do not tell everything. The first link of an arm that stands on the floor only turns about one axis, so its
mass is never felt, and those of others only together with what carries them. What is felt are the components of pi in
the range of `Y^T` (base parameters, as many as the rank of Y over the trajectory); about the remaining ones nothing is
learnt but that bodies must exist. So results are judged by the base parameters and by the torques of another
trajectory. Run:

    python examples/identify_inertias.py [--robot FILE] [--noise 0.02] [--spread 0.3] [--output FILE]
"""

import argparse
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from rich.console import Console
from rich.progress import track
from rich.table import Table

import jaxcfa
from _robots import arm_file
from jaxcfa.dynamics import LogCholesky, inertial_parameters, regressor, with_inertial_parameters
from jaxcfa.model import inertia_problems

PERIOD = 10.0  # of the trajectories [s]
HARMONICS = 5  # sines of each joint
FREE_RANGE, FREE_SPEED = 1.5, 2.0  # of joints without limits [rad, rad/s]
RANK_TOLERANCE = 1e-9  # of the largest singular value; exact zeros are some 1e-16


# %% A robot, and a trajectory that excites all its joints


class Data(NamedTuple):
    """States of a motion (t, nv), with regressors (t, nv, 10 nb) and torques without noise (t, nv)."""

    t: jax.Array
    q: jax.Array
    v: jax.Array
    qdd: jax.Array
    regressors: jax.Array
    torques: jax.Array


def sines(model, key, t):
    """Random sums of sines about the middle of the joints' ranges, as wide and as fast as the limits allow."""
    limited = jnp.isfinite(model.limits.lower) & jnp.isfinite(model.limits.upper)
    lower, upper = jnp.where(limited, model.limits.lower, 0), jnp.where(limited, model.limits.upper, 0)
    speed = model.limits.velocity
    speed = jnp.where(jnp.isfinite(speed) & (speed > 0), speed, FREE_SPEED)
    keys = jax.random.split(key)
    phase = jax.random.uniform(keys[0], (model.nv, HARMONICS), maxval=2 * jnp.pi)
    weight = jax.random.uniform(keys[1], (model.nv, HARMONICS), minval=0.3)
    frequency = 2 * jnp.pi * jnp.arange(1, HARMONICS + 1) / PERIOD

    def shape(t):
        return jnp.sum(weight * jnp.sin(frequency * t + phase), axis=1)

    def rate(t):
        return jax.jvp(shape, (t,), (jnp.ones_like(t),))[1]

    position, velocity = jax.vmap(shape)(t), jax.vmap(rate)(t)
    acceleration = jax.vmap(lambda t: jax.jvp(rate, (t,), (jnp.ones_like(t),))[1])(t)
    reach = jnp.where(limited, 0.45 * (upper - lower), FREE_RANGE) / jnp.max(jnp.abs(position), axis=0)
    scale = jnp.minimum(reach, speed / jnp.max(jnp.abs(velocity), axis=0))
    return (lower + upper) / 2 + scale * position, scale * velocity, scale * acceleration


@jax.jit
def record(model, key, t):
    """The robot's torques and regressors along a random trajectory."""
    states = sines(model, key, t)
    torques = jax.vmap(lambda *state: jaxcfa.inverse_dynamics(model, *state))(*states)
    return Data(t, *states, jax.vmap(lambda *state: regressor(model, *state))(*states), torques)


# %% All measurements in one small triangular system


def compress(model, data, measured, deviation):
    """R and y with `|R pi - y|` equal, but for a constant, to the norm of all errors over their standard deviation."""
    rows = (data.regressors / deviation[:, None]).reshape(-1, 10 * model.nb)
    right = ((measured - model.armature * data.qdd) / deviation).reshape(-1)
    orthogonal, triangular = jnp.linalg.qr(rows)
    return triangular, right @ orthogonal


def base_parameters(triangular):
    """An orthonormal basis (10 nb, rank) of what torques tell of `scale * pi`, and that scale (10 nb)."""
    scale = jnp.linalg.norm(triangular, axis=0)
    scale = jnp.where(scale > RANK_TOLERANCE * jnp.max(scale), scale, 1.0)
    _, singular, basis = jnp.linalg.svd(triangular / scale)
    return basis[: int(jnp.sum(singular > RANK_TOLERANCE * singular[0]))].T, scale


# %% Identification: the start, and one step


def guess(truth, spread, key):
    """Wrong parameters, as of a drawing, and the size of their errors.

    One unit of `x` in `theta = start + size * x` is one standard deviation: a factor of `exp(spread)` for lengths and
    masses, and the part `spread` of a body's radius of gyration for positions.
    """
    length = jnp.exp(jnp.mean(truth.theta[:, 1:4], axis=1, keepdims=True))
    size = spread * jnp.concatenate([jnp.ones((len(length), 4)).at[:, 0].set(0.5), jnp.tile(length, 6)], axis=1)
    return LogCholesky(truth.theta + size * jax.random.normal(key, size.shape)), size


@jax.jit
def levenberg_marquardt(x, damping, start, size, triangular, right):
    """The next x and damping, and the cost there: errors of torques and distance from the guess, both in deviations."""

    def residual(x):
        pi = LogCholesky(start.theta + size * x).inertial_parameters()
        return jnp.concatenate([triangular @ pi.reshape(-1) - right, x.reshape(-1)])

    error = residual(x)
    jacobian = jax.jacfwd(residual)(x).reshape(len(error), -1)
    matrix = jacobian.T @ jacobian + damping * jnp.eye(x.size)
    moved = x - jnp.linalg.solve(matrix, jacobian.T @ error).reshape(x.shape)
    cost, new = jnp.sum(error**2), jnp.sum(residual(moved) ** 2)
    better = new < cost
    return jnp.where(better, moved, x), damping * jnp.where(better, 0.1, 10.0), jnp.where(better, new, cost)


# %% What came of it


def root_mean_square(x):
    return jnp.sqrt(jnp.mean(x**2))


def torque_error(data, truth, pi):
    """Root mean square over joints and time, of torques over the root mean square of the joint's torque."""
    error = data.regressors @ (pi - truth).reshape(-1)
    return float(root_mean_square(error / jnp.sqrt(jnp.mean(data.torques**2, axis=0))))


def relative(error, reference):
    return float(jnp.linalg.norm(error) / jnp.linalg.norm(reference))


def report(console, model, candidates, fresh, basis, scale):
    """A table of all candidates for pi, by name. Errors are relative."""
    truth = inertial_parameters(model)
    table = Table(title=f"{basis.shape[1]} base parameters of {truth.size} parameters")
    for column in ("errors of", "fresh torques", "base parameters", "all", "impossible bodies"):
        table.add_column(column, justify="left" if column == "errors of" else "right")
    for name, pi in candidates.items():
        error = ((pi - truth).reshape(-1) * scale, truth.reshape(-1) * scale)
        impossible = {line.split("'")[1] for line in inertia_problems(with_inertial_parameters(model, pi))}
        table.add_row(
            name,
            f"{torque_error(fresh, truth, pi):.3%}",
            f"{relative(*(basis.T @ x for x in error)):.3%}",
            f"{relative(*error):.1%}",
            f"{len(impossible)} of {model.nb}",
        )
    console.print(table)


def bodies(console, model, start, found):
    """A table of masses, and how far centres of mass are off."""
    table = Table(title="Bodies, of which torques tell only combinations")
    for column in ("body", "mass, kg", "guess", "found", "com off by, mm: guess", "found"):
        table.add_column(column, justify="left" if column == "body" else "right")
    models = [parameters.apply(model) for parameters in (start, found)]
    distances = [1e3 * jnp.linalg.norm(other.com - model.com, axis=1) for other in models]
    for name, *row in zip(model.body_names, model.mass, *(other.mass for other in models), *distances, strict=True):
        table.add_row(name, *(f"{value:.3f}" for value in row[:3]), *(f"{value:.1f}" for value in row[3:]))
    console.print(table)


def plot(model, data, measured, candidates, costs, path):
    """Torques of all joints on the fresh trajectory: true, and those that the candidates predict; the iterations."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = 2
    rows = -(-(model.nv + 1) // columns)
    figure = Figure(figsize=(11, 2.2 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for joint, axis in enumerate(axes[: model.nv]):
        axis.plot(data.t, measured[:, joint], ".", color="0.7", markersize=3, label="measured")
        for name, pi in candidates.items():
            predicted = data.regressors @ pi.reshape(-1) + model.armature * data.qdd
            axis.plot(data.t, predicted[:, joint], label=name)
        axis.set(ylabel=model.joint_names[model.topology.dof_bodies[joint]], xlabel="time [s]")
    axes[0].legend(fontsize="small")
    axes[0].set_title("torques of a fresh trajectory [N m, N]", fontsize="medium")
    axes[model.nv].semilogy(costs, "o-")
    axes[model.nv].set(xlabel="iteration", ylabel="cost")
    for axis in axes[model.nv + 1 :]:
        axis.set_axis_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


# %% All together


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", type=Path, default=arm_file(), help="a URDF or MJCF file")
    parser.add_argument("--noise", type=float, default=0.02, help="part of the joint's root mean square torque")
    parser.add_argument("--spread", type=float, default=0.3, help="standard deviation of the guess, about relative")
    parser.add_argument("--samples", type=int, default=500, help="of each trajectory")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--output", type=Path, default=Path("output/identify_inertias.png"), help="file of the plot")
    arguments = parser.parse_args()
    began = time.perf_counter()

    jax.config.update("jax_enable_x64", True)
    with warnings.catch_warnings():
        # What files hold beyond inertias and joints, such as the Panda's safety controllers, does not matter here.
        warnings.simplefilter("ignore", jaxcfa.io.ModelWarning)
        model = jaxcfa.load_model(arguments.robot).astype("float64")
    if model.nq != model.nv:
        parser.error("the robot has joints with quaternions; this example is for arms")
    keys = jax.random.split(jax.random.key(0), 5)
    t = jnp.linspace(0, PERIOD, arguments.samples, endpoint=False)
    data, fresh = (record(model, key, t) for key in keys[:2])
    deviation = arguments.noise * jnp.sqrt(jnp.mean(data.torques**2, axis=0))
    measured, checked = (
        motion.torques + deviation * jax.random.normal(key, motion.torques.shape)
        for motion, key in zip((data, fresh), keys[2:4], strict=True)
    )
    triangular, right = compress(model, data, measured, deviation)
    basis, scale = base_parameters(triangular)

    start, size = guess(LogCholesky.of(model), arguments.spread, keys[4])
    x, damping, costs = jnp.zeros_like(size), jnp.asarray(1.0), []
    console = Console()
    for _ in track(range(arguments.iterations), "Levenberg-Marquardt", console=Console(stderr=True)):
        x, damping, cost = levenberg_marquardt(x, damping, start, size, triangular, right)
        costs.append(float(cost))
        found = eqx.tree_at(lambda parameters: parameters.theta, start, start.theta + size * x)
        assert not inertia_problems(found.apply(model)), "every iteration has bodies that can exist"

    guessed = start.inertial_parameters()
    misfit = right - triangular @ guessed.reshape(-1)
    linear = basis @ jnp.linalg.lstsq(triangular / scale @ basis, misfit)[0] / scale
    candidates = {
        "guess": guessed,
        "least squares": guessed + linear.reshape(-1, 10),
        "log-Cholesky": found.inertial_parameters(),
    }
    expected = arguments.noise * (basis.shape[1] / measured.size) ** 0.5
    console.print(f"{arguments.robot.name}: {model.nb} bodies, {len(t)} samples of {model.nv} torques")
    console.print(f"{arguments.iterations} iterations, cost {costs[0]:.3g} to {costs[-1]:.6g}")
    console.print(f"{arguments.noise:.1%} noise leaves torques uncertain by {expected:.3%}")
    report(console, model, candidates, fresh, basis, scale)
    bodies(console, model, start, found)
    shown = {name: candidates[name] for name in ("guess", "log-Cholesky")}
    plot(model, fresh, checked, shown, costs, arguments.output)
    console.print(f"Plot: {arguments.output}; {time.perf_counter() - began:.0f} s in all")


if __name__ == "__main__":
    main()
