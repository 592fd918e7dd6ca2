"""`jaxcfa simulate`: a robot that falls from rest, onto the ground or without end."""

import math
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from rich.console import Console

from ..closed_chains import ConstraintStatus, project_configuration
from ..compilation import quick_compilation
from ..contacts import AbstractContacts
from ..dynamics import elastic_energy, kinetic_energy, potential_energy
from ..model import AbstractConstraint, Model
from ..simulation import Trajectory, rollout
from ..viz._files import Directories
from ._ground import Ground, on_ground, say_what_holds
from ._hold import with_held_joints
from ._motion_files import Output, check_out, write_motion
from ._progress import counted, warn, working
from ._start import check_moves, rest_of

_PARTS = 25  # of a motion, for the progress bar
_LONGEST = 10_000_000  # steps
_STILL = 1e-6  # [rad/s, m/s]


class Settings(NamedTuple):
    """Length of the motion and of a step [s], where it begins (see `rest_of`), whether joints stop at their ranges,
    whether the constraints of the file are left out, whether joints are held, and the ground, if there is any."""

    seconds: float
    dt: float
    keyframe: str | None
    seed: int | None
    limits: bool
    cut: bool
    hold: bool = False
    ground: Ground | None = None

    @property
    def steps(self) -> int:
        """Number of steps."""
        return max(1, round(self.seconds / self.dt))


def run_simulation(
    console: Console, file: Path, model: Model, settings: Settings, out: Output
) -> tuple[Trajectory, AbstractContacts | None]:
    """Simulates, says how the energy changes, and writes the motion to a file if one is given.

    **Returns:** the motion, and its contacts, if there is a ground.
    """
    if not (math.isfinite(settings.dt) and settings.dt > 0):
        raise ValueError(f"--dt must be positive, got {settings.dt}.")
    if settings.seconds < settings.dt:
        raise ValueError(f"--seconds must be --dt {settings.dt:g}, one step, or more, got {settings.seconds:g}.")
    if settings.seconds / settings.dt > _LONGEST:
        raise ValueError(
            f"--seconds {settings.seconds:g} in steps of --dt {settings.dt:g} are {settings.seconds / settings.dt:.0e} "
            f"steps; take a longer --dt, for {_LONGEST:.0e} at most."
        )
    check_out(out, settings.steps * settings.dt)
    check_moves(file, model, ", so nothing can fall")
    held = () if settings.cut else model.constraints
    q, contacts = _start(console, file, model, settings, held, out.package_dirs)
    moved = with_held_joints(model, q) if settings.hold else model
    trajectory = _simulate(console, moved, settings, held, q, contacts)
    energies = [float(total_energy(moved, trajectory.q[i], trajectory.v[i])) for i in (0, -1)]
    end = float(trajectory.t[-1])
    text = f"Simulated {end:.4g} s from rest: energy {energies[0]:.5g} J, then {energies[1]:.5g} J"
    lost = energies[0] - energies[1]
    # What the contacts store is counted as theirs.
    where = "went into" if lost >= 0 else "came from"
    console.print(text if contacts is None else f"{text}; {abs(lost):.3g} J {where} contacts, damping and friction")
    if contacts is not None:
        say_what_holds(console, model, contacts, trajectory.q[-1], trajectory.v[-1])
    if not np.any(np.abs(trajectory.v) > _STILL):
        warn(console, f"nothing moved: {_why_still(model, settings)}")
    write_motion(console, file, model, trajectory, out, contacts)
    return trajectory, contacts


@jax.jit
def total_energy(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, ""]:
    """Kinetic, gravitational and elastic energy [J], constant where nothing damps."""
    return kinetic_energy(model, q, v) + potential_energy(model, q) + elastic_energy(model, q)


def _why_still(model: Model, settings: Settings) -> str:
    if not np.any(model.gravity):
        return "the file has no gravity."
    if settings.hold:
        return "the joints are held."
    return f"the robot is in equilibrium there; try {'--seed 0' if settings.seed is None else 'another --seed'}."


def _start(
    console: Console,
    file: Path,
    model: Model,
    settings: Settings,
    held: tuple[AbstractConstraint, ...],
    package_dirs: Directories,
) -> tuple[jax.Array, AbstractContacts | None]:
    """Where the motion begins, and the contacts with the ground, if there is any."""
    q = rest_of(model, settings.keyframe, settings.seed)
    if held:
        q = _closed(console, model, held, q)
    if settings.ground is None:
        return q, None
    contacts, lifted = on_ground(console, file, model, q, settings.ground, package_dirs)
    # What the file ties to the world stays where it is tied.
    return _closed(console, model, held, lifted) if held else lifted, contacts


def _closed(console: Console, model: Model, held: tuple[AbstractConstraint, ...], q: jax.Array) -> jax.Array:
    """A configuration nearby that the constraints of the file allow."""
    with working(console, f"Closing {len(held)} constraints of the file"):
        try:
            return project_configuration(model, held, q).q
        except ValueError as error:
            raise ValueError(f"{error} Or leave the file's constraints out by --no-constraints.") from None


def _simulate(
    console: Console,
    model: Model,
    settings: Settings,
    held: tuple[AbstractConstraint, ...],
    q: jax.Array,
    contacts: AbstractContacts | None,
) -> Trajectory:
    """The motion in parts, all by one program, so that the progress can be shown."""
    steps = settings.steps
    length = math.ceil(steps / _PARTS)
    still = jnp.zeros((length, model.nv), model.dtype)
    # Nothing drives the joints here, so that efforts, which may be zero in files for want of a number, do not matter.
    model = eqx.tree_at(lambda m: m.limits.effort, model, replace_fn=lambda x: jnp.full_like(x, jnp.inf))
    options: dict[str, Any] = {"limits": settings.limits, "constraints": held, "contacts": contacts}
    options["checkpoint"] = length
    part = jax.jit(
        lambda q, v: rollout(model, q, v, still, settings.dt, **options), compiler_options=quick_compilation()
    )
    state, status = (q, jnp.zeros(model.nv, model.dtype)), ConstraintStatus.OK
    qs, vs = [q[None]], [state[1][None]]
    for first in counted(console, "Compiling and simulating", range(0, steps, length)):
        found = part(*state)
        state = found.q[-1], found.v[-1]
        if not np.all(np.isfinite(found.v[: steps - first + 1])):  # the last part may go on beyond the end
            raise ValueError(
                f"The motion is not finite after {(first + length) * settings.dt:.4g} s; take a shorter --dt."
            )
        status |= ConstraintStatus(int(found.status))
        qs.append(found.q[1:])
        vs.append(found.v[1:])
    t = settings.dt * jnp.arange(steps + 1, dtype=model.dtype)
    q, v = (jnp.concatenate(x)[: steps + 1] for x in (qs, vs))
    if status:
        warn(console, f"the constraints of the file could not be held all the time ({status.name}).")
    return Trajectory(t, q, v, jnp.zeros((steps, model.nv), model.dtype), jnp.asarray(status, jnp.int32))
