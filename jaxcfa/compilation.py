"""Compiling sooner, where it costs nothing, programs for one state at a time on CPUs; and not again and again."""

import functools
from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax

from . import backend
from ._private_jax import inside_jit, trace_state_clean

Result = TypeVar("Result")

# XLA:CPU compiles each fused loop by a pipeline of its own, which is slow, and whose code vectorises better over
# batches; without, all loops are compiled together.
_TOGETHER = {"xla_cpu_use_fusion_emitters": False}


def quick_compilation() -> dict[str, bool]:
    """Options of XLA with which programs of one state, or a few, compile in 50 to 80 % of the time on CPUs.

        solve = jax.jit(lambda x0: optimal_control.solve(problem, x0), compiler_options=jaxcfa.quick_compilation())

    They run as fast then; batches of thousands of states take up to twice as long. What is called outside of any
    `jax.jit` (forward dynamics, rollouts, inverse kinematics, optimal control) uses these options by itself.

    **Returns:** the options, for `jax.jit`; none for other backends, and versions of XLA that do not have them.
    """
    return dict(_TOGETHER) if backend.backend() == "cpu" and _are_known() else {}


@functools.cache
def _are_known() -> bool:
    """Whether this version of XLA has the options; asking is compiling something."""
    with jax.ensure_compile_time_eval():
        try:
            jax.jit(lambda: 0, compiler_options=_TOGETHER).lower().compile()
        except jax.errors.JaxRuntimeError:
            return False
    return True


def jit_of_one_state(function: Callable[..., Result], jit: Callable = jax.jit) -> Callable[..., Result]:
    """`jit(function)` for what users call with one state: with `quick_compilation` outside of other programs.

    Inside of them it is a part of theirs, for which they choose. On GPUs it is then the function itself, for which the
    model that they close over is known.
    """
    plain = jit(function)
    # Not before the first call, because asking for the backend starts it.
    quick = functools.cache(lambda: jit(function, compiler_options=quick_compilation()))

    @functools.wraps(function)
    def run(*arguments, **named):
        if backend.is_gpu() and inside_jit():
            return function(*arguments, **named)
        alone = trace_state_clean() and backend.backend() == "cpu"
        return (quick() if alone else plain)(*arguments, **named)

    return run


def jit_alone(function: Callable[..., Result], jit: Callable = eqx.filter_jit) -> Callable[..., Result]:
    """`jit(function)` outside of other programs, and inside of them the function itself.

    For what is called by itself with loops whose steps are new functions each time, which JAX would compile each time.
    """
    alone = jit(function)

    @functools.wraps(function)
    def run(*arguments, **named):
        return (alone if trace_state_clean() else function)(*arguments, **named)

    return run
