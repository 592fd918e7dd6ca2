"""How far to go along a step: a merit function of cost, barrier and violations."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..structured._lane_loop import closed_lane_loop
from ..structured._products import matvec
from ._interior_point import (
    Barrier,
    Point,
    Step,
    bound_terms,
    fraction_to_boundary,
    gap_norm,
    infeasibility,
    largest,
    remaining,
    slope,
    violation,
)
from ._local import LocalModel, Multipliers, Rows, Values, evaluate, gaps_of
from ._problem import Problem
from ._rollout import closed_loop

Steps = Literal["linear", "nonlinear", "both"]

_ARMIJO = 1e-4
_FADING = 0.85
_FAR = 1e-2  # violations from which on every step may climb
_LENGTHS = 12
_MOST = 1e3  # the share of gaps in the penalty


class Penalty(NamedTuple):
    """What violations cost in the merit function: `weight * |(share * gaps, equalities)|`, a Euclidean norm.

    Whole steps close all gaps to first order, and equalities only as far as they can beside that. Where these get worse
    by more than gaps get better, no length makes both less: steps go downhill if the `share` of gaps is large.
    """

    weight: Float[Array, ""]
    share: Float[Array, ""]

    @staticmethod
    def first(dtype) -> "Penalty":
        """Before the first iteration."""
        return Penalty(jnp.ones((), dtype), jnp.ones((), dtype))


class Seen(NamedTuple):
    """What the last iterations were like on average, with weights that fade (Zhang & Hager, A nonmonotone line search
    technique and its application to unconstrained optimization, 2004).

    **Fields:** the `weight` of all; the means of `cost`, of `logarithms` of slack and excess, negated, of `excess`, and
    of `violated`, the norm of gaps and equalities: that of the merit function, whatever its parameters are by now.
    """

    weight: Float[Array, ""]
    cost: Float[Array, ""]
    logarithms: Float[Array, ""]
    excess: Float[Array, ""]
    violated: Float[Array, ""]

    @staticmethod
    def nothing(dtype) -> "Seen":
        """Before the first iteration."""
        return Seen(*jnp.zeros(5, dtype))

    def with_entry(self, values: Values, barrier: Barrier, penalty: Penalty) -> "Seen":
        """The same after one more iteration."""
        before = _FADING * self.weight
        entry = values.cost, *bound_terms(values, barrier), infeasibility(values, penalty.share)
        means = ((before * old + new) / (before + 1) for old, new in zip(self[1:], entry, strict=True))
        return Seen(before + 1, *means)

    def merit(self, barrier: Barrier, penalty: Penalty) -> Float[Array, ""]:
        """The mean of the merit function."""
        bounds = barrier.parameter * self.logarithms + barrier.price * self.excess
        return self.cost + bounds + penalty.weight * self.violated


class Worth(NamedTuple):
    """What a point is worth: its `cost`, and the largest `gap` and `violation` (gaps too)."""

    cost: Float[Array, ""]
    gap: Float[Array, ""]
    violation: Float[Array, ""]

    @staticmethod
    def of(values: Values) -> "Worth":
        """The worth of a point by the values there."""
        return Worth(values.cost, largest(values.gaps), violation(values))


class Found(NamedTuple):
    """**Fields:** the `length` taken, zero if none was good enough; the `penalty` of violations in the merit function;
    the `point` reached, and what it is `worth`."""

    length: Float[Array, ""]
    penalty: Penalty
    point: Point
    worth: Worth


def search_loop(unfinished: Callable[[Any], Bool[Array, ""]], attempt: Callable[[Any], Any], start: Any) -> Any:
    """`attempt` until its state is finished: of a batch, problems whose first attempt will do wait for no other."""
    return closed_lane_loop(unfinished, attempt, start, lanes_on_cpu=16, steps=1)


def search(
    problem: Problem,
    x0: Float[Array, "nx"],
    local: LocalModel,
    point: Point,
    step: Step,
    barrier: Barrier,
    proximity: Float[Array, ""],
    penalty: Penalty,
    stuck: Bool[Array, ""],
    seen: Seen,
    may_climb: Bool[Array, ""],
    last: Float[Array, ""],
    steps: Steps,
    together: int,
) -> Found:
    """The longest of the step lengths `2^-k` after which the merit function is small enough.

    Without constraints the first is 1, or twice the `last` one if that was short: the next mostly is short, too. With
    them, that steps stay short tells that they lead nowhere.

    That is the cost with the barrier's terms and the `penalty` of gaps and equalities, which is smooth where they are
    not zero; where steps are `stuck`, gaps may get a larger share in it. With constraints it must become less than its
    average (`seen`), since across curved valleys only steps that climb a little are long; near the end that is only for
    steps which `may_climb`. Steps are straight, all states at once, or simulated under the feedback, one after the
    other, with `1 - length` of the gaps kept: then no new gaps open, which for unstable dynamics allows longer ones.
    `together` lengths are tried at once.
    """
    penalty, violated, closed = _sufficient(penalty, local, step, barrier, proximity, stuck)

    def merit(values: Values) -> Float[Array, ""]:
        return Seen.nothing(x0.dtype).with_entry(values, barrier, penalty).merit(barrier, penalty)

    here = merit(local.values)
    climbs = problem.is_constrained & (may_climb | (violated > _FAR))
    reference = jnp.where(climbs, jnp.maximum(here, seen.merit(barrier, penalty)), here)
    descent = slope(local, step, barrier) - penalty.weight * closed
    rounding = 10 * jnp.finfo(x0.dtype).eps * jnp.abs(here)

    def best(length: Float[Array, ""]) -> tuple[Bool[Array, ""], Array, Array, Rows, Worth]:
        # All ways in one program, which has the terms of the problem once.
        ways = (way(problem, local, point, step, length) for way in _WAYS[steps])
        states, controls, gaps = jax.tree.map(lambda *x: jnp.stack(x), *ways)
        values = jax.vmap(partial(evaluate, problem, x0))(states, controls, gaps)
        reached = jax.vmap(merit)(values)
        # From minus infinity nothing goes on.
        reached = jnp.where(jnp.isfinite(reached), reached, jnp.inf)
        least = jnp.argmin(reached)
        found = states, controls, values.inequalities, jax.vmap(Worth.of)(values)
        accepted = reached[least] <= reference + _ARMIJO * length * descent + rounding
        return accepted, *jax.tree.map(lambda x: x[least], found)

    longest = jnp.where((last > 0) & (not problem.is_constrained), jnp.minimum(1, 2 * last), 1).astype(x0.dtype)

    def attempt(carry):
        k, *_ = carry
        if together == 1:
            length = longest * 0.5 ** k.astype(x0.dtype)
            accepted, *found = best(length)
            return k + 1, accepted, length, tuple(found)
        lengths = longest * 0.5 ** ((k * together).astype(x0.dtype) + jnp.arange(together, dtype=x0.dtype))
        accepted, *found = jax.vmap(best)(lengths)
        first = jnp.argmax(accepted)
        return k + 1, jnp.any(accepted), lengths[first], jax.tree.map(lambda x: x[first], tuple(found))

    stay = point.states, point.controls, local.values.inequalities, Worth.of(local.values)
    nothing = jnp.asarray(0, jnp.int32), jnp.asarray(False), jnp.ones((), x0.dtype), stay
    _, accepted, length, (states, controls, g, worth) = search_loop(
        lambda carry: ~carry[1] & (carry[0] < -(-_LENGTHS // together)), attempt, nothing
    )
    multipliers = _multipliers(point, step, g, barrier, length)
    point = Point(states, controls, multipliers, jax.tree.map(barrier.slack, g))
    return Found(jnp.where(accepted, length, 0), penalty, point, worth)


def _straight(problem: Problem, local: LocalModel, point: Point, step: Step, length: Array) -> tuple:
    states = jax.vmap(lambda x, dx: problem.dynamics.plus(x, length * dx))(point.states, step.states)
    controls = point.controls + length * step.controls
    return states, controls, gaps_of(problem, states, controls)


def _simulated(problem: Problem, local: LocalModel, point: Point, step: Step, length: Array) -> tuple:
    start = problem.dynamics.plus(point.states[0], length * step.states[0])
    controls = point.controls + length * (step.controls - matvec(step.gains, step.states[:-1]))
    gaps = (1 - length) * local.values.gaps
    return *closed_loop(problem, start, point.states, controls, step.gains, -gaps), gaps


_WAYS = {"linear": (_straight,), "nonlinear": (_simulated,), "both": (_straight, _simulated)}


def _sufficient(
    penalty: Penalty,
    local: LocalModel,
    step: Step,
    barrier: Barrier,
    proximity: Float[Array, ""],
    stuck: Bool[Array, ""],
) -> tuple[Penalty, Float[Array, ""], Float[Array, ""]]:
    """A penalty for which the step goes downhill (Nocedal & Wright, Numerical Optimization, 2006, equation 18.36); the
    norm of what is violated, and how much of it a whole step closes to first order."""
    z = jnp.concatenate([step.states[:-1], step.controls], axis=-1)
    curvature = jnp.einsum("ti,tij,tj", z, local.stages.hessian, z, precision="highest")
    end = step.states[-1]
    curvature = curvature + jnp.einsum("i,ij,j", end, local.end.hessian, end, precision="highest")
    descent = slope(local, step, barrier)
    rise = descent + 0.5 * jnp.maximum(curvature, 0)
    left = remaining(step, proximity)
    violated = infeasibility(local.values, penalty.share)
    gaps = gap_norm(local.values)
    needed = 2 * left / jnp.where(gaps > 0, gaps, 1)
    uphill = (violated <= left) & (descent >= penalty.weight * (violated - left))
    more = stuck & uphill & (gaps > 0) & (needed < _MOST)
    share = jnp.where(more, jnp.maximum(needed, penalty.share), penalty.share)
    violated = jnp.where(more, infeasibility(local.values, share), violated)
    closed = violated - left
    needed = rise / (0.7 * jnp.where(closed > 0, closed, 1))
    weight = jnp.where((closed > 0) & (needed > penalty.weight), 1.5 * needed, penalty.weight)
    return Penalty(weight, share), violated, closed


def _multipliers(point: Point, step: Step, g: Rows, barrier: Barrier, length: Float[Array, ""]) -> Multipliers:
    """Multipliers after a step; those of inequalities have their own step length, between zero and the price."""
    lam, y, z = point.multipliers
    dlam, dy, dz = step.multipliers
    fraction = jnp.maximum(0.99, 1 - barrier.parameter)
    room, less = jax.tree.map(lambda x: barrier.price - x, z), jax.tree.map(jnp.negative, dz)
    dual = jnp.minimum(fraction_to_boundary(z, dz, fraction), fraction_to_boundary(room, less, fraction))
    inequalities = jax.tree.map(lambda a, da, x: barrier.near(a + dual * da, x), z, dz, g)
    equalities = jax.tree.map(lambda a, da: a + length * da, y, dy)
    return Multipliers(lam + length * dlam, equalities, inequalities)
