"""Forward dynamics by the articulated-body algorithm."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._motion import BodyMotion, bias_wrench, fictitious_acceleration, split_bodies, sweep_motions
from .._precise import product
from .._small import matmul, matvec, transpose
from .._types import BodyForcesLike, ConfigurationLike, Velocity, VelocityLike
from ..model import Model, join_dofs, split_dofs
from ..spatial import Inertia, shift_force, shift_force_columns, shift_motion
from ..structured import LDL, AbstractSchedule, Doubling, Sequential, ldl_solve
from ..structured._tree_sweep import sweep_inward, sweep_outward
from ._articulated_body_scan import solve_by_scans, wrenches_by_scans
from ._joint_elimination import eliminate_joint, shift_inertia
from ._method import AbstractForwardDynamics, AbstractMassSolver, solve_forward_dynamics
from ._suitability import refuse_joints_without_inertia, refuse_massless_subtrees

_SCHEDULES = ("sequential", "hybrid", "scan")


class ABA(AbstractForwardDynamics):
    """Articulated-body algorithm (Featherstone, RBDA, table 7.1): three sweeps over the bodies, O(n).

    The equation of motion of body i and all that it carries is `F = I^A A + p^A`. Eliminating the acceleration of
    its joint, with `U = I^A S` and `D = S^T U + armature`, leaves the parent with

        I^a = I^A - U D^-1 U^T,    p^a = p^A + I^a bias + U D^-1 (tau - S^T p^A)

    shifted to its origin. Here everything is in world axes about the bodies' origins.

    **Fields:** `schedule`: "sequential"; "hybrid", where only the inertias are found one after the other and all else
    by scans (Yang, Wu & Pan 2016); "scan", where these are found by a scan too, in logarithmic depth. The last needs
    every joint to move some inertia of its own body, or armature.
    """

    schedule: str = eqx.field(static=True, default="sequential")

    def __check_init__(self):
        if self.schedule not in _SCHEDULES:
            names = ", ".join(map(repr, _SCHEDULES))
            raise ValueError(f"schedule must be one of {names}, got {self.schedule!r}.")

    def solve(
        self,
        model: Model,
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        tau: Float[Array, "nv"],
        f_ext: Float[Array, "nb 6"],
    ) -> Velocity:
        return self.solve_and_factor(model, q, v, tau, f_ext)[0]

    def solve_and_factor(
        self,
        model: Model,
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        tau: Float[Array, "nv"],
        f_ext: Float[Array, "nb 6"],
    ) -> tuple[Velocity, AbstractMassSolver]:
        if self.schedule == "sequential":
            return _sequential(model, q, v, tau, f_ext)
        return solve_by_scans(model, q, v, tau, f_ext, by_scan=self.schedule == "scan")

    def solve_with_wrenches(
        self,
        model: Model,
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        tau: Float[Array, "nv"],
        f_ext: Float[Array, "nb 6"],
    ) -> tuple[Velocity, Float[Array, "nb 6"]]:
        if self.schedule == "sequential":
            return super().solve_with_wrenches(model, q, v, tau, f_ext)
        return wrenches_by_scans(model, q, v, tau, f_ext, by_scan=self.schedule == "scan")

    def inverse_schedule(self) -> AbstractSchedule:
        return Sequential() if self.schedule == "sequential" else Doubling()

    def refuse(self, model: Model) -> None:
        refuse_massless_subtrees(model)
        if self.schedule == "scan":
            refuse_joints_without_inertia(model)


def aba(
    model: Model, q: ConfigurationLike, v: VelocityLike, tau: VelocityLike, f_ext: BodyForcesLike | None = None
) -> Velocity:
    """`forward_dynamics` by the articulated-body algorithm."""
    return solve_forward_dynamics(ABA(), model, q, v, tau, f_ext)


class _Joint(eqx.Module):
    """What solutions with the mass matrix need of a joint; leading axes are bodies of a segment."""

    offset: Float[Array, "*n 3"]
    subspace: Float[Array, "*n 6 d"]
    pivot: LDL
    gain: Float[Array, "*n d 6"]


class _Eliminated(AbstractMassSolver):
    """The eliminated joints, by segment: two short sweeps for each right-hand side."""

    joints: list[_Joint]

    def solve(self, model: Model, b: Float[Array, "nv"]) -> Velocity:
        schedule, zero = model.topology.schedule, jnp.zeros(6, b.dtype)

        def inward(children: Array, x: tuple[_Joint, Array]):
            joint, b = x
            left = b - matvec(transpose(joint.subspace), children)
            message = shift_force(children + matvec(transpose(joint.gain), left), joint.offset)
            return message, ldl_solve(joint.pivot, left)

        def outward(parent: Array, x: tuple[_Joint, Array]):
            joint, free = x
            carried = shift_motion(parent, joint.offset)
            found = free - matvec(joint.gain, carried)
            return carried + matvec(joint.subspace, found), found

        free = sweep_inward(schedule, inward, zero, list(zip(self.joints, split_dofs(model, b), strict=True)))
        return join_dofs(model, sweep_outward(schedule, outward, zero, list(zip(self.joints, free, strict=True))))

    def inverse(self, model: Model, dtype: jnp.dtype) -> Float[Array, "nv nv"]:
        # `M^-1 = W^T D^-1 W`, where W takes one sweep; columns come last, so that loops run over them.
        def inward(children: Array, x: tuple[_Joint, Array]):
            joint, b = x
            left = b - matmul(transpose(joint.subspace), children)
            return shift_force_columns(children + matmul(transpose(joint.gain), left), joint.offset), left

        identity = split_dofs(model, jnp.eye(model.nv, dtype=dtype))
        zero = jnp.zeros((6, model.nv), dtype)
        rows = sweep_inward(model.topology.schedule, inward, zero, list(zip(self.joints, identity, strict=True)))
        solved = [ldl_solve(joint.pivot, row) for joint, row in zip(self.joints, rows, strict=True)]
        left, right = join_dofs(model, rows).T, join_dofs(model, solved)
        return product(left, right)


def _sequential(model: Model, q: Array, v: Array, tau: Array, f_ext: Array) -> tuple[Velocity, AbstractMassSolver]:
    schedule = model.topology.schedule
    links = sweep_motions(model, q, v, lambda _, motion: (None, motion))
    bodies = split_bodies(model, model.spatial_inertia), split_bodies(model, f_ext)
    armature = _padded_armature(model), split_dofs(model, tau)
    zero = jnp.zeros((6, 6), q.dtype), jnp.zeros(6, q.dtype)
    gains = sweep_inward(schedule, _inward, zero, list(zip(links, *bodies, *armature, strict=True)))
    base = fictitious_acceleration(model).astype(q.dtype)
    visits = [(motion, gain, free) for motion, (gain, free, _) in zip(links, gains, strict=True)]
    joints = [
        _Joint(motion.offset, motion.subspace, pivot, gain)
        for motion, (gain, _, pivot) in zip(links, gains, strict=True)
    ]
    return join_dofs(model, sweep_outward(schedule, _outward, base, visits)), _Eliminated(joints)


def _padded_armature(model: Model) -> list[Float[Array, "_ _"]]:
    """Armature by segment; one for coordinates that a body lacks, which makes their rows of D the identity's."""
    present = split_dofs(model, jnp.ones_like(model.armature))
    return [
        armature + (1 - exists) for armature, exists in zip(split_dofs(model, model.armature), present, strict=True)
    ]


def _inward(children: tuple[Array, Array], link: tuple[BodyMotion, Inertia, Array, Array, Array]):
    motion, inertia, f_ext, armature, tau = link
    inertia = inertia.rotated(motion.rotation)
    joint = eliminate_joint(children[0] + inertia.as_matrix(), motion.subspace, armature)
    bias = children[1] + bias_wrench(inertia, motion.angular, f_ext)
    free = ldl_solve(joint.pivot, tau - matvec(transpose(motion.subspace), bias))
    bias = bias + matvec(joint.apparent, motion.bias) + matvec(joint.force, free)
    message = shift_inertia(joint.apparent, motion.offset), shift_force(bias, motion.offset)
    return message, (joint.gain, free, joint.pivot)


def _outward(parent: Float[Array, "6"], link: tuple[BodyMotion, Array, Array]):
    motion, gain, free = link
    carried = motion.carried(parent)
    qdd = free - matvec(gain, carried)
    return carried + matvec(motion.subspace, qdd), qdd
