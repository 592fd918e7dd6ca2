"""The articulated-body algorithm without a loop over bodies."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from .._motion import BodyMotion, bias_wrench, fictitious_acceleration
from .._motion_scan import scan_motions
from .._small import matmul, matvec, transpose
from .._types import Velocity
from ..model import Model, pad_dofs, unpad_dofs
from ..spatial import Inertia, shift_force, shift_force_columns, shift_motion
from ..structured import Doubling, TreeSchedule, TwoPort, ldl_solve, star_product
from ..structured._scan import compose_affine
from ..structured._tree_scan import from_parents, sum_of_children
from ..structured._tree_sweep import sweep_inward
from ._joint_elimination import JointElimination, eliminate_joint, shift_inertia

DOUBLING = Doubling()


class Links(eqx.Module):
    """All bodies at once, with joints padded to the same number d of degrees of freedom."""

    motion: BodyMotion
    inertia: Inertia
    armature: Float[Array, "nb d"]


def hybrid_aba(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
) -> Velocity:
    """Articulated inertias one after the other, all else by scans (Yang, Wu & Pan 2016, sec. II-C)."""

    def step(children: Array, link: tuple[Inertia, BodyMotion, Array]):
        inertia, motion, armature = link
        joint = eliminate_joint(children + inertia.as_matrix(), motion.subspace, armature)
        return shift_inertia(joint.apparent, motion.offset), joint

    links = _links(model, q, v)
    bodies = links.inertia, links.motion, links.armature
    (joints,) = sweep_inward(model.topology.schedule, step, jnp.zeros((6, 6), q.dtype), [bodies])
    return _accelerations(model, links, joints, tau, f_ext)


def scan_aba(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
) -> Velocity:
    """Articulated inertias by a scan, too: a body with its joint is a two-port, and these connect associatively.

    On trees heavy paths are scanned, those that end in leaves first; the others then carry them as rigid loads.
    """
    links = _links(model, q, v)
    tree = model.topology.schedule
    own = links.inertia.as_matrix()
    articulated = own + sum_of_children(tree, _felt_by_parents(tree, own, links))
    joints = jax.vmap(eliminate_joint)(articulated, links.motion.subspace, links.armature)
    return _accelerations(model, links, joints, tau, f_ext)


def _links(model: Model, q: Array, v: Array) -> Links:
    motion = scan_motions(model, q, v, DOUBLING)
    armature = pad_dofs(model, model.armature, missing=1.0)
    return Links(motion, model.spatial_inertia.rotated(motion.rotation), armature)


def _felt_by_parents(tree: TreeSchedule, own: Float[Array, "nb 6 6"], links: Links) -> Float[Array, "nb 6 6"]:
    """Articulated inertias of all bodies as felt by their parents, across their joints and at the parents' origins."""
    paths = tree.heavy_paths
    parents = jnp.asarray(tree.parents)
    # A path's last slot comes first in the scan, and starts it anew.
    restarts = jnp.roll(jnp.asarray(paths.heads), -1, axis=1)

    def layer(loads: Array, x: tuple[Array, Array, Array]):
        nodes, heads, restart = x
        motion, armature = jax.tree.map(lambda x: x[nodes], (links.motion, links.armature))
        ports = jax.vmap(_two_port)(loads[nodes], motion, armature)
        _, series = DOUBLING.scan(_connect, (restart, ports), reverse=True)
        # Heads hand their load on; what does not exist goes to a place that nothing reads.
        nowhere = len(own)
        target = jnp.where(heads & (nodes >= 0) & (parents[nodes] >= 0), parents[nodes], nowhere)
        return loads.at[target].add(series.stiffness, mode="drop"), series.stiffness

    nodes, heads = jnp.asarray(paths.nodes), jnp.asarray(paths.heads)
    _, felt = lax.scan(layer, own, (nodes, heads, restarts), reverse=True)
    return jnp.zeros_like(own).at[jnp.where(nodes >= 0, nodes, len(own))].set(felt, mode="drop")


def _connect(outer: tuple[Array, TwoPort], inner: tuple[Array, TwoPort]) -> tuple[Array, TwoPort]:
    """Series connection, except where a new path begins."""
    (restarted, after), (restarts, before) = outer, inner
    together = star_product(before, after)
    return restarted | restarts, jax.tree.map(lambda x, y: jnp.where(restarts, x, y), before, together)


def _two_port(inertia: Float[Array, "6 6"], motion: BodyMotion, armature: Float[Array, "d"]) -> TwoPort:
    """A body and its joint: from the parent's origin to the body's."""
    subspace = motion.subspace
    joint = eliminate_joint(inertia, subspace, armature)
    transfer = jnp.eye(6, dtype=inertia.dtype) - matmul(subspace, joint.gain)
    compliance = matmul(subspace, ldl_solve(joint.pivot, transpose(subspace)))
    return TwoPort(_shift_columns(transfer, motion.offset), compliance, shift_inertia(joint.apparent, motion.offset))


def _accelerations(
    model: Model, links: Links, joints: JointElimination, tau: Float[Array, "nv"], f_ext: Float[Array, "nb 6"]
) -> Velocity:
    """The articulated-body algorithm from the inertias on: two affine recurrences, inwards and outwards."""
    tree, motion = model.topology.schedule, links.motion
    subspace, torque = motion.subspace, pad_dofs(model, tau)
    identity = jnp.eye(6, dtype=tau.dtype)
    free_motion = _shift_columns(identity - matmul(subspace, joints.gain), motion.offset)
    # What a joint passes to the parent besides (1 - U D^-1 S^T) p.
    passed = matvec(joints.apparent, motion.bias) + matvec(transpose(joints.gain), torque)
    own = bias_wrench(links.inertia, motion.angular, f_ext)
    own = own + sum_of_children(tree, shift_force(passed, motion.offset))
    bias = DOUBLING.inward(tree, free_motion, own[..., None])[..., 0]
    free = ldl_solve(joints.pivot, torque - matvec(transpose(subspace), bias))
    drift = motion.bias + matvec(subspace, free - matvec(joints.gain, motion.bias))
    base = fictitious_acceleration(model).astype(tau.dtype)
    is_root = jnp.asarray(tree.parents < 0)[:, None]
    drift = drift + jnp.where(is_root, matvec(free_motion, base), 0)
    acceleration = DOUBLING.outward(tree, compose_affine, (free_motion, drift[..., None]))[1][..., 0]
    carried = shift_motion(from_parents(tree, acceleration, base), motion.offset) + motion.bias
    return unpad_dofs(model, free - matvec(joints.gain, carried))


def _shift_columns(matrix: Float[Array, "*n 6 6"], r: Float[Array, "*n 3"]) -> Float[Array, "*n 6 6"]:
    """`A X` with the shift X of motions from the parent's origin."""
    return transpose(shift_force_columns(transpose(matrix), r))
