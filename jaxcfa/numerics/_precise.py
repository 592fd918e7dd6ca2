"""Products of matrices that are too large to be written out as sums (`_small.py`): always calls of the library."""

import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array


def product(a: ArrayLike, b: ArrayLike) -> Array:
    """Product `a b` of matrices (or a vector), as `jnp.matmul`, in full precision.

    Accelerators give that only when asked: by default they round factors to mantissas of 7 to 10 bits.
    `tests/test_precision.py` looks at all products in traced programs.
    """
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)
