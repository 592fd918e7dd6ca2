"""Shapes for robots that have none."""

import numpy as np

from ..model import WORLD, Model
from ..spatial._host import pose_matrix
from ._shapes import Capsule, Sphere, Visual, along, inertia_box

_THICKNESS = 0.12  # radius of a limb by the length of a typical one


def default_visuals(model: Model) -> list[Visual]:
    """Limbs as capsules, from each body's origin to those of its children and frames.

    A body without children and frames is a box with its inertia. A joint that moves a child away is not followed:
    limbs end where the child's joint is placed.
    """
    parents, offsets = model.topology.parents, np.asarray(model.placement.translation, dtype=float)
    frames = zip(model.topology.frame_bodies, np.asarray(model.frame_placement.translation, dtype=float), strict=True)
    ends: dict[int, list[np.ndarray]] = {}
    for body, end in (*zip(parents.tolist(), offsets, strict=True), *frames):
        ends.setdefault(int(body), []).append(end)
    lengths = [np.linalg.norm(end) for body, own in ends.items() if body != WORLD for end in own]
    lengths = [length for length in lengths if length > 0]
    typical = float(np.median(lengths)) if lengths else 0.0
    found = []
    for body, name in enumerate(model.body_names):
        limbs = [end for end in _distinct(ends.get(body, [])) if np.linalg.norm(end) > 0.05 * typical]
        found += [_limb(name, end, typical) for end in limbs]
        if not limbs:
            found.append(_box(model, body, typical))
    return found


def _distinct(points: list[np.ndarray]) -> list[np.ndarray]:
    return list({tuple(np.round(point, 6)): point for point in points}.values())


def _limb(name: str, end: np.ndarray, typical: float) -> Visual:
    length = float(np.linalg.norm(end))
    radius = round(min(_THICKNESS * typical, 0.25 * length), 6)
    return Visual(Capsule(radius, round(length, 6)), name, along(np.zeros(3), end))


def _box(model: Model, body: int, typical: float) -> Visual:
    mass, com, inertia = (np.asarray(x[body], dtype=float) for x in (model.mass, model.com, model.inertia))
    if mass > 0 and np.trace(inertia) > 0:
        return inertia_box(model.body_names[body], float(mass), com, inertia)
    return Visual(Sphere(_THICKNESS * typical or 0.02), model.body_names[body], pose_matrix(np.eye(3), com))
