"""Evaluating all joints of a model, whatever their types. Dispatch on joint type happens here and nowhere else."""

from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from .._small import sum_of
from ..joints import AbstractJoint, Fixed
from ._model import Model
from ._topology import Segment

Layout = Literal["body", "q", "v"]


def take(x: Shaped[Array, "n *rest"], index: np.ndarray) -> Shaped[Array, "..."]:
    """`x[index]` for a static index array, as a slice where the index is a range."""
    flat = index.reshape(-1)
    if flat.size and np.array_equal(flat, np.arange(flat[0], flat[0] + flat.size)):
        picked = x if flat.size == x.shape[0] else x[int(flat[0]) : int(flat[0]) + flat.size]
    else:
        picked = x[flat]
    return picked.reshape(*index.shape, *x.shape[1:])


def map_joints(
    model: Model, function: Callable[..., PyTree[Array]], *coordinates: tuple[Layout, Array], out: Layout = "body"
) -> PyTree[Array]:
    """`function(joint, ...)` for every joint, vectorised over joints of equal structure.

    **Arguments:** `coordinates`: pairs of a layout and an array, handed to `function` joint by joint: "q" or "v" for
    coordinate vectors, "body" for arrays with a leading axis over bodies. `out`: layout of what `function` returns.

    **Returns:** arrays in the order of the bodies, or coordinate vectors.
    """
    topology = model.topology
    results, index = [], []
    for joint, group in zip(model.joints, topology.groups, strict=True):
        indices = {"body": group.bodies, "q": group.q_index, "v": group.v_index}
        results.append(jax.vmap(function)(joint, *(take(x, indices[layout]) for layout, x in coordinates)))
        index.append(indices[out].reshape(-1))
    if not results:
        return _no_joints(function, *coordinates, out=out)
    flatten = (lambda x: x) if out == "body" else (lambda x: x.reshape(-1))
    order = np.argsort(np.concatenate(index))
    return jax.tree.map(lambda *parts: take(jnp.concatenate([flatten(x) for x in parts]), order), *results)


def _no_joints(
    function: Callable[..., PyTree[Array]], *coordinates: tuple[Layout, Array], out: Layout
) -> PyTree[Array]:
    """What `map_joints` returns for a model without moving bodies: empty arrays of the right kind."""
    arguments = [
        jnp.zeros(x.shape[1:], x.dtype) if layout == "body" else jnp.zeros(0, x.dtype) for layout, x in coordinates
    ]
    one = jax.eval_shape(function, Fixed(), *arguments)
    return jax.tree.map(lambda x: jnp.zeros((0, *x.shape) if out == "body" else (0,), x.dtype), one)


class MotionSubspace(eqx.Module):
    """The block-diagonal operator `S` of all joints: joint velocities to relative body velocities.

    Blocks are kept per segment of bodies, with zero columns where a body has fewer degrees of freedom than its
    segment's `d`.

    **Fields:** `blocks`: per segment (n, 6, d). `model`: for the coordinate layout.
    """

    blocks: tuple[Float[Array, "_ 6 _"], ...]
    model: Model

    def mv(self, v: Float[Array, "nv"]) -> Float[Array, "nb 6"]:
        """`S v` for every body."""
        parts = [_block_mv(block, x) for block, x in zip(self.blocks, split_dofs(self.model, v), strict=True)]
        return jnp.concatenate(parts)

    def transpose_mv(self, f: Float[Array, "nb 6"]) -> Float[Array, "nv"]:
        """`S^T f` for every body."""
        segments = self.model.topology.segments
        parts = [
            _block_mv(jnp.swapaxes(block, -1, -2), f[segment.start : segment.stop])
            for block, segment in zip(self.blocks, segments, strict=True)
        ]
        return join_dofs(self.model, parts)

    def columns(self) -> Float[Array, "nv 6"]:
        """The columns of all blocks, one for each degree of freedom."""
        return join_dofs(self.model, [jnp.swapaxes(block, -1, -2) for block in self.blocks])


def _block_mv(block: Float[Array, "n i k"], x: Float[Array, "n k"]) -> Float[Array, "n i"]:
    return sum_of(block[:, :, k] * x[:, k, None] for k in range(block.shape[-1]))


def motion_subspace_blocks(model: Model, q: Float[Array, "nq"]) -> tuple[Float[Array, "_ 6 _"], ...]:
    """The joints' motion subspaces in body axes, per segment, padded with zero columns."""
    topology = model.topology
    groups = [
        jax.vmap(lambda joint, x: joint.motion_subspace(x))(joint, take(q, group.q_index))
        for joint, group in zip(model.joints, topology.groups, strict=True)
    ]

    def block(segment: Segment) -> Array:
        if segment.start == segment.stop:
            return jnp.zeros((0, 6, segment.d), q.dtype)
        parts, bodies = [], []
        for subspace, group in zip(groups, topology.groups, strict=True):
            first, last = np.searchsorted(group.bodies, (segment.start, segment.stop))
            if first < last:
                missing = segment.d - subspace.shape[-1]
                parts.append(jnp.pad(subspace[first:last], ((0, 0), (0, 0), (0, missing))))
                bodies.append(group.bodies[first:last])
        return take(jnp.concatenate(parts), np.argsort(np.concatenate(bodies)))

    return tuple(block(segment) for segment in topology.segments)


def split_dofs(model: Model, x: Float[Array, "nv *rest"]) -> list[Float[Array, "_ _ *rest"]]:
    """A vector over degrees of freedom as one padded (n, d) array per segment, zero where a body has fewer than d."""
    topology = model.topology
    parts = []
    for segment in topology.segments:
        index, present = _dof_index(model, segment)
        if present.all():
            parts.append(take(x, index))
        else:
            mask = present.reshape(*present.shape, *(1,) * (x.ndim - 1))
            parts.append(jnp.where(mask, x[np.where(present, index, 0)], 0))
    return parts


def join_dofs(model: Model, parts: list[Float[Array, "_ _ *rest"]]) -> Float[Array, "nv *rest"]:
    """Inverse of `split_dofs`."""
    flat = []
    for segment, part in zip(model.topology.segments, parts, strict=True):
        _, present = _dof_index(model, segment)
        flat.append(
            take(part.reshape(part.shape[0] * part.shape[1], *part.shape[2:]), np.flatnonzero(present.reshape(-1)))
        )
    return jnp.concatenate(flat)


def pad_dofs(model: Model, x: Float[Array, "nv *rest"], missing: float = 0.0) -> Float[Array, "nb d *rest"]:
    """A vector over degrees of freedom as one array, with `missing` where a body has fewer than d."""
    index, present = _dof_index(model, _all_bodies(model))
    if present.all():
        return take(x, index)
    mask = present.reshape(*present.shape, *(1,) * (x.ndim - 1))
    return jnp.where(mask, x[np.where(present, index, 0)], missing)


def unpad_dofs(model: Model, x: Float[Array, "nb d *rest"]) -> Float[Array, "nv *rest"]:
    """Inverse of `pad_dofs`."""
    _, present = _dof_index(model, _all_bodies(model))
    return take(x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]), np.flatnonzero(present.reshape(-1)))


def padded_motion_subspace(model: Model, q: Float[Array, "nq"]) -> Float[Array, "nb 6 d"]:
    """`motion_subspace_blocks` as one array."""
    d = _all_bodies(model).d
    blocks = motion_subspace_blocks(model, q)
    return jnp.concatenate([jnp.pad(block, ((0, 0), (0, 0), (0, d - block.shape[-1]))) for block in blocks])


def _all_bodies(model: Model) -> Segment:
    return Segment(0, model.nb, int(model.topology.nvs.max(initial=1)))


def _dof_index(model: Model, segment: Segment) -> tuple[np.ndarray, np.ndarray]:
    """(n, d) coordinate numbers of a segment's bodies, and which of them exist."""
    bodies = slice(segment.start, segment.stop)
    starts, counts = model.topology.v_starts[bodies], model.topology.nvs[bodies]
    offsets = np.arange(segment.d)
    return starts[:, None] + offsets, offsets < counts[:, None]


def joint_of_body(model: Model, body: int) -> AbstractJoint:
    """The joint that moves a body, with its own parameters."""
    for joint, group in zip(model.joints, model.topology.groups, strict=True):
        position = int(np.searchsorted(group.bodies, body))
        if position < len(group.bodies) and group.bodies[position] == body:
            return jax.tree.map(lambda x, i=position: x[i], joint)
    raise ValueError(f"No body number {body}.")
