"""The interface of solvers for block-tridiagonal systems."""

import abc

import equinox as eqx
from jaxtyping import Array, Float

from ..numerics import transpose
from ..numerics._options import check_instance
from ._arguments import Blocks, Columns
from ._products import following, matmul, previous
from ._small_spd import STRICT, PivotRule


class AbstractTridiagonalFactor(eqx.Module):
    """A factorisation of a symmetric positive definite block-tridiagonal matrix."""

    @abc.abstractmethod
    def solve(self, b: Columns) -> Columns:
        """`A^-1 b` (n, k, m), for m columns."""


class AbstractTridiagonalSolver(eqx.Module):
    """A way of factorising symmetric positive definite block-tridiagonal matrices.

    Solvers are hashable and hold no arrays, so they can be static fields. No solver assumes that off-diagonal blocks
    are invertible. Derivatives are none of their concern: `BlockTridiagonal.solve` supplies those. A new one is a
    subclass with `factor`, for at least one block.
    """

    @abc.abstractmethod
    def factor(self, diagonal: Blocks, lower: Blocks, pivots: PivotRule = STRICT) -> AbstractTridiagonalFactor:
        """Factorises the matrix with the blocks `A_ii = diagonal[i]`, `A_{i,i-1} = lower[i]`; `lower[0]` is zero.

        Both are (n, k, k). Blocks are factorised by `pivots.factor`.
        """

    def factor_parts(
        self, diagonal: Blocks, lower: Blocks, longest: int, pivots: PivotRule = STRICT
    ) -> AbstractTridiagonalFactor:
        """`factor` of a matrix in which no more than `longest` successive blocks are coupled; may do less work."""
        return self.factor(diagonal, lower, pivots)


def check_tridiagonal_solver(solver: object, name: str = "solver") -> None:
    """Raises `ValueError` for anything else."""
    check_instance(name, solver, AbstractTridiagonalSolver, "one for block-tridiagonal systems, such as BlockLDL()")


def tridiagonal_product(
    diagonal: Float[Array, "n k k"], lower: Float[Array, "n k k"], x: Float[Array, "n k m"]
) -> Columns:
    """`A x`, in the notation of `AbstractTridiagonalSolver.factor`."""
    above = following(matmul(transpose(lower), x))
    return matmul(lower, previous(x)) + matmul(diagonal, x) + above
