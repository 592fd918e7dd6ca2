"""Solving problems of optimal control."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._multiple_shooting import MultipleShooting
from ._problem import Problem
from ._solution import Solution
from ._solver import AbstractSolver, Guess

MULTIPLE_SHOOTING = MultipleShooting()


def solve(
    problem: Problem,
    x0: Any,
    guess: Any = None,
    solver: AbstractSolver = MULTIPLE_SHOOTING,
    *,
    progress: bool = False,
) -> Solution:
    """The motion that minimises a problem's cost."""
    x0 = as_state(problem, x0)
    return _solve(problem, x0, as_guess(problem, x0, guess), solver, progress)


@eqx.filter_jit
def _solve(problem, x0, guess, solver, progress):
    return solver.run(problem, x0, guess, progress)


def as_state(problem: Problem, x0: Any) -> Float[Array, "nx"]:
    if isinstance(x0, tuple) and len(x0) == 2:
        x0 = jnp.concatenate([jnp.asarray(x0[0]), jnp.asarray(x0[1])])
    x0 = jnp.asarray(x0)
    return x0


def as_guess(problem: Problem, x0: Float[Array, "nx"], guess: Any) -> Guess:
    if isinstance(guess, Solution):
        return Guess(guess.states, guess.controls, guess.multipliers, guess.slack, guess.barrier)
    if guess is None:
        states = jnp.broadcast_to(x0, (problem.steps + 1, *x0.shape))
        return Guess(states, jnp.zeros((problem.steps, problem.dynamics.control_size), x0.dtype))
    states, controls = guess
    return Guess(jnp.asarray(states, x0.dtype), jnp.asarray(controls, x0.dtype))
