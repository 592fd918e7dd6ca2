"""Momentum about the centre of mass."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..compilation import jit_of_one_state
from ..model import Model, join_bodies
from ..model._arguments import as_arrays
from ..motion import BodyMotions, check_motions, drifts, motions_at
from ..one_function import in_batches
from ..spatial import Vector
from ..structured import Sequential
from ..typing import ConfigurationLike, VelocityLike
from ._mass_matrix import unit_wrenches
from ._totals import bodies_as_components, check_mass, mean_position


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


@jit_of_one_state
@in_batches
def _momentum(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], motions: BodyMotions | None
) -> Float[Array, "6"]:
    inertia, position, own = bodies_as_components(model, motions_at(model, q, v, Sequential(), motions))
    return jnp.sum(own.carried(position - mean_position(inertia, position)).array(), axis=0)


def centroidal_momentum_matrix(
    model: Model, q: ConfigurationLike, motions: BodyMotions | None = None
) -> Float[Array, "6 nv"]:
    """Matrix A(q) with `A v = momentum(model, q, v)`: angular momentum about the centre of mass, linear momentum.

    Orin, Goswami & Lee, "Centroidal dynamics of a humanoid robot", Autonomous Robots 2013, by composite inertias.

    **Arguments:** `q` (nq,); `motions`: `body_motions` of the same q, if they are known already.

    **Returns:** (6, nv), world axes [kg m^2, kg m, kg]. Armature does not count.

    **Raises:** `ValueError` for a wrong shape, and if nothing that moves has mass.
    """
    (q,) = as_arrays(model, q=q)
    check_motions(model, motions, q)
    check_mass(model)
    return _centroidal_momentum_matrix(model, q, motions)


@jit_of_one_state
@in_batches
def _centroidal_momentum_matrix(
    model: Model, q: Float[Array, "nq"], motions: BodyMotions | None
) -> Float[Array, "6 nv"]:
    motions = motions_at(model, q, None, Sequential(), motions)
    inertia, position, _ = bodies_as_components(model, motions)
    levers = (position - mean_position(inertia, position)).array()[model.topology.dof_bodies]
    return unit_wrenches(motions).carried(Vector.of(levers)).array().T


def centroidal_momentum_bias(
    model: Model, q: ConfigurationLike, v: VelocityLike, motions: BodyMotions | None = None
) -> Float[Array, "6"]:
    """`(dA/dt) v` of `centroidal_momentum_matrix`: rate of the centroidal momentum at zero joint acceleration.

    The rate of momentum is `A qdd + centroidal_momentum_bias`, and equals the sum of all external wrenches about the
    centre of mass, gravity and those on the base included.

    **Arguments:** `q` (nq,), `v` (nv,); `motions`: `body_motions` of these, if they are known already.

    **Returns:** (6,), world axes [N m, N].

    **Raises:** `ValueError` for a wrong shape, and if nothing that moves has mass.
    """
    q, v = as_arrays(model, q=q, v=v)
    check_motions(model, motions, q, v)
    check_mass(model)
    return _centroidal_momentum_bias(model, q, v, motions)


@jit_of_one_state
@in_batches
def _centroidal_momentum_bias(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], motions: BodyMotions | None
) -> Float[Array, "6"]:
    motions = motions_at(model, q, v, Sequential(), motions)
    inertia, position, _ = bodies_as_components(model, motions)
    rates = [
        link.inertia @ drift + link.inertia.gyroscopic(link.velocity.angular)
        for link, drift in zip(motions.links, drifts(motions), strict=True)
    ]
    lever = position - mean_position(inertia, position)
    return jnp.sum(join_bodies(model.topology, rates).carried(lever).array(), axis=0)
