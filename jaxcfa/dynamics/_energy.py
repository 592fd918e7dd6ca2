"""Centre of mass, momentum and energy."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._arguments import as_arrays, is_concrete
from .._motion import poses, velocities, world_inertias
from .._small import dot
from .._types import ConfigurationLike, VelocityLike
from ..model import Model
from ..spatial import Transform, shift_force


def center_of_mass(model: Model, q: ConfigurationLike) -> Float[Array, "3"]:
    """Centre of mass of all moving bodies, in the world [m].

    Links fixed to the world do not count.

    **Arguments:** `q` (nq,). **Raises:** `ValueError` for a wrong shape, and if nothing that moves has mass.
    """
    (q,) = as_arrays(model, q=q)
    _check_mass(model)
    return _center_of_mass(model, q)


@jax.jit
def _center_of_mass(model: Model, q: Float[Array, "nq"]) -> Float[Array, "3"]:
    return _mean_position(model, poses(model, q).pose)


def _mean_position(model: Model, pose: Transform) -> Float[Array, "3"]:
    return jnp.sum(model.mass[:, None] * pose.apply(model.com), axis=0) / jnp.sum(model.mass)


def _check_mass(model: Model) -> None:
    if is_concrete(model.mass) and not np.any(np.asarray(model.mass)):
        raise ValueError("The model has no moving body with mass, so its centre of mass is not defined.")


def momentum(model: Model, q: ConfigurationLike, v: VelocityLike) -> Float[Array, "6"]:
    """Centroidal momentum: `[angular momentum about the centre of mass; linear momentum]`, world axes.

    **Arguments:** `q` (nq,), `v` (nv,). **Returns:** (6,) [kg m^2/s, kg m/s]. Armature does not count.

    **Raises:** `ValueError` for a wrong shape, and if nothing that moves has mass.
    """
    q, v = as_arrays(model, q=q, v=v)
    _check_mass(model)
    return _momentum(model, q, v)


@jax.jit
def _momentum(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "6"]:
    where = poses(model, q)
    velocity = velocities(model, where, v)
    own = world_inertias(model, where.pose).mv(velocity)
    # Bodies' levers are taken from the common centre, not the world's origin, so that far away no digits are lost.
    lever = where.pose.translation - _mean_position(model, where.pose)
    return jnp.sum(shift_force(own, lever), axis=0)


def kinetic_energy(model: Model, q: ConfigurationLike, v: VelocityLike) -> Float[Array, ""]:
    """Kinetic energy `v^T M(q) v / 2` [J], armature included.

    **Arguments:** `q` (nq,), `v` (nv,). **Raises:** `ValueError` for a wrong shape.
    """
    return _kinetic_energy(model, *as_arrays(model, q=q, v=v))


@jax.jit
def _kinetic_energy(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, ""]:
    where = poses(model, q)
    velocity = velocities(model, where, v)
    bodies = jnp.sum(dot(velocity, world_inertias(model, where.pose).mv(velocity)))
    return 0.5 * (bodies + jnp.sum(model.armature * v * v))


def potential_energy(model: Model, q: ConfigurationLike) -> Float[Array, ""]:
    """Potential energy of gravity [J], zero with all centres of mass in the world's origin. Springs do not count.

    **Arguments:** `q` (nq,). **Raises:** `ValueError` for a wrong shape.
    """
    return _potential_energy(model, *as_arrays(model, q=q))


@jax.jit
def _potential_energy(model: Model, q: Float[Array, "nq"]) -> Float[Array, ""]:
    return -jnp.sum(model.mass * dot(poses(model, q).pose.apply(model.com), model.gravity))
