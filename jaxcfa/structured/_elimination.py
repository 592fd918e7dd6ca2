"""Small systems of any kind, regular and not symmetric: elimination with pivoting, without a library."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..numerics import outer
from ._rounds import rounds


def general_solve(matrix: Float[Array, "k k"], b: Float[Array, "k m"]) -> Float[Array, "k m"]:
    """`A^-1 b` by Gauss and Jordan, in each column with the largest pivot of the rows that are left.

    A loop of k rank-one updates, nearly as fast in batches as the library (whose calls cost more than this where they
    stand alone: see `_small_spd`). Not finite where A is singular, or not finite itself.
    """
    k = len(matrix)
    if k == 0:
        return b
    numbers = jnp.arange(k)

    def eliminate(i, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        rest, left, order = state
        column = lax.dynamic_index_in_dim(rest, i, axis=1, keepdims=False)
        here = jnp.argmax(jnp.where(left, jnp.abs(column), -1))
        # Rows by their numbers: as sums over masks, all of it takes three times as long.
        line, pivoted = rest[here] / column[here], numbers == here
        rest = jnp.where(pivoted[:, None], line, rest - outer(column, line))
        return rest, left & ~pivoted, order.at[i].set(here)

    start = jnp.concatenate([matrix, b], axis=1), jnp.ones(k, bool), jnp.zeros(k, numbers.dtype)
    solved, _, order = rounds(k, eliminate, start)
    return solved[order, k:]
