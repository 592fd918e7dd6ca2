"""A robot in the viewer's scene."""

import threading
from typing import Any

import numpy as np

from ..contacts import ContactState
from ..model import Model
from ..model._arguments import as_frames
from ..numerics._options import check_instance
from ..typing import Frames, NameOrNumber
from ._load import Visuals, drawn_visuals
from ._overlays import AbstractOverlay, Axes, CenterOfMass, Forces, Trail, Wrenches, quaternions
from ._picture import visual_color
from ._poses import (
    Poses,
    as_configurations,
    body_poses,
    carried_frames,
    carried_visuals,
    corners,
    extent,
    initial,
    of_robot,
)
from ._shapes import AbstractShape

_GHOST = 0.25  # opacity
_GRAVITY = 9.81  # m/s^2
_OF_WEIGHT = 12.0  # the length of an arrow, by that of axes


class Robot:
    """A robot in a viewer, at one configuration, or at several, of which all but the first are translucent.

    Shapes that are equal are one object of the scene with many instances, and all poses come from one call of a
    compiled function, so that batches and long chains stay smooth. `Viewer.add_robot` makes one.

    **Fields:** `model`; `q` (n, nq): what is shown; `is_removed`: whether `remove` has taken it out of the scene.
    """

    def __init__(
        self,
        server: Any,
        lock: threading.RLock,
        ended: threading.Event,
        name: str,
        model: Model,
        visuals: Visuals,
        base,
        opacity: float,
    ):
        self.model, self.q = model, np.zeros((0, model.nq))
        self._lock, self._ended = lock, ended  # the viewer's, as other threads move the robot, too
        self._check_open()
        self._server, self._path, self._opacity = server, f"/{name}", opacity
        chosen = drawn_visuals(model, visuals)
        self._carried = carried_visuals(model, chosen)
        self._colors = np.reshape(
            [visual_color(x, i) for x, i in zip(chosen, self._carried.bodies, strict=True)], (-1, 4)
        )
        self._by_shape: dict[AbstractShape, list[int]] = {}
        for k, visual in enumerate(chosen):
            self._by_shape.setdefault(visual.shape, []).append(k)
        self._corners = np.reshape([corners(x.shape) for x in chosen], (-1, 8, 3))
        self._meshes: dict[AbstractShape, Any] = {}
        self._overlays: dict[object, AbstractOverlay] = {}
        self._visible, self.is_removed = True, False
        server.scene.add_frame(self._path, show_axes=False, position=np.asarray(base, dtype=float))
        self.show(initial(model))
        self._size = 0.08 * float(np.linalg.norm(np.ptp(self.extent(), axis=0)) or 1.0)

    @property
    def visible(self) -> bool:
        """Whether the shapes are shown, which can hide axes and centres of mass."""
        return self._visible

    @visible.setter
    def visible(self, shown: bool) -> None:
        with self._lock:
            self._visible = bool(shown)
            for mesh in self._meshes.values():
                mesh.visible = self._visible

    def show(self, q) -> None:
        """Move to a configuration (nq,), or to several (n, nq): the first as it is, the others as ghosts.

        **Raises:** `ValueError` for a wrong shape, what is not finite, and a viewer that is closed.
        """
        self._check_open()
        q = as_configurations(self.model, q)
        bodies = body_poses(self.model, q)
        with self._lock, self._server.atomic():
            if len(q) != len(self.q):
                self._make_meshes(len(q))
            self.q = q
            self._move_meshes(self._carried.at(bodies))
            for overlay in self._overlays.values():
                overlay.update(bodies)

    def show_frames(self, frames: Frames) -> None:
        """Show the axes of a frame or body by name or number, or of several; none for an empty list.

        **Raises:** `ValueError` for a name that is not there.
        """
        numbers = np.atleast_1d(as_frames(self.model, frames)).tolist()
        found = carried_frames(self.model, numbers)
        path = f"{self._path}/axes"
        self._replace("axes", Axes(self._server.scene, path, found, self._size) if numbers else None)

    def show_center_of_mass(self, shown: bool = True) -> None:
        """Show the centre of mass of all moving bodies as a ball, or no longer."""
        ball = CenterOfMass(self._server.scene, f"{self._path}/center_of_mass", self.model, 0.25 * self._size)
        self._replace("center", ball if shown else None)

    def show_wrenches(self, wrenches, scale: float = 0.01) -> None:
        """Show wrenches on the bodies as arrows from their origins, forces red and moments blue; `None` shows none.

        They keep their direction in the world while the robot moves, until others are given.

        **Arguments:** `wrenches` (nb, 6), `[moment; force]` [N m, N] in world axes; `scale`: length of the arrows
        [m/N, m/(N m)].

        **Raises:** `ValueError` for a wrong shape.
        """
        if wrenches is None:
            self._replace("wrenches", None)
            return
        array = np.asarray(wrenches, dtype=float)
        if array.shape != (self.model.nb, 6):
            raise ValueError(f"wrenches must have shape (nb, 6) = {(self.model.nb, 6)}, got {array.shape}.")
        self._replace("wrenches", Wrenches(self._server.scene, f"{self._path}/wrenches", array, scale, self._size))

    def show_contacts(self, state: ContactState | None, scale: float | None = None) -> None:
        """Show the forces of contacts as arrows from their points, until others are given; `None` shows none.

        **Arguments:** `state`: of `jaxcfa.contact_state`; `scale`: length of the arrows [m/N], by default such that
        one with the robot's weight is about as long as the robot.

        **Raises:** `ValueError` for what is no state of contacts, or several.
        """
        if state is None:
            self._replace("contacts", None)
            return
        self._check_open()
        check_instance("state", state, ContactState, "contacts of jaxcfa.contact_state(model, contacts, q, v)")
        points, forces = np.asarray(state.position, float), np.asarray(state.force, float)
        if points.ndim != 2:
            raise ValueError(f"state must be of one state of the robot, got positions of shape {points.shape}.")
        if scale is None:
            weight = float(np.sum(self.model.mass)) * _GRAVITY
            scale = _OF_WEIGHT * self._size / weight if weight > 0 else 1.0
        shown = self._overlays.get("contacts")
        if isinstance(shown, Forces):
            with self._lock:
                shown.replace(points, scale * forces)
                shown.update(body_poses(self.model, self.q))
        else:
            path = f"{self._path}/contacts"
            self._replace("contacts", Forces(self._server.scene, path, points, scale * forces, self._size))

    def add_trail(self, frame: NameOrNumber) -> None:
        """Draws the path of a frame or body, given by name or number, as the robot moves from now on.

        **Raises:** `ValueError` for a name that is not there.
        """
        found = carried_frames(self.model, [frame])
        self._replace(("trail", frame), Trail(self._server.scene, f"{self._path}/trail_{frame}", found))

    def clear_trails(self) -> None:
        """Let all trails begin anew."""
        with self._lock:
            for overlay in self._overlays.values():
                if isinstance(overlay, Trail):
                    overlay.clear()

    def remove(self) -> None:
        """Take the robot out of the scene."""
        with self._lock:
            self._server.scene.remove_by_name(self._path)
            self.is_removed = True

    def extent(self) -> np.ndarray:
        """(m, 3): points between which the robot is [m], from its base."""
        bodies = body_poses(self.model, self.q)
        shapes = self._carried.at(bodies)
        own = of_robot(self._corners, self._carried.bodies, shapes)
        return np.concatenate([extent(self._corners[own], shapes.only(own)), bodies.translation.reshape(-1, 3)])

    def _check_open(self) -> None:
        if self._ended.is_set():
            raise ValueError("The viewer is closed, and shows nothing any more; make a new one.")

    def _replace(self, key: object, overlay: AbstractOverlay | None) -> None:
        self._check_open()
        with self._lock:
            old = self._overlays.pop(key, None)
            if old is not None:
                old.remove()
            if overlay is not None:
                overlay.update(body_poses(self.model, self.q))
                self._overlays[key] = overlay

    def _make_meshes(self, n: int) -> None:
        """Objects of the scene for n robots."""
        for mesh in self._meshes.values():
            mesh.remove()
        self._meshes = {}
        opacity = self._opacity * np.where(np.arange(n) == 0, 1.0, _GHOST)
        for number, (shape, which) in enumerate(self._by_shape.items()):
            vertices, faces = shape.triangles()
            instances = n * len(which)
            self._meshes[shape] = self._server.scene.add_batched_meshes_simple(
                f"{self._path}/shape{number}",
                vertices,
                faces,
                batched_wxyzs=np.tile([1.0, 0, 0, 0], (instances, 1)),
                batched_positions=np.zeros((instances, 3)),
                batched_colors=np.round(255 * np.tile(self._colors[which, :3], (n, 1))).astype(np.uint8),
                batched_opacities=np.outer(opacity, self._colors[which, 3]).ravel(),
                side="double",
                visible=self._visible,
            )

    def _move_meshes(self, poses: Poses) -> None:
        turned = quaternions(poses.rotation)
        for shape, which in self._by_shape.items():
            self._meshes[shape].batched_wxyzs = turned[:, which].reshape(-1, 4)
            self._meshes[shape].batched_positions = poses.translation[:, which].reshape(-1, 3)
