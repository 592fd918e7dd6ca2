"""Where on a segment, or on a rim, what touches is nearest to a surface."""

from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import dot
from ._surfaces import AbstractSurface, nonzero_length

_LEAN = 0.03  # slopes up to which a segment that lies on a surface touches it towards its end
_SAMPLES, _ROUNDS, _STEPS = (
    16,
    3,
    3,
)  # the place is between two of so many samples, again and again; then Newton's steps
_WINDOW = 2e-3  # of half a segment: slopes are means over so much to both sides, which rounds edges off
_FLAT = 0.02  # sines of angles between a rim's plane and a surface below which it touches inside of the rim


def nearest_on_segment(
    surface: AbstractSurface, center: Float[Array, "3"], half: Float[Array, "3"]
) -> Float[Array, ""]:
    """Where a segment is nearest to a surface: t of `center + t half`, from -1 to 1.

    Of places that are equally near it is the last, and it leans towards that end, so that a segment and its reverse
    touch at both ends of where they lie. Is found by samples, since surfaces need not be convex, then by slopes, and
    differentiated as what it solves.
    """
    arrays, static = eqx.partition(surface, eqx.is_inexact_array)

    def height(arrays, center, half, t) -> Float[Array, ""]:
        found = eqx.combine(arrays, static).touch(center + t * half)
        return found.distance - _LEAN * nonzero_length(half) * t

    def to_both_sides(arrays, center, half, t) -> Float[Array, "2"]:
        return jax.vmap(partial(height, arrays, center, half))(t + jnp.array([-_WINDOW, _WINDOW], t.dtype))

    @jax.custom_jvp
    def place(*of_surface) -> Float[Array, ""]:
        def slope(t: Float[Array, ""]) -> Float[Array, ""]:
            below, above = to_both_sides(*of_surface, t)
            return (above - below) / (2 * _WINDOW)

        return _lowest(partial(height, *of_surface), slope, center.dtype)

    @place.defjvp
    def _(primals, tangents):
        t = place(*primals)
        _, change = jax.jvp(lambda *x: to_both_sides(*x, t), primals, tangents)
        _, bend = jax.jvp(partial(to_both_sides, *primals), (t,), (jnp.ones_like(t),))
        bend = bend[1] - bend[0]
        follows = (jnp.abs(t) < 1) & (bend > 1e3 * jnp.finfo(bend.dtype).eps * nonzero_length(primals[2]))
        return t, jnp.where(follows, (change[0] - change[1]) / jnp.where(follows, bend, 1), 0)

    return place(arrays, center, half)


def _lowest(height: Callable[[Array], Array], slope: Callable[[Array], Array], dtype) -> Float[Array, ""]:
    """Where from -1 to 1 something is lowest."""
    shares = jnp.arange(_SAMPLES + 1, dtype=dtype) / _SAMPLES
    t = 2 * shares - 1
    heights = jax.vmap(height)(t)
    best = jnp.max(jnp.where(heights == jnp.min(heights), jnp.arange(_SAMPLES + 1), 0))
    low, high = t[jnp.maximum(best - 1, 0)], t[jnp.minimum(best + 1, _SAMPLES)]
    at_ends = jax.vmap(slope)(jnp.stack([low, high]))
    first, last = (best == 0) & (at_ends[0] >= 0), (best == _SAMPLES) & (at_ends[1] <= 0)
    for _ in range(_ROUNDS):
        falls = jax.vmap(slope)(low + (high - low) * shares[1:-1]) <= 0
        count, step = jnp.sum(jnp.cumprod(falls)), (high - low) / _SAMPLES
        low, high = low + step * count, low + step * (count + 1)
    t = (low + high) / 2
    for _ in range(_STEPS):
        value, bend = jax.jvp(slope, (t,), (jnp.ones_like(t),))
        t = jnp.clip(t - jnp.where(bend > 0, value / jnp.where(bend > 0, bend, 1), 0), low, high)
    return jnp.where(first, -1, jnp.where(last, 1, t)).astype(dtype)


def nearest_on_rim(
    normal_at: Callable[[Float[Array, "3"]], Float[Array, "3"]], center: Float[Array, "3"], rim: Float[Array, "3"]
) -> Float[Array, "3"]:
    """From the centre of a circle to the place where it is nearest to a surface, by the normals of that.

    **Arguments:** `rim`: the radius times the direction of the axis. Where the plane of the circle is almost that of
    the surface, the place is inside, and in the centre where it is that.
    """
    radius = jnp.where(dot(rim, rim) > 0, nonzero_length(rim), 0)
    axis, place = rim / nonzero_length(rim), jnp.zeros_like(center)
    for _ in range(2):  # the first is exact for planes
        normal = normal_at(center + place)
        across = normal - dot(normal, axis) * axis
        place = -radius * across / jnp.maximum(nonzero_length(across), _FLAT)
    return place
