"""Surfaces that points are outside of, or in: the ground, and what a body's shape is described by."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..model._given import Numbers, is_concrete
from ..numerics import dot
from ..numerics._options import floating_numbers

_UPRIGHT = 0.1  # upward parts of normals of walls, on which nothing stands


class Touch(NamedTuple):
    """A surface near a point.

    **Fields:** `distance` of the point [m]; unit `normal` (3,); the coefficient of `friction`, which counts if it is
    larger than that of the contact; `None` for none.
    """

    distance: Float[Array, ""]
    normal: Float[Array, "3"]
    friction: Float[Array, ""] | None = None


class AbstractSurface(eqx.Module):
    """A surface in the world, or on a body. A new one is a subclass with `distance`; its arrays are differentiable."""

    @abc.abstractmethod
    def distance(self, point: Float[Array, "3"]) -> Float[Array, ""]:
        """How far the point is outside, or above the ground [m], negative inside: exactly, or only near the surface.

        Of spheres the point is the centre. A height, `z - h(x, y)`, is one too, since it is divided by the length of
        its gradient. Must be differentiable twice, three times for second derivatives of motions.
        """

    def clearance(self, point: Float[Array, "3"]) -> tuple[Float[Array, ""], Float[Array, "3"]]:
        """The distance of a point from the surface nearby [m], and the unit normal there, outwards.

        Where the distance has no gradient, as in the centre of a ball, the normal is zero, and nothing pushes.
        """
        distance, gradient = jax.value_and_grad(lambda x: jnp.asarray(self.distance(x), x.dtype))(point)
        length = nonzero_length(gradient)
        return distance / length, gradient / length

    def touch(self, point: Float[Array, "3"]) -> Touch:
        """What a point meets: the `clearance`, and the friction of a surface that has one of its own."""
        return Touch(*self.clearance(point))


class FlatGround(AbstractSurface):
    """A plane. **Fields:** `normal` (3,), of any length; a `point` (3,) in it [m]."""

    normal: Float[Array, "3"]
    point: Float[Array, "3"]

    def __init__(self, normal: Numbers = (0.0, 0.0, 1.0), point: Numbers = (0.0, 0.0, 0.0)):
        """**Raises:** `ValueError` for what are no three finite numbers, and a normal of zero."""
        self.normal, self.point = three("normal of the ground", normal), three("point of the ground", point)
        if is_concrete(self.normal) and not np.linalg.norm(self.normal) > 0:
            raise ValueError(f"The normal of the ground must not be zero, got {normal}.")

    def distance(self, point: Float[Array, "3"]) -> Float[Array, ""]:
        return dot(self.normal.astype(point.dtype), point - self.point.astype(point.dtype))


class SurfaceOfFunction(AbstractSurface):
    """The surface that a user's function describes. **Fields:** the `function`, as `AbstractSurface.distance`."""

    function: Callable[[Float[Array, "3"]], Any] = eqx.field(static=True)

    def distance(self, point: Float[Array, "3"]) -> Float[Array, ""]:
        return self.function(point)


class SurfaceOfModule(AbstractSurface):
    """The surface that a user's module describes, whose arrays are differentiable. **Fields:** the `module`."""

    module: Callable[[Float[Array, "3"]], Any]

    def distance(self, point: Float[Array, "3"]) -> Float[Array, ""]:
        return self.module(point)


def as_surface(name: str, surface: Any, example: str) -> AbstractSurface:
    """The surface that is given, or that a function describes.

    **Raises:** `ValueError` for what is neither, and for distances, by users, that are not one real number.
    """
    if isinstance(surface, AbstractSurface):
        for part in jax.tree.leaves(surface, is_leaf=_is_of_user):
            if _is_of_user(part):
                _check_distance(name, part.distance)
        return surface
    if isinstance(surface, type) or not callable(surface):
        raise ValueError(
            f"{name} must be a surface of jaxcfa.contacts, such as {example}, or a function that gives the distance of "
            f"a point (3,) outside of it, such as lambda p: p[2] - 0.1 * jnp.sin(p[0]), got {surface!r}."
        )
    _check_distance(name, surface)
    kind = SurfaceOfModule if isinstance(surface, eqx.Module) else SurfaceOfFunction
    return kind(surface)


def _is_of_user(x: object) -> bool:
    """Whether it is a surface of a class of one's own."""
    return isinstance(x, AbstractSurface) and not type(x).__module__.startswith(f"{__package__}.")


def _check_distance(name: str, distance: Callable[[Float[Array, "3"]], Any]) -> None:
    """Raises `ValueError` for what gives no real number."""
    found = jax.eval_shape(lambda x: jnp.asarray(distance(x)), jnp.zeros(3))
    if found.shape != () or not jnp.issubdtype(found.dtype, jnp.floating):
        raise ValueError(
            f"The distance of a point from the {name} must be one real number that changes with the point, got "
            f"shape {found.shape} and dtype {found.dtype}."
        )


def height_above(ground: AbstractSurface, point: Float[Array, "3"], radius: ArrayLike = 0.0) -> Float[Array, ""]:
    """How far a point, or ball, is above the ground, by what is nearest [m]; infinite beside a wall."""
    distance, normal = ground.clearance(point)
    level = normal[2] > _UPRIGHT
    return jnp.where(level, (distance - radius) / jnp.where(level, normal[2], 1), jnp.inf)


def nonzero_length(x: Float[Array, "n"]) -> Float[Array, ""]:
    """The length of a vector, and one of a vector of zeros. Differentiable everywhere."""
    square = dot(x, x)
    return jnp.sqrt(jnp.where(square > 0, square, 1))


def from_segment(start: Float[Array, "3"], end: Float[Array, "3"], point: Float[Array, "3"]) -> Float[Array, "3"]:
    """The vector to a point from the nearest one on a segment, whose ends may coincide [m]."""
    line, offset = end - start, point - start
    square = dot(line, line)
    return offset - jnp.clip(dot(offset, line) / jnp.where(square > 0, square, 1), 0, 1) * line


def three(name: str, value: Numbers) -> Float[Array, "3"]:
    """Three finite numbers, which may be traced. **Raises:** `ValueError` for others."""
    array = floating_numbers(f"The {name}", value)
    if array.shape != (3,):
        raise ValueError(f"The {name} must have shape (3,), got {array.shape}.")
    # By NumPy: inside of compiled functions, JAX would trace what is computed with known numbers.
    if is_concrete(array) and not np.all(np.isfinite(array)):
        raise ValueError(f"The {name} must be finite, got {value}.")
    return array
