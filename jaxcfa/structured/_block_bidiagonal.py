"""Unit block-bidiagonal operators, the matrix form of first-order recurrences."""

from typing import Annotated

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ._affine_scan import solve_recurrence, transpose_recurrence
from ._arguments import as_blocks, as_columns
from ._products import following, matmul, previous
from ._scan import SEQUENTIAL, AbstractSchedule, check_schedule


class BlockBidiagonal(eqx.Module):
    """The operator `(L x)_i = x_i - B_i x_{i-1}`, or with `upper` `x_i - B_i x_{i+1}`.

    Its inverse propagates velocities and accelerations outwards, the transpose's inverse forces inwards.

    **Fields:** `blocks` B (n, k, k), of which the first (with `upper` the last) has no effect; `upper`.
    """

    blocks: Float[Array, "n k k"]
    upper: bool = eqx.field(static=True)

    def __init__(self, blocks: Annotated[ArrayLike, "n k k"], upper: bool = False):
        self.blocks = as_blocks("blocks", blocks)
        self.upper = upper

    def mv(self, x: Annotated[ArrayLike, "n k"] | Annotated[ArrayLike, "n k m"]) -> Array:
        """`L x` for one column (n, k) or several (n, k, m)."""
        columns, restore = as_columns("x", x, self.blocks)
        neighbour = following if self.upper else previous
        return restore(columns - matmul(self.blocks, neighbour(columns)))

    def solve(
        self,
        c: Annotated[ArrayLike, "n k"] | Annotated[ArrayLike, "n k m"],
        schedule: AbstractSchedule = SEQUENTIAL,
    ) -> Array:
        """`x` in `L x = c` for one column (n, k) or several (n, k, m)."""
        check_schedule(schedule)
        columns, restore = as_columns("c", c, self.blocks)
        return restore(solve_recurrence(self.blocks, columns, schedule, bool(self.upper)))

    @property
    def T(self) -> "BlockBidiagonal":
        """The transpose."""
        return BlockBidiagonal(transpose_recurrence(self.blocks, self.upper), not self.upper)

    def as_matrix(self) -> Float[Array, "nk nk"]:
        """The dense matrix (n k, n k)."""
        n, k, _ = self.blocks.shape
        i = jnp.arange(n)
        row, column = (i[:-1], i[1:]) if self.upper else (i[1:], i[:-1])
        dense = jnp.zeros((n, k, n, k), self.blocks.dtype)
        dense = dense.at[row, :, column, :].set(-self.blocks[row])
        return dense.reshape(n * k, n * k) + jnp.eye(n * k, dtype=dense.dtype)
