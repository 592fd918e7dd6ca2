"""Shapes whose point that is nearest to another one takes a search: ellipsoids and convex hulls."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from ..model._given import Numbers, is_concrete
from ..numerics import choose, dot, matvec
from ..numerics._options import check_flag, known_numbers
from ..spatial import Vector
from ._surfaces import AbstractSurface, from_segment, nonzero_length, three

_SEARCH, _SMOOTH = 6, 2  # steps of Newton's method to the nearest point, and those that have derivatives
_SAME_PLANE = 1e-7  # relative differences of planes that count as one


class Ellipsoid(AbstractSurface):
    """An ellipsoid along the axes. **Fields:** `radii` (3,), the half axes; `center` (3,) [m]."""

    radii: Float[Array, "3"]
    center: Float[Array, "3"]

    def __init__(self, radii: Numbers, center: Numbers = (0.0, 0.0, 0.0)):
        """**Raises:** `ValueError` for radii that are not positive, wrong shapes, and what is not finite."""
        self.radii = three("radii of the ellipsoid", radii)
        if is_concrete(self.radii) and not np.all(np.asarray(self.radii) > 0):
            raise ValueError(f"The radii of the ellipsoid must be positive, got {radii}.")
        self.center = three("center of the ellipsoid", center)

    def distance(self, point: Float[Array, "3"]) -> Float[Array, ""]:
        return self.clearance(point)[0]

    def clearance(self, point: Float[Array, "3"]) -> tuple[Float[Array, ""], Float[Array, "3"]]:
        """The distance and the normal: of the nearest point c, where `point - c` is t times the gradient there.

        So `c_i = r_i^2 y_i / (t + r_i^2)`, and t is where that is on the ellipsoid, above the poles of the condition,
        which is solved in the form that is almost linear in t (More & Sorensen, Computing a trust region step, 1983).
        """
        radii, x = self.radii.astype(point.dtype), point - self.center.astype(point.dtype)
        squares, beside = radii * radii, jnp.finfo(point.dtype).eps ** 0.5
        # What is deep inside, in a plane of symmetry, has two nearest points: that of a place beside it counts.
        first = -(1 - beside) * jnp.min(squares)
        is_deep = jnp.sum((radii * x / (first + squares)) ** 2) < 1
        moved = jnp.where(jnp.abs(x) < beside * radii, jnp.where(x < 0, -beside, beside) * radii, x)
        y = jnp.where(is_deep, moved, x)
        moments = radii * jnp.abs(y)

        def newton(t: Float[Array, ""], squares: Array, moments: Array) -> Float[Array, ""]:
            parts = moments / (t + squares)
            total = dot(parts, parts)
            return t + total * (jnp.sqrt(total) - 1) / dot(parts * parts, 1 / (t + squares))

        fixed = lax.stop_gradient((squares, moments))
        t = jnp.maximum(jnp.max(fixed[1] - fixed[0]), lax.stop_gradient(first))
        for _ in range(_SEARCH):
            t = newton(t, *fixed)
        for _ in range(_SMOOTH):
            t = newton(t, squares, moments)
        gradient = y / (t + squares)
        length = nonzero_length(gradient)
        return t * length, gradient / length


class ConvexHull(AbstractSurface):
    """The hull of some points. **Fields:** unit `normals` (n, 3) of the planes of its faces; their `heights` (n,) above
    the origin [m]; the ends of its `edges` (e, 2, 3) [m], or `None` if it is for points alone."""

    normals: Float[Array, "n 3"]
    heights: Float[Array, "n"]
    edges: Float[Array, "e 2 3"] | None

    def __init__(self, points: Numbers, *, exact: bool = True):
        """By points (n, 3) that are known, of which it is the hull.

        `exact`: whether distances outside, beside edges and corners, are right, and not those from the nearest plane.
        Spheres need it, and what keeps a distance; points that touch the hull do not, in a quarter of the time.

        **Raises:** `ValueError` for wrong shapes, what is not finite, and points that all are in one plane.
        """
        import scipy.spatial  # which takes a tenth of a second

        check_flag("exact", exact)
        known = known_numbers("The points of the hull", points)
        if known.ndim != 2 or known.shape[1] != 3 or len(known) < 4:
            raise ValueError(f"The points of the hull must have shape (n, 3), n at least 4, got {known.shape}.")
        if not np.all(np.isfinite(known)):
            raise ValueError(f"The points of the hull must be finite, got {points!r:.200}.")
        try:
            hull = scipy.spatial.ConvexHull(known)
        except scipy.spatial.QhullError:
            raise ValueError(
                f"The {len(known)} points of the hull are all in one plane, or almost. Take a thin Box instead."
            ) from None
        # A face that is no triangle comes in several parts.
        scale = _SAME_PLANE * np.array([1, 1, 1, np.ptp(known)])
        _, first, face = np.unique(np.round(hull.equations / scale), axis=0, return_index=True, return_inverse=True)
        planes = hull.equations[np.sort(first)]
        self.normals, self.heights = jnp.asarray(planes[:, :3]), jnp.asarray(-planes[:, 3])
        edges = _edges(hull.simplices, hull.neighbors, face.reshape(-1)) if exact else None
        self.edges = None if edges is None else jnp.asarray(known[edges])

    def distance(self, point: Float[Array, "3"]) -> Float[Array, ""]:
        return self.clearance(point)[0]

    def clearance(self, point: Float[Array, "3"]) -> tuple[Float[Array, ""], Float[Array, "3"]]:
        """The distance and the normal: from the plane that the point is farthest above, if the point below it there is
        on the hull, or if it is inside; else from the nearest edge."""
        normals, heights = self.normals.astype(point.dtype), self.heights.astype(point.dtype)
        above = lax.stop_gradient(matvec(normals, point) - heights)
        which = _first_of_largest(above)
        normal = normals[which]
        distance = dot(normal, point) - heights[which]
        length_of_normal = nonzero_length(normal)
        of_plane = distance / length_of_normal, normal / length_of_normal
        if self.edges is None:
            return of_plane
        below = lax.stop_gradient(point - distance * normal)
        rounding = 10 * jnp.finfo(point.dtype).eps * jnp.max(jnp.abs(heights))
        on_face = (above[which] <= 0) | jnp.all(matvec(normals, below) - heights <= rounding)

        edges = self.edges.astype(point.dtype)
        edge = edges[_first_of_largest(-_squares(*lax.stop_gradient((edges, point))))]
        offset = from_segment(edge[0], edge[1], point)
        # Of points on an edge, which are inside, the offset is zero.
        length = nonzero_length(offset)
        return choose(on_face, of_plane, (length, offset / length))


def _edges(simplices: np.ndarray, neighbors: np.ndarray, face: np.ndarray) -> np.ndarray:
    """Pairs of the points between which the edges (e, 2) of a hull are: where its triangles (n, 3) are of two faces."""
    found = set()
    for triangle, (corners, others) in enumerate(zip(simplices, neighbors, strict=True)):
        for k, other in enumerate(others):
            if face[other] != face[triangle]:
                found.add(tuple(sorted(np.delete(corners, k).tolist())))
    return np.array(sorted(found))


def _squares(edges: Float[Array, "e 2 3"], point: Float[Array, "3"]) -> Float[Array, "e"]:
    """Of the distances of a point from edges, by components, which a loop over edges has in its registers."""
    line = Vector.of(edges[:, 1] - edges[:, 0])
    offset = Vector.of(point[None]) - Vector.of(edges[:, 0])
    share = jnp.clip(offset.dot(line) * (1 / line.dot(line)), 0, 1)
    rest = offset - line * share
    return rest.dot(rest)


def _first_of_largest(x: Float[Array, "k"]) -> Int[Array, ""]:
    """As `argmax`, which CPUs find number by number."""
    return jnp.min(jnp.where(x == jnp.max(x), jnp.arange(len(x)), len(x) - 1))
