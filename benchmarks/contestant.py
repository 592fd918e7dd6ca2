"""Contestants that are programs of JAX."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxcfa

from .case import COMPARED, OWN, Contestant, Prepared, Unable
from .machine import available_memory
from .methods import Function
from .problem import Problem

MakeProblem = Callable[[], Problem]
# How programs by `jaxcfa.low_latency`, `jaxcfa.batched` and `jaxcfa.one_kernel` are called.
ONE_FUNCTION, BATCHED, STRAIGHT_LINE = "one function", "batched", "one kernel"


def compiled(
    function: Callable,
    *arguments: Any,
    value: Callable[[Any], np.ndarray] | None = np.asarray,
    jit: Callable[[Callable], Any] = jax.jit,
) -> Prepared:
    """A program compiled by JAX. Refuses programs that need more memory than there is."""
    times = [time.perf_counter()]
    traced = jit(function).trace(*arguments)
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


def compared(result) -> np.ndarray:
    """The states of a batch that are compared."""
    return np.asarray(result[:COMPARED])


def of_function(function: Function, make: MakeProblem, way: str | None = None) -> Prepared:
    """A function of a model and one state, on the states of a problem; `way`: by which of the names above, if any."""
    problem = make()
    states = problem.q, problem.v, problem.x
    if not problem.batched:
        return compiled(function, problem.model, *states, jit=jaxcfa.low_latency if way == ONE_FUNCTION else jax.jit)
    return of_batch(function, problem.model, *states, way=way, value=compared)


def of_batch(
    function: Callable, model: jaxcfa.Model, *states: jax.Array, way: str | None, value: Callable[[Any], np.ndarray]
) -> Prepared:
    """A function of a model and one state, on all states.

    The model is closed over, as those of other packages are: JAX takes a microsecond or more for each argument.
    """
    over_states = {STRAIGHT_LINE: jaxcfa.one_kernel, BATCHED: jaxcfa.batched}.get(way or "", jax.vmap)
    return compiled(over_states(lambda *state: function(model, *state)), *states, value=value)


def in_two_processes(prepare: dict[str, Callable[[], Prepared]]) -> list[Contestant]:
    """Contestants by name, half of them in another process, so as to compile together."""
    return [Contestant(name, x, f"{OWN} {number % 2 + 1}") for number, (name, x) in enumerate(prepare.items())]


def of_functions(functions: dict[str, Function], make: MakeProblem) -> list[Contestant]:
    """Contestants that evaluate functions of a model and one state."""
    return in_two_processes({name: partial(of_function, function, make) for name, function in functions.items()})


def gradient(function: Function) -> Function:
    """The gradient of the sum of the result with respect to q, v and x, one after the other."""

    def differentiated(model, q, v, x):
        parts = jax.grad(lambda *state: jnp.sum(function(model, *state)), (0, 1, 2))(q, v, x)
        return jnp.concatenate(parts)

    return differentiated
