"""Pictures of robots by matplotlib alone, with no display."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._optional import optional_module
from ..contacts import FlatGround
from ..model import Model
from ..numerics._options import check_instance
from ._camera import Camera, camera
from ._ground import floor_below, plane_of
from ._load import Visuals, drawn_visuals
from ._poses import Poses, as_configurations, body_poses, carried_visuals, corners, extent, initial, of_robot
from ._shapes import Color, Plane, Visual
from ._surfaces import Surface, cell_for, surface

AZIMUTH, ELEVATION = -55.0, 18.0
PALETTE = ((0.36, 0.55, 0.75), (0.93, 0.66, 0.36), (0.50, 0.68, 0.47), (0.80, 0.47, 0.45), (0.58, 0.50, 0.71))
_PAPER = np.array([1.0, 1.0, 1.0])
_DETAIL = 90  # cells along the robot
_FACES = 30_000  # of all that does not belong to it, which may be a landscape
_LIGHT = np.array([-0.35, 0.55, 0.76])  # right, up, toward the camera


def draw(
    axes: Any,
    model: Model,
    q,
    visuals: Visuals = None,
    *,
    azimuth: float = AZIMUTH,
    elevation: float = ELEVATION,
    ground: bool | FlatGround = True,
) -> None:
    """Draw a robot into matplotlib's (two-dimensional) axes, which lose their frame.

    **Arguments:** `axes`: of matplotlib. `q` (nq,), or several (n, nq), of which all but the last are paler, the first
    the palest. `visuals`: as from `load_visuals`, the path of a robot file, or a `mujoco.MjModel`;
    `default_visuals(model)` if absent. `azimuth`, `elevation`: where the camera is [degrees]. `ground`: whether there
    are a grid and shadows, at z = 0, or below a robot that reaches deeper; or the `contacts.FlatGround` on which they
    are.

    **Raises:** `ValueError` for a wrong shape of `q`, and visuals on what the model has not; what `load_visuals`
    raises; `ImportError` without matplotlib.
    """
    scene = Scene(model, visuals)
    poses = scene.poses(as_configurations(model, q))
    scene.draw(axes, poses, scene.view(poses, azimuth, elevation, ground), bool(ground))


def snapshot(
    model: Model,
    q,
    file: str | os.PathLike,
    visuals: Visuals = None,
    *,
    size: tuple[float, float] = (6.0, 6.0),
    azimuth: float = AZIMUTH,
    elevation: float = ELEVATION,
    ground: bool | FlatGround = True,
) -> None:
    """Write a picture of a robot, in a format that the file's suffix says: PNG, SVG, PDF, ...

    **Arguments:** as of `draw`; `size` [inches, of 150 dots].

    **Raises:** as `draw`.
    """
    figure = new_figure(size)
    draw(figure.add_axes((0, 0, 1, 1)), model, q, visuals, azimuth=azimuth, elevation=elevation, ground=ground)
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def new_figure(size: tuple[float, float], **options) -> Any:
    """A figure of matplotlib that no display and no global state knows of."""
    figure = optional_module("matplotlib.figure", "viz").Figure(figsize=size, **options)
    optional_module("matplotlib.backends.backend_agg", "viz").FigureCanvasAgg(figure)
    return figure


def visual_color(visual: Visual, number: int) -> Color:
    """The colour of a visual, and if it has none, that of the body's number."""
    red, green, blue = PALETTE[number % len(PALETTE)]
    return visual.color or (red, green, blue, 1.0)


class View(NamedTuple):
    """How a scene is looked at.

    **Fields:** `camera`; `ground` (3,): a, b and c of its heights `a x + b y + c` [m]; `middle` (2,) and `half`: the
    square part of the picture that is needed, half of its edge [m].
    """

    camera: Camera
    ground: np.ndarray
    middle: np.ndarray
    half: float

    def height(self, places: np.ndarray) -> np.ndarray:
        """(..., 1): of the ground at places (..., 2)."""
        return places @ self.ground[:2, None] + self.ground[2]

    def around(self, center: np.ndarray, size: float) -> "View":
        """The same of something of that size about a center (3,) [m]."""
        radius = 0.75 * size
        return View(self.camera._replace(center=center, radius=radius), self.ground, np.zeros(2), radius)


class Scene:
    """What can be seen of a robot, resolved once for many pictures."""

    def __init__(self, model: Model, visuals: Visuals):
        chosen = drawn_visuals(model, visuals)
        if not chosen:
            raise ValueError("There is nothing to draw: the robot has neither shapes nor moving bodies.")
        self._model = model
        self._carried = carried_visuals(model, chosen)
        self._colors = [visual_color(x, body) for x, body in zip(chosen, self._carried.bodies, strict=True)]
        self._corners = np.stack([corners(x.shape) for x in chosen])
        start = self.poses(as_configurations(model, initial(model)))
        self._own = of_robot(self._corners, self._carried.bodies, start)
        moving = self._carried.bodies >= 0
        self.moving = moving if moving.any() else ~moving  # the shapes that a camera follows
        self.size = float(np.linalg.norm(np.ptp(self._extent(start), axis=0))) or 1.0
        cell, each = self.size / _DETAIL, _FACES / max(int(np.count_nonzero(~self._own)), 1)
        self._surfaces = [
            surface(x.shape, cell if own else max(cell, cell_for(x.shape, each)))
            for x, own in zip(chosen, self._own, strict=True)
        ]
        # Floors of the file: the picture has a ground of its own.
        self._drawn = [k for k, x in enumerate(chosen) if self._own[k] or not isinstance(x.shape, Plane)]

    def poses(self, q: np.ndarray) -> Poses:
        """Poses of the shapes at configurations (n, nq)."""
        return self._carried.at(body_poses(self._model, q))

    def centers(self, poses: Poses) -> np.ndarray:
        """The middle (n, 3) of what a camera follows, at poses (n, k)."""
        return poses.only(self.moving).translation.mean(axis=1)

    def view(self, poses: Poses, azimuth: float, elevation: float, ground: bool | FlatGround = True) -> View:
        """A view of all configurations."""
        check_instance("ground", ground, (bool, np.bool_, FlatGround), "True, False, or contacts.FlatGround(...)")
        points = self._extent(poses)
        lowest = float(points[:, 2].min())
        level = np.array([0.0, 0.0, floor_below(lowest, self.size)])
        plane = plane_of(ground) if isinstance(ground, FlatGround) else level
        below = points[:, :2].mean(axis=0)
        height = float(plane[:2] @ below + plane[2])
        near = height > lowest - 0.5 * self.size
        points = np.concatenate([points, [[*below, height]]]) if near else points
        found = camera(points, azimuth, elevation, 0.1 * self.size)
        seen = found.project(points)[0]
        middle, half = (seen.max(axis=0) + seen.min(axis=0)) / 2, 0.5 * np.ptp(seen, axis=0).max()
        return View(found, plane, middle, 1.12 * max(float(half), 0.1 * self.size))

    def _extent(self, poses: Poses) -> np.ndarray:
        """Points between which the robot is."""
        return extent(self._corners[self._own], poses.only(self._own))

    def draw(self, axes: Any, poses: Poses, view: View, ground: bool) -> None:
        """Everything at poses (n, k), of which all but the last are paler."""
        collections = optional_module("matplotlib.collections", "viz")
        if ground:
            self._draw_ground(axes, collections, poses, view)
        painted = [
            _painted(
                self._surfaces[k],
                (poses.rotation[i, k], poses.translation[i, k]),
                self._colors[k],
                view.camera,
                x,
                bool(self._own[k]),
            )
            for i, x in enumerate(np.linspace(0.3, 1.0, len(poses.rotation)) if len(poses.rotation) > 1 else [1.0])
            for k in self._drawn
        ]
        polygons, colors, nearness = (np.concatenate(x) for x in zip(*painted, strict=True))
        # What does not move is in the same place in all poses; the last is on top.
        later = np.repeat(np.arange(len(painted)) // len(self._drawn), [len(x[2]) for x in painted])
        order = np.argsort(nearness + 0.03 * self.size * later)
        # Thin edges of the same colour close the seams between neighbours.
        style = {"linewidths": 0.3, "zorder": 2}
        axes.add_collection(
            collections.PolyCollection(polygons[order], facecolors=colors[order], edgecolors=colors[order], **style)
        )
        (x, y), half = view.middle, view.half
        axes.set(xlim=(x - half, x + half), ylim=(y - half, y + half), aspect="equal")
        axes.axis("off")

    def _draw_ground(self, axes: Any, collections: Any, poses: Poses, view: View) -> None:
        spacing = _round_down(view.camera.radius / 3)
        middle = np.round(view.camera.center[:2] / spacing) * spacing
        ends = spacing * np.arange(-9, 10)
        pieces = np.stack([ends[:-1], ends[1:]], axis=1)
        along = np.stack(np.broadcast_arrays(pieces[None], ends[:, None, None]), axis=-1).reshape(-1, 2, 2)
        lines = np.concatenate([along, along[..., ::-1]]) + middle
        points = np.concatenate([lines, view.height(lines)], axis=-1)
        distance = np.linalg.norm(lines.mean(axis=1) - middle, axis=1)
        alpha = np.clip(1 - distance / ends[-1], 0, 1) ** 1.5
        colors = np.concatenate([np.full((len(alpha), 3), 0.68), alpha[:, None]], axis=1)
        axes.add_collection(
            collections.LineCollection(view.camera.project(points)[0], colors=colors, linewidths=0.8, zorder=0)
        )
        outlines = [
            _shadow(self._surfaces[k].vertices @ poses.rotation[i, k].T + poses.translation[i, k], view)
            for i in range(len(poses.rotation))
            for k in np.flatnonzero(self._own)
        ]
        hulls = [view.camera.project(outline)[0] for outline in outlines if outline is not None]
        axes.add_collection(collections.PolyCollection(hulls, facecolors="0.90", edgecolors="none", zorder=1))


def _painted(
    shape: Surface, pose: tuple[np.ndarray, np.ndarray], color: Color, camera: Camera, strength: float, is_own: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Polygons (m, 3, 2), their colours (m, 4), and how near they are (m,)."""
    rotation, translation = pose
    points, near = camera.project(shape.vertices @ rotation.T + translation)
    polygons, nearness = points[shape.faces], near[shape.faces]
    # The robot is on top of large faces that it stands on.
    nearness = nearness.mean(axis=1) if is_own else nearness.min(axis=1)
    normals = shape.normals @ rotation.T @ camera.axes.T
    if shape.is_closed:
        a, b, c = polygons[:, 0], polygons[:, 1], polygons[:, 2]
        seen = (b - a)[:, 0] * (c - a)[:, 1] > (b - a)[:, 1] * (c - a)[:, 0]
        polygons, nearness, normals = polygons[seen], nearness[seen], normals[seen]
    else:
        normals = normals * np.where(normals[:, 2:] < 0, -1, 1)
    toward_light = normals @ (_LIGHT / np.linalg.norm(_LIGHT))
    halfway = _LIGHT / np.linalg.norm(_LIGHT) + (0, 0, 1)
    shine = 0.18 * np.clip(normals @ (halfway / np.linalg.norm(halfway)), 0, 1)[:, None] ** 24
    # Light from the sky fills what the lamp does not reach.
    shade = (0.52 + 0.10 * normals[:, 1] + 0.44 * np.clip(toward_light, 0, None))[:, None]
    # Nearly black parts would show no form.
    base = 0.12 + 0.86 * np.array(color[:3])
    rgb = np.clip(base * shade + shine, 0, 1)
    pale = strength * rgb + (1 - strength) * _PAPER
    return polygons, np.concatenate([pale, np.full((len(pale), 1), color[3])], axis=1), nearness


def _shadow(points: np.ndarray, view: View) -> np.ndarray | None:
    """The outline (m, 3) on the ground of the shadow of points, `None` if it has no area."""
    spatial = optional_module("scipy.spatial", "viz")
    height = np.maximum(points[:, 2:] - view.height(points[:, :2]), 0)
    flat = points[:, :2] + height * (0.25, -0.15)
    try:
        outline = flat[spatial.ConvexHull(flat).vertices]
    except (spatial.QhullError, ValueError):
        return None
    return np.concatenate([outline, view.height(outline)], axis=1)


def _round_down(x: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is not larger."""
    power = 10.0 ** np.floor(np.log10(x))
    return float(power * max(k for k in (1, 2, 5) if k * power <= x * (1 + 1e-9)))
