"""Pictures of a robot as arrays, one after the other."""

from collections.abc import Sequence

import numpy as np
from jax.typing import ArrayLike

from ..model import Model
from ..model._arguments import check_model, positive_integer
from ._load import Visuals
from ._picture import AZIMUTH, ELEVATION, Scene, View, new_figure
from ._poses import Poses, as_configurations

_DOTS_PER_INCH = 100
_LOOSE = 0.25  # of the robot's size: how far it may go before the camera follows


class Frames:
    """Draws a robot again and again, as arrays, with a camera that follows it once it has gone some way.

        frames = viz.Frames(model, "robot.urdf")
        picture = frames(q)  # (480, 480, 3), bytes
        env = environments.GymnasiumEnv(task, picture=frames)  # for its render(), and RecordVideo

    **Arguments:** `visuals`: as of `draw`; `size` of the pictures, width and height [dots].

    **Raises:** as `draw`, and `ValueError` for a `size` that is not of two positive whole numbers.
    """

    def __init__(self, model: Model, visuals: Visuals = None, size: tuple[int, int] = (480, 480)):
        check_model(model)
        if not isinstance(size, Sequence) or len(size) != 2:
            raise ValueError(f"size must be two numbers, width and height, got {size!r:.200}.")
        width, height = (positive_integer("size", x) for x in size)
        self._arguments = model, visuals, (width, height)
        self._model, self._scene = model, Scene(model, visuals)
        self._figure = new_figure((width / _DOTS_PER_INCH, height / _DOTS_PER_INCH), dpi=_DOTS_PER_INCH)
        self._axes = self._figure.add_axes((0, 0, 1, 1))
        self._view: View | None = None

    def __reduce__(self) -> tuple:
        return Frames, self._arguments

    def __call__(self, q: ArrayLike) -> np.ndarray:
        """The picture (height, width, 3), in bytes, at a configuration (nq,)."""
        poses = self._scene.poses(as_configurations(self._model, q))
        self._view = self._following(poses)
        self._axes.clear()
        self._scene.draw(self._axes, poses, self._view, True)
        self._figure.canvas.draw()
        return np.array(self._figure.canvas.buffer_rgba())[..., :3]

    def _following(self, poses: Poses) -> View:
        """The view of before, moved by as much as the robot has gone too far."""
        (center,), before = self._scene.centers(poses), self._view
        if before is None:
            return self._scene.view(poses, AZIMUTH, ELEVATION).around(center, self._scene.size)
        way = center - before.camera.center
        distance = float(np.linalg.norm(way))
        excess = max(0.0, 1 - _LOOSE * self._scene.size / distance) if distance else 0.0
        return before._replace(camera=before.camera._replace(center=before.camera.center + excess * way))
