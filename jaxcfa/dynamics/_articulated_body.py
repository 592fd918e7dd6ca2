"""Forward dynamics by the articulated-body algorithm."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model import Model, join_dofs, pad_dofs, split_bodies, split_dofs, unpad_dofs
from ..model._arguments import check_instance
from ..motion import BodyMotions, Link, fictitious_acceleration, resting_world
from ..numerics import add, matmul, matvec, product, transpose
from ..spatial import ArticulatedInertia, Force, Motion, shift_force, shift_force_columns, shift_motion
from ..structured import AbstractSchedule, Doubling, Sequential, ldl_solve
from ..structured._rounds import rounds
from ..structured._small_spd import root_solve
from ..structured._tree_scan import from_parents, sum_of_children
from ..structured._tree_sweep import inward, outward
from ..typing import BodyForces, Velocity
from ._factors import Factors, LinkVector, bias_wrench, factorise, solve_links, torques_only
from ._joint_elimination import eliminate
from ._method import AbstractForwardDynamics, AbstractMassSolver, Loads
from ._suitability import refuse_joints_without_inertia, refuse_massless_subtrees
from ._swept_factors import (
    SweptJoint,
    in_joints,
    lower_inverse,
    lower_inverse_transpose,
    padded_armature,
    swept_joints,
)

_SCHEDULES = ("sequential", "hybrid", "scan")


class ABA(AbstractForwardDynamics):
    """Articulated-body algorithm (Featherstone, RBDA, table 7.1): three sweeps over the bodies, O(n).

    The equation of motion of body i and all that it carries is `F = I^A A + p^A`. Eliminating the acceleration of
    its joint, with `U = I^A S` and `D = S^T U + armature`, leaves the parent with

        I^a = I^A - U D^-1 U^T,    p^a = p^A + I^a bias + U D^-1 (tau - S^T p^A)

    shifted to its origin. Here everything is in world axes about the bodies' origins.

    **Fields:** `schedule`: "sequential"; "hybrid", where only the inertias are found one after the other and all else
    by scans (Yang, Wu & Pan 2016); "scan", where these are found by a scan too, in logarithmic depth; or a schedule of
    `jaxcfa.structured` for those scans, such as `Distributed(...)`, where "scan" takes `Doubling()`. Scans need every
    joint to move some inertia of its own body, or armature.
    """

    schedule: str | AbstractSchedule = eqx.field(static=True, default="sequential")

    def __post_init__(self):
        # One object for one algorithm, so that it is compiled once.
        if isinstance(self.schedule, Sequential):
            self.schedule = "sequential"
        if isinstance(self.schedule, Doubling):
            self.schedule = "scan"

    def __check_init__(self):
        if self.schedule not in _SCHEDULES:
            names = ", ".join(map(repr, _SCHEDULES))
            check_instance("schedule", self.schedule, AbstractSchedule, f"one of {names}, or of jaxcfa.structured")

    @property
    def _by_scan(self) -> bool:
        return self.schedule not in ("sequential", "hybrid")

    def solve(self, model: Model, motions: BodyMotions, loads: Loads) -> Velocity:
        return self.solve_and_factor(model, motions, loads)[0]

    def solve_and_factor(self, model: Model, motions: BodyMotions, loads: Loads) -> tuple[Velocity, AbstractMassSolver]:
        if self.schedule == "sequential":
            return _sequential(model, motions, loads)
        factors = factorise(model, motions, self._by_scan)
        return unpad_dofs(model.topology, _by_scans(factors, loads).joints), _RefinedSolver(factors)

    def solve_with_wrenches(self, model: Model, motions: BodyMotions, loads: Loads) -> tuple[Velocity, BodyForces]:
        if self.schedule == "sequential":
            return super().solve_with_wrenches(model, motions, loads)
        found = _by_scans(factorise(model, motions, self._by_scan), loads)
        return unpad_dofs(model.topology, found.joints), found.wrench

    def motion_schedule(self) -> AbstractSchedule:
        if isinstance(self.schedule, AbstractSchedule):
            return self.schedule
        return Sequential() if self.schedule == "sequential" else Doubling()

    def refuse(self, model: Model) -> None:
        refuse_massless_subtrees(model)
        if self._by_scan:
            refuse_joints_without_inertia(model)


class _Eliminated(AbstractMassSolver):
    """The eliminated joints, by segment: two short sweeps for each right-hand side."""

    joints: list[SweptJoint]

    def solve(self, model: Model, b: Float[Array, "nv"]) -> Velocity:
        topology, joints = model.topology, self.joints
        free = in_joints(topology, joints, ldl_solve, lower_inverse(topology, joints, b))
        return lower_inverse_transpose(topology, joints, free)

    def inverse(self, model: Model, dtype: jnp.dtype) -> Float[Array, "nv nv"]:
        rows = self._rows(model, dtype)
        solved = [ldl_solve(joint.pivot, row) for joint, row in zip(self.joints, rows, strict=True)]
        left, right = join_dofs(model.topology, rows).T, join_dofs(model.topology, solved)
        return product(left, right)

    def inverse_root(self, model: Model, dtype: jnp.dtype) -> Float[Array, "nv nv"]:
        rows = zip(self.joints, self._rows(model, dtype), strict=True)
        halves = [jax.vmap(root_solve, (None, -1), -1)(joint.pivot, row) for joint, row in rows]
        return join_dofs(model.topology, halves)

    def _rows(self, model: Model, dtype: jnp.dtype) -> list[Float[Array, "n d nv"]]:
        """W in `M^-1 = W^T D^-1 W`, by segment: one sweep; columns come last, so that loops run over them."""

        def step(children: Array, x: tuple[SweptJoint, Array]):
            joint, b = x
            left = b - matmul(transpose(joint.subspace.matrix()), children)
            message = children + matmul(joint.gain.matrix(), left)
            return shift_force_columns(message, joint.offset.array()), left

        identity = split_dofs(model.topology, jnp.eye(model.nv, dtype=dtype))
        zero = jnp.zeros((6, model.nv), dtype)
        return inward(model.topology.schedule, step, zero, list(zip(self.joints, identity, strict=True)))


def _sequential(model: Model, motions: BodyMotions, loads: Loads) -> tuple[Velocity, AbstractMassSolver]:
    topology, dtype = model.topology, loads.tau.dtype
    external = [Force.of(f) for f in split_bodies(topology, loads.f_ext)]
    forces = external, padded_armature(model), split_dofs(topology, loads.tau)
    zero = ArticulatedInertia.zero(dtype), Force.zero(dtype)
    gains = inward(topology.schedule, _eliminate, zero, list(zip(motions.links, *forces, strict=True)))
    visits = [(link, gain, free) for link, (gain, free, _) in zip(motions.links, gains, strict=True)]
    qdd = outward(topology.schedule, _accelerate, resting_world(model, dtype), visits)
    joints = swept_joints(motions, [(gain, pivot) for gain, _, pivot in gains])
    return join_dofs(topology, qdd), _Eliminated(joints)


def _eliminate(children: tuple[ArticulatedInertia, Force], x: tuple[Link, Force, Array, Array]):
    link, external, armature, tau = x
    joint = eliminate(children[0].plus(link.inertia), link.subspace, armature)
    bias = children[1] + link.inertia.gyroscopic(link.velocity.angular) - external
    free = ldl_solve(joint.pivot, tau - link.subspace.dot(bias))
    bias = bias + joint.apparent @ link.bias + joint.force.combined(free)
    message = joint.apparent.carried(link.offset), bias.carried(link.offset)
    return message, (joint.gain, free, joint.pivot)


def _accelerate(parent: Motion, x: tuple[Link, Force, Array]):
    link, gain, free = x
    carried = parent.at(link.offset) + link.bias
    qdd = free - carried.dot(gain)
    return carried + link.subspace.combined(qdd), qdd


class _RefinedSolver(AbstractMassSolver):
    """Solutions with the factors of the mass matrix, refined."""

    factors: Factors

    def solve(self, model: Model, b: Float[Array, "nv"]) -> Velocity:
        found = _refined(self.factors, torques_only(model, b), jnp.zeros(6, b.dtype))
        return unpad_dofs(model.topology, found.joints)


def _by_scans(factors: Factors, loads: Loads) -> LinkVector:
    """The solution by scans, from the articulated inertias on (Yang, Wu & Pan 2016, sec. II-C)."""
    model, bodies = factors.model, factors.bodies
    bias = bias_wrench(bodies.inertia, bodies.motion.angular, loads.f_ext)
    base = fictitious_acceleration(model).astype(loads.tau.dtype)
    return _refined(factors, LinkVector(bodies.motion.bias, bias, pad_dofs(model.topology, loads.tau)), base)


def _refined(factors: Factors, given: LinkVector, base: Float[Array, "6"]) -> LinkVector:
    """The equations of motion, from the articulated inertias on, with one step of iterative refinement.

    That makes up for digits that products of two-ports lose where a joint moves little inertia of its own body. Its
    residuals are those of the equations of single bodies, so they do not suffer from the length of the mechanism.
    """
    model, bodies = factors.model, factors.bodies
    motion, tree = bodies.motion, bodies.tree

    def refine(_, x: LinkVector) -> LinkVector:
        parent = shift_motion(from_parents(tree, x.bodies, base), motion.offset)
        children = sum_of_children(tree, shift_force(x.wrench, motion.offset))
        armature = pad_dofs(model.topology, model.armature)
        residual = LinkVector(
            given.bodies + parent + matvec(motion.subspace, x.joints) - x.bodies,
            given.wrench + bodies.inertia.mv(x.bodies) - (x.wrench - children),
            given.joints - matvec(transpose(motion.subspace), x.wrench) - armature * x.joints,
        )
        return add(x, solve_links(factors, residual))

    return rounds(2, refine, jax.tree.map(jnp.zeros_like, given))
