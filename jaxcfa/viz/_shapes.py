"""Shapes, and how they are attached to a robot."""

import abc
import dataclasses
from typing import NamedTuple

import numpy as np

from ..numerics._options import as_finite, check_instance, known_numbers, positive_number
from ..spatial._host import pose_matrix

Color = tuple[float, float, float, float]
_SEGMENTS = 32  # around an axis


class Triangles(NamedTuple):
    """The surface of a shape.

    **Fields:** `vertices` (n, 3) [m]; `faces` (m, 3): numbers of vertices, anticlockwise from outside.
    """

    vertices: np.ndarray
    faces: np.ndarray


def _set_lengths(shape: "AbstractShape", **shapes: tuple[int, ...]) -> None:
    """Makes fields numbers, or tuples of them, so that equal shapes are drawn as one.

    **Raises:** `ValueError` for fields of other shapes, negative ones, and what is not finite.
    """
    for name, expected in shapes.items():
        what = f"{name} of {type(shape).__name__}"
        lengths = as_finite(getattr(shape, name), expected, what)
        if np.any(lengths < 0):
            raise ValueError(f"The {what} must not be negative, got {getattr(shape, name)} [m].")
        object.__setattr__(shape, name, tuple(lengths.tolist()) if expected else float(lengths))


class AbstractShape(abc.ABC):
    """Something that has a surface, in axes of its own. A new shape is a subclass with `triangles`."""

    @abc.abstractmethod
    def triangles(self) -> Triangles:
        """The surface as triangles."""


@dataclasses.dataclass(frozen=True)
class Box(AbstractShape):
    """A box about the origin. **Fields:** `size`: lengths of the three edges, twice those of `contacts.Box` [m]."""

    size: tuple[float, float, float]

    def __post_init__(self):
        _set_lengths(self, size=(3,))

    def triangles(self) -> Triangles:
        corners = np.array([[-1, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1]]) / 2
        # Turning the axes twice in a circle makes three faces, and reflecting at the origin the other three.
        sides = [np.roll(corners, k, axis=1) for k in range(3)]
        sides += [-side[::-1] for side in sides]
        faces = np.concatenate([4 * k + np.array([[0, 1, 2], [0, 2, 3]]) for k in range(6)])
        return Triangles(np.concatenate(sides) * self.size, faces)


@dataclasses.dataclass(frozen=True)
class Sphere(AbstractShape):
    """A ball about the origin. **Fields:** `radius` [m]."""

    radius: float

    def __post_init__(self):
        _set_lengths(self, radius=())

    def triangles(self) -> Triangles:
        return _revolved(self.radius * _arc(-np.pi / 2, np.pi / 2))


@dataclasses.dataclass(frozen=True)
class Ellipsoid(AbstractShape):
    """An ellipsoid about the origin. **Fields:** `radii`: the three half axes [m]."""

    radii: tuple[float, float, float]

    def __post_init__(self):
        _set_lengths(self, radii=(3,))

    def triangles(self) -> Triangles:
        ball = Sphere(1.0).triangles()
        return Triangles(ball.vertices * self.radii, ball.faces)


@dataclasses.dataclass(frozen=True)
class Cylinder(AbstractShape):
    """A cylinder along z, about the origin. **Fields:** `radius`; `length`, twice that of `contacts.Cylinder` [m]."""

    radius: float
    length: float

    def __post_init__(self):
        _set_lengths(self, radius=(), length=())

    def triangles(self) -> Triangles:
        r, h = self.radius, self.length / 2
        return _revolved(np.array([[0, -h], [r, -h]]), np.array([[r, -h], [r, h]]), np.array([[r, h], [0, h]]))


@dataclasses.dataclass(frozen=True)
class Capsule(AbstractShape):
    """A cylinder along z with half a ball at each end. **Fields:** `radius`, `length` of the cylinder [m]."""

    radius: float
    length: float

    def __post_init__(self):
        _set_lengths(self, radius=(), length=())

    def triangles(self) -> Triangles:
        half = np.array([0, self.length / 2])
        lower, upper = self.radius * _arc(-np.pi / 2, 0), self.radius * _arc(0, np.pi / 2)
        return _revolved(np.concatenate([lower - half, upper + half]))


@dataclasses.dataclass(frozen=True)
class Plane(AbstractShape):
    """A rectangle in the x-y plane, seen from above. **Fields:** `size`: its edges [m], `None` if it has no end.

    One without end is not drawn: the ground's grid stands for it.
    """

    size: tuple[float, float] | None = None

    def __post_init__(self):
        if self.size is not None:
            _set_lengths(self, size=(2,))

    def triangles(self) -> Triangles:
        if self.size is None:
            return Triangles(np.zeros((0, 3)), np.zeros((0, 3), int))
        x, y = self.size[0] / 2, self.size[1] / 2
        corners = np.array([[-x, -y, 0], [x, -y, 0], [x, y, 0], [-x, y, 0]])
        return Triangles(corners, np.array([[0, 1, 2], [0, 2, 3]]))


@dataclasses.dataclass(frozen=True, eq=False)
class HeightField(AbstractShape):
    """Heights on a rectangle about the origin, seen from above. **Fields:** `heights` (rows, columns), two of each at
    least, the rows along y and the columns along x [m]; `size`: its edges along x and y [m]."""

    heights: np.ndarray
    size: tuple[float, float]

    def __post_init__(self):
        _set_lengths(self, size=(2,))
        heights = known_numbers("The heights of HeightField", self.heights)
        if heights.ndim != 2 or min(heights.shape) < 2 or not np.all(np.isfinite(heights)):
            raise ValueError(
                "The heights of HeightField must be finite, in two rows and columns or more, got shape "
                f"{heights.shape} and {self.heights!r:.200}."
            )
        object.__setattr__(self, "heights", heights)

    def triangles(self) -> Triangles:
        (rows, columns), (x, y) = self.heights.shape, self.size
        across, along = np.meshgrid(np.linspace(-x / 2, x / 2, columns), np.linspace(-y / 2, y / 2, rows))
        a = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).ravel()
        b = a + columns
        faces = np.concatenate([np.stack([a, a + 1, b + 1], axis=1), np.stack([a, b + 1, b], axis=1)])
        return Triangles(np.stack([across.ravel(), along.ravel(), self.heights.ravel()], axis=1), faces)


@dataclasses.dataclass(frozen=True, eq=False)
class Mesh(AbstractShape):
    """Any surface. **Fields:** `vertices` (n, 3) [m], one at least; `faces` (m, 3): numbers of vertices, anticlockwise
    from outside; `file`: where it comes from, if from a file."""

    vertices: np.ndarray
    faces: np.ndarray
    file: str | None = None

    def __post_init__(self):
        vertices, faces = known_numbers("The vertices of Mesh", self.vertices), np.asarray(self.faces)
        if vertices.ndim != 2 or vertices.shape[1] != 3 or not len(vertices):
            raise ValueError(f"The vertices of Mesh must have shape (n, 3), with n at least one, got {vertices.shape}.")
        wrong = np.flatnonzero(~np.isfinite(vertices).all(axis=1))
        if len(wrong):
            raise ValueError(f"The vertices of Mesh must be finite, got {vertices[wrong[0]].tolist()} at {wrong[0]}.")
        object.__setattr__(self, "vertices", vertices)
        object.__setattr__(self, "faces", _checked_faces(faces, len(vertices)))

    def triangles(self) -> Triangles:
        return Triangles(self.vertices, self.faces)


@dataclasses.dataclass(frozen=True, eq=False)
class Visual:
    """A shape that a robot carries.

    **Fields:**

    - `shape`.
    - `carrier`: name of the body or frame that carries it; `None` is the world.
    - `placement` (4, 4): pose of the shape in the carrier.
    - `color`: red, green, blue and opacity, each from 0 to 1; `None` for a colour that is chosen by the body.
    - `friction`: coefficient of sliding friction, of a shape that collides; pictures do not show it.
    """

    shape: AbstractShape
    carrier: str | None = None
    placement: np.ndarray = dataclasses.field(default_factory=lambda: np.eye(4))
    color: Color | None = None
    friction: float = 1.0

    def __post_init__(self):
        check_instance("shape", self.shape, AbstractShape, "one such as Box((1, 1, 1)) or Mesh(vertices, faces)")
        placement = as_finite(self.placement, (4, 4), "placement of a visual")
        object.__setattr__(self, "placement", placement)
        if self.color is not None:
            color = as_finite(self.color, (4,), "color of a visual")
            if np.any((color < 0) | (color > 1)):
                raise ValueError(
                    f"The color of a visual is red, green, blue and opacity, each from 0 to 1, got {self.color}."
                )
            object.__setattr__(self, "color", tuple(color.tolist()))
        object.__setattr__(self, "friction", positive_number("The friction of a visual", self.friction, or_zero=True))


class Collisions(NamedTuple):
    """Shapes of a file that collide.

    **Fields:** n `shapes`; `meet` (n, n): whether two are to touch each other; `friction` (n, n) of two that do;
    `robots` (n,): numbers of what hangs together, by joints or fixed, -1 for what is the world itself.
    """

    shapes: list[Visual]
    meet: np.ndarray
    friction: np.ndarray
    robots: np.ndarray

    @property
    def has_own_friction(self) -> np.ndarray:
        """(n, n): whether the friction of two that meet is not the larger one of both shapes."""
        each = np.array([x.friction for x in self.shapes], float)
        return self.meet & (self.friction != np.maximum(each[:, None], each))


def _checked_faces(faces: np.ndarray, count: int) -> np.ndarray:
    """Faces (m, 3) of so many vertices; `ValueError` for other shapes and numbers."""
    if faces.ndim != 2 or faces.shape[1] != 3:
        raise ValueError(f"The faces of Mesh must be triangles, of shape (m, 3), got {faces.shape}.")
    if len(faces) and faces.dtype.kind not in "iu":
        raise ValueError(f"The faces of Mesh must be integers, numbers of vertices, got {faces.dtype}.")
    if len(faces) and not 0 <= faces.min() <= faces.max() < count:
        raise ValueError(
            f"The faces of Mesh must be numbers of its {count} vertices, from 0 to {count - 1}, got {faces.min()} to "
            f"{faces.max()}."
        )
    return faces.astype(int)  # a copy, as of the vertices


def _arc(first: float, last: float) -> np.ndarray:
    """(n, 2): points at distance one from the origin as [radius, z], between two latitudes."""
    angle = np.linspace(first, last, 1 + round(_SEGMENTS * (last - first) / (2 * np.pi)))
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _revolved(*profiles: np.ndarray) -> Triangles:
    """The surface that curves [radius, z], upward with the axis on their left, make about z. Between two is an edge."""
    angle = 2 * np.pi * np.arange(_SEGMENTS) / _SEGMENTS
    around = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    vertices, faces, count = [], [], 0
    for profile in profiles:
        points = profile[:, None, :1] * around
        heights = np.broadcast_to(profile[:, None, 1:], (*points.shape[:2], 1))
        vertices.append(np.concatenate([points, heights], axis=2).reshape(-1, 3))
        ring, k = np.meshgrid(np.arange(len(profile) - 1), np.arange(_SEGMENTS), indexing="ij")
        a, b = count + ring * _SEGMENTS + k, count + ring * _SEGMENTS + (k + 1) % _SEGMENTS
        c, d = b + _SEGMENTS, a + _SEGMENTS
        faces.append(np.stack([a, b, c, a, c, d], axis=-1).reshape(-1, 3))
        count += points.shape[0] * _SEGMENTS
    return without_slivers(Triangles(np.concatenate(vertices), np.concatenate(faces)))


def face_normals(triangles: Triangles) -> np.ndarray:
    """(m, 3): normals of the faces, of twice their areas."""
    a, b, c = np.moveaxis(triangles.vertices[triangles.faces], 1, 0)
    return np.cross(b - a, c - a)


def without_slivers(triangles: Triangles) -> Triangles:
    """Without faces that have no area, as those at a pole."""
    area = np.linalg.norm(face_normals(triangles), axis=1)
    return Triangles(triangles.vertices, triangles.faces[area > 1e-9 * area.max(initial=0.0)])


def along(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The placement in the middle between two points (3,), with z from the one to the other."""
    z = (end - start) / np.linalg.norm(end - start)
    x = np.cross(np.eye(3)[np.argmin(np.abs(z))], z)
    x /= np.linalg.norm(x)
    return pose_matrix(np.stack([x, np.cross(z, x), z], axis=1), (start + end) / 2)


def inertia_box(carrier: str | None, mass: float, com: np.ndarray, inertia: np.ndarray) -> Visual:
    """The box with a body's inertia about its centre of mass `com`; a small ball if that is none of a solid.

    **Arguments:** `mass` [kg]; `com` (3,) [m]; `inertia` (3, 3) [kg m^2].
    """
    moments, axes = np.linalg.eigh((inertia + inertia.T) / 2)
    if not (mass > 0 and moments[0] > 0 and np.all(np.isfinite(moments))):
        return Visual(Sphere(0.02), carrier, pose_matrix(np.eye(3), com))
    squares = 6 * (moments.sum() - 2 * moments) / mass
    size = np.sqrt(np.maximum(squares, 1e-3 * squares.max()))
    axes = axes * np.sign(np.linalg.det(axes))
    return Visual(Box((float(size[0]), float(size[1]), float(size[2]))), carrier, pose_matrix(axes, com))
