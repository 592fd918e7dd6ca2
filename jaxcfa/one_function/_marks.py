"""Calls that XLA:CPU compiles into one function."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata

Result = TypeVar("Result")

# What keeps a call from being taken apart, and what XLA:CPU marks small loops with itself.
_KEPT = {"inlineable": "false"}
_ATTRIBUTES = {"xla_cpu_small_call": "true", **_KEPT}

# What the program is that is being traced: one in which parts are to be marked, one function, or one without marks.
_program: Any = jax.make_user_context("parts")


def without_marks() -> AbstractContextManager[None]:
    """Inside this context, functions are traced as they stand."""
    return _program("plain")


def inside_one_function() -> AbstractContextManager[None]:
    """Inside this context, functions are traced as parts of one that is marked."""
    return _program("one function")


def has_marks() -> bool:
    """Whether parts of the program that is being traced are to be marked."""
    return _program.value == "parts"


def is_one_function() -> bool:
    """Whether what is being traced is to become one function, which can do without what XLA leaves to libraries."""
    return _program.value == "one function"


def whole_program(function: Callable[..., Result]) -> Callable[..., Result]:
    """`function` as a call that is all of a program, which XLA:CPU compiles into one function, or refuses to."""

    def run(*arguments: Any, **named: Any) -> Result:
        given, fixed = eqx.partition((arguments, named), eqx.is_array)

        def of_arrays(given: Any) -> Result:
            arguments, named = eqx.combine(given, fixed)
            with inside_one_function():
                return function(*arguments, **named)

        return marked(of_arrays, given)

    return run


def marked(function: Callable[[Any], Result], given: Any) -> Result:
    """`function(given)` as a call that XLA:CPU does not take apart.

    XLA stops the process at an argument of such a call that nothing in it uses, if only after its own simplifications.
    So all of them are given back, through a barrier, and come through another one, behind which it finds no constants.
    """

    @jax.jit
    def one_function(given: Any) -> tuple[Result, Any]:
        return function(given), lax.optimization_barrier(given)

    result, given = one_function(lax.optimization_barrier(given))
    result = jax.tree.map(lambda x: set_xla_metadata(x, **_ATTRIBUTES), result)
    return lax.optimization_barrier((result, given))[0]


def within_marked(function: Callable[[Any], list[Result]], given: Any) -> list[Result]:
    """`function(given)` as a function within a marked one, whose results are not computed again where they are used.

    XLA would spread a call over threads that returns one array, which marked functions cannot. So they return two.
    """

    @jax.jit
    def within_one_function(given: Any) -> tuple[list[Result], Any]:
        return function(given), jnp.zeros(())

    return [set_xla_metadata(x, **_KEPT) for x in within_one_function(given)[0]]
