"""Poses and motions of all bodies, on which kinematics and dynamics are built.

Everything is in world axes about each body's own origin. The only quantity that then passes between neighbours in
position is the offset of their origins, and recurrences over the tree add vectors instead of multiplying matrices.
Accelerations are classical: derivatives of the velocity of the body's origin. Spatial accelerations differ by
`w x v`, whose large terms would cancel in float32 on a fast-moving body.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ._small import cross, matmul, matvec
from .model import WORLD, Model, MotionSubspace, map_joints, motion_subspace_blocks, split_dofs
from .spatial import Inertia, Transform, pack, rotate, rotate_columns, shift_motion
from .structured._tree_sweep import sweep_outward


class Poses(eqx.Module):
    """Where all bodies are, in world axes.

    **Fields:** `pose` (nb), of the bodies in the world; `offset` (nb, 3), from the parent's origin to the body's;
    `in_tree` (nb, 3), from the origin of the first body of its tree; `subspace`, the joints' motion subspaces.
    """

    pose: Transform
    offset: Float[Array, "nb 3"]
    in_tree: Float[Array, "nb 3"]
    subspace: MotionSubspace


def poses(model: Model, q: Float[Array, "nq"]) -> Poses:
    """Where all bodies are, by one outward sweep."""
    local = local_poses(model, q)

    def step(parent: tuple[Array, Array], x: tuple[Transform, Array]):
        (rotation, in_tree), (local, first) = parent, x
        offset = matvec(rotation, local.translation)
        value = matmul(rotation, local.rotation), in_tree + jnp.where(first, 0, offset)
        return value, (*value, offset)

    base = Transform.identity(local.translation.dtype)
    ((rotation, in_tree, offset),) = sweep_outward(
        model.topology.schedule, step, (base.rotation, base.translation), [(local, jnp.asarray(are_first(model)))]
    )
    return poses_from(model, q, rotation, offset, in_tree)


def poses_from(
    model: Model,
    q: Float[Array, "nq"],
    rotation: Float[Array, "nb 3 3"],
    offset: Float[Array, "nb 3"],
    in_tree: Float[Array, "nb 3"],
) -> Poses:
    """Where all bodies are, from their rotations and offsets."""
    rotations = split_bodies(model, rotation)
    blocks = tuple(map(rotate_columns, rotations, motion_subspace_blocks(model, q)))
    pose = Transform(rotation, world_positions(model, offset, in_tree))
    return Poses(pose, offset, in_tree, MotionSubspace(blocks, model))


def are_first(model: Model) -> np.ndarray:
    """(nb,): whether a body is the first of its tree.

    Only bodies of one tree are related, and positions from its first body have all their digits however far from the
    world's origin that is. Differences of positions in the world do not.
    """
    return model.topology.parents == WORLD


def world_positions(model: Model, offset: Float[Array, "nb 3"], in_tree: Float[Array, "nb 3"]) -> Float[Array, "nb 3"]:
    """Positions of the bodies' origins in the world."""
    roots = model.topology.roots
    return in_tree + (offset[roots] if roots.any() else offset[:1])


def velocities(model: Model, where: Poses, v: Float[Array, "nv"]) -> Float[Array, "nb 6"]:
    """Velocities of all bodies: `V = [w; u + w x r] + S v` with the parent's `[w; u]`, outward."""

    def step(parent: Array, x: tuple[Array, Array]):
        offset, relative = x
        value = shift_motion(parent, offset) + relative
        return value, value

    zero = jnp.zeros(6, v.dtype)
    (values,) = sweep_outward(model.topology.schedule, step, zero, [(where.offset, where.subspace.mv(v))])
    return values


class BodyMotion(eqx.Module):
    """How a body is placed and moves, in world axes about its origin.

    **Fields:** `rotation` of the body; `offset` from its parent's origin; `subspace` S of its joint, padded to the
    segment's `d` columns; `angular`, its angular velocity; `bias`, its acceleration relative to the parent's at zero
    joint acceleration: with the parent's `[alpha; a]`, `A = [alpha; a + alpha x offset] + bias + S qdd`.
    """

    rotation: Float[Array, "*n 3 3"]
    offset: Float[Array, "*n 3"]
    subspace: Float[Array, "*n 6 d"]
    angular: Float[Array, "*n 3"]
    bias: Float[Array, "*n 6"]

    def carried(self, parent: Float[Array, "6"]) -> Float[Array, "6"]:
        """Acceleration of the body from its parent's, at zero joint acceleration."""
        return shift_motion(parent, self.offset) + self.bias

    def acceleration(self, parent: Float[Array, "6"], qdd: Float[Array, "d"]) -> Float[Array, "6"]:
        """Acceleration of the body from its parent's."""
        return self.carried(parent) + matvec(self.subspace, qdd)


def sweep_motions(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    visit: Callable[..., tuple[Any, Any]],
    base: PyTree[Array] = None,
    *segments: list[PyTree[Array]],
) -> list[PyTree[Array]]:
    """Outward sweep over the motions of all bodies, on which `visit` builds further recurrences.

    **Arguments:** `visit(parent, motion, *data) -> (value, output)` for one body: `parent` is the parent's `value`,
    or `base` for roots. `segments`: data, each a list with one entry for every segment of the topology.

    **Returns:** the outputs, by segment.
    """
    blocks, joint_velocities = motion_subspace_blocks(model, q), split_dofs(model, v)
    bias = map_joints(model, lambda joint, x, dx: joint.bias(x, dx), ("q", q), ("v", v))
    local = split_bodies(model, (local_poses(model, q), bias))

    def step(parent: tuple, x: tuple):
        (rotation, angular, value), (joint, data) = parent, x
        motion = advance(rotation, angular, *joint)
        value, output = visit(value, motion, *data)
        return (motion.rotation, motion.angular, value), output

    start = jnp.eye(3, dtype=q.dtype), jnp.zeros(3, q.dtype), base
    joints = [(*x, *rest) for x, *rest in zip(local, blocks, joint_velocities, strict=True)]
    data = list(zip(joints, zip(*segments, strict=True) if segments else [()] * len(joints), strict=True))
    return sweep_outward(model.topology.schedule, step, start, data)


def advance(
    rotation: Float[Array, "3 3"],
    angular: Float[Array, "3"],
    local: Transform,
    joint_bias: Float[Array, "6"],
    subspace: Float[Array, "6 d"],
    v: Float[Array, "d"],
) -> BodyMotion:
    """Motion of a body from its parent's orientation and angular velocity, and its joint's motion in body axes."""
    offset = matvec(rotation, local.translation)
    own = matmul(rotation, local.rotation)
    subspace = rotate_columns(own, subspace)
    relative = matvec(subspace, v)
    w, u = relative[:3], relative[3:]
    coriolis = pack(cross(angular, w), cross(angular, cross(angular, offset) + 2 * u) + cross(w, u))
    return BodyMotion(own, offset, subspace, angular + w, rotate(own, joint_bias) + coriolis)


def local_poses(model: Model, q: Float[Array, "nq"]) -> Transform:
    """(nb) poses of the bodies in their parents."""
    return model.placement @ map_joints(model, lambda joint, x: joint.transform(x), ("q", q))


def world_inertias(model: Model, pose: Transform) -> Inertia:
    """(nb) inertias about the bodies' origins, in world axes."""
    return model.spatial_inertia.rotated(pose.rotation)


def bias_wrench(inertia: Inertia, angular: Float[Array, "*n 3"], f_ext: Float[Array, "*n 6"]) -> Float[Array, "*n 6"]:
    """`p` in a body's equation of motion `F = I A + p`: gyroscopic less external wrench.

    `p = [w x (J w); w x (w x h)] - f_ext` (Newton and Euler, about the body's origin).
    """
    moment = cross(angular, matvec(inertia.rotational, angular))
    return pack(moment, cross(angular, cross(angular, inertia.moment))) - f_ext


def fictitious_acceleration(model: Model) -> Float[Array, "6"]:
    """Acceleration `[0; -g]` of the world that has the same effect as gravity."""
    return jnp.concatenate([jnp.zeros_like(model.gravity), -model.gravity])


def split_bodies(model: Model, tree: PyTree[Array]) -> list[PyTree[Array]]:
    """Arrays over bodies, cut into the segments of the topology."""
    return [jax.tree.map(lambda x, s=s: x[s.start : s.stop], tree) for s in model.topology.segments]
