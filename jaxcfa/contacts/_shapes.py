"""Shapes of bodies, by how far points are outside of them."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..model._given import Numbers, is_concrete, not_negative
from ..numerics import dot, matvec
from ..numerics._options import floating_numbers, known_numbers
from ._surfaces import AbstractSurface, nonzero_length, three

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
        line, offset = self.end - self.start, point - self.start
        share = jnp.clip(dot(offset, line) / nonzero_length(line) ** 2, 0, 1)
        return _length(offset - share * line) - self.radius


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


class Ellipsoid(AbstractSurface):
    """An ellipsoid along the axes. **Fields:** `radii` (3,), the half axes; `center` (3,) [m].

    Distances are right near its surface, to first order.
    """

    radii: Float[Array, "3"]
    center: Float[Array, "3"]

    def __init__(self, radii: Numbers, center: Numbers = _ORIGIN):
        """**Raises:** `ValueError` for radii that are not positive, wrong shapes, and what is not finite."""
        self.radii = three("radii of the ellipsoid", radii)
        if is_concrete(self.radii) and not np.all(np.asarray(self.radii) > 0):
            raise ValueError(f"The radii of the ellipsoid must be positive, got {radii}.")
        self.center = three("center of the ellipsoid", center)

    def distance(self, point: Float[Array, "3"]) -> Float[Array, ""]:
        return (_length((point - self.center) / self.radii) - 1) * jnp.min(self.radii)


class ConvexHull(AbstractSurface):
    """What is below each of some planes. **Fields:** unit `normals` (n, 3); `heights` (n,) of the planes above the
    origin [m].

    Outside, next to edges and corners, distances are those from the nearest plane: points meet the hull where it is,
    and spheres another one, all of whose planes are their radius further out.
    """

    normals: Float[Array, "n 3"]
    heights: Float[Array, "n"]

    def __init__(self, points: Numbers):
        """By points (n, 3) that are known, of which it is the hull.

        **Raises:** `ValueError` for wrong shapes, what is not finite, and points that all are in one plane.
        """
        import scipy.spatial  # which takes a tenth of a second

        known = known_numbers("The points of the hull", points)
        if known.ndim != 2 or known.shape[1] != 3 or len(known) < 4:
            raise ValueError(f"The points of the hull must have shape (n, 3), n at least 4, got {known.shape}.")
        if not np.all(np.isfinite(known)):
            raise ValueError(f"The points of the hull must be finite, got {points!r:.200}.")
        try:
            planes = scipy.spatial.ConvexHull(known).equations
        except scipy.spatial.QhullError:
            raise ValueError(
                f"The {len(known)} points of the hull are all in one plane, or almost. Take a thin Box instead."
            ) from None
        # A face that is no triangle comes in several parts.
        scale = [*np.full(3, 1e-7), 1e-7 * np.ptp(known)]
        _, first = np.unique(np.round(planes / scale), axis=0, return_index=True)
        planes = planes[np.sort(first)]
        self.normals, self.heights = jnp.asarray(planes[:, :3]), jnp.asarray(-planes[:, 3])

    def distance(self, point: Float[Array, "3"]) -> Float[Array, ""]:
        return self._nearest_plane(point)[0]

    def clearance(self, point: Float[Array, "3"]) -> tuple[Float[Array, ""], Float[Array, "3"]]:
        distance, normal = self._nearest_plane(point)
        length = nonzero_length(normal)
        return distance / length, normal / length

    def _nearest_plane(self, point: Float[Array, "3"]) -> tuple[Float[Array, ""], Float[Array, "3"]]:
        """How far the point is above the plane that it is farthest above, and the normal of that."""
        normals, heights = self.normals.astype(point.dtype), self.heights.astype(point.dtype)
        which = _first_of_largest(jax.lax.stop_gradient(matvec(normals, point) - heights))
        return dot(normals[which], point) - heights[which], normals[which]


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


def _first_of_largest(x: Float[Array, "k"]) -> Int[Array, ""]:
    """As `argmax`, which CPUs find number by number."""
    return jnp.min(jnp.where(x == jnp.max(x), jnp.arange(len(x)), len(x) - 1))


def largest(x: Float[Array, "k"]) -> Float[Array, ""]:
    """The largest of some numbers; of several, the derivative is that of the first."""
    return jnp.sum(jnp.where(jnp.arange(len(x)) == jnp.argmax(x), x, 0))
