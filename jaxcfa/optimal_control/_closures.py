"""Functions of a user that close over traced arrays, made differentiable."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxpr_as_fun
from jaxtyping import Array

from .._private_jax import trace_state_clean
from ._dynamics import AbstractDynamics, FunctionDynamics
from ._problem import Phase, Problem, phases_of
from ._robot_dynamics import AbstractRobotDynamics
from ._stage import Stage
from ._terms import AbstractTerm, SmoothTerm

# The types of numbers that JAX differentiates by in reverse and in forward mode, of which one has no public name.
_DIFFERENTIATED = ("LinearizeTracer", "JVPTracer")


class _WithArrays(eqx.Module):
    """A function as it was traced, and the arrays that it closed over."""

    program: Jaxpr = eqx.field(static=True)
    result: Any = eqx.field(static=True)
    arrays: list[Array]

    def __call__(self, *arguments: Any) -> Any:
        arrays = _typed(self.arrays, self.program.constvars)
        found = jaxpr_as_fun(ClosedJaxpr(self.program, arrays))(
            *_typed(jax.tree.leaves(arguments), self.program.invars)
        )
        return jax.tree.unflatten(self.result, found)


def _typed(arrays: list[Array], variables: list) -> list[Array]:
    """The arrays in the types that variables of a program have, in whatever precision they are given."""
    return [jnp.asarray(x, variable.aval.dtype) for x, variable in zip(arrays, variables, strict=True)]


class _TermWithArrays(AbstractTerm):
    """The same for a term, which was traced once for each kind of dynamics that a phase has."""

    kinds: tuple[Any, ...] = eqx.field(static=True)
    functions: tuple[_WithArrays, ...]

    def __call__(self, stage: Stage) -> Any:
        arrays, kind = _arrays_and_kind(stage.dynamics)
        u = [] if stage.is_end else [stage.u]
        return self.functions[self.kinds.index(kind)](arrays, stage.x, *u, stage.t)


def hoisted(problem: Problem, dtype: Any) -> Problem:
    """The problem with the arrays that its functions close over as leaves, so that it can be differentiated by them.

    JAX cannot see into the closure of a function that it differentiates by a rule. Only functions that close over
    something that is being traced are converted: each is traced once, and what it has taken from outside is looked at.

    **Arguments:** `dtype` of states and controls.
    """
    if trace_state_clean():
        return problem
    x = jnp.zeros(problem.dynamics.state_size, dtype)
    u, t = jnp.zeros(problem.dynamics.control_size, dtype), jnp.asarray(0)
    phases = tuple(_hoisted_phase(phase, x, u, t) for phase in problem.phases)
    kinds = [phase.dynamics for phase in phases]

    def of_stages(parts: tuple) -> tuple:
        return tuple(_hoisted_part(part, [kinds[i] for i in phases_of(part, problem)], x, u, t) for part in parts)

    def of_end(parts: tuple) -> tuple:
        return tuple(_hoisted_part(part, kinds[-1:], x, t) for part in parts)

    found = (
        phases,
        of_stages(problem.costs),
        of_end(problem.end_costs),
        of_stages(problem.constraints),
        of_end(problem.end_constraints),
    )
    names = lambda p: (p.phases, p.costs, p.end_costs, p.constraints, p.end_constraints)  # noqa: E731
    return eqx.tree_at(names, problem, found, is_leaf=lambda x: x is None)


def _hoisted_phase(phase: Phase, x: Array, u: Array, t: Array) -> Phase:
    dynamics = phase.dynamics
    if isinstance(dynamics, AbstractRobotDynamics):
        return phase
    if not isinstance(dynamics, FunctionDynamics):
        _check_closures(dynamics, x, u, t)
        return phase
    function = dynamics.function
    converted = _converted(function, function, x, u, t)
    if converted is None:
        return phase
    return eqx.tree_at(lambda p: p.dynamics.function, phase, converted, is_leaf=lambda x: x is function)


def _check_closures(dynamics: AbstractDynamics, x: Array, u: Array, t: Array) -> None:
    """Raises `ValueError` for dynamics of a user whose functions close over what is differentiated by, if that shows:
    only their step could be converted, and they may have more functions than that."""
    program = jax.make_jaxpr(dynamics.step)(x, u, t)
    if any(type(y).__name__ in _DIFFERENTIATED for y in _taken_from_outside(program.consts, dynamics)):
        raise ValueError(
            f"The step of {type(dynamics).__name__} closes over an array that derivatives are taken by, hidden from "
            "JAX: make this array a field, or use FunctionDynamics."
        )


def _hoisted_part(part: Any, all_dynamics: list[AbstractDynamics], x: Array, *rest: Array) -> Any:
    """A cost or constraint; `rest` are a control, unless it is of the end, and the number of a stage."""
    if isinstance(part.term, SmoothTerm):
        return part
    function, kinds, converted = part.term, [], []
    for dynamics in all_dynamics:
        arrays, kind = _arrays_and_kind(dynamics)
        if kind in kinds:
            continue
        static = eqx.filter(dynamics, _is_array, inverse=True)

        def of_stage(arrays: Any, x: Array, *rest: Array, static: Any = static) -> Any:
            return function(Stage(eqx.combine(arrays, static), x, rest[0] if len(rest) > 1 else None, rest[-1]))

        found = _converted(of_stage, function, arrays, x, *rest)
        if found is None:
            return part
        kinds.append(kind)
        converted.append(found)
    term = _TermWithArrays(tuple(kinds), tuple(converted))
    return eqx.tree_at(lambda p: p.term, part, term, is_leaf=lambda x: x is function)


def _arrays_and_kind(dynamics: AbstractDynamics) -> tuple[Any, Any]:
    """The arrays of dynamics, and all that decides a program of them."""
    arrays, static = eqx.partition(dynamics, _is_array)
    leaves, structure = jax.tree.flatten(arrays)
    return arrays, (structure, tuple(x.shape for x in leaves), tuple(jax.tree.leaves(static)))


def _is_array(x: Any) -> bool:
    return isinstance(x, jax.Array | np.ndarray | np.generic)


def _taken_from_outside(constants: list, owner: Any) -> list:
    """The traced arrays of a program that are no leaves of what it belongs to."""
    own = {id(x) for x in jax.tree.leaves(owner)}
    return [x for x in constants if isinstance(x, Tracer) and id(x) not in own]


def _converted(function: Callable, owner: Any, *arguments: Any) -> _WithArrays | None:
    """The function with all arrays that it takes; `None` if none is traced but those that are leaves of its owner."""
    program, result = jax.make_jaxpr(function, return_shape=True)(*arguments)
    if not _taken_from_outside(program.consts, owner):
        return None
    return _WithArrays(program.jaxpr, jax.tree.structure(result), [jnp.asarray(x) for x in program.consts])
