"""Small functions that JAX traces once for each kind of arguments."""

from collections.abc import Callable
from typing import TypeVar, cast

import jax

_Function = TypeVar("_Function", bound=Callable)


def inlined(function: _Function) -> _Function:
    """The function, traced once for all arguments of the same shapes, whose equations are then copied into programs.

    So are those of its derivatives and batches. A product of vectors is nine operations of `jax.numpy`, each of them a
    call that JAX looks up by its arguments. Programs are the same.
    """
    return cast(_Function, jax.jit(function, inline=True))
