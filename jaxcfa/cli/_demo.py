"""`jaxcfa demo`: dynamics of a robot on a batch, and a simulated motion."""

import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..configuration import integrate, random_configuration
from ..dynamics import forward_dynamics, inverse_dynamics, mass_matrix, passive_forces
from ..model import Model
from ..model._joint_groups import coordinate_names
from ..viz import Visual, draw
from ..viz._curves import plot_coordinates
from ..viz._files import Directories, check_directories
from ..viz._picture import new_figure
from ._command_line import command_line, own_command
from ._motion_files import check_writable
from ._progress import warn, working
from ._simulate import total_energy
from ._start import check_moves
from ._view import shapes_of

_TIME_STEP = 1e-3
_POSES, _SEEN = 4, 0.45  # how many are drawn, and until when [s]
_FRICTION_VELOCITY = 0.01
_REPETITIONS = 7


def run_demo(
    console: Console,
    file: Path,
    model: Model,
    package_dirs: Directories,
    *,
    batch: int,
    duration: float,
    output: Path,
    seed: int,
) -> None:
    """Prints error and timing of inverse and forward dynamics, then simulates and plots."""
    kinds = new_figure((1, 1)).canvas.get_supported_filetypes()
    if output.suffix[1:] not in kinds:
        raise ValueError(f"--out must end with .png, .svg, .pdf or another of .{', .'.join(kinds)}; got {output.name}.")
    check_writable(output)
    check_directories(package_dirs)
    name = escape(file.stem)
    console.print(f"[bold]{name}[/]: {model.nb} moving bodies, {model.nv} degrees of freedom, {model.dtype}, ", end="")
    console.print(f"on {jax.default_backend()}")
    check_moves(file, model, "; there is nothing to demonstrate")
    if model.constraints:
        warn(
            console,
            f"{len(model.constraints)} constraints of the file (closed loops, couplings) are left out here; "
            "`jaxcfa simulate` holds them.",
        )
    _batch_dynamics(console, model, batch, seed)
    q = random_configuration(model, jax.random.key(seed))
    motion = _simulation(console, model, q, duration)
    visuals = shapes_of(console, file, model, package_dirs)
    with working(console, "Plotting"):
        _plot(file.stem, model, visuals, motion, output)
    console.print(f"Plot: {escape(str(output))}", soft_wrap=True)
    for start, arguments in zip(("Next:", "  or:"), _next(file), strict=True):
        console.print(f"{start} {escape(command_line(*own_command(), *arguments))}", soft_wrap=True, highlight=False)


def _next(file: Path) -> tuple[list[str], list[str]]:
    """Arguments of two other commands that show more."""
    if file == own_arm():
        move = ["optimise", str(file), "--frame", "tool", "--target", "0.4", "0.3", "0.5", "--view"]
    else:
        move = ["simulate", str(file), "--view"]
    return ["view", str(file)], move


def own_arm() -> Path:
    """The arm that comes with the package."""
    return Path(str(resources.files("jaxcfa") / "data" / "arm7.urdf"))


def _batch_dynamics(console: Console, model: Model, batch: int, seed: int) -> None:
    keys = jax.random.split(jax.random.key(seed), 3)
    q = jax.vmap(lambda key: random_configuration(model, key))(jax.random.split(keys[0], batch))
    v, qdd = (jax.random.normal(key, (batch, model.nv), model.dtype) for key in keys[1:])

    table = Table(f"batch of {batch}", "compile or load (s)", "run (us per state)")
    tau = _timed(console, table, "inverse dynamics", jax.vmap(lambda *x: inverse_dynamics(model, *x)), q, v, qdd)
    again = _timed(console, table, "forward dynamics", jax.vmap(lambda *x: forward_dynamics(model, *x)), q, v, tau)
    matrices = _timed(console, table, "mass matrix", jax.vmap(lambda x: mass_matrix(model, x)), q)
    error = float(jnp.max(jnp.abs(again - qdd)) / jnp.max(jnp.abs(qdd)))
    if not np.isfinite(error):
        raise ValueError("Forward dynamics is not finite: some joint moves no inertia. See `jaxcfa info`.")
    console.print(table)
    console.print(f"Round trip, forward dynamics of inverse dynamics: largest relative error {error:.1e}")
    condition = np.median(np.linalg.cond(np.asarray(matrices[:32], dtype=float)))
    console.print(
        f"Condition number of the mass matrix: {condition:.1e}, in {model.dtype} with {_digits(model)} digits"
    )


def _digits(model: Model) -> int:
    return int(-np.log10(jnp.finfo(model.dtype).eps))


def _timed(console: Console, table: Table, name: str, function: Callable[..., Array], *arguments: Array) -> Array:
    """The result of the function, after a row with its compile time and the median of its run times.

    A program that an earlier run of the command has kept is loaded instead of compiled.
    """
    start = time.perf_counter()
    with working(console, f"Compiling {name}"):
        compiled = jax.jit(function).lower(*arguments).compile()
    compile_time = time.perf_counter() - start
    times = []
    for _ in range(1 + _REPETITIONS):
        start = time.perf_counter()
        result = jax.block_until_ready(compiled(*arguments))
        times.append(time.perf_counter() - start)
    per_state = np.median(times[1:]) / arguments[0].shape[0]
    table.add_row(name, f"{compile_time:.2f}", f"{1e6 * per_state:.2f}")
    return result


class _Motion(NamedTuple):
    """Times (t), configurations (t, nq), velocities (t, nv) and energies (t)."""

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    energy: np.ndarray


def _simulation(console: Console, model: Model, q0: Array, duration: float) -> _Motion:
    steps = max(1, round(duration / _TIME_STEP))
    with working(console, f"Compiling and simulating {steps * _TIME_STEP:.2f} s of free motion"):
        q, v, energy = jax.block_until_ready(_simulate(model, q0, steps))
    if not bool(jnp.all(jnp.isfinite(v))):
        raise ValueError("The simulated motion is not finite; the robot is too stiff for steps of 1 ms.")
    start, end = float(energy[0]), float(energy[-1])
    console.print(f"Simulated {steps * _TIME_STEP:.2f} s of falling from rest: energy {start:.5g} J, then {end:.5g} J")
    return _Motion(np.arange(steps) * _TIME_STEP, np.asarray(q), np.asarray(v), np.asarray(energy))


@jax.jit(static_argnames="steps")
def _simulate(
    model: Model, q0: Float[Array, "nq"], steps: int
) -> tuple[Float[Array, "t nq"], Float[Array, "t nv"], Float[Array, "t"]]:
    """Motion from rest under gravity and passive forces, by the leapfrog method.

    The slopes of the passive forces act on the new velocity, as additional armature, so that stiff joints stay stable.
    """
    slope = model.damping + model.friction_loss / _FRICTION_VELOCITY + _TIME_STEP * model.stiffness
    implicit = eqx.tree_at(lambda m: m.armature, model, model.armature + _TIME_STEP * slope)

    def step(state: tuple[Array, Array], _):
        q, v = state
        energy = total_energy(model, q, v)
        middle = integrate(model, q, v, _TIME_STEP / 2)
        passive = passive_forces(model, middle, v, _FRICTION_VELOCITY)
        v_next = v + _TIME_STEP * forward_dynamics(implicit, middle, v, passive)
        return (integrate(model, middle, v_next, _TIME_STEP / 2), v_next), (q, v, energy)

    return jax.lax.scan(step, (q0, jnp.zeros(model.nv, q0.dtype)), length=steps)[1]


def _plot(name: str, model: Model, visuals: list[Visual], motion: _Motion, output: Path) -> None:
    """The robot at a few times, beside the curves."""
    t, q, v, energy = motion
    figure = new_figure((13, 7), layout="constrained")
    axes = figure.subplot_mosaic([["robot", "q"], ["robot", "v"], ["robot", "energy"]], width_ratios=(1, 1.1))
    seen = np.unique(np.linspace(0, min(len(t) - 1, _SEEN / _TIME_STEP), _POSES).astype(int))
    draw(axes["robot"], model, q[seen], visuals)
    times = ", ".join(f"{t[i]:.2g}" for i in seen)
    axes["robot"].set_title(f"{name}: falling from rest, at {times} s", fontsize="medium")
    plot_coordinates(axes["q"], t, q, "configuration [rad, m]", coordinate_names(model, "q"))
    plot_coordinates(axes["v"], t, v, "velocity [rad/s, m/s]", coordinate_names(model, "v"))
    plot_coordinates(axes["energy"], t, energy[:, None], "energy [J]", [])
    axes["energy"].set_xlabel("time [s]")
    figure.savefig(output)
