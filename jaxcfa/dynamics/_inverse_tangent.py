"""The derivative of inverse dynamics along a direction of states, in closed form.

Differentiating the recursions of Newton and Euler as they stand makes long loops with many intermediate results. Seen
from a body that is displaced with its surroundings, only few things change. With theta the angle by which a body turns,
`DX = X' - theta x X` is the derivative of X in axes that turn along, in which the body's inertia is constant:

    Dw = Dw_p + w_p x d + (S v)',    d = (S xi) angular,

and so on for accelerations (all of them classical, as in `_motion`). So what bodies add to the D of their parents is a
local expression, and the recursions that are left are sums over ancestors and subtrees, which every schedule has.
Reverse mode is the transpose: the same sums the other way.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._components import Vector, components, halves, stacked, transformed
from .._motion import bias_wrench, fictitious_acceleration
from .._small import matvec, sum_of, transpose
from .._types import Velocity
from ..configuration import displacement
from ..joints import AbstractJoint
from ..model import Model, MotionSubspace, join_dofs, map_joints, split_dofs
from ..spatial import rotate
from ..structured import AbstractSchedule, AncestorMask, Sequential, TreeSchedule
from ..structured._tree_scan import from_parents

# Up to so many bodies sums are products with a matrix of ones and zeros, not loops over bodies.
_FEW = 64


class InverseMotion(eqx.Module):
    """What inverse dynamics finds about the bodies, in world axes about their origins.

    **Fields:** `rotation`; `offset` from the parent's origin; `subspace` of the joints; `angular` velocity;
    `acceleration`; `total` wrench that the joint transmits.
    """

    rotation: Float[Array, "nb 3 3"]
    offset: Float[Array, "nb 3"]
    subspace: MotionSubspace
    angular: Float[Array, "nb 3"]
    acceleration: Float[Array, "nb 6"]
    total: Float[Array, "nb 6"]


class Direction(eqx.Module):
    """Tangents of `q` (nq,), `v` (nv,), `qdd` (nv,) and `f_ext` (nb, 6); of the last `None` if it is constant."""

    q: Float[Array, "nq"]
    v: Float[Array, "nv"]
    qdd: Float[Array, "nv"]
    f_ext: Float[Array, "nb 6"] | None


def inverse_dynamics_tangent(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    qdd: Float[Array, "nv"],
    where: InverseMotion,
    along: Direction,
    schedule: AbstractSchedule,
) -> tuple[Velocity, Float[Array, "nb 6"]]:
    """Tangents of the torques, and of the wrenches that joints transmit. Linear in `along`."""
    tree, rotation = model.topology.schedule, where.rotation
    inertia = model.spatial_inertia.rotated(rotation)
    wrench = inertia.mv(where.acceleration) + bias_wrench(inertia, where.angular, jnp.zeros_like(where.total))
    base = fictitious_acceleration(model).astype(q.dtype)
    over_ancestors, over_subtrees = _sums(model, schedule)

    # Of the parents, and of bodies relative to them.
    spin = components(from_parents(tree, where.angular, jnp.zeros(3, q.dtype)))
    spin_rate, centre = halves(from_parents(tree, where.acceleration, base))
    turning, sliding = _motion(where.subspace, v)
    offset = components(where.offset)
    whirl = spin.cross(offset)
    point = centre + spin_rate.cross(offset) + spin.cross(whirl)

    # Of joints: displacements, velocities and accelerations.
    turn, shift = _motion(where.subspace, jax.jvp(lambda x: displacement(model, q, x), (q,), (along.q,))[1])
    turning_dot, sliding_dot = _motion(where.subspace, along.v)
    gained, gained_linear = _motion(where.subspace, along.qdd)
    if not _has_fixed_axes(model):
        rates = jax.jvp(lambda q, v_bias: _joint_motions(model, q, v, qdd, v_bias), (q, v), (along.q, along.v))[1]
        more = [transformed(rotation, half) for rate in rates for half in halves(rate)]
        turning_dot, sliding_dot = turning_dot + more[0], sliding_dot + more[1]
        gained, gained_linear = gained + more[2], gained_linear + more[3]

    # Outward, in axes that turn with the bodies.
    theta, angular_dot = over_ancestors(turn, spin.cross(turn) + turning_dot)
    spin_here = angular_dot - turning_dot
    spin_dot = spin_here - spin.cross(turn)
    own = spin_rate.cross(turn) + spin_here.cross(turning) + spin.cross(turning_dot) + gained
    (rate_dot,) = over_ancestors(own)
    (linear_dot,) = over_ancestors(
        point.cross(turn)
        + (rate_dot - own).cross(offset)
        + spin_rate.cross(shift)
        + spin_dot.cross(whirl)
        + spin.cross(spin_dot.cross(offset) + spin.cross(shift) + 2 * sliding_dot)
        + (2 * spin_here + turning_dot).cross(sliding)
        + turning.cross(sliding_dot)
        + gained_linear
    )

    # Newton and Euler. External wrenches do not turn along.
    w, h, mass, rotational = components(where.angular), components(inertia.moment), inertia.mass, inertia.rotational
    moment, force = halves(wrench)
    force_dot = (
        mass * linear_dot
        + rate_dot.cross(h)
        + angular_dot.cross(w.cross(h))
        + w.cross(angular_dot.cross(h))
        + theta.cross(force)
    )
    moment_dot = (
        transformed(rotational, rate_dot)
        + h.cross(linear_dot)
        + angular_dot.cross(transformed(rotational, w))
        + w.cross(transformed(rotational, angular_dot))
        + theta.cross(moment)
    )
    if along.f_ext is not None:
        moment_ext_dot, force_ext_dot = halves(along.f_ext)
        moment_dot, force_dot = moment_dot - moment_ext_dot, force_dot - force_ext_dot

    # Inward, in axes that stand still, with the levers as they change.
    total_moment, total_force = halves(where.total)
    (total_force_dot,) = over_subtrees(force_dot)
    levers = offset.cross(total_force_dot) + ((theta - turn).cross(offset) + shift).cross(total_force)
    (total_moment_dot,) = over_subtrees(moment_dot + levers)
    total_moment_dot = total_moment_dot - levers
    tau_dot = _projection(
        where.subspace, total_moment_dot - theta.cross(total_moment), total_force_dot - theta.cross(total_force)
    )
    if not _has_fixed_axes(model):
        own_axes = rotate(transpose(rotation), where.total)
        tau_dot = tau_dot + jax.jvp(lambda q: _torques(model, q, own_axes), (q,), (along.q,))[1]
    return tau_dot + model.armature * along.qdd, stacked(total_moment_dot, total_force_dot)


def _has_fixed_axes(model: Model) -> bool:
    return all(joint.has_fixed_axes for joint in model.joints)


def _sums(model: Model, schedule: AbstractSchedule) -> tuple[Callable[..., list[Vector]], Callable[..., list[Vector]]]:
    """Sums of vectors over the ancestors and over the subtrees of all bodies."""
    if isinstance(schedule, Sequential) and model.nb <= _FEW:
        schedule = AncestorMask()

    def of_vectors(function: Callable[[TreeSchedule, Array], Array]) -> Callable[..., list[Vector]]:
        def sums(*vectors: Vector) -> list[Vector]:
            leaves, treedef = jax.tree.flatten(list(vectors))
            total = function(model.topology.schedule, jnp.stack(leaves, axis=-1))
            return jax.tree.unflatten(treedef, list(total.T))

        return sums

    return of_vectors(schedule.ancestor_sum), of_vectors(schedule.subtree_sum)


def _motion(subspace: MotionSubspace, x: Float[Array, "nv"]) -> tuple[Vector, Vector]:
    """`S x`, angular and linear."""
    parts = [
        [sum_of(block[:, i, k] * y[:, k] for k in range(block.shape[2])) for i in range(6)]
        for block, y in zip(subspace.blocks, split_dofs(subspace.model, x), strict=True)
    ]
    rows = [jnp.concatenate(row) for row in zip(*parts, strict=True)]
    return Vector(*rows[:3]), Vector(*rows[3:])


def _projection(subspace: MotionSubspace, moment: Vector, force: Vector) -> Velocity:
    """`S^T` times a wrench."""
    rows, parts = [*jax.tree.leaves(moment), *jax.tree.leaves(force)], []
    for block, segment in zip(subspace.blocks, subspace.model.topology.segments, strict=True):
        own = [row[segment.start : segment.stop] for row in rows]
        columns = [sum_of(block[:, i, k] * x for i, x in enumerate(own)) for k in range(block.shape[2])]
        parts.append(jnp.stack(columns, axis=-1))
    return join_dofs(subspace.model, parts)


def _joint_motions(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    qdd: Float[Array, "nv"],
    v_bias: Float[Array, "nv"],
) -> tuple[Float[Array, "nb 6"], Float[Array, "nb 6"]]:
    """`S v` and `S qdd + bias` of all joints, in body axes, with their dependence on q and that of the bias on v."""

    def one(joint: AbstractJoint, q: Array, v: Array, qdd: Array, v_bias: Array) -> tuple[Array, Array]:
        subspace = joint.motion_subspace(q)
        return matvec(subspace, v), matvec(subspace, qdd) + joint.bias(q, v_bias)

    return map_joints(model, one, ("q", q), ("v", v), ("v", qdd), ("v", v_bias))


def _torques(model: Model, q: Float[Array, "nq"], wrench: Float[Array, "nb 6"]) -> Velocity:
    """`S^T F` of all joints, in body axes."""

    def one(joint: AbstractJoint, q: Array, wrench: Array) -> Array:
        return matvec(transpose(joint.motion_subspace(q)), wrench)

    return map_joints(model, one, ("q", q), ("body", wrench), out="v")
