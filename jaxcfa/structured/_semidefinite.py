"""Positive semidefinite systems of unknown rank: which unknowns determine the others, and how."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..numerics import outer
from ._rounds import rounds


class Reduction(eqx.Module):
    """A positive semidefinite matrix A, reduced to as many of its rows as its rank.

    With b the chosen rows and n the others, `A_nn = A_nb A_bb^-1 A_bn` up to rounding.

    **Fields:** `chosen` (k,), whether a row is in b; `inverse` (k, k), `A_bb^-1` at the chosen rows and columns;
    `relations` (k, k), `A_nb A_bb^-1` at the other rows and the chosen columns. Both are zero elsewhere.
    """

    chosen: Bool[Array, "k"]
    inverse: Float[Array, "k k"]
    relations: Float[Array, "k k"]

    def null_space(self) -> Float[Array, "k k"]:
        """A basis: for each row that was not chosen a column, one for that unknown itself; zero columns for others."""
        return jnp.diag(jnp.where(self.chosen, 0, 1).astype(self.relations.dtype)) - self.relations.T


def reduce_semidefinite(matrix: Float[Array, "k k"], tolerance: float) -> Reduction:
    """Symmetric Gauss-Jordan elimination, always of the row with the largest pivot, while that exceeds `tolerance`.

    Beaton's sweep operator: where b has been eliminated the matrix holds `-A_bb^-1`, `A_bb^-1 A_bn` and what is left
    of `A_nn`. It is a loop of k rank-one updates, without a call of a library, and unlike eigenvalues as fast in
    batches and on accelerators as other loops. NaN if the matrix is not finite.
    """
    k = len(matrix)
    numbers = jnp.arange(k)

    def eliminate(_, state: tuple[Array, Array]) -> tuple[Array, Array]:
        swept, chosen = state
        left = jnp.where(chosen, -jnp.inf, jnp.diagonal(swept))
        row = jnp.argmax(left)
        here, exceeds = numbers == row, left[row] > tolerance
        pivot = jnp.where(exceeds, left[row], 1)
        # By its number: as a sum over a mask, all of it takes two to four times as long in batches on CPUs.
        column = swept[row]
        line = column / pivot
        rest = jnp.where(here[:, None], line, jnp.where(here, line[:, None], swept - outer(column, line)))
        rest = jnp.where(here[:, None] & here[None], -1 / pivot, rest)
        return jnp.where(exceeds, rest, swept), chosen | (here & exceeds)

    if k == 0:
        return Reduction(jnp.zeros(0, bool), matrix, matrix)
    swept, chosen = rounds(k, eliminate, (matrix, jnp.zeros(k, bool)))
    not_finite = 0 * jnp.sum(matrix)
    inverse = jnp.where(chosen[:, None] & chosen[None], -swept, 0) + not_finite
    return Reduction(chosen, inverse, jnp.where(~chosen[:, None] & chosen[None], swept, 0) + not_finite)
