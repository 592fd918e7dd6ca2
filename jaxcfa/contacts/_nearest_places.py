"""Where on a segment, or on a rim, what touches is nearest to a surface."""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..numerics import cross, dot, jvp_of_perturbed, with_rule
from ._composed import Placed, Rough
from ._surfaces import AbstractSurface, FlatGround, nonzero_length

_LEAN = 0.01  # slopes up to which a segment that lies on a surface touches it towards its end
_FLAT = 0.02  # sines of angles between a rim's plane and a surface below which it touches inside of the rim
_SAMPLES, _HALVINGS, _STEPS = 8, 9, 3  # on the way there: samples, halves of what is between two, Newton's steps
_WINDOW = 2e-3  # slopes are means over so much of t to both sides, which rounds edges off


def nearest_on_segment(
    surface: AbstractSurface, center: Float[Array, "3"], half: Float[Array, "3"]
) -> Float[Array, "3"]:
    """From the middle of a segment to where it is nearest to a surface; its ends are at `-half` and `half`.

    Of places that are equally near it is the last, and it leans towards that end, so that a segment and its reverse
    touch at both ends of where they lie.
    """
    lean = _LEAN * nonzero_length(half)
    return _nearest(surface, lambda center, half, t: center + t * half, (center, half), lean) * half


def nearest_on_rim(surface: AbstractSurface, center: Float[Array, "3"], rim: Float[Array, "3"]) -> Float[Array, "3"]:
    """From the centre of a circle to where it is nearest to a surface.

    **Arguments:** `rim`: the radius times the direction of the axis. Where the plane of the circle is almost that of
    the surface, the place is inside, and in the centre where it is that.
    """
    normal = surface.touch(center).normal
    across = normal - dot(normal, rim) * rim / nonzero_length(rim) ** 2
    radius = jnp.where(dot(rim, rim) > 0, nonzero_length(rim), 0)
    down = -radius * across / jnp.maximum(nonzero_length(across), _FLAT)
    if _is_flat(surface):
        return down
    # Elsewhere up to a quarter of the circle away.
    aside = cross(rim / nonzero_length(rim), down)

    def place(center: Array, down: Array, aside: Array, t: Array) -> Float[Array, "3"]:
        return center + jnp.cos(0.5 * jnp.pi * t) * down + jnp.sin(0.5 * jnp.pi * t) * aside

    t = _nearest(surface, place, (center, down, aside), jnp.zeros_like(radius))
    return place(jnp.zeros_like(center), down, aside, t)


def _is_flat(surface: AbstractSurface) -> bool:
    while isinstance(surface, Placed | Rough):
        surface = surface.surface
    return isinstance(surface, FlatGround)


def _nearest(
    surface: AbstractSurface,
    place: Callable[..., Float[Array, "3"]],
    of_place: tuple[Float[Array, "3"], ...],
    lean: Float[Array, ""],
) -> Float[Array, ""]:
    """The t from -1 to 1 where `place(*of_place, t)` is nearest to a surface, less `lean t`.

    Found by samples, since surfaces need not be convex, then by slopes; differentiated as what it solves.
    """
    arrays, static = eqx.partition(surface, eqx.is_inexact_array)

    def height(arrays: Any, of_place: tuple, lean: Array, t: Array) -> Float[Array, ""]:
        return eqx.combine(arrays, static).touch(place(*of_place, t)).distance - lean * t

    # Of what a user's surface closes over derivatives are wanted, too.
    converted, closed_over = jax.closure_convert(height, arrays, of_place, lean, jnp.zeros_like(lean))

    def height_at(arrays: Any, of_place: tuple, lean: Array, closed_over: list, t: Array) -> Float[Array, ""]:
        return converted(arrays, of_place, lean, t, *closed_over)

    def to_both_sides(arrays: Any, of_place: tuple, lean: Array, closed_over: list, t: Array) -> Float[Array, "2"]:
        at = partial(height_at, arrays, of_place, lean, closed_over)
        return jax.vmap(at)(t + jnp.array([-_WINDOW, _WINDOW], t.dtype))

    def found(arrays: Any, of_place: tuple, lean: Array, closed_over: list) -> Float[Array, ""]:
        def slope(t: Float[Array, ""]) -> Float[Array, ""]:
            below, above = to_both_sides(arrays, of_place, lean, closed_over, t)
            return (above - below) / (2 * _WINDOW)

        return _lowest(partial(height_at, arrays, of_place, lean, closed_over), slope, lean.dtype)

    def rate(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
        t = lowest(*primals)
        _, change = jvp_of_perturbed(partial(to_both_sides, t=t), primals, tangents)
        _, bend = jax.jvp(partial(to_both_sides, *primals), (t,), (jnp.ones_like(t),))
        bend, length = bend[1] - bend[0], sum(map(nonzero_length, primals[1][1:]))
        follows = (jnp.abs(t) < 1) & (bend > 1e3 * jnp.finfo(bend.dtype).eps * length)
        return t, jnp.where(follows, (change[0] - change[1]) / jnp.where(follows, bend, 1), 0)

    lowest = with_rule(found, rate)
    return lowest(arrays, of_place, lean, closed_over)


def _lowest(height: Callable[[Array], Array], slope: Callable[[Array], Array], dtype: Any) -> Float[Array, ""]:
    """Where from -1 to 1 something is lowest."""
    t = 2 * jnp.arange(_SAMPLES + 1, dtype=dtype) / _SAMPLES - 1
    heights = jax.vmap(height)(t)
    best = jnp.max(jnp.where(heights == jnp.min(heights), jnp.arange(_SAMPLES + 1), 0))
    low, high = t[jnp.maximum(best - 1, 0)], t[jnp.minimum(best + 1, _SAMPLES)]
    at_ends = jax.vmap(slope)(jnp.stack([low, high]))
    first, last = (best == 0) & (at_ends[0] >= 0), (best == _SAMPLES) & (at_ends[1] <= 0)

    def halved(_: Array, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bracket
        middle = (low + high) / 2
        falls = slope(middle) <= 0
        return jnp.where(falls, middle, low), jnp.where(falls, high, middle)

    def improved(_: Array, t: Array) -> Array:
        value, bend = jax.jvp(slope, (t,), (jnp.ones_like(t),))
        return jnp.clip(t - jnp.where(bend > 0, value / jnp.where(bend > 0, bend, 1), 0), low, high)

    low, high = lax.fori_loop(0, _HALVINGS, halved, (low, high))
    t = lax.fori_loop(0, _STEPS, improved, (low + high) / 2)
    return jnp.where(first, -1, jnp.where(last, 1, t)).astype(dtype)
