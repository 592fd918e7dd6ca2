"""Factorising and solving small symmetric positive definite systems, unrolled.

For the few degrees of freedom of one joint a batched LAPACK or cuSOLVER call costs more than the arithmetic, and does
not fuse with what surrounds it. Larger matrices go to those libraries all the same.
"""

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from .._small import sum_of, transpose

# Unrolled programs grow with the square of the size, and libraries become the faster ones.
LARGEST_UNROLLED = 8


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
    cannot give a finite wrong answer.
    """
    k = matrix.shape[-1]
    if k == 0:
        return LDL(matrix, jnp.zeros(matrix.shape[:-1], matrix.dtype))
    if k > LARGEST_UNROLLED:
        return _factor_by_library(matrix, floor, instead)
    floor = jnp.broadcast_to(floor, matrix.shape[:-1])
    rest, columns, pivots = matrix, [], []
    for i in range(k):
        pivots.append(_checked(rest[..., i, i], floor[..., i], instead))
        columns.append(rest[..., :, i] / pivots[-1][..., None])
        if i + 1 < k:
            rest = rest - columns[-1][..., :, None] * rest[..., None, i, :]
    return LDL(jnp.stack(columns, axis=-1), jnp.stack(pivots, axis=-1))


def ldl_solve(
    factor: LDL, b: Float[Array, "*batch k"] | Float[Array, "*batch k m"]
) -> Float[Array, "*batch k"] | Float[Array, "*batch k m"]:
    """`A^-1 b` for one right-hand side, where `b` has as many axes as `factor.pivots`, or for m of them."""
    if b.ndim == factor.pivots.ndim:
        return ldl_solve(factor, b[..., None])[..., 0]
    k = factor.pivots.shape[-1]
    if k == 0:
        return b
    if k > LARGEST_UNROLLED:
        return _solve_by_library(factor, b)
    return _back_substitute(factor, _forward_substitute(factor.lower, b))


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
    identity = jnp.broadcast_to(jnp.eye(matrix.shape[-1], dtype=matrix.dtype), matrix.shape)
    return spd_solve(matrix, identity)


def _checked(pivots: Array, floor: Array | float, instead: float) -> Array:
    return jnp.where(pivots > floor, pivots, instead)


def _forward_substitute(lower: Array, b: Array) -> list[Array]:
    """Rows of `y` in `L y = b`."""
    y: list[Array] = []
    for i in range(b.shape[-2]):
        known = (lower[..., i, j, None] * y[j] for j in range(i))
        y.append(b[..., i, :] - sum_of(known) if i else b[..., i, :])
    return y


def _back_substitute(factor: LDL, y: list[Array]) -> Array:
    """`x` in `diag(pivots) L^T x = y`."""
    k = len(y)
    x: list[Array] = []
    for i in reversed(range(k)):
        scaled = y[i] / factor.pivots[..., i, None]
        known = (factor.lower[..., j, i, None] * x[k - 1 - j] for j in range(i + 1, k))
        x.append(scaled - sum_of(known) if i + 1 < k else scaled)
    return jnp.stack(x[::-1], axis=-2)


def _factor_by_library(matrix: Array, floor: Array | float, instead: float) -> LDL:
    cholesky = jnp.linalg.cholesky(matrix, symmetrize_input=False)
    roots = jnp.diagonal(cholesky, axis1=-2, axis2=-1)
    return LDL(cholesky / roots[..., None, :], _checked(roots**2, floor, instead))


def _solve_by_library(factor: LDL, b: Array) -> Array:
    y = solve_triangular(factor.lower, b, lower=True, unit_diagonal=True)
    return solve_triangular(transpose(factor.lower), y / factor.pivots[..., None], lower=False, unit_diagonal=True)
