"""Naming what is not finite."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._local import over_stages
from ._problem import Problem
from ._solver import Guess
from ._stage import Stage


def first_that_is_not_finite(problem: Problem, x0: Float[Array, "nx"], guess: Guess) -> str:
    """A message about the first term of a problem that is infinite or NaN at the guess."""
    if not (np.all(np.isfinite(guess.states)) and np.all(np.isfinite(guess.controls)) and np.all(np.isfinite(x0))):
        return "x0 and the guess must be finite; they have infinities or NaN."
    parts = (*problem.costs, *problem.constraints)

    def at_stage(dynamics, x, u, t):
        stage = Stage(dynamics, x, u, t)
        return dynamics.step(x, u, t), tuple(jnp.asarray(part.term(stage)) for part in parts)

    after, values = over_stages(problem, at_stage, guess.states[:-1], guess.controls)
    last = Stage(problem.dynamics, guess.states[-1], None, jnp.asarray(problem.steps))
    ends = (*problem.end_costs, *problem.end_constraints)
    found = [("The dynamics", after), *((_name(part), value) for part, value in zip(parts, values, strict=True))]
    for name, value in found:
        wrong = ~np.all(np.isfinite(np.asarray(value).reshape(problem.steps, -1)), axis=1)
        if np.any(wrong):
            return f"{name} is not finite at the guess, at stage {int(np.argmax(wrong))}. Start from another guess."
    for part in ends:
        if not np.all(np.isfinite(np.asarray(part.term(last)))):
            return f"{_name(part)} is not finite at the guess, at the end. Start from another guess."
    return "The cost or a constraint is not finite at the guess. Start from another guess, or scale the costs."


def _name(part) -> str:
    return f"The {type(part).__name__} of {part.term!r}"
