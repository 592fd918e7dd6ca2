"""Odd-even elimination, the fixed-shape parallel solver."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import symmetrise, transpose
from ._arguments import Blocks, Columns
from ._products import matmul
from ._rounds import collected_rounds
from ._scan import doubling_rounds
from ._small_spd import LDL, STRICT, PivotRule, ldl_solve
from ._tridiagonal_solver import AbstractTridiagonalFactor, AbstractTridiagonalSolver


class OddEvenElimination(AbstractTridiagonalSolver):
    """Every block row eliminates its neighbours at distance 1, 2, 4, ... until it stands alone.

    Hockney's and Heller's odd-even reduction (Heller 1976) without the reduction: all rows take part in all rounds, so
    there is no back substitution. O(n log n) work, O(log n) depth (Featherstone & Fijany 1999, sec. 5; Yang, Wu & Pan
    2016, eq. 19). All rounds have the same shapes, so they are one loop body: the program does not grow with n.
    """

    def factor(self, diagonal: Blocks, lower: Blocks, pivots: PivotRule = STRICT) -> "OddEvenFactor":
        return self.factor_parts(diagonal, lower, len(diagonal), pivots)

    def factor_parts(
        self, diagonal: Blocks, lower: Blocks, longest: int, pivots: PivotRule = STRICT
    ) -> "OddEvenFactor":
        """Per round, with s its distance: `E_i = A_{i,i-s} A_{i-s,i-s}^-1`, `G_i = A_{i,i+s} A_{i+s,i+s}^-1`.

        Then `A_ii -= E_i A_{i-s,i} + G_i A_{i+s,i}` and the new coupling at 2s is `-E_i A_{i-s,i-2s}`.

        Neighbours are found by rolling. What comes in from beyond the ends is multiplied by a coupling that is zero
        there: `lower[i] = 0` for `i < s` holds in all rounds.
        """
        k = diagonal.shape[-1]

        def one_round(blocks, distance):
            diagonal, lower = blocks
            upper = transpose(jnp.roll(lower, -distance, axis=0))
            gains = ldl_solve(pivots.factor(diagonal), jnp.concatenate([upper, lower], axis=-1))
            before = transpose(jnp.roll(gains[..., :k], distance, axis=0))
            after = transpose(jnp.roll(gains[..., k:], -distance, axis=0))
            diagonal = symmetrise(diagonal - matmul(before, transpose(lower)) - matmul(after, transpose(upper)))
            lower = -matmul(before, jnp.roll(lower, distance, axis=0))
            return (diagonal, lower), (before, after)

        (diagonal, _), (before, after) = collected_rounds(doubling_rounds(longest), one_round, (diagonal, lower))
        return OddEvenFactor(before, after, pivots.factor(diagonal))


class OddEvenFactor(AbstractTridiagonalFactor):
    """**Fields:** gains `before` E and `after` G of every round (rounds, n, k, k); `pivots`, what remains."""

    before: Float[Array, "r n k k"]
    after: Float[Array, "r n k k"]
    pivots: LDL

    def solve(self, b: Columns) -> Columns:
        """Per round `b_i -= E_i b_{i-s} + G_i b_{i+s}`; in the end every row is `A_ii x_i = b_i`."""

        def one_round(b, before, after, distance):
            b_before, b_after = jnp.roll(b, distance, axis=0), jnp.roll(b, -distance, axis=0)
            return b - matmul(before, b_before) - matmul(after, b_after), None

        b, _ = collected_rounds(len(self.before), one_round, b, self.before, self.after)
        return ldl_solve(self.pivots, b)
