"""Sums over all bodies: energies, centres of mass and momenta."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..defaults import default_schedule
from ..model import Model, join_bodies
from ..model._arguments import is_concrete, require_single
from ..motion import BodyMotions, drifts, of_motions
from ..spatial import Force, RigidInertia, Vector
from ..typing import ConfigurationLike, VelocityLike
from ._mass_matrix import composite_inertias, unit_wrenches


def kinetic_energy(
    model: Model, q: ConfigurationLike, v: VelocityLike, motions: BodyMotions | None = None
) -> Float[Array, ""]:
    """Kinetic energy `v^T M(q) v / 2` [J], armature included.

    **Arguments:** `q` (nq,), `v` (nv,); `motions`: `body_motions` of these, if they are known already.

    **Raises:** `ValueError` for a wrong shape.
    """
    return _kinetic_energy(model, motions, q=q, v=v)


@of_motions
def _kinetic_energy(model: Model, motions: BodyMotions) -> Float[Array, ""]:
    bodies = sum(jnp.sum(link.velocity.dot(link.inertia @ link.velocity)) for link in motions.links)
    return 0.5 * (bodies + jnp.sum(model.armature * motions.v * motions.v))


def potential_energy(model: Model, q: ConfigurationLike, motions: BodyMotions | None = None) -> Float[Array, ""]:
    """Potential energy of gravity [J], zero with all centres of mass in the world's origin. That of springs is
    `elastic_energy`.

    **Arguments:** `q` (nq,); `motions`: `body_motions` of the same q, if they are known already.

    **Raises:** `ValueError` for a wrong shape.
    """
    return _potential_energy(model, motions, q=q)


@of_motions
def _potential_energy(model: Model, motions: BodyMotions) -> Float[Array, ""]:
    inertia = join_bodies(model.topology, [link.inertia for link in motions.links])
    weight = Vector.of(model.gravity.astype(motions.q.dtype))
    return -jnp.sum((Vector.of(motions.poses.translation) * inertia.mass + inertia.moment).dot(weight))


def _check_mass(model: Model) -> None:
    """Raises `ValueError` if it is known that nothing that moves has mass."""
    if is_concrete(model.mass) and not np.any(np.asarray(model.mass)):
        raise ValueError("The model has no moving body with mass, so its centre of mass is not defined.")


_of_motions_with_mass = partial(of_motions, check=_check_mass)


def center_of_mass(model: Model, q: ConfigurationLike, motions: BodyMotions | None = None) -> Float[Array, "3"]:
    """Centre of mass of all moving bodies, in the world [m].

    Links fixed to the world do not count.

    **Arguments:** `q` (nq,); `motions`: `body_motions` of the same q, if they are known already.

    **Raises:** `ValueError` for a wrong shape, and if nothing that moves has mass.
    """
    return _center_of_mass(model, motions, q=q)


@_of_motions_with_mass
def _center_of_mass(model: Model, motions: BodyMotions) -> Float[Array, "3"]:
    return jnp.sum(motions.roots[:1], axis=0) + _mean_position(*_bodies(model, motions)[:2]).array()


def center_of_mass_velocity(
    model: Model, q: ConfigurationLike, v: VelocityLike, motions: BodyMotions | None = None
) -> Float[Array, "3"]:
    """Velocity of the `center_of_mass`, world axes [m/s].

    **Arguments:** `q` (nq,), `v` (nv,); `motions`: `body_motions` of these, if they are known already.

    **Raises:** `ValueError` for a wrong shape, and if nothing that moves has mass.
    """
    return _center_of_mass_velocity(model, motions, q=q, v=v)


@_of_motions_with_mass
def _center_of_mass_velocity(model: Model, motions: BodyMotions) -> Float[Array, "3"]:
    _, _, momentum = _bodies(model, motions)
    return jnp.sum(momentum.force.array(), axis=0) / jnp.sum(model.mass)


def center_of_mass_jacobian(
    model: Model, q: ConfigurationLike, motions: BodyMotions | None = None
) -> Float[Array, "3 nv"]:
    """Jacobian of the `center_of_mass`: `J v` is `center_of_mass_velocity`.

    **Arguments:** `q` (nq,); `motions`: `body_motions` of the same q, if they are known already.

    **Raises:** `ValueError` for a wrong shape, and if nothing that moves has mass.
    """
    return _center_of_mass_jacobian(model, motions, q=q)


@_of_motions_with_mass
def _center_of_mass_jacobian(model: Model, motions: BodyMotions) -> Float[Array, "3 nv"]:
    return unit_wrenches(motions).force.array().T / jnp.sum(model.mass)


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
    return _subtree_centers_of_mass(model, motions, q=q)


@of_motions
def _subtree_centers_of_mass(model: Model, motions: BodyMotions) -> Float[Array, "nb 3"]:
    # Without mass the first moment is zero, too.
    centers = [
        link.position + inertia.moment * (1 / jnp.where(inertia.mass == 0, 1, inertia.mass))
        for link, inertia in zip(motions.links, composite_inertias(motions), strict=True)
    ]
    return join_bodies(model.topology, [center.array() for center in centers])


def momentum(
    model: Model, q: ConfigurationLike, v: VelocityLike, motions: BodyMotions | None = None
) -> Float[Array, "6"]:
    """Centroidal momentum: `[angular momentum about the centre of mass; linear momentum]`, world axes.

    **Arguments:** `q` (nq,), `v` (nv,); `motions`: `body_motions` of these, if they are known already.

    **Returns:** (6,) [kg m^2/s, kg m/s]. Armature does not count.

    **Raises:** `ValueError` for a wrong shape, and if nothing that moves has mass.
    """
    return _momentum(model, motions, q=q, v=v)


@_of_motions_with_mass
def _momentum(model: Model, motions: BodyMotions) -> Float[Array, "6"]:
    inertia, position, own = _bodies(model, motions)
    return jnp.sum(own.carried(position - _mean_position(inertia, position)).array(), axis=0)


def centroidal_momentum_matrix(
    model: Model, q: ConfigurationLike, motions: BodyMotions | None = None
) -> Float[Array, "6 nv"]:
    """Matrix A(q) with `A v = momentum(model, q, v)`: angular momentum about the centre of mass, linear momentum.

    Orin, Goswami & Lee, "Centroidal dynamics of a humanoid robot", Autonomous Robots 2013, by composite inertias.

    **Arguments:** `q` (nq,); `motions`: `body_motions` of the same q, if they are known already.

    **Returns:** (6, nv), world axes [kg m^2, kg m, kg]. Armature does not count.

    **Raises:** `ValueError` for a wrong shape, and if nothing that moves has mass.
    """
    return _centroidal_momentum_matrix(model, motions, q=q)


@_of_motions_with_mass
def _centroidal_momentum_matrix(model: Model, motions: BodyMotions) -> Float[Array, "6 nv"]:
    inertia, position, _ = _bodies(model, motions)
    levers = (position - _mean_position(inertia, position)).array()[model.topology.dof_bodies]
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
    return _centroidal_momentum_bias(model, motions, q=q, v=v)


@_of_motions_with_mass
def _centroidal_momentum_bias(model: Model, motions: BodyMotions) -> Float[Array, "6"]:
    inertia, position, _ = _bodies(model, motions)
    rates = [
        link.inertia @ drift + link.inertia.gyroscopic(link.velocity.angular)
        for link, drift in zip(motions.links, drifts(motions), strict=True)
    ]
    lever = position - _mean_position(inertia, position)
    return jnp.sum(join_bodies(model.topology, rates).carried(lever).array(), axis=0)


def _bodies(model: Model, motions: BodyMotions) -> tuple[RigidInertia, Vector, Force]:
    """Inertias, origins and momenta (about these) of all bodies (nb), world axes.

    Origins are relative to that of the first body, so that levers lose no digits far from the world's origin.
    """
    inertia, momentum = join_bodies(
        model.topology, [(link.inertia, link.inertia @ link.velocity) for link in motions.links]
    )
    return inertia, Vector.of(motions.origins + (motions.roots - motions.roots[:1])), momentum


def _mean_position(inertia: RigidInertia, position: Vector) -> Vector:
    """Centre of mass of all bodies."""
    total = jnp.sum(inertia.mass)
    return jax.tree.map(lambda x: jnp.sum(x) / total, position * inertia.mass + inertia.moment)
