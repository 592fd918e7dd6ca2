"""Dry friction of joints during a step that is implicit."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..typing import Velocity


def dry_friction(
    friction_loss: Float[Array, "nv"],
    friction_velocity: Float[Array, ""],
    v: Float[Array, "nv"],
    reached: Float[Array, "nv"],
) -> tuple[Velocity, Velocity]:
    """Force f and D >= 0, both (nv,), of a friction `-(f + D v')` in a step from v, linear about velocities `reached`.

    About zero it is `-D v'`, which is friction at v and holds what sticks, but exceeds `friction_loss` F where a joint
    gets under way, from rest by a hundred times. About what that leads to it is the slope of `F (y + y |y| - y^3)`,
    with `y = D v' / F` between -1 and 1: the same near rest, never more than F, and with a continuous slope.
    """
    x = v / friction_velocity
    # The double `where` keeps the quotient and its derivative finite at rest; the series is exact to rounding.
    small = jnp.abs(x) < jnp.finfo(x.dtype).eps ** 0.25
    slope = jnp.where(small, 1 - x * x / 3, jnp.tanh(x) / jnp.where(small, 1.0, x)) / friction_velocity
    y = jnp.clip(slope * reached, -1, 1)
    part, rises = y + y * jnp.abs(y) - y**3, 1 + 2 * jnp.abs(y) - 3 * y**2
    damping = friction_loss * slope * rises
    return friction_loss * part - damping * reached, damping
