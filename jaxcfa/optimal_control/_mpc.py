"""Model predictive control: a few iterations at a time, from what the step before has found."""

import dataclasses
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .._private_jax import inside_jit
from ..compilation import jit_of_one_state
from ..model._arguments import check_positive, positive_integer
from ..numerics import all_finite, choose
from ..structured._products import matvec
from ._closures import hoisted
from ._interior_point import violation
from ._local import evaluate
from ._multiple_shooting import MultipleShooting
from ._problem import Problem, check_bounds
from ._rollout import closed_loop
from ._solution import Solution
from ._solve import as_guess, run
from ._solver import AbstractSolver, Guess
from ._states import as_state, strongly_typed

_FAR = 0.1  # of a state from the plan
_PASSES = 3  # of feedback about the end of a plan
_PRICE = 1e3  # of violations, where motions are compared
_LEAST_PRICE = 1.0  # of gaps and violations, as searches begin with it: dear ones would excuse any detour
_LOST = 10.0  # times as dear as what is left with gaps, a motion under feedback leads nowhere


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
    """The plan for the next interval: a few iterations from the last plan, shifted and continued at its end.

    Apply `solution.controls[0]`, or between two plans the feedback `solution.control(problem, t, x)`. The amount of
    work is always the same, so it can be a step of `lax.scan`; failures show in `violation` and `status`, which usually
    is `ITERATIONS`.

    Where the state that was measured is far from the plan (by more than 0.1 in any coordinate), iterations start from
    what the plan's feedback makes of that state, unless `steps` are `"linear"` or the feedback loses its way. Gaps of
    the plan are closed by the next iterations. If bounds are far exceeded, their barrier starts afresh, so that pushes
    are answered, too: after some four iterations the bounds hold that can, with controls nearly at their limits, and
    after eight the controls are mostly the best ones. (With one or two iterations controls may be beyond bounds for
    some steps: clip them.) From a plan that is not finite they start as `solve` does without a guess.

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
    guess = _continued(problem, guess, plan.gains, shift)
    guess = _moved(guess, x) if in_parallel else _simulated(problem, x, guess, plan)
    # A plan that is lost is no reason to lose all that follow.
    afresh = eqx.tree_at(lambda g: g.iterations, as_guess(problem, x, None), iterations)
    return choose(all_finite(guess), guess, afresh)


def _continued(problem: Problem, guess: Guess, gains: Float[Array, "T m n"], number: int) -> Guess:
    """The guess with that many last states simulated: under the last control, or held where they are by the last
    feedback, whichever is worth more; if neither is finite, as it is.

    What ends in motion does not stay at its last state: if that is repeated, gaps are left which one iteration may not
    close. What ends at rest would leave it again under the control that has stopped it.
    """
    if number == 0:
        return guess
    known, end = max(0, problem.steps - number), guess.states[-1]

    def motion(gains: Array) -> tuple[Array, Array]:
        def again(_, last: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            reference, controls, left = last
            # What is left after a step is treated as if it were there before it, in short steps about the same.
            controls = controls.at[known:].add(matvec(gains, left)[known:])
            found, applied = closed_loop(problem, guess.states[known], reference, controls, gains, known=known)
            states = jnp.concatenate([guess.states[:known], found])
            left = jax.vmap(problem.dynamics.minus, (0, None))(states[1:], end)
            return states, jnp.concatenate([guess.controls[:known], applied]), left

        # The last feedback is that about the last state but one.
        about = guess.states.at[known:].set(guess.states[max(0, known - 1)])
        nothing = jnp.zeros((problem.steps, problem.dynamics.tangent_size), end.dtype)
        return lax.fori_loop(0, 1 + _PASSES, again, (about, guess.controls, nothing))[:2]

    both = jax.vmap(motion)(jnp.stack([gains, jnp.zeros_like(gains)]))
    dearness = jax.vmap(partial(_dearness, problem, _PRICE))(*both)
    found = jax.tree.map(lambda x: x[jnp.argmin(dearness)], both)
    found = choose(all_finite(found), found, (guess.states, guess.controls))
    return eqx.tree_at(lambda g: (g.states, g.controls), guess, found)


def _dearness(
    problem: Problem, price: float, states: Float[Array, "T+1 nx"], controls: Float[Array, "T m"]
) -> Float[Array, ""]:
    """The cost of a motion without gaps, with a price for each unit that it violates; infinite if it is not finite."""
    no_gaps = jnp.zeros((problem.steps, problem.dynamics.tangent_size), states.dtype)
    values = evaluate(problem, states[0], states, controls, no_gaps)
    found = values.cost + price * violation(values)
    return jnp.where(jnp.isfinite(found), found, jnp.inf)


def _moved(guess: Guess, x: Array) -> Guess:
    return eqx.tree_at(lambda g: g.states, guess, guess.states.at[0].set(x))


def _simulated(problem: Problem, x: Array, guess: Guess, plan: Solution) -> Guess:
    """The guess from x, simulated under the plan's feedback where x is far from it and the feedback does not lose its
    way. Gaps of the plan are none of its business: the next iterations close them."""
    missing = jnp.max(jnp.abs(problem.dynamics.minus(x, guess.states[0])))
    kept = _moved(guess, x)
    own = kept.states, kept.controls

    def simulated() -> tuple[Array, Array]:
        motion = closed_loop(problem, x, guess.states, guess.controls, plan.gains)
        both = jax.tree.map(lambda *x: jnp.stack(x), motion, own)
        under_feedback, as_it_is = jax.vmap(partial(_dearness, problem, _LEAST_PRICE))(*both)
        return choose(under_feedback > _LOST * (as_it_is + _LEAST_PRICE * (plan.gap + missing)), own, motion)

    far = ~(missing <= _FAR)  # also where that is NaN
    return eqx.tree_at(lambda g: (g.states, g.controls), kept, lax.cond(far, simulated, lambda: own))
