"""Functions of arrays that take lists and integers, too."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx

from ..numerics._options import floating_numbers

P = ParamSpec("P")
R = TypeVar("R")


def of_numbers(function: Callable[P, R]) -> Callable[P, R]:
    """The function with all arguments converted that are no floating-point arrays yet.

    **Raises:** when called, `ValueError` naming the argument for what holds no real numbers.
    """
    names = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def converted(*args: P.args, **kwargs: P.kwargs) -> R:
        given = [_floating(name, x) for name, x in zip(names, args, strict=False)]
        return function(*given, *args[len(given) :], **{name: _floating(name, x) for name, x in kwargs.items()})  # type: ignore[arg-type]

    return converted


def of_sequence(name: str) -> Callable[[Any], Any]:
    """A converter for fields of arrays, for which something else may stand, but no lists."""
    return lambda value: _floating(name, value) if type(value) in (list, tuple) else value


def _floating(name: str, value: Any) -> Any:
    dtype = getattr(value, "dtype", None)
    if isinstance(value, eqx.Module) if dtype is None else dtype.kind not in "iubc":
        return value
    return floating_numbers(name, value)
