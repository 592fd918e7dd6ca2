"""Straight lines as kernels, by Pallas and Triton."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array

from ._straight_line import StraightLine, column, computed

BLOCK = 32  # states of a block of threads: a warp
_WIDEST = 128  # numbers of a state that are read or written at once


def run(line: StraightLine, leaves: Sequence[Array], together: bool, interpret: bool = False) -> list[Array]:
    """Results of the whole batch from arguments, both leaf by leaf.

    `together`: in few arrays in the kernel, which are made before and taken apart after it. `interpret`: without a GPU.
    """
    size, results = leaves[0].shape[0], jax.tree.leaves(line.results)
    given, wanted = _groups(line.inputs, together), _groups(results, together)
    if not size or not wanted:
        return [jnp.zeros((size, *x.shape), x.dtype) for x in results]
    made = pl.pallas_call(
        functools.partial(_kernel, line, given, wanted, size),
        grid=(pl.cdiv(size, BLOCK),),
        out_shape=[
            jax.ShapeDtypeStruct((size, sum(_sizes(group, results))), results[group[0]].dtype) for group in wanted
        ],
        compiler_params=None if interpret else triton.CompilerParams(num_warps=1, num_stages=1),
        interpret=interpret,
        name="one_kernel",
    )(*(jnp.concatenate([leaves[i].reshape(size, -1) for i in group], axis=1) for group in given))
    parts: dict[int, Array] = {}
    for group, array in zip(wanted, made, strict=True):
        ends = np.cumsum(_sizes(group, results))[:-1]
        parts.update(zip(group, jnp.split(array, ends, axis=1), strict=True))
    none = jnp.zeros((size, 0))
    return [parts.get(i, none).reshape(size, *x.shape).astype(x.dtype) for i, x in enumerate(results)]


def _sizes(group: Sequence[int], leaves: Sequence) -> list[int]:
    return [math.prod(leaves[i].shape) for i in group]


def _groups(leaves: Sequence, together: bool) -> list[list[int]]:
    """Leaves that are one array in the kernel, by number: each its own, or all of a type; none without numbers."""
    groups: dict[Any, list[int]] = {}
    for i, x in enumerate(leaves):
        if math.prod(x.shape):
            groups.setdefault(x.dtype if together else i, []).append(i)
    return list(groups.values())


def _kernel(line: StraightLine, given: list[list[int]], wanted: list[list[int]], size: int, *refs) -> None:
    """What a block of threads does."""
    first = pl.program_id(0) * BLOCK
    inside = first + lax.iota(jnp.int32, BLOCK) < size
    starts = np.cumsum([0, *_sizes(range(len(line.inputs)), line.inputs)])
    known: dict[int, Array] = {}
    for group, ref in zip(given, refs, strict=False):
        indices = [i for leaf in group for i in range(starts[leaf], starts[leaf + 1])]
        known.update(zip(indices, _read(ref, len(indices), first, inside), strict=True))
    for index, operation in enumerate(line.operations, line.input_size):
        known[index] = computed(operation, known, BLOCK)
    for group, ref in zip(wanted, refs[len(given) :], strict=True):
        _write(ref, [column(x, ref.dtype, known, BLOCK) for leaf in group for x in line.outputs[leaf]], first, inside)


def _parts(n: int) -> list[int]:
    """Where parts of so many numbers start, each of `_WIDEST`, the last of which may overlap the one before."""
    return [0] if n <= _WIDEST else [*range(0, n - _WIDEST, _WIDEST), n - _WIDEST]


def _read(ref, n: int, first, inside) -> list[Array]:
    """The numbers of a state, as columns: the more numbers are read at once, the sooner is a kernel compiled."""
    columns: dict[int, Array] = {}
    whole, within = _mask(n, inside)
    for start in _parts(n):
        rows = triton.load(
            ref.at[pl.ds(first, BLOCK), pl.ds(jnp.int32(start), whole)], mask=within, other=_zero(ref.dtype)
        )
        split = lax.split(rows, [1] * whole, axis=1) if whole > 1 else [rows]
        columns.update((start + i, x.reshape(BLOCK)) for i, x in enumerate(split))
    return [columns[i] for i in range(n)]


def _write(ref, columns: list[Array], first, inside) -> None:
    whole, within = _mask(len(columns), inside)
    for start in _parts(len(columns)):
        part = columns[start : start + whole]
        part += [part[0]] * (whole - len(part))
        # Two by two, those that are farthest apart first, which become neighbours last.
        while len(part) > 1:
            half = len(part) // 2
            part = [jnp.stack([x, y], axis=-1) for x, y in zip(part[:half], part[half:], strict=True)]
        rows = part[0].reshape(BLOCK, whole)
        triton.store(ref.at[pl.ds(first, BLOCK), pl.ds(jnp.int32(start), whole)], rows, mask=within)


def _mask(n: int, inside) -> tuple[int, Array]:
    """How many numbers are read or written at once, a power of two, and which of them there are in each state."""
    whole = min(1 << (n - 1).bit_length(), _WIDEST)
    return whole, inside[:, None] & (lax.iota(jnp.int32, whole) < n)[None, :]


def _zero(dtype):
    return np.zeros((), dtype)[()]
