"""Packages that compute one state per call, from Python."""

from collections.abc import Callable

import jax
import numpy as np

from ..contestant import Prepared


def one_by_one(
    seconds: float,
    call: Callable[[np.ndarray, np.ndarray, np.ndarray], object],
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    value: Callable[[list], np.ndarray] | None,
) -> Prepared:
    """Calls for each row of q, v and x in turn. `seconds`: what building the other package's model took."""
    states = [tuple(np.ascontiguousarray(part) for part in state) for state in zip(*rows, strict=True)]
    return Prepared(lambda: [call(*state) for state in states], {"model": seconds}, value)


def mapped(function: Callable, *rows: np.ndarray) -> np.ndarray:
    """A map of coordinates, applied to all rows."""
    return np.asarray(jax.jit(jax.vmap(function))(*rows), dtype=float)
