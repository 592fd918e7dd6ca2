"""Centre of mass, momentum and energy."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model import Model, join_bodies
from ..model._arguments import as_arrays
from ..motion import BodyMotions, check_motions, motions_at
from ..one_function import in_batches
from ..spatial import Vector
from ..structured import Sequential
from ..typing import ConfigurationLike, VelocityLike
from ._totals import bodies_as_components, check_mass, mean_position


def center_of_mass(model: Model, q: ConfigurationLike, motions: BodyMotions | None = None) -> Float[Array, "3"]:
    """Centre of mass of all moving bodies, in the world [m].

    Links fixed to the world do not count.

    **Arguments:** `q` (nq,); `motions`: `body_motions` of the same q, if they are known already.

    **Raises:** `ValueError` for a wrong shape, and if nothing that moves has mass.
    """
    (q,) = as_arrays(model, q=q)
    check_motions(model, motions, q)
    check_mass(model)
    return _center_of_mass(model, q, motions)


@jax.jit
@in_batches
def _center_of_mass(model: Model, q: Float[Array, "nq"], motions: BodyMotions | None) -> Float[Array, "3"]:
    motions = motions_at(model, q, None, Sequential(), motions)
    return jnp.sum(motions.roots[:1], axis=0) + mean_position(*bodies_as_components(model, motions)[:2]).array()


def momentum(
    model: Model, q: ConfigurationLike, v: VelocityLike, motions: BodyMotions | None = None
) -> Float[Array, "6"]:
    """Centroidal momentum: `[angular momentum about the centre of mass; linear momentum]`, world axes.

    **Arguments:** `q` (nq,), `v` (nv,); `motions`: `body_motions` of these, if they are known already.

    **Returns:** (6,) [kg m^2/s, kg m/s]. Armature does not count.

    **Raises:** `ValueError` for a wrong shape, and if nothing that moves has mass.
    """
    q, v = as_arrays(model, q=q, v=v)
    check_motions(model, motions, q, v)
    check_mass(model)
    return _momentum(model, q, v, motions)


@jax.jit
@in_batches
def _momentum(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], motions: BodyMotions | None
) -> Float[Array, "6"]:
    inertia, position, own = bodies_as_components(model, motions_at(model, q, v, Sequential(), motions))
    return jnp.sum(own.carried(position - mean_position(inertia, position)).array(), axis=0)


def kinetic_energy(
    model: Model, q: ConfigurationLike, v: VelocityLike, motions: BodyMotions | None = None
) -> Float[Array, ""]:
    """Kinetic energy `v^T M(q) v / 2` [J], armature included.

    **Arguments:** `q` (nq,), `v` (nv,); `motions`: `body_motions` of these, if they are known already.

    **Raises:** `ValueError` for a wrong shape.
    """
    q, v = as_arrays(model, q=q, v=v)
    check_motions(model, motions, q, v)
    return _kinetic_energy(model, q, v, motions)


@jax.jit
@in_batches
def _kinetic_energy(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], motions: BodyMotions | None
) -> Float[Array, ""]:
    motions = motions_at(model, q, v, Sequential(), motions)
    bodies = sum(jnp.sum(link.velocity.dot(link.inertia @ link.velocity)) for link in motions.links)
    return 0.5 * (bodies + jnp.sum(model.armature * v * v))


def potential_energy(model: Model, q: ConfigurationLike, motions: BodyMotions | None = None) -> Float[Array, ""]:
    """Potential energy of gravity [J], zero with all centres of mass in the world's origin. Springs do not count.

    **Arguments:** `q` (nq,); `motions`: `body_motions` of the same q, if they are known already.

    **Raises:** `ValueError` for a wrong shape.
    """
    (q,) = as_arrays(model, q=q)
    check_motions(model, motions, q)
    return _potential_energy(model, q, motions)


@jax.jit
@in_batches
def _potential_energy(model: Model, q: Float[Array, "nq"], motions: BodyMotions | None) -> Float[Array, ""]:
    motions = motions_at(model, q, None, Sequential(), motions)
    inertia = join_bodies(model.topology, [link.inertia for link in motions.links])
    weight = Vector.of(model.gravity.astype(q.dtype))
    return -jnp.sum((Vector.of(motions.poses.translation) * inertia.mass + inertia.moment).dot(weight))
