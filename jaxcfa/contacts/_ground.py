"""The ground: surfaces that points are above or below."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model._given import Numbers, is_concrete
from ..numerics import dot
from ..numerics._options import floating_numbers


class AbstractGround(eqx.Module):
    """A surface in the world. A new one is a subclass with `distance`, whose arrays can be differentiated."""

    @abc.abstractmethod
    def distance(self, point: Float[Array, "3"]) -> Float[Array, ""]:
        """How far the point is above the surface [m], negative below: exactly, or only near the surface.

        Of spheres the point is the centre. A height, `z - h(x, y)`, is one too, since it is divided by the length of
        its gradient. Must be differentiable twice, three times for second derivatives of motions.
        """

    def clearance(self, point: Float[Array, "3"]) -> tuple[Float[Array, ""], Float[Array, "3"]]:
        """The distance of a point from the surface nearby [m], and the unit normal there, out of the ground."""
        distance, gradient = jax.value_and_grad(lambda x: jnp.asarray(self.distance(x), x.dtype))(point)
        length = jnp.sqrt(dot(gradient, gradient))
        return distance / length, gradient / length


class FlatGround(AbstractGround):
    """A plane. **Fields:** `normal` (3,), of any length; a `point` (3,) in it [m]."""

    normal: Float[Array, "3"]
    point: Float[Array, "3"]

    def __init__(self, normal: Numbers = (0.0, 0.0, 1.0), point: Numbers = (0.0, 0.0, 0.0)):
        """**Raises:** `ValueError` for what are no three finite numbers, and a normal of zero."""
        self.normal, self.point = _three("normal", normal), _three("point", point)
        if is_concrete(self.normal) and not np.linalg.norm(self.normal) > 0:
            raise ValueError(f"The normal of the ground must not be zero, got {normal}.")

    def distance(self, point: Float[Array, "3"]) -> Float[Array, ""]:
        return dot(self.normal.astype(point.dtype), point - self.point.astype(point.dtype))


class Surface(AbstractGround):
    """The ground that a user's function describes. **Fields:** the `function`, as `AbstractGround.distance`."""

    function: Callable[[Float[Array, "3"]], Any] = eqx.field(static=True)

    def distance(self, point: Float[Array, "3"]) -> Float[Array, ""]:
        return self.function(point)


def as_ground(ground: Any) -> AbstractGround:
    """The ground that is given, or that a function describes. **Raises:** `ValueError` for what is neither."""
    if isinstance(ground, AbstractGround):
        return ground
    if isinstance(ground, type) or not callable(ground):
        raise ValueError(
            "ground must be FlatGround(...), or a function that gives the distance of a point (3,) above it, such as "
            f"lambda p: p[2] - 0.1 * jnp.sin(p[0]), got {ground!r}."
        )
    shape = jax.eval_shape(lambda x: jnp.asarray(ground(x)), jnp.zeros(3)).shape
    if shape != ():
        raise ValueError(f"The distance of a point above the ground must be one number, got shape {shape}.")
    return Surface(ground)


def _three(name: str, value: Numbers) -> Float[Array, "3"]:
    array = floating_numbers(f"The {name} of the ground", value)
    if array.shape != (3,):
        raise ValueError(f"The {name} of the ground must have shape (3,), got {array.shape}.")
    # By NumPy: inside of compiled functions, JAX would trace what is computed with known numbers.
    if is_concrete(array) and not np.all(np.isfinite(array)):
        raise ValueError(f"The {name} of the ground must be finite, got {value}.")
    return array
