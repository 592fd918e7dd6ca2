"""Functions of a user that close over traced arrays, made differentiable."""

import types
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ._dynamics import FunctionDynamics, _Static
from ._problem import Problem
from ._stage import Stage
from ._terms import AbstractTerm, _Function


class _WithArrays(eqx.Module):
    """A converted function and the arrays that it closed over."""

    function: Callable = eqx.field(static=True)
    arrays: list[Array]

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments, *self.arrays)


class _TermWithArrays(AbstractTerm):
    """The same for a term."""

    function: _WithArrays

    def __call__(self, stage: Stage) -> Any:
        u = [] if stage.is_end else [stage.u]
        return self.function(stage.x, *u, stage.t)


def hoisted(problem: Problem) -> Problem:
    """The problem with the arrays that its functions close over as leaves, so that it can be differentiated by them.

    JAX cannot see into the closure of a function that it differentiates by a rule. Only functions that close over
    something that is being traced are converted.
    """
    dynamics = problem.dynamics
    x = jnp.zeros(dynamics.state_size, _dtype(problem))
    u, t = jnp.zeros(dynamics.control_size, x.dtype), jnp.asarray(0)

    def convert(end: bool):
        def term(part: Any) -> Any:
            if not (isinstance(part.term, _Function) and _closes_over_tracers(part.term.function)):
                return part
            function = part.term.function
            if end:
                flat = jax.closure_convert(lambda x, t: function(Stage(dynamics, x, None, t)), x, t)
            else:
                flat = jax.closure_convert(lambda x, u, t: function(Stage(dynamics, x, u, t)), x, u, t)
            return eqx.tree_at(lambda p: p.term, part, _TermWithArrays(_WithArrays(*flat)), is_leaf=_is_term)

        return term

    phases = tuple(_hoisted_phase(phase, x, u, t) for phase in problem.phases)
    parts = (
        tuple(map(convert(end), parts))
        for parts, end in (
            (problem.costs, False),
            (problem.end_costs, True),
            (problem.constraints, False),
            (problem.end_constraints, True),
        )
    )
    names = lambda p: (p.phases, p.costs, p.end_costs, p.constraints, p.end_constraints)  # noqa: E731
    return eqx.tree_at(names, problem, (phases, *parts), is_leaf=lambda x: x is None)


def _hoisted_phase(phase: Any, x: Array, u: Array, t: Array) -> Any:
    dynamics = phase.dynamics
    if not (isinstance(dynamics, FunctionDynamics) and isinstance(dynamics.function, _Static)):
        return phase
    function = dynamics.function.function
    if not _closes_over_tracers(function):
        return phase
    converted = _WithArrays(*jax.closure_convert(function, x, u, t))
    return eqx.tree_at(lambda p: p.dynamics.function, phase, converted, is_leaf=lambda x: isinstance(x, _Static))


def _is_term(x: Any) -> bool:
    return isinstance(x, _Function)


def _dtype(problem: Problem) -> Any:
    return jnp.result_type(float, *(x for x in jax.tree.leaves(problem) if eqx.is_inexact_array(x)))


def _closes_over_tracers(function: Any, depth: int = 4) -> bool:
    """Whether something traced is in a function's closure, defaults or arguments, or in those of functions there."""
    if isinstance(function, partial):
        inside: list[Any] = [function.func, function.args, function.keywords]
    elif isinstance(function, types.MethodType):
        inside = [function.__self__, function.__func__]
    elif isinstance(function, types.FunctionType):
        cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        inside = [*cells, function.__defaults__, function.__kwdefaults__]
    else:
        return False
    leaves = jax.tree.leaves(inside)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return True
    return depth > 0 and any(_closes_over_tracers(leaf, depth - 1) for leaf in leaves if callable(leaf))


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
