"""Solving problems of optimal control."""

import dataclasses
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..compilation import jit_of_one_state
from ..model._arguments import as_array, is_concrete
from ..numerics import without_derivatives
from ._closures import hoisted
from ._explanations import explain, warn_of_rest
from ._implicit import attached, moved
from ._interior_point import Point
from ._local import Multipliers, no_multipliers
from ._multiple_shooting import MultipleShooting
from ._problem import Problem, check_bounds
from ._solution import Solution
from ._solver import AbstractSolver, Guess
from ._states import as_state, as_states, strongly_typed

MULTIPLE_SHOOTING = MultipleShooting()
_ALL = int(np.iinfo(np.int32).max)


def solve(
    problem: Problem,
    x0: Any,
    guess: Any = None,
    solver: AbstractSolver = MULTIPLE_SHOOTING,
    *,
    progress: bool = False,
) -> Solution:
    """The motion that minimises a problem's costs under its constraints: a local minimum, near the guess.

    Works under `jit` and `vmap` (batches of starts, of weights, targets, models: of any array in the problem). The
    derivatives of the solution with respect to x0 and to all arrays of the problem, also those that its functions close
    over, follow from the optimality conditions, in both modes; they are those of a solution that was found
    (`status` 0), and need a strict minimum. States, controls, multipliers, slack and cost have them; `gains` and what
    tells of the search count as constants.

    **Arguments:** `x0`: the first state (nx,), of a robot also the pair (q, v); where the start is free it only serves
    as a guess. `guess`: a pair of states (T + 1, nx), of a robot also a pair (q, v) of such, and controls (T, m), or
    another `Solution`, perhaps `shifted()`, of which only states and controls count if it is of a problem with other
    constraints; by default x0 at all stages, with zero controls. `solver`: `MultipleShooting()`, `FDDP()`,
    `Shooting()`, or your own. `progress`: whether every iteration is shown in the terminal.

    **Returns:** a `Solution`. Look at its `status`, a `SolveStatus`; where that can be seen, a warning says what went
    wrong.

    **Raises:** `ValueError` for wrong types and shapes, and for costs, constraints or dynamics that are not finite at
    the guess (naming them and the stage, where that can be seen).
    """
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be a Problem(dynamics, steps, ...), got {problem!r:.200}.")
    if not isinstance(solver, AbstractSolver):
        raise ValueError(f"solver must be one such as MultipleShooting(), got {solver!r:.200}.")
    check_bounds(problem)
    x0 = as_state(problem, x0)
    problem = strongly_typed(hoisted(problem, x0.dtype), x0.dtype)
    start = as_guess(problem, x0, guess)
    found = run(problem, x0, start, solver, progress)
    if progress and is_concrete(found.status):
        jax.block_until_ready(found.status)
    if is_concrete(problem, found):
        explain(problem, x0, start, found, solver)
        if guess is None and problem.dynamics.control_size:
            warn_of_rest(found)
    return found


@partial(jit_of_one_state, jit=eqx.filter_jit)
def run(problem: Problem, x0: Array, guess: Guess, solver: AbstractSolver, progress: bool) -> Solution:
    """The solution with its derivatives, without checks and explanations."""
    fixed, start, begin = without_derivatives((problem, x0, guess))
    found = without_derivatives(solver.run(fixed, start, begin, progress))
    point = Point(found.states, found.controls, found.multipliers, found.slack)
    change = attached(problem, x0, point)
    point = moved(problem, point, change)
    return dataclasses.replace(found, **point._asdict(), cost=found.cost + change.cost)


def as_guess(problem: Problem, x0: Float[Array, "nx"], guess: Any) -> Guess:
    """What a solver starts from, with all of its own iterations."""
    if isinstance(guess, Solution):
        states, controls = guess.states, guess.controls
    elif guess is None:
        states = jnp.broadcast_to(x0, (problem.steps + 1, *x0.shape))
        controls = jnp.zeros((problem.steps, problem.dynamics.control_size), x0.dtype)
    elif isinstance(guess, tuple | list) and len(guess) == 2:
        states = as_states(problem, guess[0])
        controls = as_array("controls, those of the guess,")(guess[1])
    else:
        raise ValueError(f"guess must be a Solution or a pair of states and controls, got {guess!r:.200}.")
    expected = {
        "states": (problem.steps + 1, problem.dynamics.state_size),
        "controls": (problem.steps, problem.dynamics.control_size),
    }
    for (name, shape), given in zip(expected.items(), (states, controls), strict=True):
        if given.shape != shape:
            raise ValueError(f"The {name} of the guess must have shape {shape}, got {given.shape}.")
    none = no_multipliers(problem, x0)
    known = isinstance(guess, Solution) and _shapes(guess.multipliers) == _shapes(none)
    multipliers, barrier = (guess.multipliers, guess.barrier) if known else (none, jnp.zeros(()))
    states, controls, multipliers, barrier = jax.tree.map(
        lambda x: jnp.asarray(x).astype(x0.dtype), (states, controls, multipliers, barrier)
    )
    return Guess(states, controls, multipliers, barrier, jnp.asarray(known), jnp.asarray(_ALL, jnp.int32))


def _shapes(multipliers: Multipliers) -> list[tuple[int, ...]]:
    return [x.shape for x in jax.tree.leaves(multipliers)]
