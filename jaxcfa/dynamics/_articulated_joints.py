"""Articulated inertias of all bodies, one after the other or by a scan."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..model import Model, join_bodies, pad_dofs
from ..motion import BodyArrays, BodyMotions, body_arrays
from ..numerics import choose, identity, matmul, transpose
from ..spatial import Inertia, shift_force_columns
from ..structured import AbstractSchedule, Doubling, TreeSchedule, TwoPort, ldl_solve, star_product
from ..structured._scan import doubled
from ..structured._tree_scan import sum_of_children
from ..structured._tree_sweep import sweep_inward
from ._joint_elimination import JointElimination, eliminate_joint, shift_inertia


class Links(eqx.Module):
    """All bodies at once, with joints padded to the same number d of degrees of freedom.

    **Fields:** `tree` of the bodies; their `motion` and `inertia`; `armature`, one where a degree of freedom lacks.
    """

    tree: TreeSchedule = eqx.field(static=True)
    motion: BodyArrays
    inertia: Inertia
    armature: Float[Array, "nb d"]


def links(model: Model, motions: BodyMotions) -> Links:
    """The bodies in a state."""
    motion = body_arrays(motions)
    armature = pad_dofs(model.topology, model.armature, missing=1.0).astype(motion.offset.dtype)
    inertia = join_bodies(
        model.topology,
        [Inertia(x.mass, x.moment.array(), x.rotational.array()) for x in (link.inertia for link in motions.links)],
    )
    inertia = jax.tree.map(lambda x: x.astype(motion.offset.dtype), inertia)
    return Links(model.topology.schedule, motion, inertia, armature)


def eliminate_by_sweep(bodies: Links) -> JointElimination:
    """All joints (nb), from the leaves to the root."""

    def step(children: Array, link: tuple[Inertia, BodyArrays, Array]):
        inertia, motion, armature = link
        joint = eliminate_joint(children + inertia.as_matrix(), motion.subspace, armature)
        return shift_inertia(joint.apparent, motion.offset), joint

    zero = jnp.zeros((6, 6), bodies.armature.dtype)
    return sweep_inward(bodies.tree, step, zero, [(bodies.inertia, bodies.motion, bodies.armature)])[0]


def eliminate_by_scan(bodies: Links, schedule: AbstractSchedule) -> JointElimination:
    """All joints (nb) by a scan: a body with its joint is a two-port, and these connect associatively.

    On trees heavy paths are scanned, those that end in leaves first; the others then carry them as rigid loads. Every
    joint must move some inertia of its own body.
    """
    own = bodies.inertia.as_matrix()
    if bodies.tree.is_chain and not isinstance(schedule, Doubling):
        # Without indexing bodies, which would gather those of all devices on each.
        ports = jax.vmap(_two_port)(own, bodies.motion, bodies.armature)
        felt = schedule.scan(lambda outer, inner: star_product(inner, outer), ports, reverse=True).stiffness
    else:
        felt = _felt_by_parents(own, bodies)
    articulated = own + sum_of_children(bodies.tree, felt)
    return jax.vmap(eliminate_joint)(articulated, bodies.motion.subspace, bodies.armature)


def free_motions(bodies: Links, joints: JointElimination) -> Float[Array, "nb 6 6"]:
    """`(1 - S D^-1 U^T) X`: how accelerations pass from parents to bodies whose joints are free."""
    motion = bodies.motion
    passed = matmul(motion.subspace, joints.gain)
    return _shift_columns(identity(6, passed) - passed, motion.offset)


def _felt_by_parents(own: Float[Array, "nb 6 6"], bodies: Links) -> Float[Array, "nb 6 6"]:
    """Articulated inertias of all bodies as felt by their parents, across their joints and at the parents' origins."""
    paths, parents = bodies.tree.heavy_paths, jnp.asarray(bodies.tree.parents)
    # A path's last slot comes first in the scan, and starts it anew.
    restarts = jnp.roll(jnp.asarray(paths.heads), -1, axis=1)

    def layer(loads: Array, x: tuple[Array, Array, Array]):
        nodes, heads, restart = x
        motion, armature = jax.tree.map(lambda x: x[nodes], (bodies.motion, bodies.armature))
        ports = jax.vmap(_two_port)(loads[nodes], motion, armature)
        _, series = doubled(_connect, (restart, ports), max(paths.longest, 1), reverse=True)
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
    return restarted | restarts, choose(restarts, before, together)


def _two_port(inertia: Float[Array, "6 6"], motion: BodyArrays, armature: Float[Array, "d"]) -> TwoPort:
    """A body and its joint: from the parent's origin to the body's."""
    subspace = motion.subspace
    joint = eliminate_joint(inertia, subspace, armature)
    transfer = jnp.eye(6, dtype=inertia.dtype) - matmul(subspace, joint.gain)
    compliance = matmul(subspace, ldl_solve(joint.pivot, transpose(subspace)))
    return TwoPort(_shift_columns(transfer, motion.offset), compliance, shift_inertia(joint.apparent, motion.offset))


def _shift_columns(matrix: Float[Array, "*n 6 6"], r: Float[Array, "*n 3"]) -> Float[Array, "*n 6 6"]:
    """`A X` with the shift X of motions from the parent's origin."""
    return transpose(shift_force_columns(transpose(matrix), r))
