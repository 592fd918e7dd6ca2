"""What to do where steps lead nowhere, or linearised constraints cannot be satisfied: disturbing what is symmetric."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..numerics import all_finite
from ._barrier_updates import dearer, is_cheap, largest_price
from ._interior_point import Barrier, Optimality, Point, Step, distance_to_feasible, largest
from ._line_search import Found
from ._local import LocalModel, Values
from ._multiple_shooting_state import DISTURBANCES, FAR_OFF, Settings, State, is_last
from ._multiple_shooting_step import Trial
from ._problem import Problem
from ._solution import SolveStatus

_PROOFS = 10  # so often must multipliers prove that constraints cannot be satisfied to first order
_VIOLATED, _SLOW = 1e-2, 1e-5  # with such violations, steps that are so small lead nowhere
_LONG, _LEVEL = 40, 0.01  # over so many iterations violations that change by a smaller part do not fall
_SAME, _UNCHANGED = 10, 1e-6  # and over so many, if nothing else is left to do, they stay
_FLAT = 0.7  # costs that change by a smaller part than this power of the rounding error do not change
_NO_SMALLER = 0.5  # times what they were, gradients are about as large
_FAR = 10.0  # so many times as far away as the motion is long: what satisfies linearised constraints is out of reach
_GOLDEN = 0.618034  # multiples of it modulo one are far from one another


class Setback(NamedTuple):
    """**Fields:** `regularization`, `barrier`, `proofs` and `contradicted` of the next state; whether to start `again`
    elsewhere; whether this is `final`, and the `status` then."""

    regularization: Float[Array, ""]
    barrier: Barrier
    proofs: Int[Array, ""]
    contradicted: Bool[Array, ""]
    again: Bool[Array, ""]
    final: Bool[Array, ""]
    status: Int[Array, ""]


def look_back(
    settings: Settings, problem: Problem, state: State, safe: LocalModel, final: Optimality, trial: Trial
) -> Setback:
    """What to do where a step leads nowhere, or constraints contradict one another."""
    point, barrier, last = state.point, trial.barrier, is_last(settings, state)
    regularization = _regularization(settings, state.regularization, trial.found)
    regularization = jnp.where(trial.unfair, state.regularization, regularization)
    feasible = final.violation <= 100 * settings.tolerance
    stopped = ~trial.taken & ~trial.unfair & (regularization > settings.largest_regularization)
    at_rest = _is_at_rest(trial.step, point, final.violation) & ~trial.harder
    stopped = (stopped | (at_rest & ~feasible)) & ~trial.solved
    # Before anything is given up, violations become as dear as they can.
    cheap = stopped & is_cheap(point, barrier) & (barrier.price < largest_price(settings, safe))
    barrier = barrier._replace(price=jnp.where(cheap, dearer(settings, safe, barrier), barrier.price))
    # Linearised constraints contradict one another now and then on the way to a solution, too.
    proofs = state.proofs + _is_out_of_reach(problem, safe, point, final.violation).astype(state.proofs.dtype)
    contradictory = (proofs >= _PROOFS) & ~feasible & ~trial.solved
    far_off = final.violation > FAR_OFF
    level = _is_level(state, final.violation) & far_off & ~trial.solved
    unchanged = _is_unchanged(settings, state, final) & ~trial.harder & ~feasible & ~trial.solved
    contradicted = state.contradicted | contradictory | level | unchanged
    settled = jnp.maximum(final.violation, final.complementarity) <= settings.tolerance
    flat = _is_flat(state, trial.values.cost) & settled & ~trial.solved
    stuck = (stopped & ~cheap) | contradictory | level | unchanged | flat | (last & contradicted & far_off)
    # The first step shows whether dynamics and derivatives are finite, too.
    broken = (state.iteration == 0) & ~all_finite(safe)
    again = stuck & ~feasible & ~last & ~broken & (state.disturbances < DISTURBANCES)
    # What took so long to show will not be found to be otherwise in few iterations.
    again = again & ~(level & (state.iteration + 2 * _LONG > settings.max_iterations))
    status = jnp.where(stuck, jnp.where(feasible, SolveStatus.STALLED, SolveStatus.INFEASIBLE), SolveStatus.ITERATIONS)
    return Setback(
        regularization=jnp.where(again | cheap, settings.regularization, regularization),
        barrier=barrier,
        proofs=proofs,
        contradicted=contradicted,
        again=again,
        final=(stuck & ~again) | broken,
        status=jnp.where(broken, SolveStatus.NOT_FINITE, status),
    )


def _regularization(settings: Settings, before: Float[Array, ""], found: Found) -> Float[Array, ""]:
    """More if only a small part of the step was taken, less if most of it."""
    after = jnp.where(found.length > 0.5, before / 10, before)
    least = 1e-9 if jnp.finfo(before.dtype).bits >= 64 else 1e-5  # less would be lost in rounding
    after = jnp.where(found.length <= 0.02, jnp.maximum(before, least) * 10, after)
    return jnp.maximum(after, settings.regularization)


def _is_at_rest(step: Step, point: Point, violation: Float[Array, ""]) -> Bool[Array, ""]:
    """Whether nothing moves: where constraints are violated, no small step makes them less so."""
    least = jnp.where(violation > _VIOLATED, _SLOW, 10 * jnp.finfo(violation.dtype).eps)
    scale = 1 + largest(point.controls)
    return largest(step.states / scale, step.controls / scale) <= least


def _is_level(state: State, violation: Float[Array, ""]) -> Bool[Array, ""]:
    """Whether the violation has been the same for long: costs may still fall, or steps go to and fro, but no nearer."""
    return _changes_less(state, state.history.violation, violation, _LONG, _LEVEL)


def _is_unchanged(settings: Settings, state: State, final: Optimality) -> Bool[Array, ""]:
    """Whether steps are taken, but leave the violation as it is, where all else is optimal."""
    at_rest = (final.stationarity <= settings.stationarity) & (state.regularization < 1)
    return at_rest & _changes_less(state, state.history.violation, final.violation, _SAME, _UNCHANGED)


def _is_flat(state: State, cost: Float[Array, ""]) -> Bool[Array, ""]:
    """Whether the cost stays as it is and its gradient grows no smaller: rounding, as that of large forces, keeps it
    from vanishing."""
    gradients, number = state.history.stationarity, jnp.arange(len(state.history.cost), dtype=state.iteration.dtype)
    of_late = number >= state.iteration - _SAME  # those to come are infinite
    smallest, before = (jnp.min(gradients, where=x, initial=jnp.inf) for x in (of_late, ~of_late))
    unchanged = _changes_less(state, state.history.cost, cost, _SAME, float(jnp.finfo(cost.dtype).eps) ** _FLAT)
    return unchanged & (smallest > _NO_SMALLER * before)


def _changes_less(
    state: State, before: Float[Array, "n"], value: Float[Array, ""], times: int, part: float
) -> Bool[Array, ""]:
    """Whether so many entries of a history differ by a smaller part from what there is now."""
    now = state.iteration
    number = jnp.arange(len(before), dtype=now.dtype)
    change = jnp.max(jnp.abs(before / value - 1), where=(number < now) & (number >= now - times), initial=0)
    return (now >= times) & (change < part)


def _is_out_of_reach(problem: Problem, local: LocalModel, point: Point, violation: Float[Array, ""]) -> Bool[Array, ""]:
    """Whether the multipliers prove that no motion nearby satisfies the constraints to first order."""
    if not problem.is_constrained:
        return jnp.asarray(False)
    way = jax.vmap(problem.dynamics.minus, (0, None))(point.states, point.states[0])
    scales = 1 + largest(way), 1 + largest(point.controls)
    return (violation > _VIOLATED) & (distance_to_feasible(local, point.multipliers, problem.start, *scales) > _FAR)


def is_tight(
    settings: Settings, state: State, trial: Trial, violation: Float[Array, ""], first: Barrier
) -> Bool[Array, ""]:
    """Whether the barrier of a plan, dearer than the `first`, lets no whole first step through to a state far off, and
    another may follow."""
    if not jax.tree.leaves(state.point.multipliers.inequalities):
        return jnp.asarray(False)
    from_plan = (state.iteration == 0) & (state.barrier.price > first.price)
    short = trial.taken & (trial.found.length < 1) & ~is_last(settings, state)
    return from_plan & short & (violation > _VIOLATED)


def afresh(point: Point, values: Values, barrier: Barrier) -> Point:
    """The point, with multipliers of inequalities as before the first iteration."""
    inequalities = jax.tree.map(barrier.multipliers, values.inequalities)
    return point._replace(multipliers=point.multipliers._replace(inequalities=inequalities))


def disturbed(problem: Problem, point: Point, values: Values, barrier: Barrier, times: Int[Array, ""]) -> Point:
    """A start nearby, with slow waves of different phases added to states and controls, each time larger ones.

    A car that stands still cannot move sideways to first order, nor does a path through the middle of an obstacle know
    on which side to pass. Almost everywhere else they can and do.
    """
    dtype = point.controls.dtype
    times = times.astype(dtype)
    amount = 0.1 * 3.0**times
    steps, m = point.controls.shape
    time = jnp.linspace(0, 1, steps + 1, dtype=dtype)[:, None]
    index = jnp.arange(m + problem.dynamics.tangent_size, dtype=dtype)[None]
    phases = 2 * jnp.pi * _GOLDEN * (1 + index + 3 * times)
    angles = 2 * jnp.pi * (1 + index % 3) * time
    # Not the sine of the sum: of a batch it would be one for each number, and this is found in every iteration.
    waves = amount * (jnp.sin(phases) * jnp.cos(angles) + jnp.cos(phases) * jnp.sin(angles))
    controls = point.controls + (1 + largest(point.controls)) * waves[:-1, :m]
    states = jax.vmap(problem.dynamics.plus)(point.states, waves[:, m:].at[0].set(0))
    nothing = jax.tree.map(jnp.zeros_like, point.multipliers)
    return afresh(Point(states, controls, nothing, point.slack), values, barrier)
