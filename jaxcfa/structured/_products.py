"""Products of blocks of any size: unrolled for those of mechanisms, by the backend's library for large ones."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import _small
from .._precise import product

# Programs of products grow with the inner size only, so that more is unrolled than of factorisations.
_LARGEST_UNROLLED = 16


def matmul(a: Float[Array, "*#batch n k"], b: Float[Array, "*#batch k m"]) -> Float[Array, "*#batch n m"]:
    """Matrix product `a b`, in full precision."""
    if a.shape[-1] <= _LARGEST_UNROLLED:
        return _small.matmul(a, b)
    return product(a, b)


def matvec(a: Float[Array, "*#batch n k"], x: Float[Array, "*#batch k"]) -> Float[Array, "*#batch n"]:
    """Matrix-vector product `a x`, in full precision."""
    return matmul(a, x[..., None])[..., 0]


def previous(x: Float[Array, "n *rest"]) -> Float[Array, "n *rest"]:
    """`x[i - 1]`, zero for the first."""
    return jnp.concatenate([jnp.zeros_like(x[:1]), x[:-1]])


def following(x: Float[Array, "n *rest"]) -> Float[Array, "n *rest"]:
    """`x[i + 1]`, zero for the last."""
    return jnp.concatenate([x[1:], jnp.zeros_like(x[:1])])
