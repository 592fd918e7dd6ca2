"""The articulated-body algorithm without a loop over bodies, or with one for the inertias only."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from .._motion import bias_wrench, fictitious_acceleration
from .._small import matvec, transpose
from .._types import Velocity
from ..model import Model, pad_dofs, unpad_dofs
from ..spatial import shift_force, shift_motion
from ..structured import ldl_solve
from ..structured._scan import DOUBLING, compose_affine
from ..structured._tree_scan import from_parents, sum_of_children
from ._articulated_joints import Links, eliminate_by_scan, eliminate_by_sweep, free_motions, links
from ._joint_elimination import JointElimination


def hybrid_aba(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
) -> tuple[Velocity, Float[Array, "nb 6"]]:
    """Articulated inertias one after the other, all else by scans (Yang, Wu & Pan 2016, sec. II-C)."""
    bodies = links(model, q, v, DOUBLING)
    return _accelerations(model, bodies, eliminate_by_sweep(bodies), tau, f_ext)


def scan_aba(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
) -> tuple[Velocity, Float[Array, "nb 6"]]:
    """Articulated inertias by a scan, too."""
    bodies = links(model, q, v, DOUBLING)
    return _accelerations(model, bodies, eliminate_by_scan(bodies), tau, f_ext)


class _State(eqx.Module):
    """What the equations of motion of all bodies tie together, and what is given on their right-hand sides.

    **Fields:** accelerations of the `bodies`, `wrench` that joints transmit, accelerations `joints`. As a residual: of
    `A = X A_parent + S qdd`, `F - sum of X^T F_child = I A` and `S^T F + J qdd = 0`.
    """

    bodies: Float[Array, "nb 6"]
    wrench: Float[Array, "nb 6"]
    joints: Float[Array, "nb d"]


def _accelerations(
    model: Model, bodies: Links, joints: JointElimination, tau: Float[Array, "nv"], f_ext: Float[Array, "nb 6"]
) -> tuple[Velocity, Float[Array, "nb 6"]]:
    """Joint accelerations and wrenches from the articulated inertias, with one step of iterative refinement.

    That makes up for digits that products of two-ports lose where a joint moves little inertia of its own body. Its
    residuals are those of the equations of single bodies, so they do not suffer from the length of the mechanism.
    """
    motion, tree = bodies.motion, bodies.tree
    base = fictitious_acceleration(model).astype(tau.dtype)
    given = _State(motion.bias, bias_wrench(bodies.inertia, motion.angular, f_ext), pad_dofs(model, tau))

    def refine(_, x: _State) -> _State:
        parent = shift_motion(from_parents(tree, x.bodies, base), motion.offset)
        children = sum_of_children(tree, shift_force(x.wrench, motion.offset))
        armature = pad_dofs(model, model.armature)
        residual = _State(
            given.bodies + parent + matvec(motion.subspace, x.joints) - x.bodies,
            given.wrench + bodies.inertia.mv(x.bodies) - (x.wrench - children),
            given.joints - matvec(transpose(motion.subspace), x.wrench) - armature * x.joints,
        )
        return jax.tree.map(jnp.add, x, _solve(bodies, joints, residual))

    found = lax.fori_loop(0, 2, refine, jax.tree.map(jnp.zeros_like, given))
    return unpad_dofs(model, found.joints), found.wrench


def _solve(bodies: Links, joints: JointElimination, given: _State) -> _State:
    """The articulated-body algorithm from the inertias on: two affine recurrences, inwards and outwards."""
    tree, motion, subspace = bodies.tree, bodies.motion, bodies.motion.subspace
    free_motion = free_motions(bodies, joints)
    # What a joint passes to the parent besides (1 - U D^-1 S^T) p.
    passed = matvec(joints.apparent, given.bodies) + matvec(transpose(joints.gain), given.joints)
    own = given.wrench + sum_of_children(tree, shift_force(passed, motion.offset))
    bias = DOUBLING.inward(tree, free_motion, own[..., None])[..., 0]
    free = ldl_solve(joints.pivot, given.joints - matvec(transpose(subspace), bias))
    drift = given.bodies + matvec(subspace, free - matvec(joints.gain, given.bodies))
    acceleration = DOUBLING.outward(tree, compose_affine, (free_motion, drift[..., None]))[1][..., 0]
    parent = from_parents(tree, acceleration, jnp.zeros(6, acceleration.dtype))
    carried = shift_motion(parent, motion.offset) + given.bodies
    return _State(acceleration, matvec(joints.articulated, acceleration) + bias, free - matvec(joints.gain, carried))
