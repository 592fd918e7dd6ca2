"""How far to go along a step: a filter of cost with barrier, and violations."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from .._small import matvec
from ._filter import Filter
from ._interior_point import (
    Point,
    Step,
    barrier_function,
    fraction_to_boundary,
    infeasibility,
    remaining,
    slope,
)
from ._local import LocalModel, Multipliers, Rows, evaluate
from ._problem import Problem
from ._rollout import closed_loop

Steps = Literal["linear", "nonlinear", "both"]

_LENGTHS = 12


class Found(NamedTuple):
    """**Fields:** the `length` taken, zero if none was good enough; the `longest` that the slack allows; the `penalty`
    of violations in the merit function; the `point` reached; the `filter` after the step."""

    length: Float[Array, ""]
    longest: Float[Array, ""]
    penalty: Float[Array, ""]
    point: Point
    filter: Filter


class _Tried(NamedTuple):
    """One way to take a step: whether the filter accepts it, the merit function, and where it leads."""

    accepted: Bool[Array, ""]
    merit: Float[Array, ""]
    states: Float[Array, "T+1 nx"]
    controls: Float[Array, "T m"]
    slack: Rows


def search(
    problem: Problem,
    x0: Float[Array, "nx"],
    local: LocalModel,
    point: Point,
    step: Step,
    barrier: Float[Array, ""],
    proximity: Float[Array, ""],
    penalty: Float[Array, ""],
    seen: Filter,
    iteration: Int[Array, ""],
    steps: Steps,
    together: int,
) -> Found:
    """The longest of the step lengths `2^-k` of what the slack allows that the filter accepts.

    Steps are straight, all states at once, or simulated under the feedback, one after the other, with `1 - length` of
    the gaps kept: then no new gaps open, which for unstable dynamics allows longer ones. Where both are accepted, that
    with the smaller merit function is taken, `cost - barrier * sum(log(slack)) + penalty * sum(|violations|)`.
    `together` lengths are tried at once.
    """
    violated = infeasibility(local.values, point.slack)
    penalty = _sufficient(penalty, local, point, step, barrier, violated - remaining(step, proximity))
    fraction = jnp.maximum(0.99, 1 - barrier)
    longest = fraction_to_boundary(point.slack, step.slack, fraction)
    here = violated, barrier_function(local.values, point.slack, barrier)
    downhill = slope(local, point, step, barrier)
    rounding = 10 * jnp.finfo(x0.dtype).eps * jnp.abs(here[1])

    def judged(length: Float[Array, ""], states: Array, controls: Array, gaps: Array | None) -> _Tried:
        slack = Rows(*(s + length * ds for s, ds in zip(point.slack, step.slack, strict=True)))
        values = evaluate(problem, x0, states, controls, gaps)
        there = infeasibility(values, slack), barrier_function(values, slack, barrier)
        accepted = seen.accepts(here, there, downhill, length, rounding)
        return _Tried(accepted, there[1] + penalty * there[0], states, controls, slack)

    def best(length: Float[Array, ""]) -> _Tried:
        ways = [way(problem, local, point, step, length) for way in _WAYS[steps]]
        if len(ways) == 1:
            return judged(length, *ways[0])
        # One program for all of them, though the gaps of some are known.
        states, controls = (jnp.stack(x) for x in zip(*(way[:2] for way in ways), strict=True))
        found = jax.vmap(lambda x, u: judged(length, x, u, None))(states, controls)
        chosen = jnp.argmin(jnp.where(found.accepted, found.merit, jnp.inf))
        return jax.tree.map(lambda x: x[chosen], found)

    def attempt(carry: tuple) -> tuple:
        k, *_ = carry
        if together == 1:
            length = longest * 0.5 ** k.astype(x0.dtype)
            return k + 1, length, best(length)
        lengths = longest * 0.5 ** (k * together + jnp.arange(together, dtype=x0.dtype))
        found = jax.vmap(best)(lengths)
        first = jnp.argmax(found.accepted)
        return k + 1, lengths[first], jax.tree.map(lambda x: x[first], found)

    nothing = _Tried(jnp.asarray(False), here[1], point.states, point.controls, point.slack)
    _, length, found = lax.while_loop(
        lambda carry: ~carry[2].accepted & (carry[0] < -(-_LENGTHS // together)),
        attempt,
        (jnp.asarray(0, jnp.int32), longest, nothing),
    )
    multipliers = _multipliers(point, step, found.slack, barrier, length, fraction)
    entered = found.accepted & ~seen.is_descent(violated, downhill, length)
    after = jax.tree.map(lambda x, y: jnp.where(entered, y, x), seen, seen.with_entry(iteration, *here))
    after = jax.tree.map(lambda x, y: jnp.where(found.accepted, x, y), after, seen.restoring(violated))
    reached = Point(found.states, found.controls, multipliers, found.slack)
    return Found(jnp.where(found.accepted, length, 0), longest, penalty, reached, after)


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
