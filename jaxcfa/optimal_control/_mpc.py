"""Model predictive control: a few iterations at a time, from what the step before has found."""

import dataclasses
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from .._private_jax import inside_jit
from ..compilation import jit_of_one_state
from ..model._arguments import check_positive, positive_integer
from ..numerics import all_finite, choose
from ._closures import hoisted
from ._multiple_shooting import MultipleShooting
from ._problem import Problem, check_bounds
from ._rollout import closed_loop
from ._solution import Solution
from ._solve import as_guess, run
from ._solver import AbstractSolver, Guess
from ._states import as_state, strongly_typed

_FAR = 1e-2  # of a state from the plan, and gaps of the plan


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
    """The plan for the next interval: a few iterations from the last plan, shifted, and simulated on at its end.

    Apply `solution.controls[0]`, or between two plans the feedback `solution.control(problem, t, x)`. The amount of
    work is always the same, so it can be a step of `lax.scan`; failures show in `violation` and `status`, which usually
    is `ITERATIONS`.

    Where the state that was measured is far from the plan (by more than 0.01 in any coordinate), or the plan had such
    gaps, iterations start from what the plan's feedback makes of that state, unless `steps` are `"linear"`. If that
    violates bounds, their barrier starts afresh, so that pushes are answered, too: after some four iterations the
    bounds hold that can, with controls nearly at their limits, and after eight the controls are mostly the best ones.
    (With a single iteration the barrier stays, and controls may be beyond bounds for some steps: clip them.)

    **Arguments:** `x`: the state measured now, as x0 of `solve`; `solution`: the last plan, or that of `solve`;
    `solver`: `MultipleShooting()` by default, or any with `max_iterations`, which count as `iterations` here: outside
    of compiled functions, with the solver of the plan, the program that `solve` has compiled is used again; `shift`:
    how many stages have passed since the last plan; `barrier`: the least barrier parameter to start from, which decides
    how near its bounds the plan may stay while it changes.

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
            "solver must be one with max_iterations, such as MultipleShooting(), FDDP() or Shooting(), got "
            f"{solver!r:.200}."
        )
    check_positive("barrier", barrier, or_zero=True)
    if not problem.has_given_duration:
        raise ValueError("mpc_step plans over time steps of a given length: leave step_lengths out.")
    if problem.start != "given":
        raise ValueError(f"mpc_step needs a problem that starts in x, got one with start={problem.start!r}.")
    check_bounds(problem)
    x = as_state(problem, x, "x")
    dtype = jnp.result_type(x, solution.states)
    x, plan, least = x.astype(dtype), _of_type(solution, dtype), jnp.asarray(barrier, dtype)
    problem = strongly_typed(hoisted(problem, dtype), dtype)
    in_parallel = isinstance(solver, MultipleShooting) and solver.steps == "linear"
    guess = _begun(problem, x, plan, least, jnp.asarray(iterations, jnp.int32), shift, in_parallel)
    # As part of a program it is compiled anyway, and faster where the number is known: one iteration needs no loop.
    if iterations > solver.max_iterations or inside_jit():
        solver = dataclasses.replace(solver, max_iterations=iterations)  # type: ignore[call-arg]
    found = run(problem, x, guess, solver, False)
    return dataclasses.replace(found, history=solution.history)


def _of_type(plan: Solution, dtype: np.dtype) -> Solution:
    return jax.tree.map(lambda x: jnp.asarray(x, dtype) if eqx.is_inexact_array(x) else x, plan)


@partial(jit_of_one_state, jit=eqx.filter_jit)
def _begun(
    problem: Problem, x: Array, plan: Solution, least: Array, iterations: Array, shift: int, in_parallel: bool
) -> Guess:
    """What iterations start from: the plan so many stages later, from x on, with the barrier parameter at `least` so
    large."""
    plan = plan.shifted(shift) if shift else plan
    guess = as_guess(problem, x, plan)
    changed = jnp.maximum(plan.barrier, least), iterations
    guess = eqx.tree_at(lambda g: (g.barrier, g.iterations), guess, changed)
    guess = _continued(problem, guess, shift)
    return _moved(guess, x) if in_parallel else _simulated(problem, x, guess, plan)


def _continued(problem: Problem, guess: Guess, number: int) -> Guess:
    """The guess with that many last states simulated under its controls, if that is finite.

    What ends in motion does not stay at its last state: if that is repeated, gaps are left which one iteration may not
    close.
    """
    if number == 0:
        return guess
    known, (steps, m) = max(0, problem.steps - number), guess.controls.shape
    open_loop = jnp.zeros((steps, m, problem.dynamics.tangent_size), guess.states.dtype)
    found, _ = closed_loop(problem, guess.states[known], guess.states, guess.controls, open_loop, known=known)
    found = choose(all_finite(found), found, guess.states[known:])
    return eqx.tree_at(lambda g: g.states, guess, jnp.concatenate([guess.states[:known], found]))


def _moved(guess: Guess, x: Array) -> Guess:
    return eqx.tree_at(lambda g: g.states, guess, guess.states.at[0].set(x))


def _simulated(problem: Problem, x: Array, guess: Guess, plan: Solution) -> Guess:
    """The guess from x, simulated under the plan's feedback where its own states are far from a motion from there."""
    # Also where that is NaN.
    far = ~(plan.gap + jnp.max(jnp.abs(problem.dynamics.minus(x, guess.states[0]))) <= _FAR)
    kept = _moved(guess, x)
    own = kept.states, kept.controls

    def simulated() -> tuple[Array, Array]:
        motion = closed_loop(problem, x, guess.states, guess.controls, plan.gains)
        return choose(all_finite(motion), motion, own)

    return eqx.tree_at(lambda g: (g.states, g.controls), kept, lax.cond(far, simulated, lambda: own))
