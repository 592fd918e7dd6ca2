"""The form on CPUs of a function of one state, or of a batch."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr
from jaxtyping import Array

from ..numerics import sin_cos_of_any
from ._able import able_form, bind, evaluate, values
from ._cuts import layers, needed_steps, parts_of, variables, wanted, without_repetition
from ._last_axis import along_last_axis
from ._marks import marked, within_marked
from ._results import put_together, taken_apart

# Of so many states, a piece, a number takes these bytes: then what is worked on fits into the fast cache. And so many
# at most go in and come out, which for motions of many stages is more than that cache holds; but no fewer states.
_ROW, _MOST, _FEWEST = 512, 2**23, 16
# Of fewer numbers XLA computes sines at least as fast.
_FEW_SINES = 16


def in_pieces(
    program: ClosedJaxpr,
    over_states: Callable[..., list[Array]],
    arguments: Sequence[Array],
    axes: Sequence[int | None],
    results: Sequence[int],
    size: int | None,
    width: int,
) -> list[Array]:
    """`program` of one state, or of many, piece by piece.

    **Arguments:** `over_states`: the same by `jax.vmap`; `axes`: where the arguments have that of the `size` states, 0
    or -1, or None; `results`: the same of the results; `width`: how many states one call computes already.
    """
    varies = [axis is not None for axis in axes]
    if size is None or width * size <= 1 or not any(varies):
        return at_once(over_states, arguments)
    number = -(-size // _piece(program, varies, width))
    length = -(-size // number)
    of_piece = along_last_axis(program, varies, length)

    def with_piece(found: Sequence[Array], given: Sequence[Array], first: Array | int) -> list[Array]:
        given = [jnp.moveaxis(x, 0, -1) if axis == 0 else x for x, axis in zip(given, axes, strict=True)]
        able = able_form(jax.make_jaxpr(of_piece)(*given))
        parts = taken_apart(able.jaxpr)
        new = iter(_evaluated(able, given, [part.variable for own in parts for part in own], picks_last=True))
        each = zip(found, parts, results, strict=True)
        return [put_together(x, own, list(itertools.islice(new, len(own))), axis, first) for x, own, axis in each]

    shaped = zip(program.out_avals, results, strict=True)
    nothing = [jnp.zeros(batch_shape(x.shape, size, axis), x.dtype) for x, axis in shaped]
    if number == 1:
        return with_piece(nothing, arguments, 0)

    def next_piece(i: Array, found: list[Array]) -> list[Array]:
        first = jnp.minimum(i * length, size - length)  # the last piece overlaps the one before
        given = zip(arguments, axes, strict=True)
        return with_piece(found, [x if axis is None else _part(x, first, length, axis) for x, axis in given], first)

    return lax.fori_loop(0, number, next_piece, nothing)


def batch_shape(shape: tuple[int, ...], size: int, axis: int) -> tuple[int, ...]:
    """The shape with an axis for the states, as its first or its last."""
    return (size, *shape) if axis == 0 else (*shape, size)


def _piece(program: ClosedJaxpr, varies: Sequence[bool], width: int) -> int:
    """How many states of a batch are computed at a time."""
    own = [*itertools.compress(program.in_avals, varies), *program.out_avals]
    number, size = max(x.dtype.itemsize for x in own), sum(x.size * x.dtype.itemsize for x in own)
    return max(min(_ROW // (number * width), _MOST // max(size, 1)), _FEWEST)


def _part(x: Array, first: Array, length: int, axis: int) -> Array:
    return lax.dynamic_slice_in_dim(x, first, length, axis % x.ndim)


def at_once(function: Callable[..., list[Array]], arguments: Sequence[Array]) -> list[Array]:
    """One state, as few functions."""
    program = able_form(jax.make_jaxpr(function)(*arguments))
    return _evaluated(program, arguments, program.jaxpr.outvars)


def _evaluated(
    program: ClosedJaxpr, arguments: Sequence[Array], outcome: Sequence[Any], picks_last: bool = False
) -> list[Array]:
    """These variables of a program in the form that XLA is able to compile, as few functions.

    `picks_last`: what is only picked from others at the end is so by what comes after these functions.
    """
    rest, last = needed_steps(program.jaxpr.eqns, outcome), []
    if picks_last:
        used = variables(x for step in rest for x in step.invars)
        last = [step for step in rest if step.primitive.name == "gather" and step.outvars[0] not in used]
        rest = [step for step in rest if step not in last]
    known: dict[Any, Any] = dict(zip(program.jaxpr.constvars, program.consts, strict=True))
    known.update(zip(program.jaxpr.invars, arguments, strict=True))
    parts = [part for layer in layers(rest) for part in parts_of(layer)]
    later = variables(itertools.chain(outcome, *(step.invars for step in last)))
    for (is_one, part), results in zip(parts, wanted([part for _, part in parts], later), strict=True):
        if is_one:
            known.update(_called(marked, part, known, results, _inside))
        else:
            evaluate(part, known, [])
    return evaluate(last, known, outcome)


def _called(
    call: Callable[[Callable[[list[Array]], list[Array]], list[Array]], list[Array]],
    part: Sequence[Any],
    known: dict[Any, Any],
    results: Sequence[Any],
    inside: Callable[[Sequence[Any], dict[Any, Any], Sequence[Any]], list[Array]],
) -> dict[Any, Array]:
    """What the steps of a part give, by a `call` of a function, in which they are evaluated by `inside`."""
    needed = variables(x for step in part for x in step.invars)
    taken, results = ([x for x in names if x.aval.size] for names in ((x for x in needed if x in known), results))
    empty = [x for x in needed if not x.aval.size]

    def compute(given: list[Array]) -> list[Array]:
        return inside(part, {x: _nothing(x) for x in empty} | dict(zip(taken, given, strict=True)), results)

    given = [known[x] for x in taken]
    found = dict(zip(results, call(compute, given) if given else compute(given), strict=True))
    return found | {x: _nothing(x) for step in part for x in step.outvars if not x.aval.size}


def _inside(part: Sequence[Any], known: dict[Any, Any], results: Sequence[Any]) -> list[Array]:
    """The steps of one function, by functions within it where XLA would compute much again."""
    pieces = without_repetition(part)
    if len(pieces) == 1:
        return _at_once(part, known, results)
    for piece, own in zip(pieces, wanted(pieces, variables(results)), strict=True):
        known.update(_called(within_marked, piece, known, own, _at_once))
    return values(results, known)


def _at_once(part: Sequence[Any], known: dict[Any, Any], results: Sequence[Any]) -> list[Array]:
    return evaluate(part, known, results, _evaluation())


def _evaluation() -> Callable[[Any, Sequence[Any]], Sequence[Array]]:
    """A way to evaluate steps: each by itself, but sines and cosines of one array together."""
    known: dict[int, tuple[Array, tuple[Array, Array]]] = {}

    def run(step: Any, given: Sequence[Any]) -> Sequence[Array]:
        x, name = (*given, None)[0], step.primitive.name
        if name not in ("sin", "cos") or x.size < _FEW_SINES or x.dtype not in (jnp.float32, jnp.float64):
            return bind(step, given)
        if id(x) not in known:
            known[id(x)] = x, sin_cos_of_any(x)
        return [known[id(x)][1][name == "cos"]]

    return run


def _nothing(x: Any) -> Array:
    """An array without elements, which no function takes or returns: XLA stops the process at some of them."""
    return jnp.zeros(x.aval.shape, x.aval.dtype)
