"""The matrix of Coriolis and centrifugal forces, in closed form.

With the bodies' Jacobians J, inertias I and velocities V, in axes at rest, the mass matrix is the sum of `J^T I J`, and

    C = sum of J^T (I dJ/dt + B J),    2 B m = V x* (I m) - I (V x m) + m x* (I V)

for which `B V = V x* (I V)`, while `dI/dt - 2 B` is skew-symmetric (Niemeyer & Slotine 1991; Echeandia & Wensing,
"Numerical methods to compute the Coriolis matrix and Christoffel symbols for rigid-body systems", J. Comput. Nonlinear
Dyn. 2021). Nothing is assumed of the velocity coordinates, so both properties of C hold for those that are no rates of
configuration coordinates, too. Sums over the bodies that two joints carry are composites of the subtree of the joint
that comes later. Vectors are spatial, in world axes about the origin of the first body of each tree.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..joints import AbstractJoint
from ..model import Model, join_bodies, map_joints
from ..motion import BodyMotions, Link, of_motions
from ..numerics import picked
from ..spatial import Force, Motion, RigidInertia, TurnedForces, Vector
from ..structured import AbstractSchedule
from ..typing import ConfigurationLike, VelocityLike
from ._pairs import columns_of_joints, each_dof, moved_columns, of_pairs, over_subtrees


def coriolis_matrix(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> Float[Array, "nv nv"]:
    """Matrix C(q, v) of Coriolis and centrifugal forces `C v`, with `dM/dt - 2 C` skew-symmetric.

    `M qdd + C v + gravity_forces` is `inverse_dynamics`. `dM/dt` is the rate of the mass matrix along the motion with
    velocity v; the skew symmetry holds for all joints, also where v are no rates of q. C is linear in v.

    **Arguments:** `q` (nq,), `v` (nv,); `schedule` as for `inverse_dynamics`; `motions`: `body_motions` of the same q
    and v, if they are known already.

    **Returns:** (nv, nv) [N m s, N s, ...]. **Raises:** `ValueError` for a wrong shape.
    """
    return _coriolis_matrix(model, motions, schedule, q=q, v=v)


@of_motions
def _coriolis_matrix(model: Model, motions: BodyMotions) -> Float[Array, "nv nv"]:
    topology = model.topology
    own, velocity = join_bodies(topology, [jax.vmap(_own)(link) for link in motions.links])
    moved = moved_columns(motions, _subspace_rates(model, motions.q, motions.v))
    velocity = jax.tree.map(lambda x: picked(x, topology.dof_bodies), velocity)
    columns = each_dof(motions, _columns, moved, velocity, over_subtrees(motions, own))
    within = (columns.turned, columns.momentum), (columns.motion.angular, columns.rate)
    return of_pairs(model, within, (columns.motion, columns.change))


Composite = tuple[RigidInertia, TurnedForces]


def _own(link: Link) -> tuple[Composite, Motion]:
    inertia, velocity = link.inertia.carried(link.in_tree), link.velocity.at(-link.in_tree)
    return (inertia, TurnedForces.of_momentum(inertia, velocity)), velocity


class _Columns(eqx.Module):
    """Of each degree of freedom: its `motion`, the column J of the Jacobians of all bodies that it carries, and the
    `rate` of that; their `momentum` `I^c J`; `turned`, `B^cT J`; `change` of momentum, `I^c dJ/dt + B^c J`."""

    motion: Motion
    rate: Motion
    momentum: Force
    turned: Vector
    change: Force


def _columns(own: list[Motion], velocity: Motion, subtree: Composite) -> _Columns:
    (motion, apparent), (inertia, momenta) = own, subtree
    rate = velocity.cross(motion) + apparent
    change = inertia @ rate + momenta @ motion.angular
    return _Columns(motion, rate, inertia @ motion, momenta.transposed(motion), change)


def _subspace_rates(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> list[Motion]:
    """Columns of `dS/dt` along the motion, in body axes about the bodies' origins, by segment."""
    d = model.topology.widest

    def one(joint: AbstractJoint, q: Array, v: Array) -> Float[Array, "d 6"]:
        if joint.has_fixed_axes:
            return jnp.zeros((d, 6), q.dtype)
        zero = jnp.zeros((), q.dtype)
        subspace = lambda t: joint.motion_subspace(joint.integrate(q, t * v))  # noqa: E731
        rate = jax.jvp(subspace, (zero,), (zero + 1,))[1]
        return jnp.pad(rate.T, ((0, d - joint.nv), (0, 0)))

    return columns_of_joints(model, map_joints(model, one, ("q", q), ("v", v)))
