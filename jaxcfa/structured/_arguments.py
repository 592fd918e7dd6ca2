"""Stacks of square blocks, and columns that go with them; checking that the arguments of public functions are such."""

from collections.abc import Callable

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..numerics._options import floating_numbers

Blocks = Float[Array, "n k k"]
Columns = Float[Array, "n k m"]

_BATCH = "Functions are for one system; batch them with jax.vmap."


def as_blocks(name: str, value: ArrayLike) -> Blocks:
    """A stack of square blocks, or `ValueError`."""
    array = floating_numbers(name, value)
    if array.ndim != 3 or array.shape[1] != array.shape[2]:
        raise ValueError(f"{name} must be square blocks of shape (n, k, k), got {array.shape}. {_BATCH}")
    return array


def as_columns(name: str, value: ArrayLike, blocks: Blocks) -> tuple[Columns, Callable[[Array], Array]]:
    """Columns (n, k, m) from one column (n, k) or m of them, and a function that restores the given shape.

    They have the type that JAX promotes that of the blocks and of the value to.
    """
    array = floating_numbers(name, value)
    n, k, _ = blocks.shape
    if array.shape[:2] != (n, k) or array.ndim not in (2, 3):
        raise ValueError(
            f"{name} must have shape (n, k) = {(n, k)}, or (n, k, m) for m columns, to go with blocks of shape "
            f"{blocks.shape}; got {array.shape}. {_BATCH}"
        )
    array = array.astype(jnp.result_type(array, blocks))
    if array.ndim == 2:
        return array[..., None], lambda x: x[..., 0]
    return array, lambda x: x
