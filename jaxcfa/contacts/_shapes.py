"""Shapes of bodies, by how far points are outside of them."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model._given import Numbers, not_negative
from ..numerics import dot
from ..numerics._options import floating_numbers
from ._surfaces import AbstractSurface, from_segment, nonzero_length, three

_ORIGIN = (0.0, 0.0, 0.0)


class Sphere(AbstractSurface):
    """A ball. **Fields:** `radius` [m]; `center` (3,) [m]."""

    radius: Float[Array, ""]
    center: Float[Array, "3"]

    def __init__(self, radius: Numbers, center: Numbers = _ORIGIN):
        """**Raises:** `ValueError` for a radius that is negative, wrong shapes, and what is not finite."""
        self.radius, self.center = one_number("radius of the sphere", radius), three("center of the sphere", center)

    def distance(self, point: Float[Array, "3"]) -> Float[Array, ""]:
        return _length(point - self.center) - self.radius


class Capsule(AbstractSurface):
    """What is within a radius of a line from one point to another. **Fields:** `start`, `end` (3,); `radius` [m]."""

    start: Float[Array, "3"]
    end: Float[Array, "3"]
    radius: Float[Array, ""]

    def __init__(self, start: Numbers, end: Numbers, radius: Numbers):
        """**Raises:** `ValueError` for a radius that is negative, wrong shapes, and what is not finite."""
        self.start, self.end = three("start of the capsule", start), three("end of the capsule", end)
        self.radius = one_number("radius of the capsule", radius)

    def distance(self, point: Float[Array, "3"]) -> Float[Array, ""]:
        return _length(from_segment(self.start, self.end, point)) - self.radius


class Cylinder(AbstractSurface):
    """A cylinder along z. **Fields:** `radius`; `half_length`, of `viz.Cylinder` the whole; `center` (3,) [m]."""

    radius: Float[Array, ""]
    half_length: Float[Array, ""]
    center: Float[Array, "3"]

    def __init__(self, radius: Numbers, half_length: Numbers, center: Numbers = _ORIGIN):
        """**Raises:** `ValueError` for lengths that are negative, wrong shapes, and what is not finite."""
        self.radius = one_number("radius of the cylinder", radius)
        self.half_length = one_number("half_length of the cylinder", half_length)
        self.center = three("center of the cylinder", center)

    def distance(self, point: Float[Array, "3"]) -> Float[Array, ""]:
        x = point - self.center
        return _beyond(jnp.stack([_length(x[:2]) - self.radius, _absolute(x[2]) - self.half_length]))


class Box(AbstractSurface):
    """A box along the axes. **Fields:** `half_lengths` (3,), half of the `size` of `viz.Box`; `center` (3,) [m]."""

    half_lengths: Float[Array, "3"]
    center: Float[Array, "3"]

    def __init__(self, half_lengths: Numbers, center: Numbers = _ORIGIN):
        """**Raises:** `ValueError` for lengths that are negative, wrong shapes, and what is not finite."""
        self.half_lengths = three("half_lengths of the box", not_negative("The half_lengths of the box", half_lengths))
        self.center = three("center of the box", center)

    def distance(self, point: Float[Array, "3"]) -> Float[Array, ""]:
        return _beyond(_absolute(point - self.center) - self.half_lengths)


def one_number(name: str, value: Numbers) -> Float[Array, ""]:
    array = floating_numbers(f"The {name}", not_negative(f"The {name}", value))
    if array.shape != ():
        raise ValueError(f"The {name} must be one number, got shape {array.shape}.")
    return array


def _length(x: Float[Array, "n"]) -> Float[Array, ""]:
    """The length of a vector, whose derivative at zero is zero."""
    return jnp.where(dot(x, x) > 0, nonzero_length(x), 0)


def _absolute(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Absolute values, whose derivative at zero is one: the middle of a body has a nearest face."""
    return jnp.where(x < 0, -x, x)


def _beyond(distances: Float[Array, "k"]) -> Float[Array, ""]:
    """How far a point is outside, by how far it is beyond each face: inside, the nearest face counts alone."""
    outside = _length(jnp.maximum(distances, 0))
    return jnp.where(jnp.any(distances > 0), outside, largest(distances))


def largest(x: Float[Array, "k"]) -> Float[Array, ""]:
    """The largest of some numbers; of several, the derivative is that of the first."""
    return jnp.sum(jnp.where(jnp.arange(len(x)) == jnp.argmax(x), x, 0))
