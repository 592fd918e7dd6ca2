"""Kinetic and potential energy."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..compilation import jit_of_one_state
from ..model import Model, join_bodies
from ..model._arguments import as_arrays
from ..motion import BodyMotions, check_motions, motions_at
from ..one_function import in_batches
from ..spatial import Vector
from ..structured import Sequential
from ..typing import ConfigurationLike, VelocityLike


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


@jit_of_one_state
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


@jit_of_one_state
@in_batches
def _potential_energy(model: Model, q: Float[Array, "nq"], motions: BodyMotions | None) -> Float[Array, ""]:
    motions = motions_at(model, q, None, Sequential(), motions)
    inertia = join_bodies(model.topology, [link.inertia for link in motions.links])
    weight = Vector.of(model.gravity.astype(q.dtype))
    return -jnp.sum((Vector.of(motions.poses.translation) * inertia.mass + inertia.moment).dot(weight))
