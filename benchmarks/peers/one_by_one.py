"""Packages that compute one state per call, from Python."""

import time
from collections.abc import Callable

import jax
import numpy as np

from ..case import COMPARED, Prepared


def one_by_one(
    started: float,
    call: Callable[[np.ndarray, np.ndarray, np.ndarray], object],
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    value: Callable[[list], np.ndarray] | None,
) -> Prepared:
    """Calls for each row of q, v and x in turn. `value` takes the results that are compared.

    `started`: when the other package was imported and its model built, by the clock of `time.perf_counter`.
    """
    states = [tuple(np.ascontiguousarray(part) for part in state) for state in zip(*rows, strict=True)]
    seconds = {"model": time.perf_counter() - started}
    compared = None if value is None else lambda results: value(results[:COMPARED])
    return Prepared(lambda: [call(*state) for state in states], seconds, compared)


def mapped(function: Callable, *rows: np.ndarray) -> np.ndarray:
    """A map of coordinates in float64, applied to all rows, of which those after `COMPARED` repeat the ones before."""
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(jax.vmap(function))(*(x[:COMPARED] for x in rows)), dtype=float)
    return found[np.arange(len(rows[0])) % COMPARED]
