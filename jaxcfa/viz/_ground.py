"""The ground of contacts, to be seen."""

from collections.abc import Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..contacts import AbstractSurface, FlatGround, Placed, Rough, Union
from ._shapes import Triangles

_STEPS = 200  # down to a surface, or up from inside, and then of Newton's method:
_LAST_STEPS = 30
_UPRIGHT = 0.1  # upward parts of normals of walls, or overhangs
_LEVEL = 1e-4  # of a slope's length, how far the surface may be from where it is drawn
_CELLS = 60  # along each side of a surface


def floor_below(lowest: float, size: float) -> float:
    """Where the ground is of a robot of that size whose lowest point is there [m].

    Legs that reach a little below zero do not move it.
    """
    return 0.0 if lowest > -0.02 * size else lowest


def plane_of(ground: FlatGround) -> np.ndarray:
    """(3,): a, b and c of the plane `z = a x + b y + c`. **Raises:** `ValueError` for one that is upright."""
    normal, point = np.asarray(ground.normal, float), np.asarray(ground.point, float)
    slope = -normal[:2] / normal[2] if abs(normal[2]) > _LEVEL * np.linalg.norm(normal) else np.full(2, np.inf)
    if not np.all(np.isfinite(slope)):
        raise ValueError(f"A ground that is upright cannot be drawn: its normal is {normal}.")
    return np.append(slope, point[2] - slope @ point[:2])


def plane_in(grounds: Iterable[AbstractSurface]) -> FlatGround | None:
    """The first plane among grounds, or what they are made of, that is no wall and no ceiling."""
    found = [plane for ground in grounds for plane in _planes(ground)]
    upward = [float(x.normal[2] / np.linalg.norm(x.normal)) for x in found]
    return next((plane for plane, up in zip(found, upward, strict=True) if up > _UPRIGHT), None)


def _planes(ground: AbstractSurface) -> list[FlatGround]:
    match ground:
        case FlatGround():
            return [ground]
        case Rough():
            return _planes(ground.surface)
        case Union():
            return [plane for surface in ground.surfaces for plane in _planes(surface)]
        case Placed():
            pose = ground.placement
            rotation, translation = np.asarray(pose.rotation, float), np.asarray(pose.translation, float)
            return [
                FlatGround(rotation @ np.asarray(x.normal, float), rotation @ np.asarray(x.point, float) + translation)
                for x in _planes(ground.surface)
            ]
    return []


def surface_of(ground: AbstractSurface, center: np.ndarray, half: float) -> Triangles:
    """The surface of any ground above and below a square, whose middle is `center` (3,), as it is seen from above.

    It has holes where there is none. **Raises:** `ValueError` if there is none at all.
    """
    ends = np.linspace(-half, half, _CELLS + 1)
    places = np.stack(np.meshgrid(*(center[:2, None] + ends), indexing="ij"), axis=-1).reshape(-1, 2)
    heights, distances = (
        np.asarray(x, float)
        for x in _heights(ground, jnp.asarray(places), *map(jnp.asarray, (center[2] + 4 * half, half)))
    )
    found = np.isfinite(heights) & (np.abs(distances) <= _LEVEL * half)
    number = np.arange(len(places)).reshape(_CELLS + 1, -1)
    a, b, c, d = (x.ravel() for x in (number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]))
    faces = np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
    faces = faces[np.all(found[faces], axis=1)]
    if not len(faces):
        raise ValueError("The ground cannot be drawn: near the robot no surface of it is seen from above.")
    return Triangles(np.column_stack([places, np.where(found, heights, center[2])]), faces)


@eqx.filter_jit
def _heights(
    ground: AbstractSurface, places: Float[Array, "n 2"], top: Float[Array, ""], half: Float[Array, ""]
) -> tuple[Float[Array, "n"], Float[Array, "n"]]:
    """The heights at which distances from the ground vanish, and what is left of them [m].

    From a height `top` down, each time by the distance, so that nothing is passed, or past walls, which do not end it,
    by at least a hundredth of `half`. Steep surfaces need Newton's method in the end.
    """

    def one(place: Float[Array, "2"]) -> tuple[Any, Any]:
        def seen(z: Float[Array, ""]) -> tuple[Any, Any]:
            distance, normal = ground.clearance(jnp.append(place, z))
            return distance, normal[2]

        def lower(_: Any, z: Float[Array, ""]) -> Any:
            distance, upward = seen(z)
            beside = (upward < _UPRIGHT) & (distance > _LEVEL * half)
            return z - jnp.where(beside, jnp.maximum(distance, 0.01 * half), distance)

        def improve(_: Any, z: Float[Array, ""]) -> Any:
            distance, upward = seen(z)
            return z - distance / upward

        z = jax.lax.fori_loop(0, _STEPS, lower, top.astype(places.dtype))
        z = jax.lax.fori_loop(0, _LAST_STEPS, improve, z)
        return z, seen(z)[0]

    return jax.vmap(one)(places)
