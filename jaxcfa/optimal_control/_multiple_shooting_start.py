"""The first state of multiple shooting, from a guess or a solution."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..numerics import choose
from ._acceleration import Memory
from ._barrier_updates import barrier_of_plan, first_barrier
from ._curvature import Curvature
from ._interior_point import Point, excess
from ._line_search import Penalty, Seen, Worth
from ._local import Multipliers, Values, evaluate, unknown_model
from ._multiple_shooting_state import DISTURBANCES, Settings, State
from ._problem import Problem
from ._solution import History, SolveStatus
from ._solver import Guess

_HELD = 100  # times the tolerance: up to such violations a plan is followed


def start_of(settings: Settings, problem: Problem, x0: Array, guess: Guess) -> State:
    """The state before the first iteration."""
    dtype = x0.dtype
    # Only rows of inequalities are needed yet: XLA leaves out the rest, and dynamics if gaps are said to be known.
    unknown = jnp.zeros((problem.steps, problem.dynamics.tangent_size), dtype)
    values = evaluate(problem, x0, guess.states, guess.controls, unknown)
    barrier = first_barrier(settings, dtype)
    if guess.multipliers is None or not _fits(guess.multipliers, values):
        multipliers = Multipliers(
            jnp.zeros((problem.steps + 1, problem.dynamics.tangent_size), dtype),
            jax.tree.map(jnp.zeros_like, values.equalities),
            jax.tree.map(barrier.multipliers, values.inequalities),
        )
    else:
        if guess.barrier is not None:
            barrier = barrier._replace(parameter=jnp.maximum(guess.barrier, settings.smallest_barrier))
        z = guess.multipliers.inequalities
        of_plan = barrier_of_plan(settings, barrier, z)
        followed = of_plan, jax.tree.map(of_plan.near, z, values.inequalities)
        # Far from there, as after a push, a narrow barrier and a high price let no step through. (A single iteration
        # from afresh would lead nowhere either, plan after plan: only the price is that of the first then.)
        afresh = first_barrier(settings, dtype)
        anew = afresh, jax.tree.map(afresh.multipliers, values.inequalities)
        if settings.max_iterations == 1:
            cheaper = barrier._replace(price=afresh.price)
            anew = cheaper, jax.tree.map(cheaper.near, z, values.inequalities)
        holds = excess(values) <= _HELD * settings.tolerance
        barrier, inequalities = choose(holds, followed, anew)
        multipliers = guess.multipliers._replace(inequalities=inequalities)
    slack = jax.tree.map(barrier.slack, values.inequalities)
    point = Point(guess.states, guess.controls, multipliers, slack)
    m, n = problem.dynamics.control_size, problem.dynamics.tangent_size
    nothing = jnp.asarray(jnp.inf, dtype)
    return State(
        point=point,
        known=(point, unknown_model(values, n, m), Curvature.none(problem, dtype))
        if settings.hessian == "secant"
        else None,
        memory=Memory.nothing(problem, point) if settings.hessian == "gauss_newton" else None,
        # What was found before is not disturbed, since a controller may have to follow it.
        disturbances=jnp.asarray(0 if guess.multipliers is None else DISTURBANCES, jnp.int32),
        proofs=jnp.asarray(0, jnp.int32),
        contradicted=jnp.asarray(False, bool),
        gains=jnp.zeros((problem.steps, m, n), dtype),
        barrier=barrier,
        soft=jnp.ones((), dtype),
        regularization=jnp.asarray(settings.regularization, dtype),
        penalty=Penalty.first(dtype),
        seen=Seen.nothing(dtype),
        length=jnp.zeros((), dtype),
        worth=Worth(nothing, nothing, nothing),
        stationarity=nothing,
        iteration=jnp.asarray(0, jnp.int32),
        status=jnp.asarray(SolveStatus.ITERATIONS, jnp.int32),
        done=jnp.asarray(False, bool),
        history=History.empty(settings.max_iterations, dtype),
    )


def _fits(multipliers: Multipliers, values: Values) -> bool:
    """Whether multipliers are those of a problem with as many constraints."""
    given = multipliers.equalities, multipliers.inequalities
    rows = values.equalities, values.inequalities
    return [x.shape for x in jax.tree.leaves(given)] == [x.shape for x in jax.tree.leaves(rows)]
