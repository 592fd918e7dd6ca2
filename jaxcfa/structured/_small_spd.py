"""Factorising and solving small symmetric positive definite systems, unrolled.

For the few degrees of freedom of one joint a batched LAPACK or cuSOLVER call costs more than the arithmetic, and does
not fuse with what surrounds it.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._small import sum_of


class LDL(eqx.Module):
    """`A = L diag(pivots) L^T` with unit lower triangular `L`. Leading axes are a batch.

    **Fields:** `lower` (k, k), of which only the part below the diagonal is used; `pivots` (k,).
    """

    lower: Float[Array, "*batch k k"]
    pivots: Float[Array, "*batch k"]


def ldl_factor(matrix: Float[Array, "*batch k k"], floor: Float[Array, "*batch"] | float = 0.0) -> LDL:
    """LDL^T factorisation without pivoting, for symmetric positive definite matrices.

    Pivots that are not above `floor` become NaN, so that a singular matrix cannot give a finite wrong answer.
    """
    k = matrix.shape[-1]
    rest, columns, pivots = matrix, [], []
    for i in range(k):
        pivot = rest[..., i, i]
        pivots.append(jnp.where(pivot > floor, pivot, jnp.nan))
        column = rest[..., :, i] / pivots[-1][..., None]
        columns.append(column)
        if i + 1 < k:
            rest = rest - column[..., :, None] * rest[..., None, i, :]
    if k == 0:
        return LDL(matrix, matrix[..., 0])
    return LDL(jnp.stack(columns, axis=-1), jnp.stack(pivots, axis=-1))


def ldl_solve(factor: LDL, b: Float[Array, "*batch k m"]) -> Float[Array, "*batch k m"]:
    """`A^-1 b` for several right-hand sides, by substitution row by row."""
    k = factor.pivots.shape[-1]
    if k == 0:
        return b
    lower = factor.lower
    y: list[Array] = []
    for i in range(k):
        known = (lower[..., i, j, None] * y[j] for j in range(i))
        y.append(b[..., i, :] - sum_of(known) if i else b[..., i, :])
    x: list[Array] = []
    for i in reversed(range(k)):
        scaled = y[i] / factor.pivots[..., i, None]
        known = (lower[..., j, i, None] * x[k - 1 - j] for j in range(i + 1, k))
        x.append(scaled - sum_of(known) if i + 1 < k else scaled)
    return jnp.stack(x[::-1], axis=-2)
