"""Symmetric positive definite block-tridiagonal operators."""

from typing import Annotated

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..compilation import jit_alone
from ..numerics import linear_solution, transpose
from ._arguments import Blocks, Columns, as_blocks, as_columns
from ._block_ldl import BLOCK_LDL
from ._tridiagonal_solver import (
    AbstractTridiagonalFactor,
    AbstractTridiagonalSolver,
    check_tridiagonal_solver,
    tridiagonal_product,
)


class BlockTridiagonal(eqx.Module):
    """A symmetric positive definite matrix of n by n blocks, zero except on three diagonals.

    **Fields:** `diagonal` blocks `A_ii` (n, k, k), each symmetric; `lower` blocks `A_{i+1,i}` (n - 1, k, k). Above the
    diagonal are the transposes of the latter.
    """

    diagonal: Float[Array, "n k k"]
    lower: Float[Array, "m k k"]

    def __init__(self, diagonal: Annotated[ArrayLike, "n k k"], lower: Annotated[ArrayLike, "n-1 k k"]):
        blocks = as_blocks("diagonal", diagonal), as_blocks("lower", lower)
        self.diagonal, self.lower = (x.astype(jnp.result_type(*blocks)) for x in blocks)
        n, k, _ = self.diagonal.shape
        expected = (max(n - 1, 0), k, k)
        if self.lower.shape != expected:
            raise ValueError(
                f"lower must have shape (n - 1, k, k) = {expected} to go with a diagonal of shape "
                f"{self.diagonal.shape}, got {self.lower.shape}. Leave out blocks beyond the ends."
            )

    def mv(self, x: Annotated[ArrayLike, "n k"] | Annotated[ArrayLike, "n k m"]) -> Array:
        """`A x` for one column (n, k) or several (n, k, m)."""
        columns, restore = as_columns("x", x, self.diagonal)
        return restore(tridiagonal_product(self.diagonal, self._padded_lower(), columns))

    def factor(self, solver: AbstractTridiagonalSolver = BLOCK_LDL) -> "FactoredBlockTridiagonal":
        """Factorises once, for solving with right-hand sides that come one after the other."""
        check_tridiagonal_solver(solver)
        return _factored(self, solver)

    def solve(
        self,
        b: Annotated[ArrayLike, "n k"] | Annotated[ArrayLike, "n k m"],
        solver: AbstractTridiagonalSolver = BLOCK_LDL,
    ) -> Array:
        """`x` in `A x = b` for one column (n, k) or several (n, k, m); NaN if A is not positive definite.

        The derivatives, in both modes, are one more solution each with the same factorisation:
        `dx = A^-1 (db - dA x)`.
        """
        return self.factor(solver).solve(b)

    def as_matrix(self) -> Float[Array, "nk nk"]:
        """The dense matrix (n k, n k)."""
        n, k, _ = self.diagonal.shape
        i = jnp.arange(n)
        dense = jnp.zeros((n, k, n, k), self.diagonal.dtype)
        dense = dense.at[i, :, i, :].set(self.diagonal)
        dense = dense.at[i[1:], :, i[:-1], :].set(self.lower)
        return dense.at[i[:-1], :, i[1:], :].set(transpose(self.lower)).reshape(n * k, n * k)

    def _padded_lower(self) -> Blocks:
        return jnp.concatenate([jnp.zeros_like(self.diagonal[:1]), self.lower])


class FactoredBlockTridiagonal(eqx.Module):
    """A `BlockTridiagonal` matrix with its factorisation.

    **Fields:** `matrix`; `factors`, `None` if there are no blocks.
    """

    matrix: BlockTridiagonal
    factors: AbstractTridiagonalFactor | None

    def __init__(self, matrix: BlockTridiagonal, solver: AbstractTridiagonalSolver = BLOCK_LDL):
        check_tridiagonal_solver(solver)
        self.matrix = matrix
        # Derivatives come from the matrix (see `solve`), never from the course of the factorisation.
        diagonal, lower = lax.stop_gradient((matrix.diagonal, matrix._padded_lower()))
        self.factors = solver.factor(diagonal, lower) if diagonal.size else None

    def solve(self, b: Annotated[ArrayLike, "n k"] | Annotated[ArrayLike, "n k m"]) -> Array:
        """Solves as `BlockTridiagonal.solve` does."""
        columns, restore = as_columns("b", b, self.matrix.diagonal)
        if self.factors is None or not columns.size:
            return restore(columns)
        return restore(_solved(self.matrix, self.factors, columns))


@jit_alone
def _factored(matrix: BlockTridiagonal, solver: AbstractTridiagonalSolver) -> FactoredBlockTridiagonal:
    return FactoredBlockTridiagonal(matrix, solver)


@jit_alone
def _solved(matrix: BlockTridiagonal, factors: AbstractTridiagonalFactor, columns: Columns) -> Columns:
    return linear_solution(matrix.mv, columns, lambda found, rhs: found.solve(rhs), factors)
