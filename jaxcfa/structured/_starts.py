"""What is known of the first state of a linear-quadratic problem: all of it, nothing, or each coordinate by itself."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

OneStart = Literal["given", "free", "periodic"]
Start = OneStart | tuple[OneStart, ...]
_KINDS = ("given", "free", "periodic")


class StartMasks(NamedTuple):
    """**Fields:** which coordinates of the first state are `free`, and which are those of the last one, `periodic`."""

    free: Bool[np.ndarray, "n"]
    periodic: Bool[np.ndarray, "n"]

    @staticmethod
    def of(start: Start, n: int) -> "StartMasks":
        """Those of a start of n coordinates."""
        kinds = np.broadcast_to(np.array(start), n)
        return StartMasks(kinds == "free", kinds == "periodic")

    @property
    def unknown(self) -> Bool[np.ndarray, "n"]:
        """What is not given."""
        return self.free | self.periodic


def as_start(start: Any, n: int) -> Start:
    """A start of n coordinates, in one word if they are alike.

    **Raises:** `ValueError` for other words, and for another number of them.
    """
    kinds = (start,) if isinstance(start, str) else tuple(start) if isinstance(start, Sequence) else (start,)
    if any(not isinstance(kind, str) or kind not in _KINDS for kind in kinds):
        raise ValueError(f'start must be "given", "free" or "periodic", or one of these for each state, got {start!r}.')
    if len(kinds) != n and not isinstance(start, str):
        raise ValueError(f"start must be one word, or one for each of the {n} states, got {len(kinds)}.")
    return kinds[0] if len(set(kinds)) == 1 else kinds


def where(mask: Bool[np.ndarray, "n"], x: Float[Array, "n"], other: Float[Array, "n"] | None = None) -> Array:
    """X where a known mask says so, and elsewhere the `other` or zero; one of them as it is where all are of one."""
    if mask.all():
        return x
    other = jnp.zeros_like(x) if other is None else other
    return jnp.where(mask, x, other) if mask.any() else other
