"""Products of blocks of any size: unrolled, as sums over an axis on CPUs, or by the library for large ones.

`matmul` and `matvec` have the names of those in `numerics`, which always unroll, for vectors of 3 and 6 components.
These choose by the size, and are for blocks whose size a problem decides, such as its states and controls. For matrices
of a whole mechanism there is `numerics.product`.
"""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ..backend import backend
from ..numerics import _small, product, transpose
from ..one_function import is_one_function

# Programs of products grow with the inner size only, so that more is unrolled than of factorisations.
_LARGEST_UNROLLED = 16
# XLA:CPU evaluates elements of sums anew wherever they are used, in each term of the next product. With more terms than
# these that takes longer than all else, ten times as long as reductions, which it evaluates once.
_LARGEST_SUM_ON_CPU = 7


def matmul(a: Float[Array, "*#batch n k"], b: Float[Array, "*#batch k m"]) -> Float[Array, "*#batch n m"]:
    """Matrix product `a b`, in full precision, written for its size."""
    if a.shape[-1] > _LARGEST_SUM_ON_CPU and b.shape[-1] > 1:
        return nested_matmul(a, b)
    return product(a, b) if a.shape[-1] > _LARGEST_UNROLLED else _small.matmul(a, b)


def nested_matmul(a: Float[Array, "*#batch n k"], b: Float[Array, "*#batch k m"]) -> Float[Array, "*#batch n m"]:
    """As `matmul`, for products of which others are made: on CPUs sums over an axis, small ones too."""
    inner = a.shape[-1]
    # Of batches the function evaluates products itself, with the states innermost.
    if inner > _LARGEST_UNROLLED or is_one_function():
        return product(a, b)
    if inner == 0 or backend() != "cpu":
        return _small.matmul(a, b)
    return jnp.sum(transpose(a)[..., None] * b[..., None, :], axis=-3)


def matmul_of_stacks(a: Float[Array, "*#batch n k"], b: Float[Array, "*#batch k m"]) -> Float[Array, "*#batch n m"]:
    """As `matmul`, for one of very many products: on CPUs by the library from fewer rows on."""
    return product(a, b) if a.shape[-1] > _LARGEST_SUM_ON_CPU and backend() == "cpu" else matmul(a, b)


def matvec(a: Float[Array, "*#batch n k"], x: Float[Array, "*#batch k"]) -> Float[Array, "*#batch n"]:
    """Matrix-vector product `a x`, in full precision, written for its size."""
    return matmul(a, x[..., None])[..., 0]


def previous(x: Float[Array, "n *rest"]) -> Float[Array, "n *rest"]:
    """`x[i - 1]`, zero for the first."""
    return _padded(x, 1, -1)


def following(x: Float[Array, "n *rest"]) -> Float[Array, "n *rest"]:
    """`x[i + 1]`, zero for the last."""
    return _padded(x, -1, 1)


def preceded(x: Float[Array, "n *rest"], first: Float[Array, "*rest"] | None = None) -> Float[Array, "n+1 *rest"]:
    """`first`, zero if not given, then x."""
    longer = _padded(x, 1, 0)
    return longer if first is None else filled(longer, 0, first)


def followed(x: Float[Array, "n *rest"], last: Float[Array, "*rest"] | None = None) -> Float[Array, "n+1 *rest"]:
    """x, then `last`, zero if not given."""
    longer = _padded(x, 0, 1)
    return longer if last is None else filled(longer, len(x), last)


def filled(x: Float[Array, "n *rest"], place: int, value: Float[Array, "*rest"]) -> Float[Array, "n *rest"]:
    """`x` with another value at one place, found without communication where devices share x."""
    return jnp.where((np.arange(len(x)) == place).reshape(-1, *[1] * (x.ndim - 1)), value, x)


def _padded(x: Float[Array, "n *rest"], before: int, after: int) -> Float[Array, "_ *rest"]:
    # Not a concatenation: devices with a part of x each do this by exchanging one element, and that by gathering all.
    return lax.pad(x, jnp.zeros((), x.dtype), [(before, after, 0), *[(0, 0, 0)] * (x.ndim - 1)])
