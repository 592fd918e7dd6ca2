"""The energy that commands show."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..dynamics import kinetic_energy, passive_forces, potential_energy
from ..model import Model


@jax.jit
def total_energy(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, ""]:
    """Kinetic, gravitational and elastic energy [J], constant where nothing damps. (A spring has F^2 / 2 k.)"""
    force, stiffness = passive_forces(model, q, jnp.zeros_like(v)), model.stiffness
    springs = jnp.where(stiffness == 0, 0, force**2 / jnp.where(stiffness == 0, 1, stiffness))
    return kinetic_energy(model, q, v) + potential_energy(model, q) + 0.5 * jnp.sum(springs)
