"""The mass matrix in factors, and the sweeps with them on which algorithms in operator form are built.

With `S` of all joints, `phi` the shifts of wrenches from bodies to those that carry them, and the gains
`G = I^A S D^-1` of the articulated-body algorithm (Rodriguez & Kreutz 1992; their H is `S^T`, body by body):

    M = H phi I phi^T H^T + armature = (1 + H Phi K) D (1 + H Phi K)^T,    (1 + H Phi K)^-1 = 1 - H Psi K

Here in world axes about the bodies' own origins, with classical accelerations.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._small import cross, matvec, transpose
from ..model import Model, pad_dofs, unpad_dofs
from ..motion import BodyMotions, fictitious_acceleration, scan_velocities, scan_wrenches
from ..spatial import Inertia, pack, shift_force, shift_motion
from ..structured import AbstractSchedule, ldl_solve
from ..structured._scan import compose_affine
from ..structured._tree_scan import from_parents, sum_of_children
from ._articulated_joints import Links, eliminate_by_scan, eliminate_by_sweep, free_motions, links
from ._joint_elimination import JointElimination


class Factors(eqx.Module):
    """The factors of the mass matrix in a state.

    **Fields:** `schedule` of the sweeps; the `bodies` as they move; their eliminated `joints`.
    """

    model: Model
    schedule: AbstractSchedule
    bodies: Links
    joints: JointElimination


class LinkVector(eqx.Module):
    """What the equations of motion of all bodies tie together, or what is given on their right-hand sides.

    **Fields:** accelerations of the `bodies`, `wrench` that joints transmit, accelerations of the `joints`. Given: of
    `A = X A_parent + S qdd + bodies`, `F = sum of X^T F_child + I A + wrench` and `S^T F + armature qdd = joints`.
    """

    bodies: Float[Array, "nb 6"]
    wrench: Float[Array, "nb 6"]
    joints: Float[Array, "nb d"]


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
    return scan_velocities(model.topology, motion.offset, motion.bias, schedule) + base


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
