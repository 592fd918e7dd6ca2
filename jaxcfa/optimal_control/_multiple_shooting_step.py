"""One step of multiple shooting, and how far to go along it."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from ..numerics import all_finite, choose
from ._acceleration import Memory, accelerated
from ._barrier_updates import UNFAIR, fair_price, next_barrier, steepness
from ._curvature import Curvature
from ._interior_point import Barrier, Optimality, Point, Step, newton_step, norm, remaining, slope
from ._line_search import Found, Seen, search
from ._local import LocalModel, Values, with_curvature
from ._multiple_shooting_state import FAR_OFF, Settings, State, is_last
from ._problem import Problem

# What is added to Hessians that have no minimum: the least, and how often eight times as much. Where they are exact,
# directions that hardly count are right, too, and are not to be held.
_SHIFTS: dict[str, tuple[float, int]] = {"secant": (1e-4, 5), "exact": (1e-7, 9)}
_STUCK = 1.0  # so large a regularization shows that steps have been refused again and again
_YIELD = 0.1  # proximity of the equalities relative to the barrier parameter
_TOO_SOFT = 0.1  # equalities become harder if a step closes a smaller part of what it leaves of them,
_HARDER, _HARDEST = 1e-3, 1e-8  # by so much at a time, and in all;
_HARD = 1e4  # and softer again if it closes so many times as much
_ROUNDING = 1e-6  # of these parts


class Trial(NamedTuple):
    """**Fields:** `values` at the point, and the `step` from there; the `memory` of steps; what the line search
    `found`, and has `seen`; the `barrier`; whether the point is `solved`, the step is `taken`, or refused as `unfair`
    to the bounds."""

    values: Values
    step: Step
    memory: Memory | None
    found: Found
    seen: Seen
    barrier: Barrier
    soft: Float[Array, ""]
    harder: Bool[Array, ""]
    solved: Bool[Array, ""]
    taken: Bool[Array, ""]
    unfair: Bool[Array, ""]


def trial_of(
    settings: Settings,
    problem: Problem,
    x0: Array,
    state: State,
    safe: LocalModel,
    preferred: LocalModel,
    final: Optimality,
) -> Trial:
    """A step, and how far to go along it."""
    point = state.point
    barrier = next_barrier(settings, problem, safe, point, state.barrier)
    proximity = state.soft * jnp.maximum(settings.proximity, _YIELD * barrier.parameter) / steepness(safe)

    def newton(local: LocalModel, shift: Float[Array, ""]) -> Step:
        shift = state.regularization + shift
        return newton_step(local, point, barrier, proximity, shift, problem.start, settings.schedule)

    reached = _within(final, settings.tolerance, settings.stationarity)
    # Far away curvature leads astray, but for equations of motion that are constraints, whose units are those of forces
    # and whose curvature it is. At the end all directions count, of which some may not have been learned: the gains are
    # those of Gauss and Newton.
    far_off = (final.violation > FAR_OFF) & (problem.dynamics.defect_size == 0)
    shifts = _SHIFTS.get(settings.hessian, (0.0, 0))
    step, local, curved = _first_finite(newton, point, preferred, safe, reached | far_off, shifts)
    soft = _softness(settings, state.soft, local.values, step, proximity)
    gain, memory = jnp.abs(slope(local, step, barrier)), None
    if state.memory is not None:
        same = (barrier.parameter == state.barrier.parameter) & (barrier.price == state.barrier.price)
        steady = (state.length == 1) | ((state.length > 0) & (state.length == state.memory.length))
        continues = steady & same
        faster, memory = accelerated(problem.dynamics, local, point, step, state.memory, continues)
        memory = memory._replace(length=state.length)
        step = choose(slope(local, faster, barrier) < 0, faster, step)
    seen = state.seen.with_entry(local.values, barrier, state.penalty)
    found = search(
        problem,
        x0,
        local,
        point,
        step,
        barrier,
        proximity,
        state.penalty,
        state.regularization >= _STUCK,
        seen,
        curved,  # steps of Gauss and Newton converge linearly, and swing to and fro at the end if they may climb
        state.length,
        settings.steps,
        settings.together,
    )
    settled = (gain <= settings.tolerance * (jnp.abs(local.values.cost) + settings.tolerance)) | (found.length == 0)
    solved = reached & settled
    # Where gaps are dear, bounds that are not would be given up for them.
    fair = fair_price(settings, safe, found.penalty.weight)
    unfair = (barrier.price < UNFAIR * fair) & ~solved & ~is_last(settings, state)
    barrier = barrier._replace(price=jnp.maximum(barrier.price, fair))
    taken = (found.length > 0) & ~solved & ~unfair
    harder = soft < 0.5 * state.soft
    return Trial(local.values, step, memory, found, seen, barrier, soft, harder, solved, taken, unfair)


def preferred_model(
    settings: Settings, problem: Problem, state: State, safe: LocalModel
) -> tuple[tuple[Point, LocalModel, Curvature] | None, LocalModel]:
    """What is known for the next iteration, and the model with the Hessian that comes nearest to the true one."""
    point = state.point
    if settings.hessian == "secant":
        assert state.known is not None
        before, model, curvature = state.known
        seen = curvature.learned(problem, model, before, safe, point)
        curvature = choose(state.iteration > 0, seen, curvature)
        return (point, safe, curvature), curvature.added(safe)
    if settings.hessian == "exact":
        return None, with_curvature(problem, safe, point.states, point.controls, point.multipliers)
    return None, safe


def _first_finite(
    newton: Callable[[LocalModel, Array], Step],
    point: Point,
    preferred: LocalModel,
    safe: LocalModel,
    only_safe: Array,
    shifts: tuple[float, int],
) -> tuple[Step, LocalModel, Bool[Array, ""]]:
    """The step by the preferred model, with more and more convexity where that has no minimum, which its factors tell,
    and if nothing helps by the safe one; that model, and whether it is the preferred one and has its curvature."""
    least, times = shifts
    if preferred is safe:
        return newton(safe, jnp.zeros((), point.controls.dtype)), safe, jnp.asarray(False)

    def attempt(carry):
        k, *_ = carry
        local = choose(k <= times, preferred, safe)
        power = (k - 1).astype(point.controls.dtype)
        shift = jnp.where((k > 0) & (k <= times), least * 8.0**power, 0)
        return k + 1, newton(local, shift), local

    first = jnp.where(only_safe, times + 1, 0).astype(jnp.int32)

    def unfinished(carry):
        k, step, _ = carry
        return (k <= times + 1) & ~all_finite((step.states, step.controls))

    start = first, Step.unknown(point, safe.input.mT), preferred
    k, step, local = lax.while_loop(unfinished, attempt, start)
    return step, local, k <= times + 1


def _softness(
    settings: Settings, soft: Float[Array, ""], values: Values, step: Step, proximity: Float[Array, ""]
) -> Float[Array, ""]:
    """How soft equalities are to be next: less if a whole step closes a small part of them, and then again more.

    What is left is `rho / (rho + s)` of what was violated, and the size of `s = J H^-1 J^T` depends on the units of
    cost and controls. Where constraints contradict one another to first order, s is zero.
    """
    violated, left = norm(*values.equalities), remaining(step, proximity)
    ratio = violated / jnp.where(left > 0, left, 1) - 1  # s / rho; negative where closing gaps opens equalities
    harder, softer = jnp.clip(ratio, _HARDER, 1), jnp.clip(ratio / _HARD, 1, 10)
    counts = (violated > settings.tolerance) & (left > 0) & jnp.isfinite(ratio) & (ratio > -_ROUNDING)
    change = jnp.where(counts, jnp.where(ratio < _TOO_SOFT, harder, softer), 1)
    least = jnp.minimum(soft, _HARDEST * settings.proximity * soft / proximity)
    return jnp.clip(soft * change, least, 1)


def _within(found: Optimality, tolerance: float, stationarity: float) -> Bool[Array, ""]:
    feasible = (found.violation <= tolerance) & (found.complementarity <= tolerance)
    return feasible & (found.stationarity <= stationarity)
