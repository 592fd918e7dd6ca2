"""Poses of everything that a robot carries, for one configuration or many."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from ..configuration import neutral
from ..kinematics import forward_kinematics
from ..model import WORLD, Model
from ..model._arguments import check_model, check_quaternions
from ..model._attachments import INITIAL
from ..spatial import Transform
from ..typing import NameOrNumber
from ._shapes import AbstractShape, Visual

_LARGER = 3.0  # than the robot: how large what stands in the world is if it is no part of the robot


class Poses(NamedTuple):
    """Poses in the world, of n configurations and k things.

    **Fields:** `rotation` (n, k, 3, 3), `translation` (n, k, 3) [m].
    """

    rotation: np.ndarray
    translation: np.ndarray

    def only(self, which: np.ndarray) -> "Poses":
        """The poses of some of the things (k,)."""
        return Poses(self.rotation[:, which], self.translation[:, which])


class Carried(NamedTuple):
    """Things on the bodies of a robot.

    **Fields:** `bodies` (k,), -1 for the world; `rotation` (k, 3, 3) and `translation` (k, 3) in the body.
    """

    bodies: np.ndarray
    rotation: np.ndarray
    translation: np.ndarray

    def at(self, bodies: Poses) -> Poses:
        """Where they are, with the bodies there (as `body_poses` gives them)."""
        rotation, translation = bodies.rotation[:, self.bodies], bodies.translation[:, self.bodies]
        moved = np.einsum("nkij,kj->nki", rotation, self.translation) + translation
        return Poses(rotation @ self.rotation, moved)


def carried_frames(model: Model, names: Sequence[NameOrNumber]) -> Carried:
    """Frames and bodies by name or number; `ValueError` for one that is not there."""
    found = [model.locate(name) for name in names]
    rotations = np.array([placement.rotation for _, placement in found], dtype=float).reshape(-1, 3, 3)
    translations = np.array([placement.translation for _, placement in found], dtype=float).reshape(-1, 3)
    return Carried(np.array([body for body, _ in found], dtype=int), rotations, translations)


def carried_visuals(model: Model, visuals: Sequence[Visual]) -> Carried:
    """The axes of shapes; `ValueError` for a carrier that is not there."""
    carriers = [WORLD if x.carrier is None else x.carrier for x in visuals]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(carriers))}
    which = np.array([numbers[x] for x in carriers], int)
    frames, placements = carried_frames(model, list(numbers)), np.reshape([x.placement for x in visuals], (-1, 4, 4))
    rotation = frames.rotation[which]
    moved = np.einsum("kij,kj->ki", rotation, placements[:, :3, 3]) + frames.translation[which]
    return Carried(frames.bodies[which], rotation @ placements[:, :3, :3], moved)


def body_poses(model: Model, q: np.ndarray) -> Poses:
    """Poses of all bodies at configurations (n, nq), and of the world, which is the last.

    One call of a compiled function; it is compiled once for each n.
    """
    found = _body_poses(model, q)
    rotation, translation = np.asarray(found.rotation, dtype=float), np.asarray(found.translation, dtype=float)
    world = np.broadcast_to(np.eye(3), (len(q), 1, 3, 3))
    return Poses(
        np.concatenate([rotation, world], axis=1), np.concatenate([translation, np.zeros((len(q), 1, 3))], axis=1)
    )


@jax.jit
def _body_poses(model: Model, q: Float[Array, "n nq"]) -> Transform:
    return jax.vmap(lambda q: forward_kinematics(model, q))(q)


def as_configurations(model: Model, q, name: str = "q") -> np.ndarray:
    """Configurations (n, nq) from one (nq,) or several, in the model's precision.

    **Raises:** `ValueError` for a wrong shape, what is not finite, and zero quaternions.
    """
    check_model(model)
    try:
        array = np.asarray(q, dtype=model.dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of shape (nq,) or (n, nq), got {q!r:.100}.") from error
    if array.ndim not in (1, 2) or array.shape[-1] != model.nq or array.shape[0] == 0 < model.nq:
        raise ValueError(
            f"{name} must have shape (nq,) = ({model.nq},) or (n, nq), with n at least one, got {array.shape}."
        )
    array = np.atleast_2d(array)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite.")
    for configuration in array:
        check_quaternions(model, name, configuration)
    return array


def initial(model: Model) -> np.ndarray:
    """(nq,): how the robot stands in its file: the initial configuration of MJCF, or else the neutral one."""
    keyframes = model.keyframes.names
    return np.asarray(model.keyframe(INITIAL) if INITIAL in keyframes else neutral(model))


def corners(shape: AbstractShape) -> np.ndarray:
    """(8, 3): corners of the box around a shape, in its axes."""
    vertices = shape.triangles().vertices
    bounds = np.stack([vertices.min(axis=0), vertices.max(axis=0)])
    return np.stack(np.meshgrid(*bounds.T, indexing="ij"), axis=-1).reshape(-1, 3)


def extent(corners: np.ndarray, poses: Poses) -> np.ndarray:
    """(m, 3): points in the world between which all shapes are. `corners` (k, 8, 3)."""
    moved = np.einsum("nkij,kpj->nkpi", poses.rotation, corners) + poses.translation[:, :, None]
    return moved.reshape(-1, 3)


def of_robot(corners: np.ndarray, bodies: np.ndarray, poses: Poses) -> np.ndarray:
    """(k,): whether shapes belong to the robot: those that move, and those in the world that are not much larger.

    A floor of forty metres says nothing about how large a picture should be. `corners` (k, 8, 3), `bodies` (k,).
    """
    moving = bodies >= 0
    if not moving.any():
        return ~moving
    points = extent(corners[moving], Poses(poses.rotation[:1], poses.translation[:1]).only(moving))
    size = np.linalg.norm(np.ptp(points, axis=0))
    return moving | (np.linalg.norm(np.ptp(corners, axis=1), axis=1) <= _LARGER * size)
