"""Contestants: something to prepare once and to run many times."""

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .machine import available_memory
from .methods import Function
from .problem import Problem


class Unable(Exception):
    """A contestant cannot take part; the message is the reason that the report gives."""


class Prepared(NamedTuple):
    """A contestant that is ready to run.

    **Fields:** `run`: does the work, and waits for it. `seconds`: what preparation took, by step. `value`: turns what
    `run` returns into an array that can be compared with that of other contestants, or is `None`. `memory`: what the
    program needs for intermediate results and outputs [bytes], if that is known. `note`: says in words what `run` has
    found.
    """

    run: Callable[[], Any]
    seconds: dict[str, float]
    value: Callable[[Any], np.ndarray] | None = np.asarray
    memory: int | None = None
    note: Callable[[Any], str] | None = None


class Contestant(NamedTuple):
    name: str
    prepare: Callable[[], Prepared]


def compiled(function: Callable, *arguments: Any, value: Callable[[Any], np.ndarray] | None = np.asarray) -> Prepared:
    """A program compiled by JAX, from empty caches. Refuses programs that need more memory than there is."""
    jax.clear_caches()
    times = [time.perf_counter()]
    traced = jax.jit(function).trace(*arguments)
    times.append(time.perf_counter())
    lowered = traced.lower()
    times.append(time.perf_counter())
    program = lowered.compile()
    times.append(time.perf_counter())
    needed, available = _memory_of(program), available_memory()
    if needed > 0.8 * available:
        raise Unable(f"needs {needed / 2**30:.1f} GiB of memory, {available / 2**30:.1f} GiB are free")
    seconds = dict(zip(("trace", "lower", "compile"), np.diff(times).tolist(), strict=True))
    return Prepared(lambda: jax.block_until_ready(program(*arguments)), seconds, value, needed)


def _memory_of(program) -> int:
    analysis = program.memory_analysis()
    return 0 if analysis is None else analysis.temp_size_in_bytes + analysis.output_size_in_bytes


def of_functions(functions: dict[str, Function], problem: Problem) -> list[Contestant]:
    """Contestants that evaluate functions of a model and one state, on the states of the problem."""

    def contestant(name: str, function: Function) -> Contestant:
        over_states = jax.vmap(function, (None, 0, 0, 0)) if problem.batched else function
        return Contestant(name, lambda: compiled(over_states, problem.model, problem.q, problem.v, problem.x))

    return [contestant(*item) for item in functions.items()]


def of_gradients(functions: dict[str, Function], problem: Problem) -> list[Contestant]:
    """Contestants that differentiate the sum of the result with respect to q, v and tau."""
    return of_functions({name: _gradient(function) for name, function in functions.items()}, problem)


def _gradient(function: Function) -> Function:
    def gradient(model, q, v, x):
        parts = jax.grad(lambda *state: jnp.sum(function(model, *state)), (0, 1, 2))(q, v, x)
        return jnp.concatenate(parts)

    return gradient


def of_peers(names: Iterable[str], problem: Problem, quantity: str) -> list[Contestant]:
    """Contestants from other packages."""
    from .peers import PEERS

    def contestant(name: str) -> Contestant:
        return Contestant(name, lambda: PEERS[name](problem, quantity))

    return [contestant(name) for name in names]
