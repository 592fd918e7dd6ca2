"""Arrays in pieces of equal size, and of chosen rows."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped

_MOST_RUNS = 32


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


def picked(x: Shaped[Array, "n *rest"], index: np.ndarray) -> Shaped[Array, "..."]:
    """`x[index]` for a static index array, as slices of consecutive rows and copies of equal ones, if these are few.

    Derivatives of what is indexed are assignments at indices, which XLA:CPU cannot compile into one function.
    """
    flat, rest = np.asarray(index).reshape(-1), x.shape[1:]
    runs = _runs(flat)
    if len(runs) > _MOST_RUNS:
        return x[index]
    parts = [
        x[first : first + length] if step else jnp.broadcast_to(x[first : first + 1], (length, *rest))
        for first, length, step in runs
    ]
    rows = x[:0] if not parts else parts[0] if len(parts) == 1 else jnp.concatenate(parts)
    return rows.reshape(*np.shape(index), *rest)


def _runs(index: np.ndarray) -> list[tuple[int, int, int]]:
    """Where an index begins, goes on for so long, and each time by how much: one or none. Not all if too many."""
    runs: list[tuple[int, int, int]] = []
    start = 0
    while start < len(index) and len(runs) <= _MOST_RUNS:
        rest = np.diff(index[start:])
        step = 0 if len(rest) and rest[0] == 0 else 1
        length = 1 + int(np.argmin(np.append(rest == step, False)))
        runs.append((int(index[start]), length, step))
        start += length
    return runs
