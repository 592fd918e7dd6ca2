"""Large batches in pieces, on several devices."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax
from jax.sharding import PartitionSpec
from jaxtyping import Array, PyTree

from ..defaults import batch_piece
from ..model._arguments import positive_integer
from ..numerics import cut, joined, lengthened
from ..one_function import as_one_function
from ..structured._distributed import check_mesh


def batched(
    function: Callable[..., Any],
    in_axes: int | Sequence[int | None] | None = 0,
    *,
    piece: int | None = None,
    mesh: jax.sharding.Mesh | None = None,
) -> Callable[..., Any]:
    """`jax.vmap(function, in_axes)` for large batches: piece after piece, each small enough for a processor's cache.

    On CPUs the whole function goes through a few states at a time, which stay in the cache, along the last axis of
    every array, over which loops are vectorised. The functions of this package for dynamics and kinematics do that by
    themselves, and gain nothing but memory; functions that compute much of their own are faster. Memory for
    intermediate results is that of one piece, in reverse mode too: there each piece is computed a second time. (So
    `batched(jax.grad(f))` does less work than the gradient of a sum over `batched(f)`, and needs as little memory.)

    With a mesh every device takes its share of the batch, in pieces as well, and results stay where they are made.
    Derivatives with respect to shared arguments, such as a model, are summed over the devices.

    In programs exported with `jax.export.symbolic_shape` a batch may be of any size, and is one piece then; with a mesh
    of any multiple of the number of devices, such as "8*n".

    **Arguments:** `function`: of one state, as for `jax.vmap`; `in_axes`: 0 for arguments with a leading batch axis and
    `None` for shared ones (models, arrays, and what is no array, such as the name of a frame), one value for all
    arguments or one for each (keyword arguments have the axis); `piece`: how many states are computed at a time, chosen
    for the backend if not given; `mesh`: devices, see `device_mesh`; over all of its axes.

    **Returns:** a function of the batch, with leading axes on all of its results, for use inside or outside of
    `jax.jit`.

    **Raises:** `ValueError` for other axes, a piece that is not positive, and (when called) for batches of different
    lengths, and of any length that the devices of a mesh may not share evenly.
    """
    if not callable(function):
        raise ValueError(f"function must be a function of one state, got {function!r}.")
    piece = None if piece is None else positive_integer("piece", piece)
    if mesh is not None:
        check_mesh(mesh, *getattr(mesh, "axis_names", ()))
    each = in_axes if isinstance(in_axes, Sequence) else (in_axes,)
    if any(axis not in (0, None) for axis in each):
        raise ValueError(f"in_axes must be 0 or None for each argument, got {in_axes!r}. Move batch axes to the front.")
    if all(axis is None for axis in each):
        raise ValueError("in_axes must have a 0: some argument must have a batch axis.")

    @eqx.filter_jit
    def of_batch(*arguments: PyTree[Array], **named: PyTree[Array]) -> PyTree[Array]:
        axes = tuple(each) if isinstance(in_axes, Sequence) else tuple(each) * len(arguments)
        if len(axes) != len(arguments):
            raise ValueError(f"in_axes has {len(axes)} entries for {len(arguments)} arguments.")
        states = *(x for x, axis in zip(arguments, axes, strict=True) if axis == 0), named
        shared = tuple(x for x, axis in zip(arguments, axes, strict=True) if axis is None)
        length = _common_length(states)

        def of_one(states: tuple, shared: tuple) -> PyTree[Array]:
            *own, named = states
            left, right = iter(own), iter(shared)
            return function(*(next(left if axis == 0 else right) for axis in axes), **named)

        def of_all(states: tuple, shared: tuple) -> PyTree[Array]:
            return _in_pieces(lambda *state: of_one(state, shared), states, piece or batch_piece())

        if mesh is None:
            return of_all(states, shared)
        parts, copies = PartitionSpec(mesh.axis_names), PartitionSpec()
        # What is no array, such as the name of a frame, is a part of the program, as it is without a mesh.
        arrays, others = eqx.partition(shared, eqx.is_array)

        def of_share(states: tuple, arrays: tuple) -> PyTree[Array]:
            return of_all(states, eqx.combine(arrays, others))

        over_devices = jax.shard_map(of_share, mesh=mesh, in_specs=(parts, copies), out_specs=parts, check_vma=False)
        missing = -length % mesh.size
        if export.is_symbolic_dim(missing):
            raise ValueError(
                f"A batch of any size, {length}, cannot be shared by {mesh.size} devices: export the function for "
                f'multiples of that, such as jax.export.symbolic_shape("{mesh.size}*n"), or without a mesh.'
            )
        padded = jax.tree.map(lambda x: lengthened(x, missing), states)
        return jax.tree.map(lambda x: x[:length], over_devices(padded, arrays))

    @wraps(function)
    def run(*arguments: PyTree[Array], **named: PyTree[Array]) -> PyTree[Array]:
        # Numbers of Python's would be a part of the program, which would be compiled anew for others.
        given = jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, float) else x, (arguments, named))
        return of_batch(*given[0], **given[1])

    return run


def _in_pieces(function: Callable[..., Any], states: tuple, largest: int) -> PyTree[Array]:
    """All pieces are of equal size, so that they are one loop body; copies of the last state fill them."""
    length = _common_length(states)
    over_piece = jax.vmap(as_one_function(function))
    if export.is_symbolic_dim(length) or length <= largest:
        return over_piece(*states)
    size = -(-length // -(-length // largest))
    pieces = jax.tree.map(lambda x: cut(x, size), states)
    # Inside a loop nothing can be shared with the first evaluation, so XLA need not be kept from trying.
    found = lax.map(jax.checkpoint(lambda piece: over_piece(*piece), prevent_cse=False), pieces)
    return jax.tree.map(lambda x: joined(x, length), found)


def _common_length(states: tuple) -> int:
    shapes = [np.shape(x) for x in jax.tree.leaves(states)]
    lengths = {shape[0] if shape else 0 for shape in shapes}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(
            "Arguments with in_axes=0 must have one leading batch axis in common, of one state or more; got arrays of "
            f"shapes {', '.join(map(str, shapes)) or 'none'}."
        )
    return lengths.pop()
