"""Poses and motions of all bodies, on which kinematics and dynamics are built.

Everything is in world axes about each body's own origin. The only quantity that then passes between neighbours in
position is the offset of their origins, and recurrences over the tree add vectors instead of multiplying matrices.
Accelerations are classical: derivatives of the velocity of the body's origin. Spatial accelerations differ by
`w x v`, whose large terms would cancel in float32 on a fast-moving body.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._small import cross, matmul, matvec
from .model import Model, MotionSubspace, map_joints, motion_subspace_blocks
from .spatial import Transform, pack, rotate, rotate_columns
from .structured._tree_sweep import sweep_inward, sweep_outward


class BodyPoses(eqx.Module):
    """Where all bodies are.

    **Fields:** `pose` (nb), in the world; `offset` (nb, 3), from the parent's origin to the body's; `subspace`, the
    joints' motion subspaces. World axes.
    """

    pose: Transform
    offset: Float[Array, "nb 3"]
    subspace: MotionSubspace


class BodyMotions(eqx.Module):
    """How all bodies move.

    **Fields:** `angular` (nb, 3), angular velocities; `relative` (nb, 6), velocity relative to the parent, `S v`;
    `bias` (nb, 6), acceleration relative to the parent's at zero joint acceleration. World axes.
    """

    angular: Float[Array, "nb 3"]
    relative: Float[Array, "nb 6"]
    bias: Float[Array, "nb 6"]


def body_poses(model: Model, q: Float[Array, "nq"]) -> BodyPoses:
    """Outward sweep over the poses."""
    relative = model.placement @ map_joints(model, lambda joint, x: joint.transform(x), ("q", q))

    def step(parent: Transform, local: Transform):
        pose = parent @ local
        return pose, pose

    dtype = relative.translation.dtype
    segments = sweep_outward(model.topology.schedule, step, Transform.identity(dtype), split_bodies(model, relative))
    pose = join_bodies(segments)
    offset = matvec(_parent_rotations(model, pose), relative.translation)
    blocks = motion_subspace_blocks(model, q)
    world = [rotate_columns(x.rotation, block) for x, block in zip(split_bodies(model, pose), blocks, strict=True)]
    return BodyPoses(pose, offset, MotionSubspace(tuple(world), model))
