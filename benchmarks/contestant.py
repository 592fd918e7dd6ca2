"""Contestants that are programs of JAX."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxcfa

from .case import COMPARED, Contestant, Prepared, Unable
from .machine import available_memory
from .methods import Function
from .problem import Problem

MakeProblem = Callable[[], Problem]
CHUNK = 1024  # states that a program in chunks computes at once
IN_CACHE = 128  # the same where the program is one function
ONE_FUNCTION = "one function"  # how programs of `jaxcfa.low_latency` are called


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


def of_function(function: Function, make: MakeProblem, in_chunks: bool = False, one_function: bool = False) -> Prepared:
    """A function of a model and one state, on the states of a problem, all at once or so many at a time."""
    problem = make()
    states = problem.q, problem.v, problem.x
    jit, piece = (jaxcfa.low_latency, IN_CACHE) if one_function else (jax.jit, CHUNK)
    if not problem.batched:
        return compiled(function, problem.model, *states, jit=jit)
    axes = (None, 0, 0, 0)
    batch = jaxcfa.batched(function, axes, piece=piece) if in_chunks or one_function else jax.vmap(function, axes)
    return compiled(batch, problem.model, *states, value=compared, jit=jit)


def of_functions(functions: dict[str, Function], make: MakeProblem) -> list[Contestant]:
    """Contestants that evaluate functions of a model and one state, in two processes, so as to compile together."""

    def contestant(number: int, name: str, function: Function) -> Contestant:
        return Contestant(name, lambda: of_function(function, make), f"jaxcfa {number % 2 + 1}")

    return [contestant(number, *item) for number, item in enumerate(functions.items())]


def gradient(function: Function) -> Function:
    """The gradient of the sum of the result with respect to q, v and x, one after the other."""

    def differentiated(model, q, v, x):
        parts = jax.grad(lambda *state: jnp.sum(function(model, *state)), (0, 1, 2))(q, v, x)
        return jnp.concatenate(parts)

    return differentiated
