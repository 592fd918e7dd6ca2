"""Factorising and solving small symmetric positive definite systems, unrolled, and larger ones in blocks of these.

For the few degrees of freedom of one joint a batched LAPACK or cuSOLVER call costs more than the arithmetic, and does
not fuse with what surrounds it. On a CPU two such calls at a time, of batches, may also wait for one another forever:
each holds one of XLA's threads until others have done its parts (jaxlib 0.10). Only large matrices go to the libraries.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from ..numerics import matvec, sum_of, transpose
from ..numerics._options import floating_numbers
from ._products import matmul

# Unrolled programs grow with the square of the size, and libraries become the faster ones. Blocks of four compile in
# half the time of blocks of eight, and batches of systems run in half the time. A program for each of a few blocks, of
# what is left, runs batches twice as fast as one program for all blocks, of everything.
LARGEST_UNROLLED, _BLOCK = 8, 4
_LARGEST_IN_UNROLLED_BLOCKS = 16
LARGEST_IN_BLOCKS = 64


class LDL(eqx.Module):
    """`A = L diag(pivots) L^T` with unit lower triangular `L`. Leading axes are a batch.

    **Fields:** `lower` (k, k), of which only the part below the diagonal is used; `pivots` (k,).
    """

    lower: Float[Array, "*batch k k"]
    pivots: Float[Array, "*batch k"]


def ldl_factor(
    matrix: Float[Array, "*batch k k"], floor: Float[Array, "*#batch k"] | float = 0.0, instead: float = jnp.nan
) -> LDL:
    """LDL^T factorisation without pivoting, for symmetric positive definite matrices.

    Pivots that are not above their `floor`, for each or for all, become `instead`: NaN, so that a singular matrix
    cannot give a finite wrong answer. With a number in their place, matrices of more than 64 rows take longer.
    """
    matrix = floating_numbers("matrix", matrix)
    k = matrix.shape[-1] if matrix.ndim else 0
    if matrix.shape[-2:] != (k, k):
        raise ValueError(f"matrix must be square (..., k, k), got {matrix.shape}.")
    if k == 0:
        return LDL(matrix, jnp.zeros(matrix.shape[:-1], matrix.dtype))
    # Libraries are faster, but replace no pivots.
    if k > LARGEST_IN_BLOCKS and math.isnan(instead):
        return _factor_by_library(matrix, floor)
    floor = jnp.broadcast_to(floor, matrix.shape[:-1])
    if k > LARGEST_UNROLLED:
        return _over_batch(lambda a, f: _factor_by_blocks(a, f, instead), matrix, floor, axes=(2, 1))
    rest, columns, pivots = matrix, [], []
    for i in range(k):
        pivots.append(_checked(rest[..., i, i : i + 1], floor[..., i : i + 1], instead))
        columns.append(rest[..., :, i : i + 1] / pivots[-1][..., None])
        if i + 1 < k:
            rest = rest - columns[-1] * _row(rest, i)
    return LDL(jnp.concatenate(columns, axis=-1), jnp.concatenate(pivots, axis=-1))


def ldl_solve(
    factor: LDL, b: Float[Array, "*batch k"] | Float[Array, "*batch k m"]
) -> Float[Array, "*batch k"] | Float[Array, "*batch k m"]:
    """`A^-1 b` for one right-hand side, where `b` has as many axes as `factor.pivots`, or for m of them."""
    b = floating_numbers("b", b)
    if b.ndim == factor.pivots.ndim:
        return ldl_solve(factor, b[..., None])[..., 0]
    k = factor.pivots.shape[-1]
    if b.ndim < factor.pivots.ndim or b.shape[-2] != k:
        raise ValueError(
            f"b must have shape (..., k) or (..., k, m) with k = {k}, and as many axes before these as a factor with "
            f"pivots of shape {factor.pivots.shape}; its columns have shape {b.shape}."
        )
    b = b.astype(jnp.result_type(factor.pivots, b))
    if k == 0:
        return b
    if k > LARGEST_IN_BLOCKS:
        return _solve_by_library(factor, b)
    if k > LARGEST_UNROLLED:
        return _over_batch(
            lambda a, d, b: _solve_by_blocks(LDL(a, d), b), factor.lower, factor.pivots, b, axes=(2, 1, 2)
        )
    return _back_substitute(factor, _forward_substitute(factor.lower, b))


def root_solve(factor: LDL, b: Float[Array, "*batch k"]) -> Float[Array, "*batch k"]:
    """`C^-1 b`, with the lower triangular root C in `A = C C^T`."""
    roots = jnp.sqrt(factor.pivots)
    if b.shape[-1] > LARGEST_UNROLLED:  # By the solution in blocks, whose halves are no functions of their own.
        return matvec(transpose(lower_root(factor)), ldl_solve(factor, b))
    return _forward_substitute(factor.lower, b[..., None])[..., 0] / roots


def root_solve_transposed(factor: LDL, b: Float[Array, "*batch k"]) -> Float[Array, "*batch k"]:
    """`C^-T b`."""
    roots = jnp.sqrt(factor.pivots)
    if b.shape[-1] > LARGEST_UNROLLED:
        return ldl_solve(factor, matvec(lower_root(factor), b))
    return _back_substitute(factor, (b * roots)[..., None])[..., 0]


def lower_root(factor: LDL) -> Float[Array, "*batch k k"]:
    """Lower triangular C in `A = C C^T`."""
    k = factor.pivots.shape[-1]
    return jnp.where(jnp.tri(k, dtype=bool), factor.lower, 0) * jnp.sqrt(factor.pivots)[..., None, :]


class PivotRule(eqx.Module):
    """What solvers do with pivots that are not positive.

    **Fields:** `floor`: multiple of the machine epsilon that a pivot must exceed; `instead`: what replaces it.
    """

    floor: float = eqx.field(static=True)
    instead: float = eqx.field(static=True)

    def factor(self, matrix: Float[Array, "*batch k k"]) -> LDL:
        """`ldl_factor` by this rule."""
        return ldl_factor(matrix, self.floor * float(jnp.finfo(matrix.dtype).eps), self.instead)


STRICT = PivotRule(0.0, float("nan"))
"""Only positive definite matrices; others give NaN."""

PINNING = PivotRule(8.0, 1e6)
"""For matrices of unit diagonal. An unknown whose pivot is lost in rounding is held at almost zero.

Where the right-hand side does not excite it, that is right; whoever uses this must look at the residual.
"""


def spd_solve(
    matrix: Float[Array, "*batch k k"], b: Float[Array, "*batch k"] | Float[Array, "*batch k m"]
) -> Float[Array, "*batch k"] | Float[Array, "*batch k m"]:
    """`A^-1 b` for symmetric positive definite `A`; NaN where it is not."""
    return ldl_solve(ldl_factor(matrix), b)


def spd_inverse(matrix: Float[Array, "*batch k k"]) -> Float[Array, "*batch k k"]:
    """`A^-1` for symmetric positive definite `A`; NaN where it is not."""
    factor = ldl_factor(matrix)
    identity = jnp.eye(factor.pivots.shape[-1], dtype=factor.pivots.dtype)
    return ldl_solve(factor, jnp.broadcast_to(identity, factor.lower.shape))


def _checked(pivots: Array, floor: Array | float, instead: float) -> Array:
    return jnp.where(pivots > floor, pivots, instead)


def _forward_substitute(lower: Array, b: Array) -> Array:
    """`y` in `L y = b`."""
    y: list[Array] = []
    for i in range(b.shape[-2]):
        known = (lower[..., i : i + 1, j : j + 1] * y[j] for j in range(i))
        y.append(_row(b, i) - sum_of(known) if i else _row(b, i))
    return jnp.concatenate(y, axis=-2)


def _back_substitute(factor: LDL, y: Array) -> Array:
    """`x` in `diag(pivots) L^T x = y`."""
    k = y.shape[-2]
    scaled = y / factor.pivots[..., None]
    x: list[Array] = []
    for i in reversed(range(k)):
        known = (factor.lower[..., j : j + 1, i : i + 1] * x[k - 1 - j] for j in range(i + 1, k))
        x.append(_row(scaled, i) - sum_of(known) if i + 1 < k else _row(scaled, i))
    return jnp.concatenate(x[::-1], axis=-2)


def _row(matrix: Array, i: int) -> Array:
    """One row, as a matrix: see `_small` for why not as a vector."""
    return matrix[..., i : i + 1, :]


def _factor_by_blocks(matrix: Float[Array, "k k"], floor: Float[Array, "k"], instead: float) -> LDL:
    """Column by column of blocks, of which the program has one. What fills up the last block is the identity.

    Blocks of large matrices are as large as what is divided into small ones.
    """
    k = len(matrix)
    size, substitute = (_BLOCK, _forward_substitute) if k <= LARGEST_IN_BLOCKS else (LARGEST_IN_BLOCKS, _solve_lower)
    if k <= _LARGEST_IN_UNROLLED_BLOCKS:
        return _factor_by_unrolled_blocks(matrix, floor, instead)
    more = -k % size
    full = k + more
    matrix = jnp.pad(matrix, (0, more)) + jnp.diag(jnp.pad(jnp.zeros(k, matrix.dtype), (0, more), constant_values=1))
    floor, rows = jnp.pad(floor, (0, more)), jnp.arange(full)

    def eliminate(rest: Array, first: Array) -> tuple[Array, tuple[Array, Array]]:
        columns = lax.dynamic_slice(rest, (first, 0), (size, full))  # of a symmetric matrix, transposed
        own = ldl_factor(
            lax.dynamic_slice(columns, (0, first), (size, size)), lax.dynamic_slice(floor, (first,), (size,)), instead
        )
        scaled = jnp.where(rows < first + size, 0, substitute(own.lower, columns))
        below = scaled / own.pivots[:, None]
        column = lax.dynamic_update_slice(below, transpose(own.lower), (0, first))
        return rest - matmul(transpose(scaled), below), (column, own.pivots)

    _, (lower, pivots) = lax.scan(eliminate, matrix, jnp.arange(0, full, size))
    return LDL(transpose(lower.reshape(full, full))[:k, :k], pivots.reshape(full)[:k])


def _solve_by_blocks(factor: LDL, b: Float[Array, "k m"]) -> Float[Array, "k m"]:
    (k, m), size = b.shape, _BLOCK
    if k <= _LARGEST_IN_UNROLLED_BLOCKS:
        return _solve_by_unrolled_blocks(factor, b)
    more = -k % size
    full = k + more
    lower = transpose(jnp.pad(factor.lower, (0, more))).reshape(-1, size, full)  # columns of blocks, transposed
    pivots = jnp.pad(factor.pivots, (0, more), constant_values=1).reshape(-1, size)
    rows, firsts = jnp.arange(full), jnp.arange(0, full, size)

    def parts(columns: Array, first: Array) -> tuple[Array, Array]:
        own = transpose(lax.dynamic_slice(columns, (0, first), (size, size)))
        return own, jnp.where(rows < first + size, 0, columns)

    def forward(rest: Array, block: tuple) -> tuple[Array, Array]:
        columns, first = block
        own, below = parts(columns, first)
        y = _forward_substitute(own, lax.dynamic_slice(rest, (first, 0), (size, m)))
        return rest - matmul(transpose(below), y), y

    def backward(x: Array, block: tuple) -> tuple[Array, None]:
        columns, first, pivots, y = block
        own, below = parts(columns, first)
        known = matmul(below, x)
        part = _back_substitute(LDL(own, pivots), y - pivots[:, None] * known)
        return lax.dynamic_update_slice(x, part, (first, 0)), None

    _, y = lax.scan(forward, jnp.pad(b, ((0, more), (0, 0))), (lower, firsts))
    x, _ = lax.scan(backward, jnp.zeros((full, m), y.dtype), (lower, firsts, pivots, y), reverse=True)
    return x[:k]


def _factor_by_unrolled_blocks(matrix: Float[Array, "k k"], floor: Float[Array, "k"], instead: float) -> LDL:
    """Block by block, of what is left of the matrix."""
    k, rest = len(matrix), matrix
    columns, pivots = [], []
    for first in range(0, k, _BLOCK):
        size = min(_BLOCK, k - first)
        own = ldl_factor(rest[:size, :size], floor[first : first + size], instead)
        scaled = _forward_substitute(own.lower, rest[:size, size:])
        below = scaled / own.pivots[:, None]
        columns.append(jnp.pad(jnp.concatenate([transpose(own.lower), below], axis=1), ((0, 0), (first, 0))))
        pivots.append(own.pivots)
        rest = rest[size:, size:] - matmul(transpose(scaled), below)
    return LDL(transpose(jnp.concatenate(columns)), jnp.concatenate(pivots))


def _solve_by_unrolled_blocks(factor: LDL, b: Float[Array, "k m"]) -> Float[Array, "k m"]:
    k, rest = len(b), b
    blocks = [slice(first, min(first + _BLOCK, k)) for first in range(0, k, _BLOCK)]
    y: list[Array] = []
    for block in blocks:
        size = block.stop - block.start
        y.append(_forward_substitute(factor.lower[block, block], rest[:size]))
        rest = rest[size:] - matmul(factor.lower[block.stop :, block], y[-1])
    x = jnp.zeros((0, b.shape[1]), b.dtype)
    for block, part in zip(blocks[::-1], y[::-1], strict=True):
        pivots = factor.pivots[block]
        known = matmul(transpose(factor.lower[block.stop :, block]), x)
        own = _back_substitute(LDL(factor.lower[block, block], pivots), part - pivots[:, None] * known)
        x = jnp.concatenate([own, x])
    return x


def _over_batch(function: Callable, *arrays: Array, axes: tuple[int, ...]) -> Any:
    """A function of arrays with so many axes each, over all axes before these."""
    shape = jnp.broadcast_shapes(*(x.shape[: x.ndim - n] for x, n in zip(arrays, axes, strict=True)))
    own = [jnp.broadcast_to(x, (*shape, *x.shape[x.ndim - n :])) for x, n in zip(arrays, axes, strict=True)]
    for _ in shape:
        function = jax.vmap(function)
    return function(*own)


def _factor_by_library(matrix: Array, floor: Array | float) -> LDL:
    cholesky = jnp.linalg.cholesky(matrix, symmetrize_input=False)
    roots = jnp.diagonal(cholesky, axis1=-2, axis2=-1)
    return LDL(cholesky / roots[..., None, :], _checked(roots**2, floor, jnp.nan))


def _solve_by_library(factor: LDL, b: Array) -> Array:
    y = _solve_lower(factor.lower, b)
    return solve_triangular(transpose(factor.lower), y / factor.pivots[..., None], lower=False, unit_diagonal=True)


def _solve_lower(lower: Array, b: Array) -> Array:
    """`y` in `L y = b`, by the library."""
    return solve_triangular(lower, b, lower=True, unit_diagonal=True)
