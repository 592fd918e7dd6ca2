"""Cyclic reduction, the parallel solver with the least work."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import symmetrise, transpose
from ..numerics._options import positive_integer
from ._arguments import Blocks, Columns
from ._odd_even_elimination import OddEvenElimination
from ._products import following, matmul, previous
from ._small_spd import LDL, STRICT, PivotRule, ldl_solve
from ._tridiagonal_solver import AbstractTridiagonalFactor, AbstractTridiagonalSolver, check_tridiagonal_solver


class CyclicReduction(AbstractTridiagonalSolver):
    """Eliminates every other block, all at once, which halves the system; and again (Hockney 1965; Heller 1976).

    After `levels` halvings `rest` solves what is left. Each level is a part of the program, which would grow with
    log n if there were as many as possible. With few of them and odd-even elimination for the rest it is the same for
    any large n, in O(log n) depth; with `rest=BlockLDL()` the work is least, O(n).
    """

    levels: int = eqx.field(static=True, default=2)
    rest: AbstractTridiagonalSolver = OddEvenElimination()

    def __check_init__(self):
        positive_integer("levels", self.levels, or_zero=True)
        check_tridiagonal_solver(self.rest, "rest")

    def factor(self, diagonal: Blocks, lower: Blocks, pivots: PivotRule = STRICT) -> "CyclicReductionFactor":
        return self.factor_parts(diagonal, lower, len(diagonal), pivots)

    def factor_parts(
        self, diagonal: Blocks, lower: Blocks, longest: int, pivots: PivotRule = STRICT
    ) -> "CyclicReductionFactor":
        levels: list[Level] = []
        while len(levels) < self.levels and len(diagonal) > 1:
            level, diagonal, lower = _halve(diagonal, lower, pivots)
            levels.append(level)
            longest = -(-longest // 2)
        return CyclicReductionFactor(levels, self.rest.factor_parts(diagonal, lower, longest, pivots))


class Level(eqx.Module):
    """Odd blocks o that were eliminated, each with the even ones before (e) and after it (f).

    **Fields:** factorised `pivots` A_oo; `before` A_oo^-1 A_oe and `after` A_oo^-1 A_of (n, k, k).
    """

    pivots: LDL
    before: Float[Array, "n k k"]
    after: Float[Array, "n k k"]


class CyclicReductionFactor(AbstractTridiagonalFactor):
    """**Fields:** the `levels`, from the finest, and the factorised `rest`."""

    levels: list[Level]
    rest: AbstractTridiagonalFactor

    def solve(self, b: Columns) -> Columns:
        sides = []
        for level in self.levels:
            sides.append(b)
            b = _reduce(level, b)
        x = self.rest.solve(b)
        for level, b in zip(reversed(self.levels), reversed(sides), strict=True):
            x = _substitute(level, x, b)
        return x


def _halve(diagonal: Array, lower: Array, rule: PivotRule) -> tuple[Level, Array, Array]:
    """One level, and the blocks of the system that remains."""
    k = diagonal.shape[-1]
    even, odd = _split(diagonal, jnp.eye(k, dtype=diagonal.dtype))
    even_lower, odd_lower = _split(lower)
    pivots = rule.factor(odd)
    gains = ldl_solve(pivots, jnp.concatenate([odd_lower, transpose(following(even_lower))], axis=-1))
    before, after = gains[..., :k], gains[..., k:]
    even = even - matmul(transpose(odd_lower), before) - matmul(even_lower, previous(after))
    return Level(pivots, before, after), symmetrise(even), -matmul(even_lower, previous(before))


def _reduce(level: Level, b: Array) -> Array:
    """The right-hand side of the system that remains."""
    even, odd = _split(b)
    return even - matmul(transpose(level.before), odd) - previous(matmul(transpose(level.after), odd))


def _substitute(level: Level, even: Array, b: Array) -> Array:
    """The solution at all blocks from that at the even ones."""
    _, b_odd = _split(b)
    odd = ldl_solve(level.pivots, b_odd) - matmul(level.before, even) - matmul(level.after, following(even))
    return jnp.stack([even, odd], axis=1).reshape(-1, *b.shape[1:])[: len(b)]


def _split(x: Array, partner: Array | float = 0.0) -> tuple[Array, Array]:
    """Blocks at even and at odd places. A last even one that lacks a partner gets the given one."""
    even, odd = x[0::2], x[1::2]
    missing = jnp.broadcast_to(partner, (len(even) - len(odd), *x.shape[1:])).astype(x.dtype)
    return even, jnp.concatenate([odd, missing])
