"""Traced programs as steps of NumPy, with the programs in them: loops, branches and calls."""

import functools
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from jaxcfa._private_jax import parts_of_scan
from jaxcfa.one_function._primitive import over_states

from ._operations import NUMBERWISE, OPERATIONS
from ._random import from_keys, is_key, is_threefry, to_keys


class TooLongError(Exception):
    """More equations would be evaluated than pays."""


class Budget:
    """How many equations may still be evaluated."""

    def __init__(self, equations: int):
        self.left = equations

    def spend(self, equations: int) -> None:
        self.left -= equations
        if self.left < 0:
            raise TooLongError


def inner(equation) -> Iterator[Jaxpr]:
    """The programs among the parameters of an equation."""
    for value in equation.params.values():
        for x in value if isinstance(value, tuple) else (value,):
            if isinstance(x, Jaxpr | ClosedJaxpr):
                yield getattr(x, "jaxpr", x)


def evaluate(program: Jaxpr, constants: Sequence[Any], arguments: Sequence[Any], budget: Budget) -> list[Any]:
    """The results of a program, as NumPy's arrays and numbers."""
    with np.errstate(all="ignore"):
        return _prepared(program)(list(map(_known, constants)), list(map(_known, arguments)), budget)


def _known(x):
    if not isinstance(x, jax.Array):
        return np.asarray(x, jnp.result_type(x))
    if not is_key(x.dtype):
        return np.asarray(x)
    if not is_threefry(x.dtype):
        raise TooLongError
    return from_keys(x)


def _shaped(aval) -> jax.ShapeDtypeStruct:
    """Shape and type of NumPy's array."""
    return jax.ShapeDtypeStruct(aval.shape, np.uint64) if is_key(aval.dtype) else aval


_programs: weakref.WeakKeyDictionary[Jaxpr, Callable] = weakref.WeakKeyDictionary()


def _prepared(program: Jaxpr) -> Callable[[list, list, Budget], list]:
    found = _programs.get(program)
    if found is None:
        found = _programs[program] = _prepare(program)
    return found


def _prepare(program: Jaxpr) -> Callable[[list, list, Budget], list]:
    """The program as steps on numbered places, each of which is emptied after its last use."""
    places: dict[Any, int] = {}
    literals: dict[int, Any] = {}

    def place(x) -> int:
        if isinstance(x, Literal):
            literals[number := len(places)] = np.asarray(x.val, x.aval.dtype)
            places[object()] = number
            return number
        return places.setdefault(x, len(places))

    given = [place(x) for x in (*program.constvars, *program.invars)]
    steps = []
    for equation in program.eqns:
        inputs = [place(x) for x in equation.invars]
        outputs = [place(x) for x in equation.outvars]
        steps.append((_operation(equation), inputs, outputs))
    results = [place(x) for x in program.outvars]
    seen = set(results) | set(literals)
    emptied = []
    for _, inputs, outputs in reversed(steps):
        last = {*inputs, *outputs} - seen
        seen |= last
        emptied.append(tuple(last))
    steps = [(*step, last) for step, last in zip(steps, reversed(emptied), strict=True)]
    beginning: list[Any] = [literals.get(i) for i in range(len(places))]

    def run(constants, arguments, budget):
        budget.spend(len(steps))
        values = beginning.copy()
        for i, x in zip(given, itertools.chain(constants, arguments), strict=True):
            values[i] = x
        for operation, inputs, outputs, last in steps:
            found = operation(budget, *[values[i] for i in inputs])
            for i, x in zip(outputs, found, strict=True):
                values[i] = x
            for i in last:
                values[i] = None
        return [values[i] for i in results]

    return run


def _operation(equation) -> Callable[..., Sequence[Any]]:
    """A function of the budget and the operands that returns all results."""
    name, params = equation.primitive.name, equation.params
    if name in _WITH_PROGRAMS:
        return _WITH_PROGRAMS[name](equation)
    if name in NUMBERWISE:
        function = NUMBERWISE[name]
        return lambda _, *x: (function(*x),)
    if name in OPERATIONS:
        function = OPERATIONS[name](*(_shaped(x.aval) for x in (equation.outvars[0], *equation.invars)), **params)
        return lambda _, *x: (function(*x),)
    return _by_jax(equation)


_left_to_jax = 0


def alone() -> bool:
    """Whether what is called now is one operation that is left to JAX."""
    return _left_to_jax > 0


def _by_jax(equation):
    """One operation, which is compiled."""
    primitive = equation.primitive
    program = _compiled(primitive, tuple(sorted(equation.params.items())))
    of_keys = [is_key(x.aval.dtype) for x in equation.invars]

    def run(_, *operands):
        global _left_to_jax
        operands = [to_keys(x) if are_keys else x for x, are_keys in zip(operands, of_keys, strict=True)]
        _left_to_jax += 1
        try:
            found = program(*operands)
        finally:
            _left_to_jax -= 1
        return list(map(_known, found if primitive.multiple_results else [found]))

    return run


@functools.cache
def _compiled(primitive, params):
    # Not the program that JAX has for this, which may be the one that is being evaluated.
    return jax.jit(lambda *operands: primitive.bind(*operands, **dict(params)))


def _call(key: str):
    def make(equation):
        called = equation.params[key]
        program, constants = getattr(called, "jaxpr", called), list(map(_known, getattr(called, "consts", ())))
        run = _prepared(program)
        return lambda budget, *operands: run(constants, operands, budget)

    return make


def _closed(called: ClosedJaxpr):
    run, constants = _prepared(called.jaxpr), list(map(_known, called.consts))
    return lambda budget, *operands: run(constants, operands, budget)


def _scan(equation):
    params = equation.params
    body = _closed(params["jaxpr"])
    length, (fixed, carried) = params["length"], parts_of_scan(params)
    order = range(length - 1, -1, -1) if params["reverse"] else range(length)
    shapes = [_shaped(x.aval) for x in equation.outvars[carried:]]

    def run(budget, *operands):
        constants, carry, each = operands[:fixed], operands[fixed : fixed + carried], operands[fixed + carried :]
        results = [np.empty(x.shape, x.dtype) for x in shapes]
        for i in order:
            found = body(budget, *constants, *carry, *[x[i] for x in each])
            carry = found[:carried]
            for all_of_it, x in zip(results, found[carried:], strict=True):
                all_of_it[i] = x
        return [*carry, *results]

    return run


def _while(equation):
    params = equation.params
    condition, body = _closed(params["cond_jaxpr"]), _closed(params["body_jaxpr"])
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]

    def run(budget, *operands):
        carry = operands[second:]
        while np.any(goes_on := condition(budget, *operands[:first], *carry)[0]):
            found = body(budget, *operands[first:second], *carry)
            # Those of a batch that have come to their end stay as they are.
            each = goes_on if np.ndim(goes_on) else None
            carry = found if each is None else [_chosen(each, *pair) for pair in zip(found, carry, strict=True)]
        return carry

    return run


def _chosen(which, new, old):
    return np.where(np.reshape(which, which.shape + (1,) * (np.ndim(new) - np.ndim(which))), new, old)


def _cond(equation):
    branches = list(map(_closed, equation.params["branches"]))
    return lambda budget, i, *operands: branches[min(max(int(i), 0), len(branches) - 1)](budget, *operands)


def _platform(equation):
    places = [i for i, names in enumerate(equation.params["platforms"]) if names is None or "cpu" in names]
    return lambda _: [np.int32(places[0])]


def _linear_solve(equation):
    solve = _closed(equation.params["jaxprs"].solve)
    lengths = equation.params["const_lengths"]
    start = lengths.matvec + lengths.vecmat
    stop = start + lengths.solve
    last = stop + lengths.transpose_solve
    return lambda budget, *operands: solve(budget, *operands[start:stop], *operands[last:])


def _one_function(equation):
    """What is marked to be one function on CPUs, without the mark."""
    program, params = equation.params["program"], equation.params
    if any(axis is not None for axis in params["axes"]):
        program = jax.make_jaxpr(functools.partial(over_states, **params))(*(x.aval for x in equation.invars))
        return _closed(program)
    run = _closed(program)
    axes, shapes = params["results"], [x.aval.shape for x in equation.outvars]

    def repeated(x, axis, shape):
        return np.broadcast_to(x if x.shape == shape else np.expand_dims(x, axis), shape)

    return lambda budget, *x: list(map(repeated, run(budget, *x), axes, shapes))


_WITH_PROGRAMS = {
    "jit": _call("jaxpr"),
    "pjit": _call("jaxpr"),
    "closed_call": _call("call_jaxpr"),
    "core_call": _call("call_jaxpr"),
    "custom_jvp_call": _call("call_jaxpr"),
    "with_rule": _call("call_jaxpr"),
    "custom_vjp_call": _call("call_jaxpr"),
    "custom_vmap_call": _call("call"),
    "checkpoint": _call("jaxpr"),
    "remat": _call("jaxpr"),
    "remat2": _call("jaxpr"),
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "custom_linear_solve": _linear_solve,
    "platform_index": _platform,
    "one_function": _one_function,
    "unstack": lambda e: lambda _, x: list(np.moveaxis(x, e.params["axis"], 0)),
    "optimization_barrier": lambda _: lambda _, *x: x,
    "split": lambda e: lambda _, x: np.split(x, np.cumsum(e.params["sizes"])[:-1], e.params["axis"]),
}
