"""The derivative of inverse dynamics along a direction of states, in closed form.

Differentiating the recursions of Newton and Euler as they stand makes long loops with many intermediate results. Seen
from a body that is displaced with its surroundings, only few things change. With theta the angle by which a body turns,
`DX = X' - theta x X` is the derivative of X in axes that turn along, in which the body's inertia is constant:

    Dw = Dw_p + w_p x d + (S v)',    d = (S xi) angular,

and so on for accelerations (all of them classical, as in `motion`). So what bodies add to the D of their parents is a
local expression, and the recursions that are left are sums over ancestors and subtrees, which every schedule has.
Reverse mode is the transpose: the same sums the other way.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from ..configuration import velocity
from ..joints import AbstractJoint
from ..model import Model, join_bodies, map_joints, split_bodies
from ..motion import BodyMotions, joint_motions, joint_torques, resting_world
from ..numerics import instantiate, is_perturbed, jvp_of_perturbed, matmul, matvec, skew, transpose
from ..one_function import is_one_function
from ..spatial import Force, Matrix, Motion, RigidInertia, Transform, Vector, ZeroVector
from ..spatial._algebra import AnyVector
from ..structured import AncestorMask, Sequential, TreeSchedule
from ..structured._tree_scan import from_parents
from ..typing import Velocity
from ._pairs import FEW, have_fixed_axes

_NOTHING: Any = ZeroVector()


class InverseMotion(eqx.Module):
    """What inverse dynamics finds about the bodies (nb), by components, in world axes about their origins.

    **Fields:** `rotation`; `offset` from the parent's origin; `angular` velocity; `inertia`; `acceleration`; `total`
    wrench that the joint transmits.
    """

    rotation: Matrix
    offset: Vector
    angular: Vector
    inertia: RigidInertia
    acceleration: Motion
    total: Force

    @staticmethod
    def of(motions: BodyMotions, accelerations: list[Motion], totals: list[Force]) -> "InverseMotion":
        """Collected from what the recursions found, by segment."""
        parts = [
            InverseMotion(link.rotation, link.offset, link.velocity.angular, link.inertia, a, f)
            for link, a, f in zip(motions.links, accelerations, totals, strict=True)
        ]
        return join_bodies(motions.topology, parts)


class Direction(eqx.Module):
    """Tangents of `q` (nq,), `v` (nv,), `qdd` (nv,) and `f_ext` (nb, 6); of what is constant, symbolic zeros.

    What follows from these is a `ZeroVector`, so that no more is computed than what changes.
    """

    q: Float[Array, "nq"] | SymbolicZero
    v: Float[Array, "nv"] | SymbolicZero
    qdd: Float[Array, "nv"] | SymbolicZero
    f_ext: Float[Array, "nb 6"] | SymbolicZero


class Displacements(eqx.Module):
    """How the bodies (nb) are displaced along a direction of states, world axes.

    **Fields:** `theta`, the angle by which a body turns; derivatives of the `angular` velocity and of the acceleration
    (`rate` and `linear`), in axes that turn along; and in axes that stand still: derivatives of the `offset` from the
    parent, and of the velocity that the joint adds (`turning` and `sliding`).
    """

    theta: AnyVector
    angular: AnyVector
    rate: AnyVector
    linear: AnyVector
    offset: AnyVector
    turning: AnyVector
    sliding: AnyVector

    def of_bodies(
        self, motions: BodyMotions, where: InverseMotion
    ) -> tuple[Transform, Float[Array, "nb 6"], Float[Array, "nb 6"]]:
        """Tangents of the poses, velocities and accelerations of the bodies in the world."""
        theta, spin = self.theta, from_parents(motions.topology.schedule, where.angular, _zero(where.angular))
        angular = self.angular + theta.cross(where.angular)
        over_ancestors, _ = _sums(motions)
        position, linear = over_ancestors(
            self.offset, (angular - self.turning).cross(where.offset) + spin.cross(self.offset) + self.sliding
        )
        a = where.acceleration
        acceleration = Motion(self.rate + theta.cross(a.angular), self.linear + theta.cross(a.linear))
        turned = matmul(skew(theta.array()), where.rotation.array())
        return Transform(turned, position.array()), Motion(angular, linear).array(), acceleration.array()


def inverse_dynamics_tangent(
    model: Model, motions: BodyMotions, qdd: Float[Array, "nv"], where: InverseMotion, along: Direction
) -> tuple[Velocity, Float[Array, "nb 6"]]:
    """Tangents of the torques, and of the wrenches that joints transmit. Linear in `along`."""
    return torques_tangent(model, motions, where, along, displacements(model, motions, qdd, where, along))


def displacements(
    model: Model, motions: BodyMotions, qdd: Float[Array, "nv"], where: InverseMotion, along: Direction
) -> Displacements:
    """How the bodies are displaced. Linear in `along`."""
    tree, q, v = model.topology.schedule, motions.q, motions.v
    over_ancestors, _ = _sums(motions)

    def of_joints(x: Float[Array, "nv"] | SymbolicZero) -> tuple[AnyVector, AnyVector]:
        """`S x`, angular and linear."""
        if not is_perturbed(x):
            return _NOTHING, _NOTHING
        relative = join_bodies(motions.topology, [motion.dense() for motion in joint_motions(motions, instantiate(x))])
        return relative.angular, relative.linear

    # Of the parents, and of bodies relative to them.
    spin = from_parents(tree, where.angular, _zero(where.angular))
    parent = from_parents(tree, where.acceleration, resting_world(model, q.dtype))
    spin_rate, centre = parent.angular, parent.linear
    turning, sliding = of_joints(v)
    offset = where.offset
    whirl = spin.cross(offset)
    point = centre + spin_rate.cross(offset) + spin.cross(whirl)

    # Of joints: displacements, velocities and accelerations.
    turn, shift = of_joints(velocity(model, q, along.q) if is_perturbed(along.q) else along.q)
    turning_dot, sliding_dot = of_joints(along.v)
    gained, gained_linear = of_joints(along.qdd)
    if not have_fixed_axes(model.joints) and is_perturbed((along.q, along.v)):
        _, rates = jvp_of_perturbed(
            lambda q, v_bias: _joint_motions(model, q, v, qdd, v_bias), (q, v), (along.q, along.v)
        )
        relative, accelerated = (Motion.of(rate).rotated(where.rotation) for rate in rates)
        turning_dot, sliding_dot = turning_dot + relative.angular, sliding_dot + relative.linear
        gained, gained_linear = gained + accelerated.angular, gained_linear + accelerated.linear

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

    return Displacements(
        theta=theta,
        angular=angular_dot,
        rate=rate_dot,
        linear=linear_dot,
        offset=(theta - turn).cross(offset) + shift,
        turning=turning_dot + theta.cross(turning),
        sliding=sliding_dot + theta.cross(sliding),
    )


def torques_tangent(
    model: Model, motions: BodyMotions, where: InverseMotion, along: Direction, moved: Displacements
) -> tuple[Velocity, Float[Array, "nb 6"]]:
    """`inverse_dynamics_tangent` where the bodies are displaced so. Linear in `along` and `moved`."""
    own_wrench = where.inertia @ where.acceleration + where.inertia.gyroscopic(where.angular)
    _, over_subtrees = _sums(motions)
    theta, angular_dot, rate_dot, linear_dot = moved.theta, moved.angular, moved.rate, moved.linear

    # Newton and Euler. External wrenches do not turn along.
    w, h, mass, rotational = where.angular, where.inertia.moment, where.inertia.mass, where.inertia.rotational
    force_dot = (
        mass * linear_dot
        + rate_dot.cross(h)
        + angular_dot.cross(w.cross(h))
        + w.cross(angular_dot.cross(h))
        + theta.cross(own_wrench.force)
    )
    moment_dot = (
        rotational @ rate_dot
        + h.cross(linear_dot)
        + angular_dot.cross(rotational @ w)
        + w.cross(rotational @ angular_dot)
        + theta.cross(own_wrench.moment)
    )
    if is_perturbed(along.f_ext):
        external_dot = Force.of(instantiate(along.f_ext))
        moment_dot, force_dot = moment_dot - external_dot.moment, force_dot - external_dot.force

    # Inward, in axes that stand still, with the levers as they change.
    total = where.total
    (total_force_dot,) = over_subtrees(force_dot)
    levers = where.offset.cross(total_force_dot) + moved.offset.cross(total.force)
    (total_moment_dot,) = over_subtrees(moment_dot + levers)
    total_dot = Force(total_moment_dot - levers, total_force_dot)
    along_joints = total_dot - Force(theta.cross(total.moment), theta.cross(total.force))
    tau_dot = joint_torques(motions, split_bodies(motions.topology, along_joints))
    if not have_fixed_axes(model.joints) and is_perturbed(along.q):
        own_axes = total.rotated(where.rotation.T).array()
        tau_dot = tau_dot + jax.jvp(lambda q: _torques(model, q, own_axes), (motions.q,), (along.q,))[1]
    if is_perturbed(along.qdd):
        tau_dot = tau_dot + model.armature * instantiate(along.qdd)
    return tau_dot, total_dot.array()


def _zero(like: Vector) -> Vector:
    """The vector of one body at rest."""
    return jax.tree.map(lambda x: jnp.zeros((), x.dtype), like)


def _sums(motions: BodyMotions) -> tuple[Callable[..., list[AnyVector]], Callable[..., list[AnyVector]]]:
    """Sums of vectors over the ancestors and over the subtrees of all bodies."""
    topology, schedule = motions.topology, motions.schedule
    if isinstance(schedule, Sequential) and topology.nb <= FEW and not is_one_function():
        schedule = AncestorMask()

    def of_vectors(function: Callable[[TreeSchedule, Any], Any]) -> Callable[..., list[AnyVector]]:
        def sums(*vectors: AnyVector) -> list[AnyVector]:
            if not jax.tree.leaves(vectors):
                return list(vectors)
            if isinstance(schedule, AncestorMask | Sequential):
                # Each component by itself: a product with a matrix whose columns are the batch, or what loops carry.
                return function(topology.schedule, list(vectors))
            leaves, treedef = jax.tree.flatten(list(vectors))
            total = function(topology.schedule, jnp.stack(leaves, axis=-1))
            return jax.tree.unflatten(treedef, list(total.T))

        return sums

    return of_vectors(schedule.ancestor_sum), of_vectors(schedule.subtree_sum)


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
