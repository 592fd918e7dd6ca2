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
    along_paths = Doubling(longest=paths.longest)
    # A path's last slot comes first in the scan, and starts it anew.
    restarts = jnp.roll(jnp.asarray(paths.heads), -1, axis=1)

    def layer(loads: Array, x: tuple[Array, Array, Array]):
        nodes, heads, restart = x
        motion, armature = jax.tree.map(lambda x: x[nodes], (links.motion, links.armature))
        ports = jax.vmap(_two_port)(loads[nodes], motion, armature)
        _, series = along_paths.scan(_connect, (restart, ports), reverse=True)
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


class _State(eqx.Module):
    """What the equations of motion of all bodies tie together, and what is given on their right-hand sides.

    **Fields:** accelerations of the `bodies`, `wrench` that joints transmit, accelerations `joints`. As a residual: of
    `A = X A_parent + S qdd`, `F - sum of X^T F_child = I A` and `S^T F + J qdd = 0`.
    """

    bodies: Float[Array, "nb 6"]
    wrench: Float[Array, "nb 6"]
    joints: Float[Array, "nb d"]


def _accelerations(
    model: Model, links: Links, joints: JointElimination, tau: Float[Array, "nv"], f_ext: Float[Array, "nb 6"]
) -> Velocity:
    """Joint accelerations from the articulated inertias, with one step of iterative refinement.

    That makes up for digits that products of two-ports lose where a joint moves little inertia of its own body. Its
    residuals are those of the equations of single bodies, so they do not suffer from the length of the mechanism.
    """
    motion, tree = links.motion, model.topology.schedule
    base = fictitious_acceleration(model).astype(tau.dtype)
    given = _State(motion.bias, bias_wrench(links.inertia, motion.angular, f_ext), pad_dofs(model, tau))

    def refine(_, x: _State) -> _State:
        parent = shift_motion(from_parents(tree, x.bodies, base), motion.offset)
        children = sum_of_children(tree, shift_force(x.wrench, motion.offset))
        armature = pad_dofs(model, model.armature)
        residual = _State(
            given.bodies + parent + matvec(motion.subspace, x.joints) - x.bodies,
            given.wrench + links.inertia.mv(x.bodies) - (x.wrench - children),
            given.joints - matvec(transpose(motion.subspace), x.wrench) - armature * x.joints,
        )
        return jax.tree.map(jnp.add, x, _solve(tree, links, joints, residual))

    nothing = jax.tree.map(jnp.zeros_like, given)
    return unpad_dofs(model, lax.fori_loop(0, 2, refine, nothing).joints)


def _solve(tree: TreeSchedule, links: Links, joints: JointElimination, given: _State) -> _State:
    """The articulated-body algorithm from the inertias on: two affine recurrences, inwards and outwards."""
    motion, subspace = links.motion, links.motion.subspace
    identity = jnp.eye(6, dtype=given.bodies.dtype)
    free_motion = _shift_columns(identity - matmul(subspace, joints.gain), motion.offset)
    # What a joint passes to the parent besides (1 - U D^-1 S^T) p.
    passed = matvec(joints.apparent, given.bodies) + matvec(transpose(joints.gain), given.joints)
    own = given.wrench + sum_of_children(tree, shift_force(passed, motion.offset))
    bias = DOUBLING.inward(tree, free_motion, own[..., None])[..., 0]
    free = ldl_solve(joints.pivot, given.joints - matvec(transpose(subspace), bias))
    drift = given.bodies + matvec(subspace, free - matvec(joints.gain, given.bodies))
    bodies = DOUBLING.outward(tree, compose_affine, (free_motion, drift[..., None]))[1][..., 0]
    carried = shift_motion(from_parents(tree, bodies, jnp.zeros(6, bodies.dtype)), motion.offset) + given.bodies
    return _State(bodies, matvec(joints.articulated, bodies) + bias, free - matvec(joints.gain, carried))


def _shift_columns(matrix: Float[Array, "*n 6 6"], r: Float[Array, "*n 3"]) -> Float[Array, "*n 6 6"]:
    """`A X` with the shift X of motions from the parent's origin."""
    return transpose(shift_force_columns(transpose(matrix), r))
