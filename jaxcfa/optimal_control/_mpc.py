"""Model predictive control: a few iterations at a time, from what the step before has found."""

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ..model._arguments import check_positive, positive_integer
from ._closures import hoisted
from ._multiple_shooting import MultipleShooting
from ._problem import Problem, check_bounds
from ._solution import Solution
from ._solve import as_guess, run
from ._solver import AbstractSolver
from ._states import as_state, strongly_typed


def mpc_step(
    problem: Problem,
    x: Any,
    solution: Solution,
    solver: AbstractSolver | None = None,
    *,
    iterations: int = 1,
    shift: int = 1,
    barrier: float = 1e-3,
) -> Solution:
    """The plan for the next interval: a few iterations from the last plan, shifted.

    Apply `solution.controls[0]`, or between two plans the feedback `solution.control(problem, t, x)`. The amount of
    work is always the same, so it can be a step of `lax.scan`; failures show in `violation` and `status`, which usually
    is `ITERATIONS`.

    **Arguments:** `x`: the state measured now, as x0 of `solve`; `solution`: the last plan, or that of `solve`;
    `solver`: `MultipleShooting()` by default, or any with `max_iterations`, which are replaced by `iterations`;
    `shift`: how many stages have passed since the last plan; `barrier`: the least barrier parameter to start from,
    which determines how near its bounds the plan may stay while it changes.

    **Returns:** a `Solution` that starts in x, with the `history` of the last one.

    **Raises:** `ValueError` as `solve` does for wrong types and shapes, and for problems whose start is not given.
    """
    iterations = positive_integer("iterations", iterations)
    shift = positive_integer("shift", shift, or_zero=True)
    if not isinstance(problem, Problem) or not isinstance(solution, Solution):
        raise ValueError(
            f"mpc_step goes on from the Solution of a Problem, got {type(problem).__name__}, {type(solution).__name__}."
        )
    solver = MultipleShooting() if solver is None else solver
    if not (isinstance(solver, AbstractSolver) and hasattr(solver, "max_iterations")):
        raise ValueError(
            f"solver must be one with max_iterations, such as MultipleShooting(), FDDP() or Shooting(), got {solver!r}."
        )
    check_positive("barrier", barrier, or_zero=True)
    if problem.start != "given":
        raise ValueError(f"mpc_step needs a problem that starts in x, got one with start={problem.start!r}.")
    check_bounds(problem)
    x = as_state(problem, x, "x")
    guess = as_guess(problem, x, solution.shifted(shift) if shift else solution)
    start = guess.states.at[0].set(x), jnp.maximum(solution.barrier, barrier)
    guess = eqx.tree_at(lambda g: (g.states, g.barrier), guess, start)
    problem = strongly_typed(hoisted(problem, x.dtype), x.dtype)
    brief = dataclasses.replace(solver, max_iterations=iterations)  # type: ignore[call-arg]
    found = run(problem, x, guess, brief, False)
    return dataclasses.replace(found, history=solution.history)
