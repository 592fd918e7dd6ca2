"""What to do where linearised constraints are no guide: more room for bounds, and disturbances of what is symmetric."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._interior_point import Point, Step, largest
from ._local import Rows
from ._problem import Problem

WIDER = 100.0  # the barrier parameter where bounds stopped a step at once, relative to that before
_VIOLATED, _SLOW = 1e-2, 1e-5  # with such violations, steps that are so small lead nowhere
_GOLDEN = 0.618034  # multiples of it modulo one are far from one another


def widened(point: Point, barrier: Float[Array, ""]) -> Point:
    """The same states and controls with more room: where bounds stop a step at once, slack that does not fit them.

    A linearised problem may ask for controls far beyond their bounds. The slack then shrinks to nothing within a few
    tiny steps, and never recovers. With slack that is too large instead, bounds are violated for a while.
    """
    slack = Rows(*(jnp.maximum(s, jnp.sqrt(barrier)) for s in point.slack))
    inequalities = Rows(*(barrier / s for s in slack))
    return point._replace(slack=slack, multipliers=point.multipliers._replace(inequalities=inequalities))


def is_at_rest(step: Step, point: Point, violation: Float[Array, ""]) -> Bool[Array, ""]:
    """Whether nothing moves: where constraints are violated, no small step makes them less so."""
    least = jnp.where(violation > _VIOLATED, _SLOW, 10 * jnp.finfo(violation.dtype).eps)
    # Slack of bounds that are far away is large, and says nothing about what is small.
    slack = (ds / (1 + s) for ds, s in zip(step.slack, point.slack, strict=True))
    scale = 1 + largest(point.controls)
    return largest(step.states / scale, step.controls / scale, *slack) <= least


def disturbed(problem: Problem, point: Point, barrier: Float[Array, ""], times: Int[Array, ""]) -> Point:
    """A start nearby, with slow waves of different phases added to states and controls, each time larger ones.

    A car that stands still cannot move sideways to first order, nor does a path through the middle of an obstacle know
    on which side to pass. Almost everywhere else they can and do.
    """
    dtype = barrier.dtype
    times = times.astype(dtype)
    amount = 0.1 * 3.0**times
    steps, m = point.controls.shape
    time = jnp.linspace(0, 1, steps + 1, dtype=dtype)[:, None]
    index = jnp.arange(m + problem.dynamics.tangent_size, dtype=dtype)
    phases = 2 * jnp.pi * _GOLDEN * (1 + index + 3 * times)
    waves = amount * jnp.sin(phases + 2 * jnp.pi * (1 + index % 3) * time)
    controls = point.controls + (1 + largest(point.controls)) * waves[:-1, :m]
    states = jax.vmap(problem.dynamics.plus)(point.states, waves[:, m:].at[0].set(0))
    multipliers = jax.tree.map(jnp.zeros_like, point.multipliers)
    return widened(Point(states, controls, multipliers, point.slack), barrier)
