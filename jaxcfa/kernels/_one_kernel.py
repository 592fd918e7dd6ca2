"""A batch as one kernel, by Pallas and Triton."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, PyTree

from .. import _backend
from ._straight_line import Operation, StraightLine, Unsupported, Value, straight_line

BLOCK = 32  # states of a block of threads: a warp
_WIDEST = 128  # numbers of a state that are read or written at once
# Triton compiles in a time that is the product of the square of the operations with the number of reads and writes.
SHORT = 4000  # operations of kernels that read and write each array by itself; others have few arrays
LONGEST = 25_000  # operations


def one_kernel(function: Callable[..., PyTree[Array]]) -> Callable[..., PyTree[Array]]:
    """`jax.vmap(function)`, on GPUs as one kernel in which each thread computes one state.

    Otherwise a batch takes some dozens of kernels, between which all intermediate results go through memory, and whose
    starts are most of the time of a few thousand states. Everything that is not an argument (a model, say) is a
    constant of the kernel, and what is zero or one in it costs nothing. The function becomes a straight line of
    operations on numbers, of which compilers take a time that grows with the square of their count: seconds for arms,
    a minute for humanoids.

        dynamics = jaxcfa.one_kernel(lambda q, v, tau: jaxcfa.forward_dynamics(model, q, v, tau))
        accelerations = dynamics(q, v, tau)  # of thousands of states

    For use inside or outside of `jax.jit`, `lax.scan` and `jax.vmap`. Derivatives of the result are those of
    `jax.vmap(function)`, which are not one kernel: take `one_kernel(jax.grad(cost))` instead. On other backends this is
    `jax.vmap(function)`.

    **Arguments:** `function` of arrays (pytrees) of one state, which closes over everything that all states share.

    **Returns:** a function of a batch: all arguments have a leading axis of equal length, and so have the results.

    **Raises:** `ValueError`, when called, for arguments without a common leading axis; on GPUs also if the function
    closes over a traced value, or has what cannot be written as operations on numbers: loops of unknown length, indices
    that depend on the state, sorting, random numbers, or calls of libraries, as in `jnp.linalg`; or if it has more than
    25,000 operations.
    """
    if not callable(function):
        raise ValueError(f"function must be a function of one state, got {function!r}.")
    plain = jax.vmap(function)

    @jax.custom_jvp
    def of_batch(*arguments):
        return _run(function, arguments) if _backend.backend() in ("gpu", "cuda", "rocm") else plain(*arguments)

    @of_batch.defjvp
    def _of_tangents(primals, tangents):
        return jax.jvp(plain, primals, tangents)

    @functools.wraps(function)
    def checked(*arguments: PyTree[Array]) -> PyTree[Array]:
        lengths = sorted({np.shape(x)[:1] for x in jax.tree.leaves(arguments)})
        if len(lengths) != 1 or lengths[0] == ():
            raise ValueError(f"All arrays need a leading axis of the batch's length, got {lengths or 'no arrays'}.")
        return of_batch(*arguments)

    return checked


def _run(function: Callable, arguments: tuple, interpret: bool = False, short: int = SHORT) -> PyTree[Array]:
    """The batch by a kernel. `interpret`: without a GPU, for tests. `short`: see `SHORT`."""
    leaves, structure = jax.tree.flatten(arguments)
    one = jax.tree.unflatten(structure, [jax.ShapeDtypeStruct(np.shape(x)[1:], jnp.result_type(x)) for x in leaves])
    name = getattr(function, "__name__", repr(function))
    try:
        line = straight_line(function, *one)
    except Unsupported as error:
        raise ValueError(f"one_kernel cannot make a kernel of {name}: {error}. Use jax.vmap.") from None
    if len(line.operations) > LONGEST:
        raise ValueError(
            f"{name} has {len(line.operations)} operations on numbers, and a kernel of more than {LONGEST} takes "
            "minutes to compile. Use jax.vmap."
        )

    @custom_vmap
    def kernel(*leaves):
        return _of_leaves(line, len(line.operations) > short, interpret, leaves)

    @kernel.def_vmap
    def _of_batches(size, batched, *leaves):
        # Two axes of a batch are one.
        pairs = zip(leaves, batched, strict=True)
        full = [x if is_batched else jnp.broadcast_to(x, (size, *x.shape)) for x, is_batched in pairs]
        results = kernel(*(x.reshape(-1, *x.shape[2:]) for x in full))
        return [x.reshape(size, -1, *x.shape[1:]) for x in results], [True] * len(results)

    return jax.tree.unflatten(jax.tree.structure(line.results), kernel(*map(jnp.asarray, leaves)))


def _of_leaves(line: StraightLine, together: bool, interpret: bool, leaves: Sequence[Array]) -> list[Array]:
    """Results of the whole batch from arguments, both leaf by leaf. `together`: in few arrays in the kernel."""
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
        known[index] = _computed(operation, known)
    for group, ref in zip(wanted, refs[len(given) :], strict=True):
        _write(ref, [_column(x, ref.dtype, known) for leaf in group for x in line.outputs[leaf]], first, inside)


def _computed(operation: Operation, known: dict[int, Array]) -> Array:
    dtype = next(known[x.number].dtype for x in operation.operands if isinstance(x, Value))
    return operation.primitive.bind(
        *(_column(x, getattr(x, "dtype", dtype), known) for x in operation.operands), **operation.params
    )


def _column(x: Value | np.generic, dtype, known: dict[int, Array]) -> Array:
    """A number of all states of the block."""
    return known[x.number] if isinstance(x, Value) else jnp.full((BLOCK,), jnp.asarray(x, dtype))


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
