"""Naming what is not finite."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._dynamics import AbstractDynamics
from ._local import end_stage, over_stages
from ._problem import Problem, stage_parts
from ._stage import Stage

_REMEDY = "Start from another guess."
_SLOPES = "A norm where it is zero, and a root at zero, have no derivative; add something small inside."


def first_that_is_not_finite(
    problem: Problem, x0: Float[Array, "nx"], states: Float[Array, "T+1 nx"], controls: Float[Array, "T m"]
) -> str:
    """A message about the first term of a problem that is infinite or NaN at the guess, or has such derivatives.

    **Arguments:** `states`, which a simulation may have made.
    """
    if not (np.all(np.isfinite(states[0])) and np.all(np.isfinite(controls)) and np.all(np.isfinite(x0))):
        return "x0 and the guess must be finite; they have infinities or NaN."
    for what, values_of, remedy in (("", _values, _REMEDY), ("derivative of the ", _derivatives, _SLOPES)):
        for name, stage, value in _all(problem, states, controls, values_of):
            if not np.all(np.isfinite(value)):
                return f"The {what}{name} is not finite at the guess, {stage}. {remedy}"
    if not np.all(np.isfinite(states)):
        return "x0 and the guess must be finite; they have infinities or NaN."
    return "The cost or a constraint is not finite at the guess. Start from another guess, or scale the costs."


def _all(problem: Problem, states: Array, controls: Array, values_of: Callable) -> Any:
    """Names, stages, and what there is of the dynamics and of each term."""
    parts, ends = (*problem.costs, *problem.constraints), (*problem.end_costs, *problem.end_constraints)

    def at_stage(phase: int, dynamics: AbstractDynamics, x: Array, u: Array, t: Array) -> tuple:
        here, sizes = Stage(dynamics, x, u, t), (*dynamics.tangent_blocks, dynamics.control_size)
        of_dynamics = values_of(lambda stage: dynamics.step(stage.x, stage.u, t), here, sizes)
        own = stage_parts(problem, phase, x.dtype)
        return of_dynamics, *(values_of(part.term, here, sizes) for part in (*own.costs, *own.constraints))

    found = over_stages(problem, at_stage, states[:-1], controls)
    active = [np.ones(problem.steps, bool), *(_active(part, problem) for part in parts)]
    for t in range(problem.steps):
        for name, value, counts in zip(["dynamics", *map(_name, parts)], found, active, strict=True):
            if counts[t]:
                yield name, f"at stage {t}", np.asarray(value[t])
    last = end_stage(problem, states)
    for part in ends:
        yield _name(part), "at the end", np.asarray(values_of(part.term, last, problem.dynamics.tangent_blocks))


def _active(part: Any, problem: Problem) -> np.ndarray:
    """(T,): the stages at which a term counts."""
    if part.during is None:
        return np.ones(problem.steps, bool)
    t = np.arange(problem.steps)
    return np.any([(t >= first) & (t < (problem.steps if end is None else end)) for first, end in part.during], axis=0)


def _values(function: Callable, stage: Stage, sizes: tuple[int, ...]) -> Array:
    return jnp.asarray(function(stage))


def _derivatives(function: Callable, stage: Stage, sizes: tuple[int, ...]) -> Array:
    splits = np.cumsum(sizes)[:-1].tolist()
    zero = jnp.zeros(sum(sizes), stage.x.dtype)
    return jax.jacfwd(lambda dz: jnp.asarray(function(stage.displaced(*jnp.split(dz, splits)))))(zero)


def _name(part: Any) -> str:
    return f"{type(part).__name__} of {part.term!r}"
