"""Products of tiny vectors and matrices (3 and 6 wide), written as sums of broadcast multiplies.

`@`, `einsum` and `jnp.sum(a * b)` are deliberately not used on such operands. Under `vmap` they become a
`dot_general` or a reduction that XLA:CPU does not fuse with its neighbours (or hands to an external kernel
library), which costs a factor of three to eight. Explicit sums become plain fused element-wise loops on every
backend. `tests/test_fusion.py` guards this.

Axes of length one are kept, not dropped and made again: every reshape is one more instruction to trace and to compile,
and XLA moves each past one operation at a time, going through the whole program every time.

All functions broadcast over leading axes. They take any size, and programs grow with it: blocks whose size a problem
decides are for `structured/_products.py`, and matrices of a whole mechanism for `product`.
"""

import functools
import operator
from collections.abc import Iterable, Sequence

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float


def sum_of(terms: Iterable[Array]) -> Array:
    """Sum of one or more arrays, as a chain of additions."""
    return functools.reduce(operator.add, terms)


def matmul(a: Float[Array, "*#batch n k"], b: Float[Array, "*#batch k m"]) -> Float[Array, "*#batch n m"]:
    """Matrix product `a b`; zero inner size gives zeros."""
    inner = a.shape[-1]
    if inner == 0:
        return jnp.zeros((*jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), a.dtype)
    return sum_of(x * y for x, y in zip(_entries(a), _entries(b, -2), strict=True))


def matvec(a: Float[Array, "*#batch n k"], x: Float[Array, "*#batch k"]) -> Float[Array, "*#batch n"]:
    """Matrix-vector product `a x`; zero inner size gives zeros."""
    inner = a.shape[-1]
    if inner == 0:
        return jnp.zeros((*jnp.broadcast_shapes(a.shape[:-2], x.shape[:-1]), a.shape[-2]), a.dtype)
    return sum_of(column * entry for column, entry in zip(jnp.unstack(a, axis=-1), _entries(x), strict=True))


def dot(a: Float[Array, "*#batch k"], b: Float[Array, "*#batch k"]) -> Float[Array, "*#batch"]:
    """Inner product of the last axes."""
    return sum_of(x * y for x, y in zip(_entries(a), _entries(b), strict=True))[..., 0]


def cross(a: Float[Array, "*#batch 3"], b: Float[Array, "*#batch 3"]) -> Float[Array, "*#batch 3"]:
    """Vector product `a x b`."""
    (ax, ay, az), (bx, by, bz) = _entries(a), _entries(b)
    return jnp.concatenate([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=-1)


def outer(a: Float[Array, "*#batch n"], b: Float[Array, "*#batch m"]) -> Float[Array, "*#batch n m"]:
    """Outer product `a b^T`."""
    return a[..., :, None] * b[..., None, :]


def transpose(a: Float[Array, "*batch n m"]) -> Float[Array, "*batch m n"]:
    """Transpose of the last two axes."""
    return jnp.swapaxes(a, -1, -2)


def identity(n: int, like: Float[Array, "*batch m k"]) -> Float[Array, "*#batch n n"]:
    """The identity matrix with as many axes as other matrices, of their type."""
    return lax.broadcast_to_rank(jnp.eye(n, dtype=like.dtype), like.ndim)


def symmetrise(a: Float[Array, "*batch n n"]) -> Float[Array, "*batch n n"]:
    """Symmetric part `(a + a^T) / 2`."""
    return 0.5 * (a + transpose(a))


def skew(a: Float[Array, "*batch 3"]) -> Float[Array, "*batch 3 3"]:
    """The matrix `[a]x` with `skew(a) b = a x b`."""
    x, y, z = _entries(a)
    o = jnp.zeros_like(x)
    return jnp.concatenate([o, -z, y, z, o, -x, -y, x, o], axis=-1).reshape(*a.shape, 3)


def _entries(a: Float[Array, "*batch"], axis: int = -1) -> Sequence[Float[Array, "*part"]]:
    """All slices of length one along an axis: as one operation, whose transpose is one, too."""
    return lax.split(a, (1,) * a.shape[axis], axis % a.ndim)
