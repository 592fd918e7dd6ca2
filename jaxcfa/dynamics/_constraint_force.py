"""Forward dynamics by the constraint force algorithm."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._motion import bias_wrench, fictitious_acceleration
from .._motion_scan import scan_motions
from .._small import matmul, matvec, transpose
from .._types import Velocity
from ..model import Model, pad_dofs, unpad_dofs
from ..spatial import inverse_inertia, shift_force, shift_force_columns, shift_motion
from ..structured import (
    AbstractEdgeSolver,
    AbstractSchedule,
    AbstractTridiagonalSolver,
    ChainsAndNodes,
    Doubling,
    EdgeSystem,
    OddEvenElimination,
    ldl_factor,
    ldl_solve,
    spd_inverse,
)
from ..structured._tree_scan import from_parents, sum_of_children
from ._method import AbstractForwardDynamics
from ._suitability import refuse_bodies_without_inertia

ODD_EVEN_ELIMINATION = OddEvenElimination()
DOUBLING = Doubling()


class CFA(AbstractForwardDynamics):
    """Constraint force algorithm (Fijany, Sharf & D'Eleuterio 1995; corrected, Featherstone & Fijany 1999).

    The unknowns are the wrenches with which joints constrain their bodies. They make a block-tridiagonal system on a
    chain, and on a tree one that couples joints that meet at a body (Liu, Hu & Zhang 2016). Everything else is local
    or a cumulative sum, so with a parallel solver the whole has logarithmic depth.

    Every body needs an inertia that is positive definite by itself.

    **Fields:** `solver`: of the chains (`OddEvenElimination()`, `CyclicReduction()`, `BlockLDL()`), which a dense
    system then joins where the mechanism branches, or of the whole (`ChainsAndNodes(...)`, `LeafToRoot()`, `Dense()`).
    `schedule`: of the cumulative sums.
    """

    solver: AbstractEdgeSolver
    schedule: AbstractSchedule

    def __init__(
        self,
        solver: AbstractTridiagonalSolver | AbstractEdgeSolver = ODD_EVEN_ELIMINATION,
        schedule: AbstractSchedule = DOUBLING,
    ):
        self.solver = ChainsAndNodes(solver) if isinstance(solver, AbstractTridiagonalSolver) else solver
        self.schedule = schedule

    def solve(
        self,
        model: Model,
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        tau: Float[Array, "nv"],
        f_ext: Float[Array, "nb 6"],
    ) -> Velocity:
        return self.solve_with_wrenches(model, q, v, tau, f_ext)[0]

    def solve_with_wrenches(
        self,
        model: Model,
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        tau: Float[Array, "nv"],
        f_ext: Float[Array, "nb 6"],
    ) -> tuple[Velocity, Float[Array, "nb 6"]]:
        """Wrenches `F = T tau + G y`, with y such that no body moves against its joint.

        With the accelerations `a0` of the bodies at `y = 0`, `A y = -G^T (a0 - X a0_parent - bias)`.
        """
        tree = model.topology.schedule
        motion = scan_motions(model, q, v, self.schedule)
        world = model.spatial_inertia.rotated(motion.rotation)
        compliance = _compliances(model, motion.rotation)
        joint = _joint_bases(motion.subspace, pad_dofs(model, model.armature), pad_dofs(model, jnp.ones_like(v)))
        bias = bias_wrench(world, motion.angular, f_ext)
        base = fictitious_acceleration(model).astype(q.dtype)

        def relative_acceleration(wrench: Array) -> Array:
            """Of all bodies against their joints' motion at zero joint acceleration, under the joints' wrenches."""
            from_children = sum_of_children(tree, shift_force(wrench, motion.offset))
            acceleration = matvec(compliance, wrench - from_children - bias)
            parent = from_parents(tree, acceleration, base)
            return acceleration - shift_motion(parent, motion.offset) - motion.bias

        carried = shift_force_columns(joint.constraint, motion.offset)
        system = EdgeSystem(tree, joint.constraint, carried, world.as_matrix(), compliance, joint.extra)
        active = matvec(joint.active, pad_dofs(model, tau))
        against = matvec(transpose(joint.constraint), relative_acceleration(active))
        y = self.solver.solve(system, -against[..., None])[..., 0]
        wrench = active + matvec(joint.constraint, y)
        qdd = matvec(transpose(joint.active), relative_acceleration(wrench))
        return unpad_dofs(model, qdd), wrench

    def inverse_schedule(self) -> AbstractSchedule:
        return self.schedule

    def refuse(self, model: Model) -> None:
        refuse_bodies_without_inertia(model)


class JointBases(NamedTuple):
    """Bases of the wrenches that joints transmit.

    **Fields:** `active` T, with `S^T T = 1`; `constraint` G; `extra` E of the system's diagonal (see `_joint_bases`).
    """

    active: Float[Array, "nb 6 d"]
    constraint: Float[Array, "nb 6 6"]
    extra: Float[Array, "nb 6 6"]


def _joint_bases(
    subspace: Float[Array, "nb 6 d"], armature: Float[Array, "nb d"], present: Float[Array, "nb d"]
) -> JointBases:
    """The same shapes for joints of every kind, without constraint bases of their own size.

    `G = 1 - T S^T + T sqrt(J) S^T`: the projector on the constraint wrenches, whatever their number, and in the
    directions that it leaves out the torque that accelerates the armature J. There `E = S S^T` is on the diagonal;
    without armature those unknowns are zero. No basis is chosen, so everything is smooth in q.
    """
    dtype, d = subspace.dtype, subspace.shape[-1]
    gram = matmul(transpose(subspace), subspace) + (1 - present)[..., None] * jnp.eye(d, dtype=dtype)
    active = transpose(ldl_solve(ldl_factor(gram), transpose(subspace)))
    free = matmul(active * (1 - jnp.sqrt(armature))[..., None, :], transpose(subspace))
    return JointBases(active, jnp.eye(6, dtype=dtype) - free, matmul(subspace, transpose(subspace)))


def _compliances(model: Model, rotation: Float[Array, "nb 3 3"]) -> Float[Array, "nb 6 6"]:
    """Inverse inertias of the bodies about their origins, world axes."""
    about_com = matmul(matmul(rotation, spd_inverse(model.inertia)), transpose(rotation))
    return inverse_inertia(model.mass, matvec(rotation, model.com), about_com)
