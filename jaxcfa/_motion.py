"""Poses and motions of all bodies, on which kinematics and dynamics are built.

Everything is in world axes about each body's own origin. The only quantity that then passes between neighbours in
position is the offset of their origins, and recurrences over the tree add vectors instead of multiplying matrices.
Accelerations are classical: derivatives of the velocity of the body's origin. Spatial accelerations differ by
`w x v`, whose large terms would cancel in float32 on a fast-moving body.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ._small import cross, matvec
from .model import Model, MotionSubspace, map_joints, motion_subspace_blocks
from .spatial import Inertia, Transform, pack, rotate, rotate_columns, shift_motion
from .structured._tree_sweep import sweep_outward


class Poses(eqx.Module):
    """Where all bodies are, in world axes.

    **Fields:** `pose` (nb), of the bodies in the world; `offset` (nb, 3), from the parent's origin to the body's;
    `subspace`, the joints' motion subspaces.
    """

    pose: Transform
    offset: Float[Array, "nb 3"]
    subspace: MotionSubspace


class Motions(eqx.Module):
    """How all bodies move, in world axes about their origins.

    **Fields:** `angular` (nb, 3), angular velocities; `relative` (nb, 6), velocities relative to the parents, `S v`;
    `bias` (nb, 6), acceleration relative to the parent's at zero joint acceleration: with `r` the offset and
    `[alpha; a]` the parent's acceleration, `A = [alpha; a + alpha x r] + S qdd + bias`.
    """

    angular: Float[Array, "nb 3"]
    relative: Float[Array, "nb 6"]
    bias: Float[Array, "nb 6"]


def poses(model: Model, q: Float[Array, "nq"]) -> Poses:
    """Where all bodies are, by one outward sweep."""
    blocks = motion_subspace_blocks(model, q)
    pose, offset, _ = _sweep(model, q, jnp.zeros((model.nb, 3), q.dtype))
    return Poses(pose, offset, _in_world(model, blocks, pose))


def motions(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> tuple[Poses, Motions]:
    """Where all bodies are and how they move, by one outward sweep."""
    blocks = motion_subspace_blocks(model, q)
    relative = MotionSubspace(blocks, model).mv(v)
    joint_bias = map_joints(model, lambda joint, x, dx: joint.bias(x, dx), ("q", q), ("v", v))
    pose, offset, angular = _sweep(model, q, relative[:, :3])
    relative, joint_bias = rotate(pose.rotation, relative), rotate(pose.rotation, joint_bias)
    w, u = relative[:, :3], relative[:, 3:]
    parent = angular - w
    coriolis = pack(cross(parent, w), cross(parent, cross(parent, offset) + 2 * u) + cross(w, u))
    where = Poses(pose, offset, _in_world(model, blocks, pose))
    return where, Motions(angular, relative, joint_bias + coriolis)


def _sweep(
    model: Model, q: Float[Array, "nq"], spin: Float[Array, "nb 3"]
) -> tuple[Transform, Float[Array, "nb 3"], Float[Array, "nb 3"]]:
    """Poses, offsets and angular velocities from the joints' own angular velocities `spin` in body axes."""
    local = model.placement @ map_joints(model, lambda joint, x: joint.transform(x), ("q", q))

    def step(parent: tuple[Transform, Array], x: tuple[Transform, Array]):
        (parent_pose, parent_angular), (local, spin) = parent, x
        pose = parent_pose @ local
        angular = parent_angular + matvec(pose.rotation, spin)
        # Not the difference of two positions, which would lose digits far from the world's origin.
        offset = matvec(parent_pose.rotation, local.translation)
        return (pose, angular), (pose, offset, angular)

    base = Transform.identity(local.translation.dtype), jnp.zeros(3, spin.dtype)
    (outputs,) = sweep_outward(model.topology.schedule, step, base, [(local, spin)])
    return outputs


def _in_world(model: Model, blocks: tuple[Array, ...], pose: Transform) -> MotionSubspace:
    rotations = split_bodies(model, pose.rotation)
    return MotionSubspace(tuple(map(rotate_columns, rotations, blocks)), model)


def velocities(model: Model, where: Poses, relative: Float[Array, "nb 6"]) -> Float[Array, "nb 6"]:
    """`V = [w; v + w x r] + relative`, outward from a world at rest."""
    return _accumulate(model, where, jnp.zeros(6, relative.dtype), relative)


def accelerations(
    model: Model, where: Poses, motion: Motions, qdd: Float[Array, "nv"], base: Float[Array, "6"]
) -> Float[Array, "nb 6"]:
    """Accelerations of the bodies' origins, outward from a world that accelerates with `base`."""
    return _accumulate(model, where, base, where.subspace.mv(qdd) + motion.bias)


def _accumulate(model: Model, where: Poses, base: Array, relative: Array) -> Float[Array, "nb 6"]:
    def step(parent: Array, x: tuple[Array, Array]):
        offset, relative = x
        value = shift_motion(parent, offset) + relative
        return value, value

    (values,) = sweep_outward(model.topology.schedule, step, base, [(where.offset, relative)])
    return values


def world_inertias(model: Model, pose: Transform) -> Inertia:
    """(nb) inertias about the bodies' origins, in world axes."""
    return model.spatial_inertia.rotated(pose.rotation)


def bias_wrenches(inertia: Inertia, motion: Motions, f_ext: Float[Array, "nb 6"]) -> Float[Array, "nb 6"]:
    """What is left of the bodies' equations of motion at zero acceleration: gyroscopic less external wrenches.

    The wrench that moves a body is `F = I A + p` with `p = [w x (J w); w x (w x h)] - f_ext` (Newton and Euler, about
    the body's origin).
    """
    w = motion.angular
    return pack(cross(w, matvec(inertia.rotational, w)), cross(w, cross(w, inertia.moment))) - f_ext


def split_bodies(model: Model, tree: PyTree[Array]) -> list[PyTree[Array]]:
    """Arrays over bodies, cut into the segments of the topology."""
    return [jax.tree.map(lambda x, s=s: x[s.start : s.stop], tree) for s in model.topology.segments]
