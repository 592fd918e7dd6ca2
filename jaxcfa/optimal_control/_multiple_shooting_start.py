"""The first state of multiple shooting, from a guess or a solution."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from ..numerics import choose
from ._acceleration import Memory
from ._barrier_updates import barrier_of_plan, first_barrier
from ._curvature import Curvature
from ._interior_point import Barrier, Point, excess
from ._line_search import Penalty, Seen, Worth
from ._local import Multipliers, Rows, Values, unknown_model
from ._multiple_shooting_state import DISTURBANCES, FEW, Settings, State
from ._problem import Problem
from ._solution import History, SolveStatus
from ._solver import Guess

_HELD = 100  # times the tolerance: up to such violations a plan is followed


def start_of(settings: Settings, problem: Problem, x0: Array, guess: Guess) -> State:
    """The state before the first iteration, which `begun` completes by the values that this has found."""
    dtype, slack = x0.dtype, jax.tree.map(jnp.zeros_like, guess.multipliers.inequalities)
    point = Point(guess.states, guess.controls, guess.multipliers, slack)
    m, n = problem.dynamics.control_size, problem.dynamics.tangent_size
    nothing = jnp.asarray(jnp.inf, dtype)
    return State(
        point=point,
        known=(point, unknown_model(guess.multipliers, m), Curvature.none(problem, dtype))
        if settings.hessian == "secant"
        else None,
        memory=Memory.nothing(problem, point) if settings.hessian == "gauss_newton" else None,
        # What was found before is not disturbed, since a controller may have to follow it.
        disturbances=jnp.where(guess.known, DISTURBANCES, 0).astype(jnp.int32),
        proofs=jnp.asarray(0, jnp.int32),
        contradicted=jnp.asarray(False, bool),
        gains=jnp.zeros((problem.steps, m, n), dtype),
        barrier=first_barrier(settings, dtype),
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
        history=History.empty(settings.recorded, dtype),
    )


def begun(settings: Settings, guess: Guess, state: State, values: Values) -> State:
    """The state with the barrier, and the multipliers and slack of inequalities, in the first iteration."""
    first, (barrier, multipliers) = state.iteration == 0, _of_guess(settings, guess, values)
    known = multipliers, jax.tree.map(barrier.slack, values.inequalities), barrier
    multipliers, slack, barrier = choose(first, known, (state.point.multipliers, state.point.slack, state.barrier))
    return state._replace(point=state.point._replace(multipliers=multipliers, slack=slack), barrier=barrier)


def _of_guess(settings: Settings, guess: Guess, values: Values) -> tuple[Barrier, Multipliers]:
    """The first barrier, and the multipliers."""
    g, z = values.inequalities, guess.multipliers.inequalities
    first = first_barrier(settings, guess.states.dtype)
    last = first._replace(parameter=jnp.maximum(guess.barrier, settings.smallest_barrier))

    def near(barrier: Barrier) -> tuple[Barrier, Rows]:
        return barrier, jax.tree.map(barrier.near, z, g)

    afresh = first, jax.tree.map(first.multipliers, g)
    # Far from a plan, as after a push, a narrow barrier and a high price let no step through. But a few iterations from
    # afresh would lead nowhere either, plan after plan: unless bounds are far exceeded, only the price is the first
    # then.
    few = (settings.max_iterations == 1) | ((settings.max_iterations <= FEW) & ~_far_beyond(g))
    pushed = choose(few, near(last._replace(price=first.price)), afresh)
    holds = excess(values) <= _HELD * settings.tolerance
    followed = choose(holds, near(barrier_of_plan(settings, last, z)), pushed)
    barrier, inequalities = choose(guess.known, followed, afresh)
    return barrier, guess.multipliers._replace(inequalities=inequalities)


def _far_beyond(g: Rows) -> Bool[Array, ""]:
    """Whether some row of the stages is violated by more than it is kept at any of them."""
    beyond, within = jnp.max(g.stages, axis=0), jnp.max(-g.stages, axis=0)
    return jnp.any((beyond > within) & (within > 0))
