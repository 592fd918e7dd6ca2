"""`jaxcfa simulate`: a robot that falls from rest."""

import math
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from ..configuration import neutral, random_configuration
from ..dynamics import kinetic_energy, potential_energy
from ..model import Model
from ..simulation import Trajectory, rollout
from ._motion_files import check_out, write_motion
from ._progress import counted

_PARTS = 25  # of a motion, for the progress bar


class Settings(NamedTuple):
    """Length of the motion and of a step [s], the seed of a random start (neutral if absent), whether joints stop."""

    seconds: float
    dt: float
    seed: int | None
    limits: bool


def run_simulation(console: Console, file: Path, model: Model, settings: Settings, out: Path | None) -> Trajectory:
    """Simulates, says how the energy changes, and writes the motion to a file if one is given."""
    check_out(out)
    if not (math.isfinite(settings.dt) and 0 < settings.dt <= settings.seconds):
        raise ValueError(f"--dt must be positive and no longer than --seconds {settings.seconds}, got {settings.dt}.")
    if not model.nb:
        raise ValueError("The robot has no moving body, so nothing can fall. Try --floating-base.")
    if model.constraints:
        console.print(f"[yellow]Warning:[/] {len(model.constraints)} constraints of the file are not held.")
    trajectory = _simulate(console, model, settings)
    energies = [float(_energy(model, trajectory.q[i], trajectory.v[i])) for i in (0, -1)]
    end = float(trajectory.t[-1])
    console.print(f"Simulated {end:.4g} s from rest: energy {energies[0]:.5g} J, then {energies[1]:.5g} J")
    write_motion(console, file, model, trajectory, out)
    return trajectory


def _simulate(console: Console, model: Model, settings: Settings) -> Trajectory:
    """The motion in parts, all by one program, so that the progress can be shown."""
    q = neutral(model) if settings.seed is None else random_configuration(model, jax.random.key(settings.seed))
    steps = max(1, round(settings.seconds / settings.dt))
    length = math.ceil(steps / _PARTS)
    still = jnp.zeros((length, model.nv), model.dtype)
    part = jax.jit(lambda q, v: rollout(model, q, v, still, settings.dt, limits=settings.limits, checkpoint=length))
    state = q, jnp.zeros(model.nv, model.dtype)
    qs, vs = [q[None]], [state[1][None]]
    for first in counted(console, "Compiling and simulating", range(0, steps, length)):
        found = part(*state)
        state = found.q[-1], found.v[-1]
        if not np.all(np.isfinite(state[1])):
            raise ValueError(
                f"The motion is not finite after {(first + length) * settings.dt:.4g} s; take a shorter --dt."
            )
        qs.append(found.q[1:])
        vs.append(found.v[1:])
    t = settings.dt * jnp.arange(steps + 1, dtype=model.dtype)
    q, v = (jnp.concatenate(x)[: steps + 1] for x in (qs, vs))
    return Trajectory(t, q, v, jnp.zeros((steps, model.nv), model.dtype), jnp.zeros((), jnp.int32))


@jax.jit
def _energy(model: Model, q: jax.Array, v: jax.Array) -> jax.Array:
    return kinetic_energy(model, q, v) + potential_energy(model, q)
