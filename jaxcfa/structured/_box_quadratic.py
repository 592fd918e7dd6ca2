"""Quadratic functions within bounds."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ..numerics import product
from ._small_spd import spd_solve

_MOST_STEPS = 100  # which take two to ten
_HALVINGS = 8  # of a step, all of which are tried


def box_quadratic(
    hessian: Float[Array, "n n"], gradient: Float[Array, "n"], lower: Float[Array, "n"], upper: Float[Array, "n"]
) -> Float[Array, "n"]:
    """The x with `lower <= x <= upper` that makes `x^T H x / 2 + g^T x` least.

    Projected Newton steps (Bertsekas 1982, Projected Newton methods for optimization problems with simple constraints):
    what a bound holds against its slope stays there, the others go towards where their slopes vanish, as far as bounds
    let each. Derivatives, of any order, are those of what is not held, while the same bounds hold the others.

    **Arguments:** `hessian` (n, n), symmetric and positive definite; `gradient` (n,) at zero; `lower`, `upper` (n,),
    which may be infinite.
    """
    hessian, gradient, lower, upper = (jnp.asarray(x) for x in (hessian, gradient, lower, upper))
    constants = lax.stop_gradient((hessian, gradient, lower, upper))
    problem = _Problem(*constants)
    start = _Iterate(problem.clipped(-spd_solve(*constants[:2])), jnp.asarray(True), jnp.zeros((), int))
    x = lax.while_loop(lambda s: s.goes_on & (s.number < _MOST_STEPS), problem.improved, start).x
    # One more step, with derivatives.
    low, high = problem.held(x)
    at = jnp.where(low, lower, jnp.where(high, upper, x))
    return jnp.clip(at + _newton(hessian, product(hessian, at) + gradient, low | high), lower, upper)


class _Iterate(NamedTuple):
    """**Fields:** `x` (n,); whether it `goes_on`; the number of steps."""

    x: Float[Array, "n"]
    goes_on: Bool[Array, ""]
    number: Int[Array, ""]


class _Problem(NamedTuple):
    hessian: Float[Array, "n n"]
    gradient: Float[Array, "n"]
    lower: Float[Array, "n"]
    upper: Float[Array, "n"]

    def clipped(self, x: Float[Array, "*k n"]) -> Float[Array, "*k n"]:
        return jnp.clip(x, self.lower, self.upper)

    def slope(self, x: Float[Array, "n"]) -> Float[Array, "n"]:
        return product(self.hessian, x) + self.gradient

    def held(self, x: Float[Array, "n"]) -> tuple[Bool[Array, "n"], Bool[Array, "n"]]:
        """What the lower and the upper bounds hold."""
        slope = self.slope(x)
        return (x <= self.lower) & (slope > 0), (x >= self.upper) & (slope < 0)

    def improved(self, s: _Iterate) -> _Iterate:
        """By the best place on the way that bounds leave of a step: where it meets one of them, where the slope along
        it vanishes before the first one, or after a half of it, a quarter, and so on."""
        low, high = self.held(s.x)
        slope = self.slope(s.x)
        step = _newton(self.hessian, slope, low | high)
        room = jnp.where(step < 0, self.lower - s.x, self.upper - s.x)
        to_bounds = jnp.where(step == 0, 1, room / jnp.where(step == 0, 1, step))
        # What is at a bound that the step leads beyond stays there, and of the others the first meets one.
        along = jnp.where(to_bounds > 0, step, 0)
        curvature = product(product(self.hessian, along), along)
        least = -product(slope, along) / jnp.where(curvature > 0, curvature, 1)
        first = jnp.min(jnp.where(to_bounds > 0, to_bounds, 1), initial=1)
        halves = jnp.asarray([0.5**k for k in range(_HALVINGS)], step.dtype)
        lengths = jnp.concatenate([halves, jnp.minimum(to_bounds, 1), jnp.minimum(least, first)[None]])
        moves = self.clipped(s.x + lengths[:, None] * step) - s.x
        # Differences, which have more digits than the values.
        change = product(moves, slope) + 0.5 * jnp.sum(product(moves, self.hessian) * moves, axis=1)
        best = jnp.argmin(change)
        x = s.x + moves[best]
        # A whole step that meets no bound is the last, if it lets none go.
        found = (best == 0) & jnp.all(to_bounds >= 1) & jnp.all((low | high) == jnp.logical_or(*self.held(x)))
        return _Iterate(x, (change[best] < 0) & ~found, s.number + 1)


def _newton(hessian: Float[Array, "n n"], slope: Float[Array, "n"], held: Bool[Array, "n"]) -> Float[Array, "n"]:
    """The step to where the slope vanishes of what is not held."""
    free = jnp.where(held[:, None] | held, jnp.eye(len(held), dtype=hessian.dtype) * jnp.diag(hessian), hessian)
    return -spd_solve(free, jnp.where(held, 0, slope))
