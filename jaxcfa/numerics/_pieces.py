"""Arrays in pieces of equal size."""

import jax.numpy as jnp
from jaxtyping import Array, Shaped


def lengthened(x: Shaped[Array, "n *rest"], missing: int, in_front: bool = False) -> Shaped[Array, "m *rest"]:
    """The array extended by `missing` copies of its last element, or in front by copies of the first."""
    if not missing:
        return x
    copies = jnp.broadcast_to(x[:1] if in_front else x[-1:], (missing, *x.shape[1:]))
    return jnp.concatenate([copies, x] if in_front else [x, copies])


def cut(x: Shaped[Array, "n *rest"], size: int) -> Shaped[Array, "pieces size *rest"]:
    """The array in pieces of `size` elements, with copies of the last element to fill the last piece."""
    x = lengthened(x, -len(x) % size)
    return x.reshape(len(x) // size, size, *x.shape[1:])


def joined(pieces: Shaped[Array, "pieces size *rest"], length: int) -> Shaped[Array, "n *rest"]:
    """The first `length` elements of all pieces, one after the other."""
    return pieces.reshape(pieces.shape[0] * pieces.shape[1], *pieces.shape[2:])[:length]
