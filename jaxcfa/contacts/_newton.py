"""The impulses of contacts that a step ends with, by Newton's method."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ..numerics import matvec
from ..one_function import as_one_function
from ..structured._lane_loop import lane_loop
from ._law import ContactLaw
from ._systems import AbstractSystem, Step, Unknowns

_MOST_ITERATIONS = 100  # of Newton's method, which takes two to ten
_LANES, _TURN = 128, 2  # members of a batch at a time, and how many steps these take before others do
_SLOPE, _MOST_BISECTIONS = 0.5, 12  # of the slope along a step what may be left, and how often its bounds are halved
_SHORTER = 0.5  # than the step before, if rounding errors hide whether it leads down


class Iterate(eqx.Module):
    """**Fields:** the `unknowns` of the system, the `impulses` (n, 3) and the velocities `u` (n, 3) of contacts with
    them; by how much these changed last."""

    unknowns: Unknowns
    impulses: Float[Array, "n 3"]
    u: Float[Array, "n 3"]
    change: Float[Array, ""]
    number: Int[Array, ""]


def newton(law: ContactLaw, system: AbstractSystem, free: Float[Array, "n 3"]) -> Iterate:
    """Where `x = law(free + W x)`, which minimises `1/2 x^T W x + potential(u)`."""
    scale = jnp.maximum(jnp.max(jnp.abs(free)), jnp.min(law.stiction_velocity))
    search = _Search(law, system, free, float(jnp.finfo(free.dtype).eps) ** 0.75 * scale)
    return lane_loop(_Search.unfinished, _improve, search, search.start(), _LANES, _TURN)


class _Search(eqx.Module):
    """Newton's method, with the minimum along each direction: converges from every start.

    It starts with the law as it is near rest, in which everything sticks; of points that only come down to the ground,
    as it is for free motion, since near rest these have no force.

    **Fields:** the `law`, the `system`, and velocities of the points without impulses, `free` (n, 3); by how much
    velocities still change in the end, `tolerance`.
    """

    law: ContactLaw
    system: AbstractSystem
    free: Float[Array, "n 3"]
    tolerance: Float[Array, ""]

    def start(self) -> Iterate:
        """No impulses."""
        free, never = self.free, jnp.full_like(self.free[0, 0], jnp.inf)
        return Iterate(self.system.start(), jnp.zeros_like(free), free, never, jnp.zeros((), int))

    def unfinished(self, x: Iterate) -> Bool[Array, ""]:
        return (x.change > self.tolerance) & (x.number < _MOST_ITERATIONS)

    def improve(self, x: Iterate) -> Iterate:
        law, system = self.law, self.system
        first = x.number == 0
        near = jnp.where(first & (law.depth > 0)[:, None], 0, x.u)
        roots = law.roots(near, x.impulses)
        demanded = law.impulses(near) - matvec(roots, matvec(roots, x.u - near))
        step = system.step(roots, demanded, x.unknowns, x.impulses)
        length = jnp.where(first, 1, _length(law, x, step, self.tolerance))
        unknowns = x.unknowns + length * step.unknowns
        # Not `x.u + length * step.u`, which keeps the rounding errors of impulses that were too large on the way.
        u = self.free + system.velocities(unknowns)
        change = jnp.max(jnp.abs(length * step.u))
        return Iterate(unknowns, x.impulses + length * step.impulses, u, change, x.number + 1)


@as_one_function
def _improve(search: _Search, x: Iterate) -> Iterate:
    return search.improve(x)


def _length(law: ContactLaw, x: Iterate, step: Step, tolerance: Float[Array, ""]) -> Float[Array, ""]:
    """How far to go along a step: to the minimum nearly, where the slope is zero, but not beyond the step.

    The slope increases, and where sliding ends it jumps: Newton's method, between bounds that are halved at least. It
    ends where it would change no velocity by more than the tolerance. A slope that is not negative at the start is made
    of rounding errors: of steps that become shorter the whole is gone then, of others nothing.
    """
    line, largest = law.along(x.u, step.u), jnp.max(jnp.abs(step.u))

    def slope(length: Float[Array, ""]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        power, falls = line.power(length)
        return step.slope + length * step.curvature - power, step.curvature + falls

    zero, one = jnp.zeros_like(step.slope), jnp.ones_like(step.slope)
    at_start = slope(zero)[0]

    def unfinished(state: Any) -> Bool[Array, ""]:
        _, high, length, value, curvature, number = state
        steep = (jnp.abs(value) > _SLOPE * jnp.abs(at_start)) & (jnp.abs(value) * largest > tolerance * curvature)
        return steep & ((length < high) | (value > 0)) & (at_start < 0) & (number < _MOST_BISECTIONS)

    def narrowed(state: Any) -> Any:
        low, high, length, value, curvature, number = state
        low, high = jnp.where(value < 0, length, low), jnp.where(value < 0, high, length)
        newton = length - value / curvature
        length = jnp.where((low < newton) & (newton < high), newton, (low + high) / 2)
        return low, high, length, *slope(length), number + 1

    start = jnp.where((at_start < 0) | (largest < _SHORTER * x.change), one, zero)
    return lax.while_loop(unfinished, narrowed, (zero, one, start, *slope(one), jnp.zeros((), int)))[2]
