"""Evaluating all joints of a model, whatever their types."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from ..joints import AbstractJoint, Composite, Fixed, Free
from ..joints._elements import elements
from ..numerics import picked
from ._model import Model
from ._parts import joint_parts, names_of_parts
from ._topology import WORLD, Segment, Topology

Layout = Literal["body", "q", "v"]


def map_joints(
    model: Model,
    function: Callable[..., PyTree[Array]],
    *coordinates: tuple[Layout, PyTree[Array]],
    out: Layout = "body",
) -> PyTree[Array]:
    """`function(joint, ...)` for every joint, vectorised over joints of equal structure.

    **Arguments:** `coordinates`: pairs of a layout and arrays, handed to `function` joint by joint: "q" or "v" for
    coordinate vectors, "body" for arrays with a leading axis over bodies. `out`: layout of what `function` returns.

    **Returns:** arrays in the order of the bodies, or coordinate vectors, of the coordinates' floating-point type,
    whatever that is which a joint type returns.
    """
    topology = model.topology
    types = {x.dtype for x in jax.tree.leaves([x for _, x in coordinates]) if jnp.issubdtype(x.dtype, jnp.floating)}
    dtype = jnp.result_type(*types)
    results, index = [], []
    for joint, group in zip(model.joints, topology.groups, strict=True):
        indices = {"body": group.bodies, "q": group.q_index, "v": group.v_index}
        own = [jax.tree.map(partial(picked, index=indices[layout]), x) for layout, x in coordinates]
        results.append(jax.tree.map(partial(_of_type, dtype=dtype), jax.vmap(function)(joint, *own)))
        index.append(indices[out].reshape(-1))
    if not results:
        return _no_joints(function, *coordinates, out=out)
    flatten = (lambda x: x) if out == "body" else (lambda x: x.reshape(-1))
    order = np.argsort(np.concatenate(index))
    return jax.tree.map(lambda *parts: picked(jnp.concatenate([flatten(x) for x in parts]), order), *results)


def _of_type(x: Array, dtype: np.dtype) -> Array:
    return x if x.dtype == dtype else x.astype(dtype)


def part_names(model: Model) -> list[list[str]]:
    """The names of each body's joint (nb): of a composite one those of its parts, joined by plus signs."""
    names = [[name] for name in model.joint_names]
    for body, joint in enumerate(joints_of_bodies(model)):
        if isinstance(joint, Composite):
            names[body] = names_of_parts(model.joint_names[body], len(joint.joints)) or names[body]
    return names


def coordinate_names(model: Model, layout: Literal["q", "v"]) -> list[str]:
    """A name for every coordinate: the joint's, of several in series that of each, with a number where it has more."""
    parts = [(part.name, getattr(part, layout)) for part in joint_parts(model.joints, model.topology)]
    sizes = ((name, own.stop - own.start) for name, own in parts)
    return [name if size == 1 else f"{name}[{i}]" for name, size in sizes for i in range(size)]


def joints_of_bodies(model: Model) -> list[AbstractJoint]:
    """The joint (nb) of each body, whose parameters are those of its whole group."""
    groups = zip(model.joints, model.topology.group_bodies, strict=True)
    found = {body: joint for joint, bodies in groups for body in bodies.tolist()}
    return [found[body] for body in range(model.nb)]


def free_roots(model: Model) -> list[int]:
    """The bodies that hang on the world by a free joint."""
    free = [body for body, joint in enumerate(joints_of_bodies(model)) if isinstance(joint, Free)]
    return [body for body in free if model.topology.parents[body] == WORLD]


def elementary_joints(model: Model) -> Iterator[tuple[AbstractJoint, np.ndarray, np.ndarray]]:
    """The joints that those of each group are made of, stacked, and their coordinates in q (n, nq) and v (n, nv)."""
    for joint, group in zip(model.joints, model.topology.groups, strict=True):
        for element, in_q, in_v in elements(joint):
            yield element, group.q_index[:, in_q], group.v_index[:, in_v]


def free_dofs(model: Model) -> np.ndarray:
    """(nv,): whether a coordinate of the velocity is one of a free joint, which no motor drives."""
    free = np.zeros(model.nv, bool)
    for element, _, v in elementary_joints(model):
        free[v] = isinstance(element, Free)
    return free


def _no_joints(
    function: Callable[..., PyTree[Array]], *coordinates: tuple[Layout, PyTree[Array]], out: Layout
) -> PyTree[Array]:
    """What `map_joints` returns for a model without moving bodies: empty arrays of the right kind."""
    arguments = [
        jax.tree.map(lambda x, layout=layout: jnp.zeros(x.shape[1:] if layout == "body" else 0, x.dtype), given)
        for layout, given in coordinates
    ]
    one = jax.eval_shape(function, Fixed(), *arguments)
    return jax.tree.map(lambda x: jnp.zeros((0, *x.shape) if out == "body" else (0,), x.dtype), one)


def neutral_configuration(model: Model) -> Float[Array, "nq"]:
    """The zero configuration."""
    return map_joints(model, lambda joint, _: joint.neutral(), ("q", jnp.zeros(model.nq, model.dtype)), out="q")


def motion_subspace_blocks(model: Model, q: Float[Array, "nq"]) -> tuple[Float[Array, "_ 6 _"], ...]:
    """The joints' motion subspaces in body axes, per segment, padded with zero columns; of the type of `q`."""
    topology = model.topology
    groups = [
        _of_type(jax.vmap(lambda joint, x: joint.motion_subspace(x))(joint, picked(q, group.q_index)), q.dtype)
        for joint, group in zip(model.joints, topology.groups, strict=True)
    ]
    group_of, place_in = np.zeros(model.nb, int), np.zeros(model.nb, int)
    for number, group in enumerate(topology.groups):
        group_of[group.bodies], place_in[group.bodies] = number, np.arange(len(group.bodies))

    def block(segment: Segment) -> Array:
        bodies = topology.schedule.visits[segment.start : segment.stop]
        if not len(bodies):
            return jnp.zeros((0, 6, segment.d), q.dtype)
        parts, visits = [], []
        for number, subspace in enumerate(groups):
            own = np.flatnonzero(group_of[bodies] == number)
            if len(own):
                missing = segment.d - subspace.shape[-1]
                parts.append(jnp.pad(picked(subspace, place_in[bodies[own]]), ((0, 0), (0, 0), (0, missing))))
                visits.append(own)
        return picked(jnp.concatenate(parts), np.argsort(np.concatenate(visits)))

    return tuple(block(segment) for segment in topology.segments)


def joints_of_segments(model: Model) -> list[list[AbstractJoint]]:
    """Joints, stacked by structure, some of which are in a segment, for each segment."""
    topology = model.topology
    found = []
    for segment in topology.segments:
        bodies = topology.schedule.visits[segment.start : segment.stop]
        groups = zip(model.joints, topology.groups, strict=True)
        found.append([joint for joint, group in groups if np.isin(group.bodies, bodies).any()])
    return found


def split_bodies(topology: Topology, tree: PyTree[Array]) -> list[PyTree[Array]]:
    """Arrays over bodies, cut into the segments of the topology."""
    leaves, structure = jax.tree.flatten(tree)
    lengths = [segment.stop - segment.start for segment in topology.segments]
    parts = [lax.split(picked(x, topology.schedule.visits), lengths) for x in leaves]
    return [jax.tree.unflatten(structure, [of_leaf[k] for of_leaf in parts]) for k in range(len(lengths))]


def join_bodies(topology: Topology, parts: Sequence[PyTree[Array]]) -> PyTree[Array]:
    """Inverse of `split_bodies`."""
    order = topology.schedule.inverse_order
    together = jax.tree.map(lambda *x: jnp.concatenate(x) if len(x) > 1 else x[0], *parts)
    return together if order is None else jax.tree.map(lambda x: picked(x, order), together)


def split_dofs(topology: Topology, x: Float[Array, "nv *rest"]) -> list[Float[Array, "_ _ *rest"]]:
    """A vector over degrees of freedom as one padded (n, d) array per segment, zero where a body has fewer than d."""
    return [_padded(x, *_dof_index(topology, segment), 0.0) for segment in topology.segments]


def join_dofs(topology: Topology, parts: Sequence[PyTree[Float[Array, "_ _ *rest"]]]) -> PyTree[Array]:
    """Inverse of `split_dofs`, also for pytrees of such arrays: (nv, *rest) each."""
    index, rows = [], []
    for segment in topology.segments:
        numbers, present = _dof_index(topology, segment)
        rows.append(np.flatnonzero(present.reshape(-1)))
        index.append(numbers[present])
    order = np.argsort(np.concatenate(index))

    def joined(*arrays: Array) -> Array:
        each = zip(arrays, rows, strict=True)
        flat = [picked(x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]), own) for x, own in each]
        return picked(jnp.concatenate(flat) if len(flat) > 1 else flat[0], order)

    return jax.tree.map(joined, *parts)


def pad_dofs(topology: Topology, x: Float[Array, "nv *rest"], missing: float = 0.0) -> Float[Array, "nb d *rest"]:
    """A vector over degrees of freedom as one array, with `missing` where a body has fewer than d."""
    return _padded(x, *_dofs_of(topology, np.arange(topology.nb), topology.widest), missing)


def unpad_dofs(topology: Topology, x: Float[Array, "nb d *rest"]) -> Float[Array, "nv *rest"]:
    """Inverse of `pad_dofs`."""
    _, present = _dofs_of(topology, np.arange(topology.nb), topology.widest)
    return picked(x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]), np.flatnonzero(present.reshape(-1)))


def _padded(x: Float[Array, "nv *rest"], index: np.ndarray, present: np.ndarray, missing: float) -> Array:
    """`x[index]` where a degree of freedom is present, of which there may be none at all."""
    if present.all():
        return picked(x, index)
    if not present.any():
        return jnp.full((*index.shape, *x.shape[1:]), missing, x.dtype)
    mask = present.reshape(*present.shape, *(1,) * (x.ndim - 1))
    return jnp.where(mask, x[np.where(present, index, 0)], missing)


def _dof_index(topology: Topology, segment: Segment) -> tuple[np.ndarray, np.ndarray]:
    """(n, d) coordinate numbers of a segment's bodies, and which of them exist."""
    return _dofs_of(topology, topology.schedule.visits[segment.start : segment.stop], segment.d)


def _dofs_of(topology: Topology, bodies: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    starts, counts = topology.v_starts[bodies], topology.nvs[bodies]
    offsets = np.arange(d)
    return starts[:, None] + offsets, offsets < counts[:, None]
