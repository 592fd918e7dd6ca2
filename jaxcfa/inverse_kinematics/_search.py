"""Levenberg-Marquardt steps within the ranges of the joints, from one start after the other."""

import enum
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ..configuration import integrate
from ..model._ranges import rated_coordinates, turning_coordinates
from ..numerics import product
from ..structured._lane_loop import lane_loop
from ..structured._small_spd import spd_solve
from ._rows import Problem, Rows, rows_of

_DAMPING = 0.03  # at first, relative to the sum of squares
_LEAST_DAMPING, _MOST_DAMPING = 1e-6, 1e6
_LEAST_REFINING = 1e-3
_LONGEST_STEP = 1.0  # rad, of any coordinate that turns
_STUCK = 0.1  # the part of the cost that a step must promise to save, or the next start is tried
_MOST_PASSES = 5  # of solving for a step within the ranges
_FIRST_WEIGHT = 0.5  # of the preferences, whose weight is halved by every step


class Phase(enum.IntEnum):
    """What a search does: all starts until one reaches the targets; the least sum with preferences; targets again."""

    SEARCH = 0
    REFINE = 1
    CLOSE = 2
    DONE = 3


class Searched(eqx.Module):
    """State of a search, and the best configuration that it has seen.

    **Fields:** `phase`; `weight` of the preferences in it; `q`, its `rows`, `cost` and `damping`; `start`, the number
    of the start; whether targets are reached by q; the `best` configuration of the first phase, its `least` cost, and
    whether that reaches them; `preferred`, where the second phase ended; `iterations` in all, and those `left` of the
    phase; whether they `ran_out` before all starts had been tried to their end, or (`refined` is false) before the
    second phase came to its own.
    """

    phase: Int[Array, ""]
    weight: Float[Array, ""]
    q: Float[Array, "nq"]
    rows: Rows
    cost: Float[Array, ""]
    damping: Float[Array, ""]
    start: Int[Array, ""]
    is_reached: Bool[Array, ""]
    best: Float[Array, "nq"]
    least: Float[Array, ""]
    best_reached: Bool[Array, ""]
    preferred: Float[Array, "nq"]
    iterations: Int[Array, ""]
    left: Int[Array, ""]
    ran_out: Bool[Array, ""]
    refined: Bool[Array, ""]

    @property
    def has_reached(self) -> Bool[Array, ""]:
        """Whether there is a configuration that reaches the targets."""
        return self.is_reached | self.best_reached

    @property
    def settled(self) -> Bool[Array, ""]:
        """Whether the second phase came to its end, and the result is from there."""
        return self.refined & (self.is_reached | ~self.best_reached)

    @property
    def chosen(self) -> Float[Array, "nq"]:
        """The result."""
        return jnp.where(self.best_reached & ~self.is_reached, self.best, self.q)


def search(
    problem: Problem,
    origin: Float[Array, "nq"],
    tolerance: Float[Array, ""],
    starts: Int[Array, ""],
    max_iterations: Int[Array, ""],
) -> Searched:
    """A configuration in which the targets are within the tolerance, and preferences are least among those.

    The cost without preferences is made small from one start after the other, until targets are reached. Then, or if
    none was, so is the sum with preferences, whose weight falls from step to step until they hardly count: at a small
    weight from the beginning, steps along the manifold of what reaches the targets would be short, since it is curved.
    At last, what preferences have spoilt is repaired by the smallest steps. Each of the three has `max_iterations`.
    """
    zero, none = jnp.zeros((), int), jnp.zeros((), origin.dtype)
    rows = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(rows_of, problem, origin))
    infinite, no = none + jnp.inf, jnp.asarray(False)
    # The first iteration only looks at the origin, so that the program holds the rows once.
    first = Searched(
        zero,
        none,
        origin,
        rows,
        infinite,
        none + _DAMPING,
        zero,
        no,
        origin,
        infinite,
        no,
        origin,
        zero,
        max_iterations,
        no,
        ~no,
    )
    arrays, static = eqx.partition((problem, origin, tolerance, starts, max_iterations), eqx.is_array)

    def unfinished(_: Any, s: Searched) -> Bool[Array, ""]:
        is_last = (s.phase == Phase.CLOSE) | (not problem.has_preferences)
        return (s.phase < Phase.DONE) & ~(s.is_reached & is_last)

    def improve(arrays: Any, s: Searched) -> Searched:
        return _improve(s, *eqx.combine(arrays, static))

    return lane_loop(unfinished, improve, arrays, first)


def last_weight(dtype: jnp.dtype) -> float:
    """Final weight of the preferences: they displace targets by the order of its square."""
    return float(jnp.finfo(dtype).eps) ** 0.2


def _cost(rows: Rows, weight: Float[Array, ""]) -> Float[Array, ""]:
    return 0.5 * jnp.sum(rows.preferring(weight)[0] ** 2)


def _improve(
    s: Searched, problem: Problem, origin: Array, tolerance: Array, starts: Array, max_iterations: Array
) -> Searched:
    """One step, or the beginning of the next start or phase."""
    epsilon = float(jnp.finfo(origin.dtype).eps)
    lightest, heaviest = (last_weight(origin.dtype), _FIRST_WEIGHT) if problem.has_preferences else (0.0, 0.0)
    searching, refining = s.phase == Phase.SEARCH, s.phase == Phase.REFINE
    step, promised = _step(problem, s)
    begins = s.iterations == 0
    idle = promised <= jnp.where(searching, _STUCK, epsilon**0.8) * s.cost
    done = (idle & ~(refining & (s.weight > lightest))) | (s.damping >= _MOST_DAMPING)
    out_of_steps = ~done & (s.left <= 0)
    stuck = (done | out_of_steps) & ~begins
    start = s.start + (stuck & searching).astype(s.start.dtype)
    ended = jnp.where(searching, s.is_reached | (start >= starts) | (s.left <= 0), stuck)
    phase = s.phase + ended.astype(s.phase.dtype)
    # The next phase goes on from the best of the search, or from where refinement ended.
    fresh = ended | stuck
    moved = problem.clipped(integrate(problem.model, s.q, jnp.where(begins, 0, step)))
    anew = jnp.where(stuck, problem.start(origin, start), moved)
    tried = jnp.where(ended, jnp.where(searching, s.best, s.q), anew)
    rows = rows_of(problem, tried)
    cost, reached = _cost(rows, s.weight), jnp.all(jnp.abs(rows.hard) <= tolerance)
    better = (cost < s.cost) | fresh
    q, rows, reached = jax.tree.map(
        lambda a, b: jnp.where(better, a, b), (tried, rows, reached), (s.q, s.rows, s.is_reached)
    )
    lighter = jnp.where(better, jnp.maximum(s.weight / 2, lightest), s.weight)
    weight = jnp.where(phase == Phase.REFINE, jnp.where(refining, lighter, heaviest), 0)
    damping = _damping(s, refining, better, (s.cost - cost) / jnp.where(promised > 0, promised, 1))
    is_best = searching & ((cost < s.least) | reached)
    return Searched(
        phase,
        weight.astype(s.weight.dtype),
        q,
        rows,
        _cost(rows, weight),
        jnp.where(fresh | begins, _DAMPING, damping),
        start,
        reached,
        jnp.where(is_best, q, s.best),
        jnp.where(is_best, cost, s.least),
        s.best_reached | (searching & reached),
        jnp.where(refining, s.q, s.preferred),
        s.iterations + 1,
        jnp.where(ended, max_iterations, s.left - 1),
        s.ran_out | (searching & (s.left <= 0)),
        s.refined & ~(refining & out_of_steps),
    )


def _damping(s: Searched, refining: Bool[Array, ""], better: Bool[Array, ""], gain: Float[Array, ""]) -> Array:
    """That of the next step, after one that saved so much of what it had promised.

    Near targets that are reached all residuals vanish, and no damping is the best. Where preferences or targets out of
    reach leave some, the curvature of the rows counts, which their Jacobian lacks; a damping that follows the gain
    (Nielsen 1999) settles at what makes up for it, instead of being too low at every second step.
    """
    eased = jnp.where(refining, jnp.clip(1 - (2 * gain - 1) ** 3, 1 / 8, 2), 1 / 8)
    damping = s.damping * jnp.where(better, eased, jnp.where(refining, 4, 8))
    return jnp.maximum(damping, jnp.where(refining, _LEAST_REFINING, _LEAST_DAMPING)).astype(s.damping.dtype)


def _step(problem: Problem, s: Searched) -> tuple[Float[Array, "nv"], Float[Array, ""]]:
    """`-(J^T J + lambda)^-1 J^T r` of the joints that are not held by the ends of their ranges, and what it saves.

    Where preferences count, joints that would leave their range go to its end, and the others are solved for again:
    targets that these alone had met would throw the step back.
    """
    values, jacobian = s.rows.preferring(s.weight)
    low, high = to_ends(problem, s.q)
    damping = s.damping * 2 * s.cost + jnp.finfo(s.q.dtype).tiny
    own = rated_coordinates(problem.model)
    turns = (own < 0) | turning_coordinates(problem.model)[own]
    # The damping bounds angles. What slides has as long a way as the residuals say.
    units = jnp.where(turns, 1, jnp.maximum(1, jnp.sqrt(2 * s.cost)))

    def solved(fixed: Array, step: Array) -> Array:
        """The solution with coordinates fixed as they are in the step."""
        at = values + product(jacobian, jnp.where(fixed, step, 0))
        others = units * _least_squares(jnp.where(fixed, 0, units[None] * jacobian), at, damping)
        return jnp.where(fixed, step, others)

    def leaves(step: Array) -> Array:
        return (step < low) | (step > high)

    def again(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        passes, fixed, step = carry
        fixed, step = fixed | leaves(step), jnp.clip(step, low, high)
        return passes + 1, fixed, solved(fixed, step)

    def goes_on(carry: tuple[Array, Array, Array]) -> Array:
        passes, _, step = carry
        return (passes == 0) | ((s.phase == Phase.REFINE) & (passes < _MOST_PASSES) & jnp.any(leaves(step)))

    first = jnp.zeros((), int), held(problem, s.q, product(values, jacobian)), jnp.zeros_like(low)
    step = lax.while_loop(goes_on, again, first)[2] if problem.has_preferences else solved(*first[1:])
    along = product(jacobian, step)
    most = jnp.max(jnp.abs(step), initial=0, where=turns)
    step = jnp.where(turns, step / jnp.maximum(1, most / _LONGEST_STEP), step)
    return step, -jnp.sum(along * (values + 0.5 * along))


def _least_squares(jacobian: Float[Array, "k nv"], values: Float[Array, "k"], damping: Float[Array, ""]) -> Array:
    """The step (nv,) that makes `|J x + r|^2 + lambda |x|^2` least."""
    k, n = jacobian.shape
    square = product(jacobian, jacobian.T) if k < n else product(jacobian.T, jacobian)
    rounding = 4 * jnp.finfo(square.dtype).eps * jnp.trace(square)
    square = square + (damping + rounding) * jnp.eye(len(square), dtype=square.dtype)
    return -product(spd_solve(square, values), jacobian) if k < n else -spd_solve(square, product(values, jacobian))


def to_ends(problem: Problem, q: Float[Array, "nq"]) -> tuple[Float[Array, "nv"], Float[Array, "nv"]]:
    """How far each coordinate of the velocity may move, down and up."""
    own = rated_coordinates(problem.model)
    return (
        jnp.where(own < 0, -jnp.inf, jnp.minimum(problem.lower - q, 0)[own]),
        jnp.where(own < 0, jnp.inf, jnp.maximum(problem.upper - q, 0)[own]),
    )


def at_ends(problem: Problem, q: Float[Array, "nq"]) -> tuple[Bool[Array, "nv"], Bool[Array, "nv"]]:
    """Which coordinates of the velocity are at the lower and at the upper end of their range."""
    own = rated_coordinates(problem.model)
    low, high = (jnp.where(own < 0, False, end[own]) for end in (q <= problem.lower, q >= problem.upper))
    return low, high


def held(problem: Problem, q: Float[Array, "nq"], gradient: Float[Array, "nv"]) -> Bool[Array, "nv"]:
    """The coordinates at an end of their range, beyond which the cost would fall, or at both."""
    low, high = at_ends(problem, q)
    return (low & high) | (low & (gradient > 0)) | (high & (gradient < 0))
