"""Naming constraints that no control can satisfy, because a given start violates them."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._costs_and_bounds import Bounds
from ._problem import Problem
from ._stage import Stage


def violated_by_the_start(problem: Problem, x0: Float[Array, "nx"], u: Float[Array, "m"]) -> str:
    """A sentence about the first constraint of stage 0 that x0 violates and u does not change; empty if none does."""
    if problem.start != "given":
        return ""
    dynamics, tolerance = problem.phases[0].dynamics, float(jnp.finfo(x0.dtype).eps) ** 0.5
    for part in problem.constraints:
        if not part.counts_at(0):
            continue

        def rows(u: Array, part=part) -> Array:
            found = part.rows(Stage(dynamics, x0, u, jnp.asarray(0)))
            return found if isinstance(part, Bounds) else jnp.abs(found)

        fixed = np.all(np.asarray(jax.jacfwd(rows)(u)) == 0, axis=1)
        if np.any(fixed & (np.asarray(rows(u)) > tolerance)):
            return (
                f" The start violates the {type(part).__name__} of {part.term!r} at stage 0, where no control changes "
                "that: let these count during=(1, None), or start elsewhere."
            )
    return ""
