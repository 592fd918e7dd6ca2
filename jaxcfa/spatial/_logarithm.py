"""Logarithm and exponential of rigid transforms, given as rotation and translation."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import cross, dot
from ._rotation import is_small, rotation_exp, rotation_log


def screw_of(rotation: Float[Array, "*batch 3 3"], translation: Float[Array, "*batch 3"]) -> Float[Array, "*batch 6"]:
    """The screw `[rotation; translation]` whose exponential is the transform; the rotation's length is at most pi.

    `V^-1 p = p - w x p / 2 + c w x (w x p)` with `c = (1 - (t/2) cot(t/2)) / t^2` (Murray, Li & Sastry, A Mathematical
    Introduction to Robotic Manipulation, 1994, sec. 2.3); smooth at the identity.
    """
    w, p = rotation_log(rotation), translation
    square = dot(w, w)
    small = is_small(square)
    # The double `where` keeps the quotient finite; the series is exact to rounding where it is used.
    half = 0.5 * jnp.sqrt(jnp.where(small, 1.0, square))
    closed = (1 - half * jnp.cos(half) / jnp.sin(half)) / jnp.where(small, 1.0, square)
    series = 1 / 12 + square * (1 / 720 + square * (1 / 30240 + square / 1209600))
    c = jnp.where(small, series, closed)[..., None]
    turned = cross(w, p)
    return jnp.concatenate([w, p - 0.5 * turned + c * cross(w, turned)], axis=-1)


def along_screw(screw: Float[Array, "*batch 6"]) -> tuple[Float[Array, "*batch 3 3"], Float[Array, "*batch 3"]]:
    """The transform by the screw `[rotation; translation]` at unit velocity for unit time; smooth at zero.

    `V p = p + a w x p + b w x (w x p)` with `a = (1 - cos t) / t^2`, `b = (t - sin t) / t^3`.
    """
    w, p = screw[..., :3], screw[..., 3:]
    square = dot(w, w)
    small = is_small(square)
    angle = jnp.sqrt(jnp.where(small, 1.0, square))
    safe = jnp.where(small, 1.0, square)
    a = jnp.where(small, 1 / 2 - square * (1 / 24 - square * (1 / 720 - square / 40320)), (1 - jnp.cos(angle)) / safe)
    closed = (angle - jnp.sin(angle)) / (safe * angle)
    b = jnp.where(small, 1 / 6 - square * (1 / 120 - square * (1 / 5040 - square / 362880)), closed)
    turned = cross(w, p)
    return rotation_exp(w), p + a[..., None] * turned + b[..., None] * cross(w, turned)
