"""The factors of the mass matrix where bodies are visited one after the other, by components."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model import Model, Topology, join_dofs, split_dofs
from ..motion import BodyMotions, Link
from ..numerics import matmul, symmetrise, transpose
from ..spatial import ArticulatedInertia, Force, Motion, Vector, shift_force_columns
from ..structured import LDL, ldl_solve
from ..structured._tree_sweep import inward, outward
from ._factors import AbstractFactors
from ._inverse import mass_product_of_motions
from ._joint_elimination import eliminate


class SweptJoint(eqx.Module):
    """An eliminated joint, or those of the bodies of a segment.

    **Fields:** `offset` of the body from its parent; `subspace` S; `pivot` D; `gain` `I^A S D^-1`, columns.
    """

    offset: Vector
    subspace: Motion
    pivot: LDL
    gain: Force


class SweptFactors(AbstractFactors):
    """The factors of the mass matrix in a state, for loops over bodies.

    **Fields:** `motions` of the bodies; eliminated `joints`, by segment in order of visit.
    """

    model: Model
    motions: BodyMotions
    joints: list[SweptJoint]

    @property
    def dtype(self) -> jnp.dtype:
        return self.motions.q.dtype

    @property
    def stored_pivots(self) -> list[Array]:
        return [joint.pivot.pivots for joint in self.joints]

    def mass_product(self, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
        return mass_product_of_motions(self.model, self.motions, x)

    def lower(self, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
        def step(children: Force, joint: SweptJoint, e: Array):
            return (children + joint.gain.combined(e)).carried(joint.offset), e + joint.subspace.dot(children)

        return _inward(self.model.topology, self.joints, step, x)

    def lower_transpose(self, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
        def step(parent: Motion, joint: SweptJoint, e: Array):
            carried = parent.at(joint.offset)
            return carried + joint.subspace.combined(e), e + carried.dot(joint.gain)

        return _outward(self.model.topology, self.joints, step, x)

    def lower_inverse(self, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
        return lower_inverse(self.model.topology, self.joints, x)

    def lower_inverse_transpose(self, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
        return lower_inverse_transpose(self.model.topology, self.joints, x)

    def in_joints(self, function: Callable[[LDL, Array], Array], x: Float[Array, "nv"]) -> Float[Array, "nv"]:
        return in_joints(self.model.topology, self.joints, function, x)

    def inverse_diagonal(self) -> Float[Array, "nv"]:
        topology, dtype = self.model.topology, self.dtype

        def step(mobility: Array, joint: SweptJoint):
            subspace, offset = joint.subspace.dense().matrix(), joint.offset.array()
            carried = shift_force_columns(joint.gain.matrix(), offset)
            inverse = ldl_solve(joint.pivot, jnp.eye(len(joint.pivot.pivots), dtype=dtype))
            own = inverse + matmul(transpose(carried), matmul(mobility, carried))
            free = transpose(shift_force_columns(jnp.eye(6, dtype=dtype), offset)) - matmul(
                subspace, transpose(carried)
            )
            passed = symmetrise(matmul(matmul(free, mobility), transpose(free)))
            return passed + matmul(subspace, matmul(inverse, transpose(subspace))), jnp.diagonal(own)

        return join_dofs(topology, outward(topology.schedule, step, jnp.zeros((6, 6), dtype), self.joints))


def eliminated_by_sweep(model: Model, motions: BodyMotions) -> SweptFactors:
    """The factors in a state, from the leaves to the root."""
    topology = model.topology

    def step(children: ArticulatedInertia, x: tuple[Link, Array]):
        link, armature = x
        joint = eliminate(children.plus(link.inertia), link.subspace, armature)
        return joint.apparent.carried(link.offset), (joint.gain, joint.pivot)

    zero = ArticulatedInertia.zero(motions.q.dtype)
    visits = list(zip(motions.links, padded_armature(model), strict=True))
    return SweptFactors(model, motions, swept_joints(motions, inward(topology.schedule, step, zero, visits)))


def swept_joints(motions: BodyMotions, found: list[tuple[Force, LDL]]) -> list[SweptJoint]:
    """Collected from gains and pivots, by segment."""
    return [
        SweptJoint(link.offset, link.subspace, pivot, gain)
        for link, (gain, pivot) in zip(motions.links, found, strict=True)
    ]


def padded_armature(model: Model) -> list[Float[Array, "_ _"]]:
    """Armature by segment; one for coordinates that a body lacks, which makes their rows of D the identity's."""
    present = split_dofs(model.topology, jnp.ones_like(model.armature))
    armature = split_dofs(model.topology, model.armature)
    return [own + (1 - exists) for own, exists in zip(armature, present, strict=True)]


def lower_inverse(topology: Topology, joints: list[SweptJoint], x: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """`(1 - H Psi K) x`."""

    def step(children: Force, joint: SweptJoint, torque: Array):
        left = torque - joint.subspace.dot(children)
        return (children + joint.gain.combined(left)).carried(joint.offset), left

    return _inward(topology, joints, step, x)


def lower_inverse_transpose(topology: Topology, joints: list[SweptJoint], x: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """`(1 - H Psi K)^T x`."""

    def step(parent: Motion, joint: SweptJoint, free: Array):
        carried = parent.at(joint.offset)
        found = free - carried.dot(joint.gain)
        return carried + joint.subspace.combined(found), found

    return _outward(topology, joints, step, x)


def in_joints(
    topology: Topology, joints: list[SweptJoint], function: Callable[[LDL, Array], Array], x: Float[Array, "nv"]
) -> Float[Array, "nv"]:
    """`function(pivot, x)` of all joints."""
    parts = split_dofs(topology, x)
    return join_dofs(topology, [function(joint.pivot, part) for joint, part in zip(joints, parts, strict=True)])


def _inward(topology: Topology, joints: list[SweptJoint], step: Callable, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
    visits = list(zip(joints, split_dofs(topology, x), strict=True))
    return join_dofs(topology, inward(topology.schedule, lambda total, x: step(total, *x), Force.zero(x.dtype), visits))


def _outward(topology: Topology, joints: list[SweptJoint], step: Callable, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
    visits = list(zip(joints, split_dofs(topology, x), strict=True))
    return join_dofs(
        topology, outward(topology.schedule, lambda parent, x: step(parent, *x), Motion.zero(x.dtype), visits)
    )
