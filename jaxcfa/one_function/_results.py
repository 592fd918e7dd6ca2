"""Results of many states that are put together of parts, each written where it belongs.

A matrix whose elements are found one by one for all bodies and states is a stack of stacks of them. XLA:CPU compiles
that into a loop over the elements of the matrix with a case for each part, which takes longer than all that was
computed before. Loops over the parts, each of which writes one into the result, take a third of that.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jax import lax
from jax.extend.core import Literal
from jaxtyping import Array

_MOST = 64  # parts of one result: each is a loop, to be compiled and called


class Part(NamedTuple):
    """A variable that is a part of a result; both have the states along the last axis.

    **Fields:** the `variable`; `axes`: of its axes, which of the result they are; `start`: where it begins in the
    result, whose other axes have length one there. Neither speaks of the states.
    """

    variable: Any
    axes: tuple[int, ...]
    start: tuple[int, ...]


def taken_apart(program: Any) -> list[list[Part]]:
    """The parts of each result of a program, whose every result has the states along its last axis."""
    made_by = {x: step for step in program.eqns for x in step.outvars}

    def smaller(part: Part) -> list[Part]:
        """What a part consists of itself, or the part."""
        step = made_by.get(part.variable)
        if step is None or step.primitive.name not in _RULES or any(isinstance(x, Literal) for x in step.invars):
            return [part]
        own = _RULES[step.primitive.name](step, part)
        return [part] if own is None else [x for x in own if x.variable.aval.size]

    def parts(whole: Part) -> list[Part]:
        now, later = [whole], smaller(whole)
        while now != later and 0 < len(later) <= _MOST:
            now, later = later, list(itertools.chain.from_iterable(map(smaller, later)))
        return now

    axes = [tuple(range(x.aval.ndim - 1)) for x in program.outvars]
    wholes = [Part(x, own, (0,) * len(own)) for x, own in zip(program.outvars, axes, strict=True)]
    return [[x] if isinstance(x.variable, Literal) else parts(x) for x in wholes]


def _stack(step: Any, part: Part) -> list[Part] | None:
    number = step.params["axis"]
    if number == len(part.axes):
        return None
    axis, axes = part.axes[number], part.axes[:number] + part.axes[number + 1 :]
    return [Part(x, axes, _moved(part.start, axis, i)) for i, x in enumerate(step.invars)]


def _concatenate(step: Any, part: Part) -> list[Part] | None:
    number = step.params["dimension"]
    if number == len(part.axes):
        return None
    firsts = itertools.accumulate((x.aval.shape[number] for x in step.invars), initial=0)
    each = zip(step.invars, firsts, strict=False)
    return [part._replace(variable=x, start=_moved(part.start, part.axes[number], first)) for x, first in each]


def _transpose(step: Any, part: Part) -> list[Part] | None:
    order = step.params["permutation"]
    if order[-1] != len(part.axes):
        return None
    axes = dict(zip(order[:-1], part.axes, strict=True))
    return [part._replace(variable=step.invars[0], axes=tuple(axes[i] for i in range(len(axes))))]


def _broadcast_in_dim(step: Any, part: Part) -> list[Part] | None:
    """Of axes of length one that are added."""
    x, axes = step.invars[0], step.params["broadcast_dimensions"]
    if x.aval.size != step.outvars[0].aval.size or not axes or axes[-1] != len(part.axes):
        return None
    return [part._replace(variable=x, axes=tuple(part.axes[i] for i in axes[:-1]))]


def _moved(start: tuple[int, ...], axis: int, by: int) -> tuple[int, ...]:
    return (*start[:axis], start[axis] + by, *start[axis + 1 :])


_RULES: dict[str, Callable[[Any, Part], list[Part] | None]] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "concatenate": _concatenate,
    "stack": _stack,
    "transpose": _transpose,
}


def put_together(result: Array, parts: Sequence[Part], values: Sequence[Array], axis: int, first: Array | int) -> Array:
    """`result`, of all states along its first or last axis, with the values of its parts for some from `first` on."""
    for part, x in zip(parts, values, strict=True):
        order = sorted(range(len(part.axes)), key=part.axes.__getitem__)
        lengths = [1] * len(part.start)
        for own, length in zip(part.axes, x.shape[:-1], strict=True):
            lengths[own] = length
        states = len(part.axes)
        if axis == 0:
            x, lengths = lax.transpose(x, (states, *order)), [x.shape[-1], *lengths]
            start = (first, *part.start)
        else:
            x, lengths = lax.transpose(x, (*order, states)), [*lengths, x.shape[-1]]
            start = (*part.start, first)
        result = lax.dynamic_update_slice(result, x.reshape(lengths), start)
    return result
