"""Rounds of parallel algorithms, of which there are few: the logarithm of the length, or some of refinement."""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from .. import backend

State = TypeVar("State")
Result = TypeVar("Result")


def rounds(count: int, one_round: Callable[[int | Array, State], State], state: State) -> State:
    """`state = one_round(j, state)` for j = 0, 1, ..., count - 1.

    One loop body on CPUs, whatever the count. Written out on accelerators, where loops cost some kernels more in every
    round: then j is an integer, and what is at a distance that depends on it is at a known place.
    """
    if not backend.loop_form().rounds_written_out:
        return lax.fori_loop(0, count, one_round, state)
    for j in range(count):
        state = one_round(j, state)
    return state


def collected_rounds(
    count: int, one_round: Callable[..., tuple[State, Result]], state: State, *data: PyTree[Array]
) -> tuple[State, Result]:
    """`rounds` with data and a result for each, both stacked: `state, result[j] = one_round(state, *data[j], 2^j)`."""
    if not count or not backend.loop_form().rounds_written_out:
        return lax.scan(lambda state, x: one_round(state, *x), state, (*data, 2 ** jnp.arange(count)))
    results = []
    for j in range(count):
        state, result = one_round(state, *jax.tree.map(lambda x, j=j: x[j], data), 2**j)
        results.append(result)
    return state, jax.tree.map(lambda *x: jnp.stack(x), *results)
