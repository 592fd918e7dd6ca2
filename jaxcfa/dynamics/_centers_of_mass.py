"""Positions and velocities of centres of mass: of the whole mechanism, and of what each joint carries."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..compilation import jit_of_one_state
from ..defaults import default_schedule
from ..model import Model, join_bodies
from ..model._arguments import as_arrays, require_single
from ..motion import BodyMotions, check_motions, motions_at
from ..one_function import in_batches
from ..structured import Sequential
from ..typing import ConfigurationLike, VelocityLike
from ._mass_matrix import composite_inertias, unit_wrenches
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


@jit_of_one_state
@in_batches
def _center_of_mass(model: Model, q: Float[Array, "nq"], motions: BodyMotions | None) -> Float[Array, "3"]:
    motions = motions_at(model, q, None, Sequential(), motions)
    return jnp.sum(motions.roots[:1], axis=0) + mean_position(*bodies_as_components(model, motions)[:2]).array()


def center_of_mass_velocity(
    model: Model, q: ConfigurationLike, v: VelocityLike, motions: BodyMotions | None = None
) -> Float[Array, "3"]:
    """Velocity of the `center_of_mass`, world axes [m/s].

    **Arguments:** `q` (nq,), `v` (nv,); `motions`: `body_motions` of these, if they are known already.

    **Raises:** `ValueError` for a wrong shape, and if nothing that moves has mass.
    """
    q, v = as_arrays(model, q=q, v=v)
    check_motions(model, motions, q, v)
    check_mass(model)
    return _center_of_mass_velocity(model, q, v, motions)


@jit_of_one_state
@in_batches
def _center_of_mass_velocity(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], motions: BodyMotions | None
) -> Float[Array, "3"]:
    _, _, momentum = bodies_as_components(model, motions_at(model, q, v, Sequential(), motions))
    return jnp.sum(momentum.force.array(), axis=0) / jnp.sum(model.mass)


def center_of_mass_jacobian(
    model: Model, q: ConfigurationLike, motions: BodyMotions | None = None
) -> Float[Array, "3 nv"]:
    """Jacobian of the `center_of_mass`: `J v` is `center_of_mass_velocity`.

    **Arguments:** `q` (nq,); `motions`: `body_motions` of the same q, if they are known already.

    **Raises:** `ValueError` for a wrong shape, and if nothing that moves has mass.
    """
    (q,) = as_arrays(model, q=q)
    check_motions(model, motions, q)
    check_mass(model)
    return _center_of_mass_jacobian(model, q, motions)


@jit_of_one_state
@in_batches
def _center_of_mass_jacobian(model: Model, q: Float[Array, "nq"], motions: BodyMotions | None) -> Float[Array, "3 nv"]:
    wrenches = unit_wrenches(motions_at(model, q, None, Sequential(), motions))
    return wrenches.force.array().T / jnp.sum(model.mass)


def subtree_masses(model: Model) -> Float[Array, "nb"]:
    """Masses of all bodies with everything that they carry [kg], (nb,)."""
    require_single(model)
    return _subtree_masses(model)


@jax.jit
def _subtree_masses(model: Model) -> Float[Array, "nb"]:
    return default_schedule(model).subtree_sum(model.topology.schedule, model.mass)


def subtree_centers_of_mass(
    model: Model, q: ConfigurationLike, motions: BodyMotions | None = None
) -> Float[Array, "nb 3"]:
    """Centres of mass, in the world, of all bodies with everything that they carry [m].

    Where that has no mass, the body's origin, so that results and derivatives stay finite.

    **Arguments:** `q` (nq,); `motions`: `body_motions` of the same q, if they are known already.

    **Raises:** `ValueError` for a wrong shape.
    """
    (q,) = as_arrays(model, q=q)
    check_motions(model, motions, q)
    return _subtree_centers_of_mass(model, q, motions)


@jit_of_one_state
@in_batches
def _subtree_centers_of_mass(model: Model, q: Float[Array, "nq"], motions: BodyMotions | None) -> Float[Array, "nb 3"]:
    motions = motions_at(model, q, None, Sequential(), motions)
    inertias = composite_inertias(motions)
    # Without mass the first moment is zero, too.
    centers = [
        link.position + inertia.moment * (1 / jnp.where(inertia.mass == 0, 1, inertia.mass))
        for link, inertia in zip(motions.links, inertias, strict=True)
    ]
    return join_bodies(model.topology, [center.array() for center in centers])
