"""Poses and motions of all bodies by scans: what `_motion` does by loops over bodies.

Rotations are cumulative products and all else cumulative sums, because vectors are in world axes about the bodies' own
origins. Angular parts come first; linear parts use those (Yang, Wu & Pan 2016, sec. II, in other coordinates).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._motion import BodyMotion, Poses, advance, are_first, local_poses, poses, poses_from, velocities
from ._small import cross, matmul, matvec
from .model import Model, map_joints, pad_dofs, padded_motion_subspace
from .spatial import pack, rotate_columns
from .structured import AbstractSchedule, Sequential
from .structured._tree_scan import from_parents, sum_of_children


def poses_by(schedule: AbstractSchedule, model: Model, q: Float[Array, "nq"]) -> Poses:
    """Where all bodies are."""
    if isinstance(schedule, Sequential):
        return poses(model, q)
    tree, local = model.topology.schedule, local_poses(model, q)
    rotation = schedule.outward(tree, matmul, local.rotation)
    offset = matvec(from_parents(tree, rotation, jnp.eye(3, dtype=q.dtype)), local.translation)
    return poses_from(model, q, rotation, offset, scan_positions(model, offset, schedule))


def scan_positions(model: Model, offset: Float[Array, "nb 3"], schedule: AbstractSchedule) -> Float[Array, "nb 3"]:
    """Positions of the bodies' origins from that of the first body of their tree."""
    within = jnp.where(are_first(model)[:, None], 0, offset)
    return schedule.ancestor_sum(model.topology.schedule, within)


def velocities_by(
    schedule: AbstractSchedule, model: Model, where: Poses, v: Float[Array, "nv"]
) -> Float[Array, "nb 6"]:
    """Velocities of all bodies."""
    if isinstance(schedule, Sequential):
        return velocities(model, where, v)
    return scan_velocities(model, where.offset, where.subspace.mv(v), schedule)


def scan_motions(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], schedule: AbstractSchedule) -> BodyMotion:
    """Motions (nb) of all bodies. All subspaces have as many columns as that of the joint with most freedoms."""
    tree = model.topology.schedule
    local, subspace, velocity = local_poses(model, q), padded_motion_subspace(model, q), pad_dofs(model, v)
    joint_bias = map_joints(model, lambda joint, x, dx: joint.bias(x, dx), ("q", q), ("v", v))
    rotation = schedule.outward(tree, matmul, local.rotation)
    relative = matvec(rotate_columns(rotation, subspace)[:, :3], velocity)
    angular = schedule.ancestor_sum(tree, relative)
    base = jnp.eye(3, dtype=q.dtype), jnp.zeros(3, q.dtype)
    carried = from_parents(tree, (rotation, angular), base)
    return jax.vmap(advance)(*carried, local, joint_bias, subspace, velocity)


def scan_velocities(
    model: Model, offset: Float[Array, "nb 3"], relative: Float[Array, "nb 6"], schedule: AbstractSchedule
) -> Float[Array, "nb 6"]:
    """`V = [w; u + w x r] + relative` with the parent's `[w; u]`, zero for the world."""
    tree = model.topology.schedule
    angular = schedule.ancestor_sum(tree, relative[:, :3])
    at_parent = from_parents(tree, angular, jnp.zeros(3, angular.dtype))
    return pack(angular, schedule.ancestor_sum(tree, relative[:, 3:] + cross(at_parent, offset)))


def scan_accelerations(
    model: Model,
    motion: BodyMotion,
    qdd: Float[Array, "nb d"],
    base: Float[Array, "6"],
    schedule: AbstractSchedule,
) -> Float[Array, "nb 6"]:
    """Accelerations of all bodies, with that of the world, which does not turn, given."""
    relative = motion.bias + matvec(motion.subspace, qdd)
    return scan_velocities(model, motion.offset, relative, schedule) + base


def scan_wrenches(
    model: Model, offset: Float[Array, "nb 3"], wrench: Float[Array, "nb 6"], schedule: AbstractSchedule
) -> Float[Array, "nb 6"]:
    """Total wrenches on each body and all that it carries, about its origin: `F = f + sum of X^T F` of the children."""
    tree = model.topology.schedule
    force = schedule.subtree_sum(tree, wrench[:, 3:])
    levers = sum_of_children(tree, cross(offset, force))
    return pack(schedule.subtree_sum(tree, wrench[:, :3] + levers), force)
