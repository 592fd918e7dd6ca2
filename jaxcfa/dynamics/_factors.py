"""The mass matrix in factors, and the sweeps with them on which algorithms in operator form are built.

With `S` of all joints, `phi` the shifts of wrenches from bodies to those that carry them, and the gains
`G = I^A S D^-1` of the articulated-body algorithm (Rodriguez & Kreutz 1992; their H is `S^T`, body by body):

    M = H phi I phi^T H^T + armature = (1 + H Phi K) D (1 + H Phi K)^T,    (1 + H Phi K)^-1 = 1 - H Psi K

Here in world axes about the bodies' own origins, with classical accelerations.
"""

import abc
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model import Model, pad_dofs, unpad_dofs
from ..motion import BodyMotions, fictitious_acceleration, scan_velocities, scan_wrenches
from ..numerics import cross, matmul, matvec, symmetrise, transpose
from ..spatial import Inertia, pack, shift_force, shift_motion
from ..structured import LDL, AbstractSchedule, ldl_solve
from ..structured._scan import compose_affine
from ..structured._tree_scan import from_parents, sum_of_children
from ._articulated_joints import Links, eliminate_by_scan, eliminate_by_sweep, free_motions, links
from ._joint_elimination import JointElimination


class AbstractFactors(eqx.Module):
    """`M = L D L^T` of a `model` in a state, with `L = 1 + H Phi K`; all its products take and give vectors (nv,)."""

    model: eqx.AbstractVar[Model]

    @property
    @abc.abstractmethod
    def dtype(self) -> jnp.dtype:
        """Floating-point type of the factors."""

    @property
    @abc.abstractmethod
    def stored_pivots(self) -> list[Array]:
        """The pivots of the blocks of D as they are stored, ones included for coordinates that bodies lack."""

    @abc.abstractmethod
    def mass_product(self, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """`M x`, without factors."""

    @abc.abstractmethod
    def lower(self, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """`L x`, inwards: what arrives at a joint from those that it carries."""

    @abc.abstractmethod
    def lower_transpose(self, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """`L^T x`, outwards."""

    @abc.abstractmethod
    def lower_inverse(self, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """`(1 - H Psi K) x`, inwards: torques less what the bodies that a joint carries make it feel."""

    @abc.abstractmethod
    def lower_inverse_transpose(self, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """`(1 - H Psi K)^T x`, outwards."""

    @abc.abstractmethod
    def in_joints(self, function: Callable[[LDL, Array], Array], x: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """`function(pivot, x)` of all joints, with their factorised blocks of D: (n d d) and (n d) of n bodies."""

    @abc.abstractmethod
    def inverse_diagonal(self) -> Float[Array, "nv"]:
        """The diagonal of `M^-1`."""

    def pivots(self) -> Float[Array, "nv"]:
        """The numbers that the blocks of D have as pivots."""
        return self.in_joints(lambda pivot, _: pivot.pivots, jnp.zeros(self.model.nv))


class Factors(AbstractFactors):
    """The factors in arrays over all bodies, with joints padded to the same number of degrees of freedom.

    **Fields:** `schedule` of the sweeps; the `bodies` as they move; their eliminated `joints`.
    """

    model: Model
    schedule: AbstractSchedule
    bodies: Links
    joints: JointElimination

    @property
    def dtype(self) -> jnp.dtype:
        return self.joints.gain.dtype

    @property
    def stored_pivots(self) -> list[Array]:
        return [self.joints.pivot.pivots]

    def mass_product(self, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
        return mass_product(self.model, self.schedule, self.bodies, x)

    def lower(self, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
        topology, motion = self.model.topology, self.bodies.motion
        given = matvec(transpose(self.joints.gain), pad_dofs(topology, x))
        arriving = scan_wrenches(topology, motion.offset, given, self.schedule) - given
        return unpad_dofs(topology, matvec(transpose(motion.subspace), arriving)) + x

    def lower_transpose(self, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
        topology, motion = self.model.topology, self.bodies.motion
        relative = matvec(motion.subspace, pad_dofs(topology, x))
        carried = scan_velocities(topology, motion.offset, relative, self.schedule) - relative
        return x + unpad_dofs(topology, matvec(self.joints.gain, carried))

    def lower_inverse(self, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
        return unpad_dofs(self.model.topology, filter_inward(self, torques_only(self.model, x))[1])

    def lower_inverse_transpose(self, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
        topology, nothing = self.model.topology, jnp.zeros((self.model.nb, 6), x.dtype)
        return unpad_dofs(topology, smooth_outward(self, pad_dofs(topology, x), nothing)[1])

    def in_joints(self, function: Callable[[LDL, Array], Array], x: Float[Array, "nv"]) -> Float[Array, "nv"]:
        topology = self.model.topology
        return unpad_dofs(topology, function(self.joints.pivot, pad_dofs(topology, x)))

    def inverse_diagonal(self) -> Float[Array, "nv"]:
        # `D^-1 + K^T X Omega X^T K` with the parent's mobility Omega, from `Omega = Y Omega_parent Y^T + S D^-1 S^T`.
        bodies, joints = self.bodies, self.joints
        own = matmul(bodies.motion.subspace, ldl_solve(joints.pivot, transpose(bodies.motion.subspace)))
        elements = free_motions(bodies, joints), own
        mobility = self.schedule.outward(bodies.tree, _compose_congruences, elements)[1]
        parent = from_parents(bodies.tree, mobility, jnp.zeros((6, 6), mobility.dtype))
        carried = transpose(shift_force(joints.gain, bodies.motion.offset[:, None]))
        identity = jnp.broadcast_to(jnp.eye(carried.shape[-1], dtype=carried.dtype), joints.pivot.lower.shape)
        blocks = ldl_solve(joints.pivot, identity) + matmul(transpose(carried), matmul(parent, carried))
        return unpad_dofs(self.model.topology, jnp.diagonal(blocks, axis1=-2, axis2=-1))


class LinkVector(eqx.Module):
    """The unknowns of the equations of motion of all bodies, or their right-hand sides.

    **Fields:** accelerations of the `bodies`, `wrench` that joints transmit, accelerations of the `joints`. Given: of
    `A = X A_parent + S qdd + bodies`, `F = sum of X^T F_child + I A + wrench` and `S^T F + armature qdd = joints`.
    """

    bodies: Float[Array, "nb 6"]
    wrench: Float[Array, "nb 6"]
    joints: Float[Array, "nb d"]


def torques_only(model: Model, tau: Float[Array, "nv"]) -> LinkVector:
    """Right-hand sides on which only the torques of the joints are not zero."""
    nothing = jnp.zeros((model.nb, 6), tau.dtype)
    return LinkVector(nothing, nothing, pad_dofs(model.topology, tau))


def factorise(model: Model, motions: BodyMotions, by_scan: bool) -> Factors:
    """The factors, with articulated inertias by a scan, or one after the other."""
    bodies = links(model, motions)
    joints = eliminate_by_scan(bodies, motions.schedule) if by_scan else eliminate_by_sweep(bodies)
    return Factors(model, motions.schedule, bodies, joints)


def bias_wrench(inertia: Inertia, angular: Float[Array, "*n 3"], f_ext: Float[Array, "*n 6"]) -> Float[Array, "*n 6"]:
    """`p` in a body's equation of motion `F = I A + p`: gyroscopic less external wrench.

    `p = [w x (J w); w x (w x h)] - f_ext` (Newton and Euler, about the body's origin).
    """
    moment = cross(angular, matvec(inertia.rotational, angular))
    return pack(moment, cross(angular, cross(angular, inertia.moment))) - f_ext


def mass_product(model: Model, schedule: AbstractSchedule, bodies: Links, x: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """`M x` by two sweeps of sums, without factors."""
    motion = bodies.motion
    acceleration = scan_velocities(
        model.topology, motion.offset, matvec(motion.subspace, pad_dofs(model.topology, x)), schedule
    )
    wrench = scan_wrenches(model.topology, motion.offset, bodies.inertia.mv(acceleration), schedule)
    return unpad_dofs(model.topology, matvec(transpose(motion.subspace), wrench)) + model.armature * x


def drift_accelerations(model: Model, schedule: AbstractSchedule, bodies: Links) -> Float[Array, "nb 6"]:
    """`xi = phi^T a`: accelerations at zero joint accelerations, in a world that accelerates against gravity."""
    motion = bodies.motion
    base = fictitious_acceleration(model).astype(motion.bias.dtype)
    return scan_velocities(model.topology, motion.offset, motion.bias, schedule) + base[None]


def drift_wrenches(
    model: Model,
    schedule: AbstractSchedule,
    bodies: Links,
    drift: Float[Array, "nb 6"],
    f_ext: Float[Array, "nb 6"],
) -> Float[Array, "nb 6"]:
    """`phi (I xi + b)`: what joints transmit at zero joint accelerations."""
    wrench = bodies.inertia.mv(drift) + bias_wrench(bodies.inertia, bodies.motion.angular, f_ext)
    return scan_wrenches(model.topology, bodies.motion.offset, wrench, schedule)


def filter_inward(factors: Factors, given: LinkVector) -> tuple[Float[Array, "nb 6"], Float[Array, "nb d"]]:
    """`z`, wrenches on bodies whose own and outer joints are free, and `eps = tau - H z`, what is left for the joints.

    `z = wrench + sum over children of X^T ((1 - G S^T) z + G tau + I^a drift)`.
    """
    bodies, joints, tree = factors.bodies, factors.joints, factors.bodies.tree
    passed = matvec(joints.apparent, given.bodies) + matvec(transpose(joints.gain), given.joints)
    own = given.wrench + sum_of_children(tree, shift_force(passed, bodies.motion.offset))
    bias = factors.schedule.inward(tree, free_motions(bodies, joints), own[..., None])[..., 0]
    return bias, given.joints - matvec(transpose(bodies.motion.subspace), bias)


def smooth_outward(
    factors: Factors, free: Float[Array, "nb d"], drift: Float[Array, "nb 6"]
) -> tuple[Float[Array, "nb 6"], Float[Array, "nb d"]]:
    """Accelerations of bodies and joints from those that joints have on parents at rest, `free = D^-1 eps`.

    `A = X A_parent + drift + S qdd` with `qdd = free - G^T (X A_parent + drift)`.
    """
    bodies, joints, tree = factors.bodies, factors.joints, factors.bodies.tree
    motion = bodies.motion
    own = drift + matvec(motion.subspace, free - matvec(joints.gain, drift))
    elements = free_motions(bodies, joints), own[..., None]
    acceleration = factors.schedule.outward(tree, compose_affine, elements)[1][..., 0]
    parent = from_parents(tree, acceleration, jnp.zeros(6, acceleration.dtype))
    return acceleration, free - matvec(joints.gain, shift_motion(parent, motion.offset) + drift)


def solve_links(factors: Factors, given: LinkVector) -> LinkVector:
    """The equations of motion of all bodies: the articulated-body algorithm from the inertias on."""
    bias, left = filter_inward(factors, given)
    acceleration, qdd = smooth_outward(factors, ldl_solve(factors.joints.pivot, left), given.bodies)
    return LinkVector(acceleration, matvec(factors.joints.articulated, acceleration) + bias, qdd)


def _compose_congruences(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    """The map `C -> Y C Y^T + B`, given as (Y, B), that applies `first`, then `second`."""
    (y1, b1), (y2, b2) = first, second
    return matmul(y2, y1), symmetrise(matmul(matmul(y2, b1), transpose(y2))) + b2
