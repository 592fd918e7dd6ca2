"""Which programs are compiled, and which are evaluated by NumPy."""

import contextlib
import functools
import os
import weakref
from collections.abc import Iterator

import jax
import numpy as np
from jax._src import pjit
from jax._src.interpreters import pxla
from jax.extend.core import ClosedJaxpr, Jaxpr

from ._programs import Budget, TooLongError, alone, evaluate, inner
from ._random import is_key, to_keys

# Evaluations of an equation that take as long as compiling it; how often loops of unknown length turn is seen too late.
_MOST_EVALUATIONS, _MOST_WITH_UNKNOWN = 200, 50
# Programs with other options than these, which compile quickly, are to be compiled.
_OPTIONS = ((), (("xla_cpu_use_fusion_emitters", False),))
_NOT_ABLE = {"shard_map", "pallas_call", "sharding_constraint", "io_callback", "pure_callback", "debug_callback"}

_compile = pjit._pjit_call_impl_python
_budgets: weakref.WeakKeyDictionary[Jaxpr, Budget] = weakref.WeakKeyDictionary()
_off = False


def install() -> None:
    """From now on, programs are evaluated by NumPy where that is faster, unless the environment forbids it."""
    if os.environ.get("JAXCFA_OPTIMISED_TESTS", "0") == "0":
        pjit._pjit_call_impl_python = _call


@contextlib.contextmanager
def compiled() -> Iterator[None]:
    """Inside this context all programs are compiled."""
    with _switched(off=True):
        yield


@contextlib.contextmanager
def evaluated() -> Iterator[None]:
    """Inside this context programs are evaluated again, for what others are compared with in tests of compiling."""
    with _switched(off=False):
        yield


@contextlib.contextmanager
def _switched(off: bool) -> Iterator[None]:
    global _off
    before, _off = _off, off
    try:
        yield
    finally:
        _off = before


@functools.wraps(_compile)
def _call(*arguments, jaxpr: ClosedJaxpr, **params):
    program = jaxpr.jaxpr
    if _off or alone() or params["compiler_options_kvs"] not in _OPTIONS or any(map(_is_spread, arguments)):
        return _compile(*arguments, jaxpr=jaxpr, **params)
    if program not in _budgets:
        _budgets[program] = Budget(most_evaluations(program) if _is_able(program) else 0)
    budget = _budgets[program]
    if budget.left > 0:
        try:
            found = evaluate(program, jaxpr.consts, arguments, budget)
        except TooLongError:
            budget.left = 0
        else:
            # What JAX would keep of a compiled program, to call it faster, is not there.
            return [_as_array(x, v.aval) for x, v in zip(found, program.outvars, strict=True)], None, None, []
    return _compile(*arguments, jaxpr=jaxpr, **params)


def most_evaluations(program: Jaxpr) -> int:
    """How many equations of a program, over all of its calls, are evaluated in the time that compiling it takes."""
    size, evaluations, known = _sizes(program)
    # There is something to compile also where there is no equation, as where arrays of NumPy become those of JAX.
    most = (size + 1) * (_MOST_EVALUATIONS if known else _MOST_WITH_UNKNOWN)
    return most if evaluations <= most else 0


def _sizes(program: Jaxpr) -> tuple[int, int, bool]:
    """Number of equations, of their evaluations with each loop of unknown length once, and whether there is none."""
    size, evaluations, known = 0, 0, True
    for equation in program.eqns:
        name = equation.primitive.name
        turns = equation.params["length"] if name == "scan" else 1
        known &= name != "while"
        size, evaluations = size + 1, evaluations + 1
        for part in inner(equation):
            more, more_evaluations, also = _sizes(part)
            size, evaluations, known = size + more, evaluations + turns * more_evaluations, known and also
    return size, evaluations, known


def _is_able(program: Jaxpr) -> bool:
    """Whether the program is without side effects, and without parts for several devices."""
    if program.effects:
        return False
    return all(x.primitive.name not in _NOT_ABLE and all(map(_is_able, inner(x))) for x in program.eqns)


def _is_spread(x) -> bool:
    return isinstance(x, jax.Array) and len(x.sharding.device_set) > 1


def _as_array(x, aval) -> jax.Array:
    if is_key(aval.dtype):
        return to_keys(x)
    # What `jax.device_put` does, which takes ten times as long, and for weak types compiles a program.
    device = pxla.get_default_device()
    sharding = jax.sharding.SingleDeviceSharding(device)
    return pxla.batched_device_put(aval, sharding, [np.array(x, aval.dtype)], [device], committed=False)
