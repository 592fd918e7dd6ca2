"""Points at which a robot may touch the ground, from the shapes that collide in its file."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..io._source import FileOrCompiled, read_source
from ..model import WORLD, Model
from ..numerics._options import positive_integer
from ..typing import NameOrNumber
from ._files import Directories
from ._load import load_visuals
from ._shapes import AbstractShape, Box, Capsule, Cylinder, Ellipsoid, HeightField, Plane, Sphere, Visual

_LEAST = 6  # the extremes along three axes
_WITHIN = 0.95  # of a rim that rolls on its lowest place, how far out the points are on which it stands
_LARGE, _ON_FACE, _INWARDS = 0.05, 4, 0.8  # faces by the whole surface, points on one, and how far out they are


class CollisionPoints(NamedTuple):
    """Points or spheres that bodies carry.

    **Fields:** `frames`: n names of frames or bodies; `points` (n, 3): centres in these frames [m]; `radius` (n,) [m],
    zero for points; `friction` (n,): coefficients of sliding friction; `segments`, `rims` (n, 3) [m]: about the points,
    as of `jaxcfa.ground_contacts`, zero where there are none.
    """

    frames: tuple[NameOrNumber, ...]
    points: np.ndarray
    radius: np.ndarray
    friction: np.ndarray
    segments: np.ndarray
    rims: np.ndarray

    @property
    def arguments(self) -> dict[str, Any]:
        """Those of `ground_contacts` and `body_contacts` besides the `frames`, by name."""
        return {name: x for name, x in self._asdict().items() if name != "frames"}

    def with_friction(self, friction: float) -> "CollisionPoints":
        """The same points with this friction."""
        return self._replace(friction=np.full(len(self.frames), friction))


class _Places(NamedTuple):
    """Where a shape may touch, in its axes: `points`, `segments` and `rims` (n, 3), with one `radius` each (n,)."""

    points: np.ndarray
    radius: np.ndarray
    segments: np.ndarray
    rims: np.ndarray

    @staticmethod
    def at(points: ArrayLike, radius: float = 0.0, segments: ArrayLike = 0.0, rims: ArrayLike = 0.0) -> "_Places":
        points = np.reshape(np.asarray(points, float), (-1, 3))
        segments, rims = (np.array(np.broadcast_to(x, points.shape), float) for x in (segments, rims))
        return _Places(points, np.full(len(points), radius), segments, rims)

    def __add__(self, other: "_Places") -> "_Places":  # type: ignore[override]
        return _Places(*map(np.concatenate, zip(self, other, strict=True)))


def collision_points(
    path_or_text: FileOrCompiled,
    model: Model,
    *,
    package_dirs: Directories = (),
    most: int = 8,
    assets: Mapping[str, bytes] | None = None,
) -> CollisionPoints:
    """Points and spheres that meet a flat ground about where the shapes that collide in a URDF or MJCF file do.

        found = viz.collision_points("robot.urdf", robot)
        touching = jaxcfa.ground_contacts(robot, found.frames, **found.arguments, most=32)

    Spheres, capsules (a sphere at each end) and boxes (their corners) are exact. Cylinders are their two rims, on which
    they roll, and points just within these, on which they stand, as many on each, the first in the direction of x.
    Ellipsoids and meshes, which count as convex, are some of their outermost points: the farthest in both directions of
    each axis of the shape, then, one after the other, that where the ground could otherwise come in deepest. With eight
    points it comes in by 0.4 of the radius of a ball that is a mesh, at worst, and not at all along the axes.

    Shapes that do not move have no points, nor have planes. Equal points of a frame are one, with the larger friction;
    points inside of other shapes stay. Friction is that of MJCF's geoms, and 1 for URDF, which does not say. Meshes
    that are missing are left out, and one warning names them.

    **Arguments:**

    - `path_or_text`: path of a file, or its content; or a `mujoco.MjModel` or `mujoco.MjSpec`.
    - `model`: the model that `load_model` makes of it, with fixed or floating base.
    - `package_dirs`: folders of packages, or folders that hold packages.
    - `most`: how many points a cylinder, besides its rims, an ellipsoid or a mesh has at most, six or more.
    - `assets`: contents of the files that MJCF text names, by these names, as of `load_model`.

    **Raises:** what `load_visuals` does; `ValueError` if nothing that moves collides.
    """
    check_most("most", most)
    shapes = load_visuals(path_or_text, model, package_dirs=package_dirs, collisions=True, assets=assets)
    found = points_of_shapes(points_of_each(shapes, model, most))
    if not found.frames:
        raise ValueError(
            f"{read_source(path_or_text).name}: no shape that collides and can be read is on a body that moves. Give "
            "ground_contacts the names of frames, and points in them, instead."
        )
    return found


def check_most(name: str, most: int) -> None:
    """Raises `ValueError` for what is no number of points that a shape may have."""
    if positive_integer(name, most) < _LEAST:
        raise ValueError(f"{name} must be at least {_LEAST}, for points at both ends of three axes, got {most}.")


def points_of_each(
    shapes: Sequence[Visual], model: Model, most: int = 8, *, flat: bool = True, still: bool = False
) -> list[CollisionPoints]:
    """Points and spheres of each shape, as of `collision_points`.

    **Arguments:** `flat`: whether what they are to touch is; other surfaces are met by capsules and cylinders along
    their whole length; `still`: whether those that do not move have some as well.
    """
    return _of_each(shapes, model, lambda shape: _places(shape, most, flat), still)


def points_on_faces(shapes: Sequence[Visual], model: Model, *, still: bool = False) -> list[CollisionPoints]:
    """Further points of each shape, in its large flat faces inside of the corners.

    A plane meets the corners first. Of two equal boxes on top of each other no corner is in the other box.
    """
    return _of_each(shapes, model, lambda shape: _Places.at(_on_faces(shape)), still)


def _of_each(
    shapes: Sequence[Visual], model: Model, places_of: Callable[[AbstractShape], _Places], still: bool
) -> list[CollisionPoints]:
    found = []
    for visual in shapes:
        moves = visual.carrier is not None and model.locate(visual.carrier)[0] != WORLD
        own = places_of(visual.shape) if moves or still else _Places.at(np.zeros((0, 3)))
        rotation, translation = visual.placement[:3, :3], visual.placement[:3, 3]
        points = own.points @ rotation.T + translation
        n, frame = len(points), WORLD if visual.carrier is None else str(visual.carrier)
        turned = own.segments @ rotation.T, own.rims @ rotation.T
        found.append(CollisionPoints((frame,) * n, points, own.radius, np.full(n, visual.friction), *turned))
    return found


def points_of_shapes(each: Sequence[CollisionPoints]) -> CollisionPoints:
    """The points of several shapes together, equal ones of a frame once, with the largest friction."""
    found: dict[tuple, tuple[tuple, float]] = {}
    for points in each:
        for frame, point, radius, friction, *extents in zip(*points, strict=True):
            own = point, radius, *extents
            key = frame, *(np.round(np.hstack(own), 9) + 0.0).tolist()  # no negative zeros
            first, so_far = found.get(key, (own, 0.0))
            found[key] = first, max(so_far, float(friction))
    places, radii, segments, rims = ([own[k] for own, _ in found.values()] for k in range(4))
    return CollisionPoints(
        tuple(key[0] for key in found),
        np.reshape(places, (-1, 3)),
        np.array(radii, float),
        np.array([friction for _, friction in found.values()], float),
        np.reshape(segments, (-1, 3)),
        np.reshape(rims, (-1, 3)),
    )


def _places(shape: AbstractShape, most: int, flat: bool) -> _Places:
    match shape:
        case Sphere():
            return _Places.at(np.zeros(3), shape.radius)
        case Capsule():
            half = np.array([[0, 0, -1], [0, 0, 1]]) * shape.length / 2
            return _Places.at(half, shape.radius) if flat else _Places.at(0 * half, shape.radius, half)
        case Box():
            return _Places.at(np.array(list(product((-1, 1), repeat=3))) * shape.size / 2)
        case Cylinder():
            return _places_of_cylinder(shape.radius, shape.length / 2, most // 2, flat)
        case Plane():
            return _Places.at(np.zeros((0, 3)))
    return _Places.at(_outermost(shape.triangles().vertices, most))


def _places_of_cylinder(radius: float, half: float, on_rim: int, flat: bool) -> _Places:
    angle = 2 * np.pi * np.arange(on_rim) / on_rim
    rim = _WITHIN * radius * np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    ends = np.array([[0, 0, -half], [0, 0, half]])
    found = _Places.at((rim + ends[:, None]).reshape(-1, 3)) + _Places.at(ends, rims=[0, 0, radius])
    if flat or half <= radius:
        return found
    within = ends * (1 - radius / half)  # a capsule that touches it all along its side
    return found + _Places.at(0 * within, radius, within)


def _on_faces(shape: AbstractShape) -> np.ndarray:
    """(n, 3): points on the large flat faces of a shape, or its hull, inwards from some of the corners."""
    import scipy.spatial  # which takes a tenth of a second

    if isinstance(shape, Sphere | Capsule | Cylinder | Ellipsoid | Plane | HeightField):
        return np.zeros((0, 3))  # cylinders have points within their rims already
    vertices = shape.triangles().vertices
    try:
        hull = scipy.spatial.ConvexHull(vertices)
    except (scipy.spatial.QhullError, ValueError):  # of what is flat, or no body at all
        return np.zeros((0, 3))
    a, b, c = (vertices[hull.simplices[:, i]] for i in range(3))
    areas = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
    planes = np.round(hull.equations / [1, 1, 1, np.ptp(vertices, axis=0).max()], 6)
    _, face = np.unique(planes, axis=0, return_inverse=True)
    found = [np.zeros((0, 3))]
    for number in np.flatnonzero(np.bincount(face.ravel(), areas) >= _LARGE * areas.sum()):
        corners = _outermost(vertices[np.unique(hull.simplices[face.ravel() == number])], _ON_FACE)
        middle = corners.mean(axis=0)
        found.append(middle + _INWARDS * (corners - middle))
    return np.concatenate(found)


def _directions() -> np.ndarray:
    """(290, 3): unit vectors all around, the axes first."""
    steps = np.array(sorted(product(range(-3, 4), repeat=3), key=lambda x: np.dot(x, x))[1:])
    coprime = np.gcd.reduce(steps, axis=1) == 1
    return steps[coprime] / np.linalg.norm(steps[coprime], axis=1, keepdims=True)


def _outermost(vertices: np.ndarray, most: int) -> np.ndarray:
    """At most so many of the vertices (n, 3), chosen so that a plane that touches them cuts off little of the rest.

    From a direction it cuts off the difference between the farthest vertex and the farthest chosen one. Where that is
    most, along the axes first, the next is chosen: of several that are farthest, the one that leaves least elsewhere.
    """
    directions = _directions()
    from_centre = vertices - (vertices.min(axis=0) + vertices.max(axis=0)) / 2
    tolerance = 1e-6 * np.ptp(vertices, axis=0).max()
    corners = np.unique([_corner(from_centre, direction, tolerance) for direction in directions])
    heights = from_centre[corners] @ directions.T
    farthest = heights.max(axis=0)
    depth, chosen = np.full(len(directions), np.inf), list[int]()
    while len(chosen) < most and depth.max() > tolerance:
        worst = (depth[:6] if depth[:6].max() > tolerance else depth).argmax()
        candidates = np.flatnonzero(heights[:, worst] >= farthest[worst] - tolerance)
        depths = np.minimum(depth, farthest - heights[candidates])
        best = depths.sum(axis=1).argmin()
        chosen.append(int(candidates[best]))
        depth = depths[best]
    return vertices[corners[chosen]]


def _corner(vertices: np.ndarray, direction: np.ndarray, tolerance: float) -> int:
    """The vertex that is farthest in a direction; of several, one that is no mixture of others."""
    heights = vertices @ direction
    squares = np.sum(vertices**2, axis=1)
    return int(np.argmax(np.where(heights >= heights.max() - tolerance, squares, -1)))
