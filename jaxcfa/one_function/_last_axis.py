"""Programs of many states, which lie along the last axis of every array.

`jax.vmap` mostly has them along the first axis, so that the innermost of XLA's loops run over three components, or over
the bodies of an arm, and are not vectorised. Before a last axis all others keep their numbers, so that most operations
stay what they are; and each innermost loop runs over the states.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from jaxtyping import Array

from .._private_jax import constants_of_while, operands_of_solve, parts_of_scan
from ._able import bind

# What is done for each number by itself.
_NUMBERWISE_NAMES = """
    abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp convert_element_type copy cos cosh
    div eq erf erf_inv erfc exp exp2 expm1 floor ge gt integer_pow is_finite le log log1p logistic lt max min mul ne
    neg nextafter not or pow reduce_precision rem round rsqrt select_n shift_left
    shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh xor
"""
_NUMBERWISE = frozenset(_NUMBERWISE_NAMES.split())
# What speaks of axes by their numbers, all of them before the last.
_BY_AXES_NAMES = """
    argmax argmin concatenate cumlogsumexp cummax cummin cumprod cumsum optimization_barrier reduce_and reduce_max
    reduce_min reduce_or reduce_prod reduce_sum rev sort split squeeze stack unstack
"""
_BY_AXES = frozenset(_BY_AXES_NAMES.split())
_CALLS = {"jit": "jaxpr"} | dict.fromkeys(
    ("closed_call", "custom_jvp_call", "custom_vjp_call", "with_rule"), "call_jaxpr"
)
_TOGETHER = 4  # terms of a product

Rule = Callable[[JaxprEqn, list[Array], list[bool], int], Sequence[Array]]


def along_last_axis(program: ClosedJaxpr, varies: Sequence[bool], size: int) -> Callable[..., list[Array]]:
    """`program` of many states: arguments that vary have a last axis of `size` for them, and so have all results."""

    def run(*arguments: Array) -> list[Array]:
        found, moved = _run(program, arguments, varies, size)
        return [_full(x, moves, x.shape[: -1 if moves else None], size) for x, moves in zip(found, moved, strict=True)]

    return run


def _run(
    program: ClosedJaxpr, arguments: Sequence[Array], varies: Sequence[bool], size: int
) -> tuple[list[Array], list[bool]]:
    """The results, and which of them have the axis."""
    jaxpr = program.jaxpr
    known: dict[Any, tuple[Array, bool]] = {}
    known.update((x, (jnp.asarray(value), False)) for x, value in zip(jaxpr.constvars, program.consts, strict=True))
    known.update(zip(jaxpr.invars, zip(arguments, varies, strict=True), strict=True))

    def values(atoms: Sequence[Any]) -> tuple[list[Array], list[bool]]:
        pairs = [(jnp.asarray(x.val, _shaped(x).dtype), False) if isinstance(x, Literal) else known[x] for x in atoms]
        return [x for x, _ in pairs], [moves for _, moves in pairs]

    for step in jaxpr.eqns:
        known.update(zip(step.outvars, zip(*_step(step, *values(step.invars), size), strict=True), strict=True))
    return values(jaxpr.outvars)


def _step(step: JaxprEqn, given: list[Array], varies: list[bool], size: int) -> tuple[Sequence[Array], list[bool]]:
    name = step.primitive.name
    if not any(varies):
        found = bind(step, given)
        return found, [False] * len(found)
    if name in _CALLS:
        return _run(_closed(step.params[_CALLS[name]]), given, varies, size)
    if name in _LOOPS:
        return _LOOPS[name](step, given, varies, size)
    if name in _NUMBERWISE:
        found = bind(step, [_full(x, *own, size) for x, own in _forms(given, varies, step.outvars[:1])])
    elif name in _BY_AXES:
        found = bind(step, [_full(x, *own, size) for x, own in _forms(given, varies, step.invars)])
    else:
        found = _RULES.get(name, _by_vmap)(step, given, varies, size)
    return found, [True] * len(found)


def _forms(
    given: list[Array], varies: list[bool], like: Sequence[Any]
) -> Iterator[tuple[Array, tuple[bool, tuple[int, ...]]]]:
    """Operands, each with whether it varies and its shape without the axis: its own, or that of the only result."""
    shapes = [_shaped(x).shape for x in like] if len(like) == len(given) else [_shaped(like[0]).shape] * len(given)
    return zip(given, zip(varies, shapes, strict=True), strict=True)


def _shaped(x: Any) -> ShapedArray:
    """Shape and type of one state's."""
    return x.aval


def _full(x: Array, moves: bool, shape: tuple[int, ...], size: int) -> Array:
    """`x` broadcast to the given shape and the last axis."""
    own = x.shape[:-1] if moves else x.shape
    if moves and own == shape:
        return x
    # JAX's numberwise operations take scalars, and axes of length one, beside others.
    axes = range(len(shape) - len(own), len(shape)) if own else ()
    return lax.broadcast_in_dim(x, (*shape, size), (*axes, *([len(shape)] if moves else [])))


def _closed(program: Any) -> ClosedJaxpr:
    return program if isinstance(program, ClosedJaxpr) else ClosedJaxpr(program, ())


def _by_vmap(step: JaxprEqn, given: list[Array], varies: list[bool], size: int) -> Sequence[Array]:
    """What has no rule, as JAX vectorises it."""
    axes = [-1 if moves else None for moves in varies]
    return jax.vmap(lambda *x: bind(step, x), axes, -1)(*given)


def _broadcast_in_dim(step: JaxprEqn, given: list[Array], varies: list[bool], size: int) -> Sequence[Array]:
    shape, axes = step.params["shape"], step.params["broadcast_dimensions"]
    return [lax.broadcast_in_dim(given[0], (*shape, size), (*axes, len(shape)))]


def _reshape(step: JaxprEqn, given: list[Array], varies: list[bool], size: int) -> Sequence[Array]:
    return [given[0].reshape(*step.params["new_sizes"], size)]


def _transpose(step: JaxprEqn, given: list[Array], varies: list[bool], size: int) -> Sequence[Array]:
    order = step.params["permutation"]
    return [lax.transpose(given[0], (*order, len(order)))]


def _slice(step: JaxprEqn, given: list[Array], varies: list[bool], size: int) -> Sequence[Array]:
    starts, stops, strides = (step.params[name] for name in ("start_indices", "limit_indices", "strides"))
    return [lax.slice(given[0], (*starts, 0), (*stops, size), None if strides is None else (*strides, 1))]


def _pad(step: JaxprEqn, given: list[Array], varies: list[bool], size: int) -> Sequence[Array]:
    if varies[1]:
        return _by_vmap(step, given, varies, size)
    return [lax.pad(given[0], given[1], (*step.params["padding_config"], (0, 0, 0)))]


def _dynamic_slice(step: JaxprEqn, given: list[Array], varies: list[bool], size: int) -> Sequence[Array]:
    x, *starts = given
    if any(varies[1:]):
        return _by_vmap(step, given, varies, size)
    return [lax.dynamic_slice(x, (*starts, jnp.zeros_like(starts[0])), (*step.params["slice_sizes"], size))]


def _dynamic_update_slice(step: JaxprEqn, given: list[Array], varies: list[bool], size: int) -> Sequence[Array]:
    if any(varies[2:]):
        return _by_vmap(step, given, varies, size)
    forms = itertools.islice(_forms(given, varies, step.invars), 2)
    x, new = (_full(x, *own, size) for x, own in forms)
    return [lax.dynamic_update_slice(x, new, (*given[2:], jnp.zeros_like(given[2])))]


def _gather(step: JaxprEqn, given: list[Array], varies: list[bool], size: int) -> Sequence[Array]:
    if varies[1]:
        return _by_vmap(step, given, varies, size)
    numbers = step.params["dimension_numbers"]
    last = len(_shaped(step.outvars[0]).shape)
    return bind(
        step,
        given,
        dimension_numbers=numbers._replace(offset_dims=(*numbers.offset_dims, last)),
        slice_sizes=(*step.params["slice_sizes"], size),
    )


def _scatter(step: JaxprEqn, given: list[Array], varies: list[bool], size: int) -> Sequence[Array]:
    x, indices, new = given
    if varies[1]:
        return _by_vmap(step, given, varies, size)
    numbers = step.params["dimension_numbers"]
    x, new = (_full(a, *own, size) for a, own in list(_forms(given, varies, step.invars))[::2])
    numbers = numbers._replace(update_window_dims=(*numbers.update_window_dims, new.ndim - 1))
    return bind(step, [x, indices, new], dimension_numbers=numbers)


def _dot_general(step: JaxprEqn, given: list[Array], varies: list[bool], size: int) -> Sequence[Array]:
    """A product of matrices as a sum of outer products."""
    summed, batch = step.params["dimension_numbers"]
    out = _shaped(step.outvars[0])
    shape = (*out.shape, size)
    free = [
        [i for i in range(len(_shaped(x).shape)) if i not in (*s, *b)]
        for x, s, b in zip(step.invars, summed, batch, strict=True)
    ]
    number = math.prod(_shaped(step.invars[0]).shape[i] for i in summed[0])
    terms, axes = [], []
    for x, moves, s, b, f, skipped in zip(given, varies, summed, batch, free, (0, len(free[0])), strict=True):
        last = [x.ndim - 1] if moves else []
        ordered = lax.transpose(x.astype(out.dtype), (*s, *b, *f, *last))
        terms.append(ordered.reshape(number, *ordered.shape[len(s) :]))
        first = len(b) + skipped
        axes.append((*range(len(b)), *range(first, first + len(f)), *([len(out.shape)] if moves else [])))

    def term(factors: Sequence[Array]) -> Array:
        x, y = (lax.broadcast_in_dim(x, shape, own) for x, own in zip(factors, axes, strict=True))
        return x * y

    if not number:
        return [jnp.zeros(shape, out.dtype)]
    if number <= _TOGETHER:
        first, *others = (term([x[i] for x in terms]) for i in range(number))
        return [sum(others, first)]

    def added(total: Array, x: Sequence[Array]) -> tuple[Array, None]:
        return total + term(x), None

    return [lax.scan(added, jnp.zeros(shape, out.dtype), terms, unroll=_TOGETHER)[0]]


def _custom_linear_solve(step: JaxprEqn, given: list[Array], varies: list[bool], size: int) -> Sequence[Array]:
    """The solution itself, without the rule for its derivatives."""
    params = step.params
    solve = along_last_axis(_closed(params["jaxprs"].solve), operands_of_solve(params, varies), size)
    return solve(*operands_of_solve(params, given))


def _cond(step: JaxprEqn, given: list[Array], varies: list[bool], size: int) -> Sequence[Array]:
    if varies[0]:
        return _by_vmap(step, given, varies, size)
    branches = [along_last_axis(_closed(x), varies[1:], size) for x in step.params["branches"]]
    return lax.switch(given[0], branches, *given[1:])


def _scan(step: JaxprEqn, given: list[Array], varies: list[bool], size: int) -> tuple[list[Array], list[bool]]:
    params, body = step.params, step.params["jaxpr"]
    constants, end = _carried(step)
    within, moved = _in_scan(step, varies)
    carried = within[constants:end]
    shapes = [x.shape for x in body.in_avals[constants:end]]

    def full(carry: Sequence[Array], varies: Sequence[bool]) -> list[Array]:
        """The carry with the last axis wherever it varies in a later iteration."""
        kept = zip(carry, varies, carried, shapes, strict=True)
        return [_full(x, own, shape, size) if later else x for x, own, later, shape in kept]

    def run(carry: list[Array], xs: list[Array]) -> tuple[list[Array], list[Array]]:
        found, moves = _run(body, [*given[:constants], *carry, *xs], within, size)
        return full(found[: len(carry)], moves[: len(carry)]), found[len(carry) :]

    options = {name: params[name] for name in ("length", "reverse", "unroll")}
    last, every = lax.scan(run, full(given[constants:end], varies[constants:end]), given[end:], **options)
    return [*last, *every], moved


def _carried(step: JaxprEqn) -> tuple[int, int]:
    """Where the carried operands of a scan begin and end."""
    constants, carried = parts_of_scan(step.params)
    return constants, constants + carried


def _in_scan(step: JaxprEqn, varies: list[bool]) -> tuple[list[bool], list[bool]]:
    """Which operands vary inside a scan, whose carry may begin to, and which results do."""
    constants, end = _carried(step)
    while True:
        moved = _moved(step.params["jaxpr"].jaxpr, varies)
        carried = [a or b for a, b in zip(varies[constants:end], moved, strict=False)]
        if carried == varies[constants:end]:
            return varies, [*carried, *moved[len(carried) :]]
        varies = [*varies[:constants], *carried, *varies[end:]]


def _while(step: JaxprEqn, given: list[Array], varies: list[bool], size: int) -> tuple[list[Array], list[bool]]:
    """A loop until no state goes on; those that are done stay as they are."""
    condition, body, own, first = _parts_of_while(step)
    carried, goes_on = _in_while(step, varies)
    shapes = [x.shape for x in body.out_avals]

    def full(carry: Sequence[Array], moved: Sequence[bool]) -> list[Array]:
        kept = zip(carry, moved, carried, shapes, strict=True)
        return [_full(x, moves, shape, size) if later else x for x, moves, later, shape in kept]

    def unfinished(carry: Sequence[Array]) -> Array:
        return _run(condition, [*given[:own], *carry], [*varies[:own], *carried], size)[0][0]

    def improve(state: tuple[Array, list[Array]]) -> tuple[Array, list[Array]]:
        active, carry = state
        new = full(*_run(body, [*given[own:first], *carry], [*varies[own:first], *carried], size))
        if goes_on:
            new = [jnp.where(active, x, old) for x, old in zip(new, carry, strict=True)]
        return unfinished(new), new

    start = full(given[first:], varies[first:])
    found = lax.while_loop(lambda state: jnp.any(state[0]), improve, (unfinished(start), start))[1]
    return found, carried


def _parts_of_while(step: JaxprEqn) -> tuple[ClosedJaxpr, ClosedJaxpr, int, int]:
    """Condition and body; where the constants of the body begin, after the condition's, and where what is carried."""
    own, of_body = constants_of_while(step.params)
    return step.params["cond_jaxpr"], step.params["body_jaxpr"], own, own + of_body


def _in_while(step: JaxprEqn, varies: list[bool]) -> tuple[list[bool], bool]:
    """What varies of that which a loop carries, and whether some states go on for longer than others."""
    condition, body, own, first = _parts_of_while(step)
    carried = varies[first:]
    while True:
        goes_on = _moved(condition.jaxpr, [*varies[:own], *carried])[0]
        moved = _moved(body.jaxpr, [*varies[own:first], *carried])
        later = [goes_on or a or b for a, b in zip(carried, moved, strict=True)]
        if later == carried:
            return carried, goes_on
        carried = later


_LOOPS = {"scan": _scan, "while": _while}


def _moved(program: Jaxpr, varies: Sequence[bool]) -> list[bool]:
    """Which results vary, as found by `_run`, but without running."""
    known = dict(zip(program.invars, varies, strict=True))

    def of(atoms: Sequence[Any]) -> list[bool]:
        return [not isinstance(x, Literal) and known.get(x, False) for x in atoms]

    for step in program.eqns:
        own, name = of(step.invars), step.primitive.name
        if name in _CALLS:
            found = _moved(_closed(step.params[_CALLS[name]]).jaxpr, own)
        elif name == "scan":
            found = _in_scan(step, own)[1]
        elif name == "while":
            found = _in_while(step, own)[0]
        else:
            found = [any(own)] * len(step.outvars)
        known.update(zip(step.outvars, found, strict=True))
    return of(program.outvars)


_RULES: dict[str, Rule] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "cond": _cond,
    "custom_linear_solve": _custom_linear_solve,
    "dot_general": _dot_general,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "pad": _pad,
    "reshape": _reshape,
    "scatter": _scatter,
    "scatter-add": _scatter,
    "scatter-max": _scatter,
    "scatter-min": _scatter,
    "scatter-mul": _scatter,
    "slice": _slice,
    "transpose": _transpose,
}
