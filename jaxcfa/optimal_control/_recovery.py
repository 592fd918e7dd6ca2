"""What to do where linearised constraints cannot be satisfied: disturbances of what is symmetric."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._interior_point import Barrier, Point, Step, distance_to_feasible, largest
from ._local import LocalModel, Rows, Values
from ._problem import Problem

_VIOLATED, _SLOW = 1e-2, 1e-5  # with such violations, steps that are so small lead nowhere
_FAR = 10.0  # so many times as far away as the motion is long: what satisfies linearised constraints is out of reach
_GOLDEN = 0.618034  # multiples of it modulo one are far from one another


def is_at_rest(step: Step, point: Point, violation: Float[Array, ""]) -> Bool[Array, ""]:
    """Whether nothing moves: where constraints are violated, no small step makes them less so."""
    least = jnp.where(violation > _VIOLATED, _SLOW, 10 * jnp.finfo(violation.dtype).eps)
    scale = 1 + largest(point.controls)
    return largest(step.states / scale, step.controls / scale) <= least


def is_out_of_reach(problem: Problem, local: LocalModel, point: Point, violation: Float[Array, ""]) -> Bool[Array, ""]:
    """Whether the multipliers prove that no motion nearby satisfies the constraints to first order."""
    way = jax.vmap(problem.dynamics.minus, (0, None))(point.states, point.states[0])
    scales = 1 + largest(way), 1 + largest(point.controls)
    return (violation > _VIOLATED) & (distance_to_feasible(local, point.multipliers, problem.start, *scales) > _FAR)


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
    index = jnp.arange(m + problem.dynamics.tangent_size, dtype=dtype)
    phases = 2 * jnp.pi * _GOLDEN * (1 + index + 3 * times)
    waves = amount * jnp.sin(phases + 2 * jnp.pi * (1 + index % 3) * time)
    controls = point.controls + (1 + largest(point.controls)) * waves[:-1, :m]
    states = jax.vmap(problem.dynamics.plus)(point.states, waves[:, m:].at[0].set(0))
    nothing = jax.tree.map(jnp.zeros_like, point.multipliers)
    inequalities = Rows(*(barrier.multipliers(g) for g in values.inequalities))
    return Point(states, controls, nothing._replace(inequalities=inequalities), point.slack)
