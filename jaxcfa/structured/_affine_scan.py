"""First-order recurrences `x_i = A_i x_{i-1} + b_i`, as scans over the composition of affine maps, and as operators."""

from typing import Annotated

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..compilation import jit_alone
from ..numerics import linear_solution, transpose
from ..numerics._options import floating_numbers
from ._arguments import Blocks, Columns, as_blocks, as_columns
from ._products import following, matmul, previous
from ._scan import SEQUENTIAL, AbstractSchedule, check_schedule, compose_affine


def affine_scan(
    a: Annotated[ArrayLike, "n k k"],
    b: Annotated[ArrayLike, "n k"] | Annotated[ArrayLike, "n k m"],
    schedule: AbstractSchedule = SEQUENTIAL,
    x0: Annotated[ArrayLike, "k"] | Annotated[ArrayLike, "k m"] | None = None,
    reverse: bool = False,
) -> Float[Array, "n k"] | Float[Array, "n k m"]:
    """`x_i = A_i x_{i-1} + b_i`, for all i (Blelloch 1990, sec. 1.4).

    The derivatives are further recurrences with the same matrices, by the same schedule, in both modes.

    **Arguments:** `a`: matrices (n, k, k); `b`: one column per step (n, k), or m of them (n, k, m); `x0`: what
    precedes the first step (k,) or (k, m), zero by default; `reverse`: from the last to the first,
    `x_i = A_i x_{i+1} + b_i`, with `x0` after the last.

    **Returns:** x, of the shape of `b`.

    **Raises:** `ValueError` for shapes that do not fit, and for what is no schedule.
    """
    check_schedule(schedule)
    a = as_blocks("a", a)
    columns, restore = as_columns("b", b, a)
    if x0 is not None and len(a):
        columns = _with_start(a, columns, x0, -1 if reverse else 0)
    return restore(solve_recurrence(a, columns, schedule, bool(reverse)))


@jit_alone
def solve_recurrence(a: Blocks, b: Columns, schedule: AbstractSchedule, reverse: bool = False) -> Columns:
    """`affine_scan` for several columns and a start at zero, without checks."""
    neighbour = following if reverse else previous

    def residual(x):
        return x - matmul(a, neighbour(x))

    def solve(a, rhs):
        return run(a, rhs, schedule, reverse)

    def transpose_solve(a, rhs):
        return run(transpose_recurrence(a, reverse), rhs, schedule, not reverse)

    return linear_solution(residual, b, solve, a, transpose_solve)


def run(a: Blocks, b: Columns, schedule: AbstractSchedule, reverse: bool = False) -> Columns:
    """`solve_recurrence` without its derivatives."""
    return schedule.scan(compose_affine, (a, b), reverse)[1]


def transpose_recurrence(a: Blocks, reverse: bool) -> Blocks:
    """Matrices of the transposed recurrence, which runs the other way."""
    return transpose(previous(a) if reverse else following(a))


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


def _with_start(a: Array, columns: Array, x0: ArrayLike, first: int) -> Array:
    start = floating_numbers("x0", x0)
    start = start[:, None] if start.ndim == 1 else start
    expected = columns.shape[1:]
    if start.shape not in (expected, (expected[0], 1)):
        raise ValueError(f"x0 must have the shape of one step of b, {expected}, got {start.shape}.")
    columns = columns.astype(jnp.result_type(columns, start))
    return columns.at[first].add(matmul(a[first], start))
