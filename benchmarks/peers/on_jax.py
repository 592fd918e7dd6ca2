"""What packages on JAX have in common: quantities that follow from forward dynamics, compiled programs over states."""

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ..case import COMPARED, Prepared, Unable
from ..contestant import compiled
from ..problem import Problem
from ..quantities import FORWARD, GRADIENT, MATRICES

# Of (q, v, x), arrays of one state in the other package's order.
StateFunction = Callable[[jax.Array, jax.Array, jax.Array], object]


def with_derivatives(functions: dict[str, StateFunction]) -> dict[str, StateFunction]:
    """The functions, and by automatic differentiation what follows from forward dynamics."""
    forward = functions[FORWARD]

    def gradient(q, v, tau):
        return jnp.concatenate(jax.grad(lambda *state: jnp.sum(forward(*state)), (0, 1, 2))(q, v, tau))

    def matrices(q, v, tau):
        return jnp.concatenate(jax.jacfwd(forward, (0, 1, 2))(q, v, tau), axis=1)

    return functions | {GRADIENT: gradient, MATRICES: matrices}


def on_states(
    problem: Problem,
    quantity: str,
    functions: dict[str, StateFunction],
    value: Callable[[np.ndarray], np.ndarray] | None,
    started: float,
    states: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
) -> Prepared:
    """A program over all states. Its `value` puts the last of the results, of the first states, into our order."""
    if quantity not in functions:
        raise Unable("it does not have this")
    function = functions[quantity]
    arguments = (problem.q, problem.v, problem.x) if states is None else tuple(jnp.asarray(x) for x in states)
    seconds = {"model": time.perf_counter() - started}

    def compared(found) -> np.ndarray:
        last = found[-1] if isinstance(found, tuple) else found
        first = np.asarray(last[:COMPARED] if problem.batched else last, dtype=float)
        return first if value is None else value(first)

    # Derivatives with respect to quaternions off the unit sphere are a matter of convention.
    shown = None if quantity in (GRADIENT, MATRICES) and problem.floating_base else compared
    prepared = compiled(jax.vmap(function) if problem.batched else function, *arguments, value=shown)
    return prepared._replace(seconds=seconds | prepared.seconds)
