"""How far to go along a step: a merit function of cost, barrier and violations."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from ..numerics import matvec
from ._interior_point import (
    Point,
    Step,
    barrier_function,
    fraction_to_boundary,
    infeasibility,
    largest,
    remaining,
    slope,
    violation,
)
from ._local import LocalModel, Multipliers, Rows, Values, evaluate
from ._problem import Problem
from ._rollout import closed_loop

Steps = Literal["linear", "nonlinear", "both"]

_ARMIJO = 1e-4
_FADING = 0.85
_FAR = 1e-2  # violations from which on every step may climb
_LENGTHS = 12


class Seen(NamedTuple):
    """What the last iterations were like on average, with weights that fade (Zhang & Hager, A nonmonotone line search
    technique and its application to unconstrained optimization, 2004).

    **Fields:** the `weight` of all; the means of `cost`, of `logarithms` of the slack, negated, and of `violated`, the
    norm of all violations: that of the merit function, whatever its parameters are by now.
    """

    weight: Float[Array, ""]
    cost: Float[Array, ""]
    logarithms: Float[Array, ""]
    violated: Float[Array, ""]

    @staticmethod
    def nothing(dtype) -> "Seen":
        """Before the first iteration."""
        return Seen(*jnp.zeros(4, dtype))

    def with_entry(self, values: Values, slack: Rows) -> "Seen":
        """The same after one more iteration."""
        before = _FADING * self.weight
        entry = (
            values.cost,
            barrier_function(values, slack, jnp.ones_like(before)) - values.cost,
            infeasibility(values, slack),
        )
        means = ((before * old + new) / (before + 1) for old, new in zip(self[1:], entry, strict=True))
        return Seen(before + 1, *means)

    def merit(self, barrier: Float[Array, ""], penalty: Float[Array, ""]) -> Float[Array, ""]:
        """The mean of the merit function."""
        return self.cost + barrier * self.logarithms + penalty * self.violated


class Worth(NamedTuple):
    """What a point is worth: its `cost`, and the largest `gap` and `violation` (gaps too)."""

    cost: Float[Array, ""]
    gap: Float[Array, ""]
    violation: Float[Array, ""]

    @staticmethod
    def of(values: Values, slack: Rows) -> "Worth":
        """From the values at the point."""
        return Worth(values.cost, largest(values.gaps), violation(values, slack))


class Found(NamedTuple):
    """**Fields:** the `length` taken, zero if none was good enough; the `longest` that the slack allows; the `penalty`
    of violations in the merit function; the `point` reached, and what it is `worth`."""

    length: Float[Array, ""]
    longest: Float[Array, ""]
    penalty: Float[Array, ""]
    point: Point
    worth: Worth


def search(
    problem: Problem,
    x0: Float[Array, "nx"],
    local: LocalModel,
    point: Point,
    step: Step,
    barrier: Float[Array, ""],
    proximity: Float[Array, ""],
    penalty: Float[Array, ""],
    seen: Seen,
    may_climb: Bool[Array, ""],
    steps: Steps,
    together: int,
) -> Found:
    """The longest of the step lengths `2^-k` of what the slack allows after which the merit function is small enough.

    That is `cost - barrier * sum(log(slack)) + penalty * |violations|`, with the Euclidean norm of violations, which
    is smooth where they are not zero. With constraints it must become less than its average (`seen`), since across
    curved valleys only steps that climb a little are long; near the end that is only for steps which `may_climb`.
    Steps are straight, all states at once, or simulated under the feedback, one after the other, with `1 - length` of
    the gaps kept: then no new gaps open, which for unstable dynamics allows longer ones. `together` lengths are tried
    at once.
    """
    violated = infeasibility(local.values, point.slack)
    closed = violated - remaining(step, proximity)
    penalty = _sufficient(penalty, local, point, step, barrier, closed)
    fraction = jnp.maximum(0.99, 1 - barrier)
    longest = fraction_to_boundary(point.slack, step.slack, fraction)

    def merit(values, slack) -> Float[Array, ""]:
        return barrier_function(values, slack, barrier) + penalty * infeasibility(values, slack)

    here = merit(local.values, point.slack)
    climbs = problem.is_constrained & (may_climb | (violated > _FAR))
    reference = jnp.where(climbs, jnp.maximum(here, seen.merit(barrier, penalty)), here)
    descent = slope(local, point, step, barrier) - penalty * closed
    rounding = 10 * jnp.finfo(x0.dtype).eps * jnp.abs(here)

    def tried(way: Callable, length: Float[Array, ""]):
        states, controls, gaps = way(problem, local, point, step, length)
        slack = Rows(*(s + length * ds for s, ds in zip(point.slack, step.slack, strict=True)))
        values = evaluate(problem, x0, states, controls, gaps)
        return merit(values, slack), states, controls, slack, Worth.of(values, slack)

    def best(length: Float[Array, ""]) -> tuple[Bool[Array, ""], Array, Array, Rows, Worth]:
        first, *others = (tried(way, length) for way in _WAYS[steps])
        for other in others:
            better = ~(first[0] <= other[0])
            first = jax.tree.map(lambda x, y, better=better: jnp.where(better, y, x), first, other)
        return first[0] <= reference + _ARMIJO * length * descent + rounding, *first[1:]

    def attempt(carry):
        k, *_ = carry
        if together == 1:
            length = longest * 0.5 ** k.astype(x0.dtype)
            accepted, *found = best(length)
            return k + 1, accepted, length, tuple(found)
        lengths = longest * 0.5 ** (k * together + jnp.arange(together, dtype=x0.dtype))
        accepted, *found = jax.vmap(best)(lengths)
        first = jnp.argmax(accepted)
        return k + 1, jnp.any(accepted), lengths[first], jax.tree.map(lambda x: x[first], tuple(found))

    stay = point.states, point.controls, point.slack, Worth.of(local.values, point.slack)
    nothing = jnp.asarray(0, jnp.int32), jnp.asarray(False), longest, stay
    _, accepted, length, (states, controls, slack, worth) = lax.while_loop(
        lambda carry: ~carry[1] & (carry[0] < -(-_LENGTHS // together)), attempt, nothing
    )
    multipliers = _multipliers(point, step, slack, barrier, length, fraction)
    return Found(jnp.where(accepted, length, 0), longest, penalty, Point(states, controls, multipliers, slack), worth)


def _straight(problem: Problem, local: LocalModel, point: Point, step: Step, length: Array) -> tuple:
    states = jax.vmap(lambda x, dx: problem.dynamics.plus(x, length * dx))(point.states, step.states)
    return states, point.controls + length * step.controls, None


def _simulated(problem: Problem, local: LocalModel, point: Point, step: Step, length: Array) -> tuple:
    start = problem.dynamics.plus(point.states[0], length * step.states[0])
    controls = point.controls + length * (step.controls - matvec(step.gains, step.states[:-1]))
    gaps = (1 - length) * local.values.gaps
    return *closed_loop(problem, start, point.states, controls, step.gains, -gaps), gaps


_WAYS = {"linear": (_straight,), "nonlinear": (_simulated,), "both": (_straight, _simulated)}


def _sufficient(
    penalty: Float[Array, ""],
    local: LocalModel,
    point: Point,
    step: Step,
    barrier: Float[Array, ""],
    closed: Float[Array, ""],
) -> Float[Array, ""]:
    """A penalty for which the step goes downhill (Nocedal & Wright, Numerical Optimization, 2006, equation 18.36)."""
    z = jnp.concatenate([step.states[:-1], step.controls], axis=-1)
    curvature = jnp.einsum("ti,tij,tj", z, local.stages.hessian, z, precision="highest")
    end = step.states[-1]
    curvature = curvature + jnp.einsum("i,ij,j", end, local.end.hessian, end, precision="highest")
    rise = slope(local, point, step, barrier) + 0.5 * jnp.maximum(curvature, 0)
    needed = rise / (0.7 * jnp.where(closed > 0, closed, 1))
    return jnp.where((closed > 0) & (needed > penalty), 1.5 * needed, penalty)


def _multipliers(
    point: Point,
    step: Step,
    slack: Rows,
    barrier: Float[Array, ""],
    length: Float[Array, ""],
    fraction: Float[Array, ""],
) -> Multipliers:
    """Those of inequalities have a step length of their own, and stay near `barrier / slack`."""
    lam, y, z = point.multipliers
    dlam, dy, dz = step.multipliers
    dual = fraction_to_boundary(z, dz, fraction)
    inequalities = Rows(
        *(
            jnp.clip(a + dual * da, barrier / s / 1e10, barrier / s * 1e10)
            for a, da, s in zip(z, dz, slack, strict=True)
        )
    )
    equalities = Rows(*(a + length * da for a, da in zip(y, dy, strict=True)))
    return Multipliers(lam + length * dlam, equalities, inequalities)
