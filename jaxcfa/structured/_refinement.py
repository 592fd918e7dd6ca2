"""Iterative refinement."""

import equinox as eqx
from jaxtyping import Array, Float

from ..numerics._options import positive_integer
from ._arguments import Blocks, Columns
from ._small_spd import STRICT, PivotRule
from ._tridiagonal_solver import (
    AbstractTridiagonalFactor,
    AbstractTridiagonalSolver,
    check_tridiagonal_solver,
    tridiagonal_product,
)


class Refined(AbstractTridiagonalSolver):
    """Another solver, with `steps` of iterative refinement `x += A^-1 (b - A x)` by the same factorisation.

    Residuals of odd-even elimination exceed those of `BlockLDL` by the condition number of the couplings that it
    eliminates; one step removes that. It is no remedy for a matrix whose condition number exceeds the precision.
    """

    solver: AbstractTridiagonalSolver
    steps: int = eqx.field(static=True, default=1)

    def __check_init__(self):
        positive_integer("steps", self.steps, or_zero=True)
        check_tridiagonal_solver(self.solver)

    def factor(self, diagonal: Blocks, lower: Blocks, pivots: PivotRule = STRICT) -> "RefinedFactor":
        return self.factor_parts(diagonal, lower, len(diagonal), pivots)

    def factor_parts(
        self, diagonal: Blocks, lower: Blocks, longest: int, pivots: PivotRule = STRICT
    ) -> "RefinedFactor":
        return RefinedFactor(diagonal, lower, self.solver.factor_parts(diagonal, lower, longest, pivots), self.steps)


class RefinedFactor(AbstractTridiagonalFactor):
    """**Fields:** the matrix's blocks and its factorisation by the other solver."""

    diagonal: Float[Array, "n k k"]
    lower: Float[Array, "n k k"]
    factors: AbstractTridiagonalFactor
    steps: int = eqx.field(static=True)

    def solve(self, b: Columns) -> Columns:
        x = self.factors.solve(b)
        for _ in range(self.steps):
            x = x + self.factors.solve(b - tridiagonal_product(self.diagonal, self.lower, x))
        return x
