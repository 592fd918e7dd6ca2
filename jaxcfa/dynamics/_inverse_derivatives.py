"""Derivatives of inverse dynamics with respect to configuration, velocity and acceleration, in closed form.

Singh, Russell & Wensing, "Efficient analytical derivatives of rigid-body dynamics using spatial vector algebra",
RA-L 2022, here for joints of any type. Where a joint is displaced by D, what it carries moves along as a whole. In axes
that are displaced with it the velocities V of all these bodies change by one vector nu, and their accelerations by
`nu x V` besides another, so the wrench F of the subtree changes by

    dF = 2 B^c nu + I^c kappa,    kappa = A_p x D + V_p x nu + w

with the composite inertia `I^c`, a composite `B^c` of inertias and velocities, and the parent's V_p and A_p. For a
displacement `nu = V_p x D + u`; u and w are what the joint's own formulas add where its axes depend on q. Vectors are
spatial (not classical), in world axes about one point common to all bodies of a tree: the origin of its first body.
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..joints import AbstractJoint
from ..model import Model, join_bodies, joints_of_segments, map_joints, split_dofs, unpad_dofs
from ..motion import BodyMotions, Link, joint_motions, of_motions, resting_world
from ..numerics import add, matvec, picked, transpose
from ..one_function import as_one_function
from ..spatial import Force, Motion, RigidInertia, TurnedForces, Vector
from ..structured import AbstractSchedule
from ..typing import BodyForcesLike, ConfigurationLike, VelocityLike
from ._pairs import (
    columns_of_joints,
    each_dof,
    have_fixed_axes,
    moved_columns,
    of_pairs,
    over_ancestors,
    over_subtrees,
)


class InverseDerivatives(NamedTuple):
    """Jacobians of inverse dynamics, rows torques: `dq` in the tangent space, `dv`, and `dqdd`, the mass matrix."""

    dq: Float[Array, "nv nv"]
    dv: Float[Array, "nv nv"]
    dqdd: Float[Array, "nv nv"]


def inverse_dynamics_derivatives(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    qdd: VelocityLike,
    f_ext: BodyForcesLike | None = None,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> InverseDerivatives:
    """All first derivatives of `inverse_dynamics`, in closed form.

    `dq` is in the tangent space: of `inverse_dynamics(model, integrate(model, q, dq), v, qdd, f_ext)` at `dq = 0`, so
    that it is nv x nv with quaternions, too. External wrenches are held fixed in the world, with the body's origin as
    their reference point.

    **Arguments:** as for `inverse_dynamics`. **Returns:** `dq` (nv, nv) [N m/rad, ...], `dv` [N m s/rad, ...] and
    `dqdd`, the mass matrix, armature included.

    **Raises:** `ValueError` for a wrong shape.
    """
    known = {} if f_ext is None else {"f_ext": f_ext}
    return _inverse_derivatives(model, motions, schedule, q=q, v=v, qdd=qdd, **known)


# Velocity and acceleration.
State = tuple[Motion, Motion]


def derivatives_of_motions(
    model: Model, motions: BodyMotions, qdd: Float[Array, "nv"], f_ext: Float[Array, "nb 6"] | None = None
) -> InverseDerivatives:
    """`inverse_dynamics_derivatives` without checks of its arguments; `f_ext` may be known to be zero."""
    q, v = motions.q, motions.v
    biases, *by_joints = _joint_derivatives(model, q, v, qdd)
    joints = zip(motions.links, biases, joint_motions(motions, v), joint_motions(motions, qdd), strict=True)
    bodies = [(x[0].inertia, x[0].in_tree, jax.vmap(_relative)(*x)) for x in joints]
    inertia, lever, relative = join_bodies(model.topology, bodies)

    # Motions of all bodies, and composites of the subtrees.
    parent = over_ancestors(motions, relative, (Motion.zero(q.dtype), resting_world(model, q.dtype)))
    state = add(parent, relative)
    external = None if f_ext is None else Force.of(f_ext)
    subtrees = over_subtrees(motions, jax.vmap(_own)(inertia, lever, state, external))

    # What displacements and velocities of each degree of freedom do to all that it carries.
    own = moved_columns(motions, *by_joints)
    parent, velocity = jax.tree.map(lambda x: picked(x, model.topology.dof_bodies), (parent, state[0]))
    x = each_dof(motions, _columns, own, parent, velocity, subtrees)
    turned_loads = ((), ()) if f_ext is None else (x.external, x.motion.angular)

    carried_q = (x.turned, turned_loads[0], x.momentum), (x.nu, turned_loads[1], x.kappa_q)
    carried_v = (x.turned, x.momentum), (x.motion.angular, x.kappa_v)
    dq = of_pairs(model, carried_q, (x.motion, x.change_q)) + _own_axes(model, q, motions, subtrees.wrench)
    dv = of_pairs(model, carried_v, (x.motion, x.change_v))
    matrix = of_pairs(model, (x.momentum, x.motion), (x.motion, x.momentum))
    return InverseDerivatives(dq, dv, matrix + jnp.diag(model.armature))


_inverse_derivatives = of_motions(derivatives_of_motions, form=partial(as_one_function, derivatives=False))


def _relative(link: Link, bias: Motion, velocity: Motion, gained: Motion) -> State:
    """What a body has more than its parent."""
    relative = velocity.at(-link.in_tree)
    own = (bias.rotated(link.rotation) + gained).at(-link.in_tree)
    moved = own + link.velocity.at(-link.in_tree).cross(relative)
    return relative.dense(), moved.dense()


class _Subtree(eqx.Module):
    """**Fields:** `inertia`; `momenta` of its parts; `wrench` that it takes; `external` wrenches, `None` without."""

    inertia: RigidInertia
    momenta: TurnedForces
    wrench: Force
    external: TurnedForces | None


def _own(inertia: RigidInertia, lever: Vector, state: State, external: Force | None) -> _Subtree:
    velocity, acceleration = state
    inertia = inertia.carried(lever)
    wrench = inertia @ acceleration + velocity.cross_force(inertia @ velocity)
    momenta = TurnedForces.of_momentum(inertia, velocity)
    if external is None:
        return _Subtree(inertia, momenta, wrench, None)
    return _Subtree(inertia, momenta, wrench - external.carried(lever), TurnedForces.of_wrench(external, lever))


class _Columns(eqx.Module):
    """Quantities of each degree of freedom, as a column and as a row.

    **Fields:** its `motion` D; by q: the angular part of `nu`, `kappa_q` and the change of the wrench; by v: `kappa_v`
    and the change of the wrench; as a row: `momentum` `I^c D`, `turned` `2 B^cT D`, and that of `external` wrenches.
    """

    motion: Motion
    nu: Vector
    kappa_q: Motion
    kappa_v: Motion
    change_q: Force
    change_v: Force
    momentum: Force
    turned: Vector
    external: Vector | None


def _columns(own: list[Motion], parent: State, velocity: Motion, subtree: _Subtree) -> _Columns:
    (d, u, s, b), (parent_velocity, parent_acceleration) = own, parent
    rate = parent_velocity.cross(d)
    nu = rate + u
    kappa_q = parent_acceleration.cross(d) + parent_velocity.cross(nu) + s + velocity.cross(u)
    kappa_v = rate + b + velocity.cross(d)
    change_q = subtree.momenta @ nu.angular * 2.0 + subtree.inertia @ kappa_q + d.cross_force(subtree.wrench)
    if subtree.external is not None:
        change_q = change_q + subtree.external @ d.angular
    return _Columns(
        motion=d,
        nu=nu.angular,
        kappa_q=kappa_q,
        kappa_v=kappa_v,
        change_q=change_q,
        change_v=subtree.momenta @ d.angular * 2.0 + subtree.inertia @ kappa_v,
        momentum=subtree.inertia @ d,
        turned=subtree.momenta.transposed(d) * 2.0,
        external=None if subtree.external is None else subtree.external.transposed(d),
    )


def _joint_derivatives(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], qdd: Float[Array, "nv"]
) -> tuple[list[Motion], list[Motion], list[Motion], list[Motion]]:
    """What the joints' own formulas add, in body axes about the bodies' origins, by segment.

    The bias `(dS/dt) v` (n,), and columns (n, d): derivatives of `S v` and of `S qdd + bias` by configurations, and of
    the bias by velocities. All vanish for joints with axes fixed in the body.
    """
    d = model.topology.widest

    def one(joint: AbstractJoint, q: Array, v: Array, qdd: Array) -> tuple[Array, ...]:
        if joint.has_fixed_axes:
            return jnp.zeros((1, 6), q.dtype), *[jnp.zeros((d, 6), q.dtype)] * 3

        def along(direction: Array) -> tuple[Array, Array, Array]:
            def formulas(t: Array, v: Array) -> tuple[Array, Array]:
                moved = joint.integrate(q, t * direction)
                subspace = joint.motion_subspace(moved)
                return matvec(subspace, v), matvec(subspace, qdd) + joint.bias(moved, v)

            zero = jnp.zeros((), q.dtype)
            by_q = jax.jvp(lambda t: formulas(t, v), (zero,), (zero + 1,))[1]
            by_v = jax.jvp(lambda v: joint.bias(q, v), (v,), (direction,))[1]
            return *by_q, by_v

        columns = jax.vmap(along)(jnp.eye(joint.nv, dtype=q.dtype))
        return joint.bias(q, v)[None], *(jnp.pad(x, ((0, d - joint.nv), (0, 0))) for x in columns)

    found = map_joints(model, one, ("q", q), ("v", v), ("v", qdd))
    bias, *columns = (columns_of_joints(model, x) for x in found)
    return jax.tree.map(lambda x: x[:, 0], bias), *columns


def _own_axes(model: Model, q: Float[Array, "nq"], motions: BodyMotions, wrench: Force) -> Float[Array, "nv nv"]:
    """`(dS/dq)^T F` of each joint, with the wrench in body axes that it transmits."""
    d = model.topology.widest

    def one(joint: AbstractJoint, q: Array, wrench: Array) -> Float[Array, "d d"]:
        if joint.has_fixed_axes:
            return jnp.zeros((d, d), q.dtype)

        def torque(dq: Array) -> Array:
            return matvec(transpose(joint.motion_subspace(joint.integrate(q, dq))), wrench)

        missing = d - joint.nv
        return jnp.pad(jax.jacfwd(torque)(jnp.zeros(joint.nv, q.dtype)), ((0, missing), (0, missing)))

    if have_fixed_axes(model.joints):
        return jnp.zeros((model.nv, model.nv), q.dtype)
    segments = zip(motions.links, split_dofs(model.topology, wrench.array()), joints_of_segments(model), strict=True)
    own = [
        jnp.zeros_like(x[:, 0]) if have_fixed_axes(joints) else jax.vmap(_transmitted)(link, Force.of(x[:, 0]))
        for link, x, joints in segments
    ]
    bodies = model.topology.dof_bodies
    index = np.arange(model.nv) - model.topology.v_starts[bodies]
    rows = unpad_dofs(model.topology, map_joints(model, one, ("q", q), ("body", join_bodies(model.topology, own))))
    return jnp.where(bodies[:, None] == bodies, rows[:, index], 0)


def _transmitted(link: Link, wrench: Force) -> Float[Array, "6"]:
    """Transmitted forces, from the common point and world axes to those of the body."""
    return wrench.carried(-link.in_tree).rotated(link.rotation.T).array()
