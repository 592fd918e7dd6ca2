"""The parameter of the barrier and the price of violations, from one iteration of multiple shooting to the next."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ._interior_point import Barrier, Point, largest, optimality
from ._local import LocalModel, Rows
from ._multiple_shooting_state import Settings
from ._problem import Problem

_PRICE = 1.0  # of violations, at first
_PRICE_OF_PLANS = 1e3  # where a solution is the guess: bounds that hold are not to be given up
_DEARER = 10.0  # how much more, where they are cheaper than what they are to prevent
_FAIR = 0.03  # the least price, relative to the penalty of gaps and equalities
_STEEP = 1e4  # gradients of the cost from which on limits of multipliers are relative to it
UNFAIR = 0.5  # of that price, below which a step gives up bounds for gaps, and is not taken


def first_barrier(settings: Settings, dtype) -> Barrier:
    """The barrier of the first iteration."""
    return Barrier(jnp.asarray(settings.barrier, dtype), jnp.asarray(_PRICE, dtype))


def barrier_of_plan(settings: Settings, barrier: Barrier, inequalities: Rows) -> Barrier:
    """The barrier of the first iteration from a solution with these multipliers."""
    price = jnp.minimum(jnp.maximum(_PRICE_OF_PLANS, _DEARER * largest(*inequalities)), settings.largest_price)
    return barrier._replace(price=price)


def next_barrier(settings: Settings, problem: Problem, local: LocalModel, point: Point, barrier: Barrier) -> Barrier:
    """A smaller parameter, once its problem is solved well enough (Waechter & Biegler 2006, equation 7), or a higher
    price if constraints are violated there."""
    found, mu = optimality(local, point, barrier, problem.start), barrier.parameter
    smaller = jnp.maximum(settings.smallest_barrier, jnp.minimum(0.2 * mu, mu**1.5))
    reached = jnp.maximum(jnp.maximum(found.stationarity, found.equalities), found.complementarity) <= 10 * mu
    cheap = is_cheap(point, barrier) & (barrier.price < largest_price(settings, local))
    return Barrier(
        jnp.where(reached & ~cheap, smaller, mu),
        jnp.where(reached & cheap, dearer(settings, local, barrier), barrier.price),
    )


def steepness(local: LocalModel, usual: float = _STEEP) -> Float[Array, ""]:
    """How many times steeper than is usual the cost is, at least one; so much larger are all multipliers."""
    return jnp.maximum(1, largest(local.stages.gradient, local.end.gradient) / usual)


def largest_price(settings: Settings, local: LocalModel) -> Float[Array, ""]:
    """The price above which violations are none of the cost's."""
    return settings.largest_price * steepness(local)


def is_cheap(point: Point, barrier: Barrier) -> Bool[Array, ""]:
    """Whether some constraint is more violated than kept: its multiplier is nearer to the price than to zero."""
    return largest(*point.multipliers.inequalities) > 0.5 * barrier.price


def dearer(settings: Settings, local: LocalModel, barrier: Barrier) -> Float[Array, ""]:
    """The next price."""
    return jnp.minimum(_DEARER * barrier.price, largest_price(settings, local))


def fair_price(settings: Settings, local: LocalModel, penalty: Float[Array, ""]) -> Float[Array, ""]:
    """The least beside what gaps and equalities cost."""
    return jnp.minimum(_FAIR * penalty, largest_price(settings, local))
