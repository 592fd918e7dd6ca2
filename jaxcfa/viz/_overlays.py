"""What the viewer shows of a robot besides its shapes: axes, centre of mass, wrenches, paths.

Each is an object of the scene that follows the bodies.
"""

import abc
from typing import Any

import numpy as np

from .._optional import optional_module
from ..model import Model
from ._poses import Carried, Poses

_FORCE, _MOMENT, _PATH, _CENTER = (214, 72, 62), (58, 110, 196), (238, 128, 40), (245, 190, 40)
_LONGEST_PATH = 600  # points


class AbstractOverlay(abc.ABC):
    """Something in viser's scene at a path, made when it is first updated."""

    def __init__(self, scene: Any, path: str):
        self._scene, self._path = scene, path
        self._handle: Any = None

    @abc.abstractmethod
    def update(self, bodies: Poses) -> None:
        """Follow the bodies, as `body_poses` gives them."""

    def _show_arrows(self, arrows: np.ndarray, colors: Any, size: float) -> None:
        """Arrows (n, 2, 3) from points to points, as thick as suits axes of this size [m]."""
        if self._handle is None:
            radii = {"shaft_radius": 0.06 * size, "head_radius": 0.16 * size, "head_length": 0.35 * size}
            self._handle = self._scene.add_arrows(self._path, arrows, colors, **radii)
        self._handle.points = arrows

    def remove(self) -> None:
        """Take it out of the scene."""
        if self._handle is not None:
            self._handle.remove()
        self._handle = None


class Axes(AbstractOverlay):
    """Axes of frames, of all robots of a batch."""

    def __init__(self, scene: Any, path: str, frames: Carried, length: float):
        super().__init__(scene, path)
        self._frames, self._length = frames, length

    def update(self, bodies: Poses) -> None:
        poses = self._frames.at(bodies)
        turned, places = quaternions(poses.rotation).reshape(-1, 4), poses.translation.reshape(-1, 3)
        if self._handle is not None and len(self._handle.batched_positions) == len(places):
            self._handle.batched_wxyzs, self._handle.batched_positions = turned, places
            return
        self.remove()
        self._handle = self._scene.add_batched_axes(
            self._path, turned, places, axes_length=self._length, axes_radius=0.05 * self._length
        )


class CenterOfMass(AbstractOverlay):
    """A ball at the centre of mass of what moves, of the first robot of a batch."""

    def __init__(self, scene: Any, path: str, model: Model, radius: float):
        super().__init__(scene, path)
        self._mass, self._com = np.asarray(model.mass, dtype=float), np.asarray(model.com, dtype=float)
        self._radius = radius

    def update(self, bodies: Poses) -> None:
        if not self._mass.any():
            return
        centers = np.einsum("bij,bj->bi", bodies.rotation[0, :-1], self._com) + bodies.translation[0, :-1]
        if self._handle is None:
            self._handle = self._scene.add_icosphere(self._path, radius=self._radius, color=_CENTER)
        self._handle.position = self._mass @ centers / self._mass.sum()


class Wrenches(AbstractOverlay):
    """Arrows from the origins of the bodies of the first robot of a batch: (nb, 6), `[moment; force]`, world axes."""

    def __init__(self, scene: Any, path: str, wrenches: np.ndarray, scale: float, size: float):
        super().__init__(scene, path)
        self._vectors = scale * np.concatenate([wrenches[:, 3:], wrenches[:, :3]])
        self._seen, self._size = np.linalg.norm(self._vectors, axis=1) > 1e-3 * size, size

    def update(self, bodies: Poses) -> None:
        origins = bodies.translation[0, :-1]
        starts = np.concatenate([origins, origins])
        points = np.stack([starts, starts + self._vectors], axis=1)[self._seen]
        if len(points):
            colors = np.repeat(np.array([_FORCE, _MOMENT], np.uint8), len(origins), axis=0)[self._seen]
            self._show_arrows(points, colors, self._size)


class Forces(AbstractOverlay):
    """Arrows at points of the world: `points` (n, 3) [m], `vectors` (n, 3) [m]."""

    def __init__(self, scene: Any, path: str, points: np.ndarray, vectors: np.ndarray, size: float):
        super().__init__(scene, path)
        self._size = size
        self.replace(points, vectors)

    def replace(self, points: np.ndarray, vectors: np.ndarray) -> None:
        """Show others, those that are long enough to be seen."""
        seen = np.linalg.norm(vectors, axis=1) > 0.05 * self._size
        self._arrows = np.stack([points, points + vectors], axis=1)[seen]

    def update(self, bodies: Poses) -> None:
        self._show_arrows(self._arrows, _FORCE, self._size)


class Trail(AbstractOverlay):
    """The path of a frame of the first robot of a batch, since it began or was cleared."""

    def __init__(self, scene: Any, path: str, frame: Carried):
        super().__init__(scene, path)
        self._frame = frame
        self._points: list[np.ndarray] = []

    def update(self, bodies: Poses) -> None:
        self._points.append(self._frame.at(bodies).translation[0, 0])
        del self._points[:-_LONGEST_PATH]
        ends = np.array([self._points[0], *self._points])
        lines = np.stack([ends[:-1], ends[1:]], axis=1)
        if self._handle is None:
            self._handle = self._scene.add_line_segments(
                self._path, lines, _PATH, thickness=3.0, thickness_units="screen"
            )
        self._handle.points = lines

    def clear(self) -> None:
        """Begin anew."""
        self._points.clear()


def quaternions(rotation: np.ndarray) -> np.ndarray:
    """(..., 4), real part first, of rotation matrices (..., 3, 3)."""
    return optional_module("viser.transforms", "viz").SO3.from_matrix(rotation).wxyz


def turned_to(normal: np.ndarray) -> np.ndarray:
    """(4,), real part first: a rotation that takes z to a unit vector."""
    x, y, z = normal
    if z < -1 + 1e-9:
        return np.array([0.0, 1.0, 0.0, 0.0])
    quaternion = np.array([1 + z, -y, x, 0.0])
    return quaternion / np.linalg.norm(quaternion)
