"""The ground of contacts, to be seen."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..contacts import AbstractSurface, FlatGround
from ._shapes import Triangles

_STEPS = 200  # down to a surface, or up from inside
_LEVEL = 1e-4  # of a slope's length, how far the surface may be from where it is drawn
_CELLS = 60  # along each side of a surface


def plane_of(ground: FlatGround) -> np.ndarray:
    """(3,): a, b and c of the plane `z = a x + b y + c`. **Raises:** `ValueError` for one that is upright."""
    normal, point = np.asarray(ground.normal, float), np.asarray(ground.point, float)
    slope = -normal[:2] / normal[2] if abs(normal[2]) > _LEVEL * np.linalg.norm(normal) else np.full(2, np.inf)
    if not np.all(np.isfinite(slope)):
        raise ValueError(f"A ground that is upright cannot be drawn: its normal is {normal}.")
    return np.append(slope, point[2] - slope @ point[:2])


def surface_of(ground: AbstractSurface, center: np.ndarray, half: float) -> Triangles:
    """The surface of any ground about a point (2,), as it is seen from above that square.

    **Raises:** `ValueError` where no height is at distance zero.
    """
    ends = np.linspace(-half, half, _CELLS + 1)
    places = np.stack(np.meshgrid(*(center[:, None] + ends), indexing="ij"), axis=-1).reshape(-1, 2)
    heights, distances = (np.asarray(x, float) for x in _heights(ground, jnp.asarray(places), 4 * half))
    if not np.all(np.isfinite(heights)) or np.max(np.abs(distances)) > _LEVEL * half:
        raise ValueError("The ground cannot be drawn: it does not have one height at each x and y near the robot.")
    number = np.arange(len(places)).reshape(_CELLS + 1, -1)
    a, b, c, d = (x.ravel() for x in (number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]))
    faces = np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
    return Triangles(np.column_stack([places, heights]), faces)


@eqx.filter_jit
def _heights(
    ground: AbstractSurface, places: Float[Array, "n 2"], top: float
) -> tuple[Float[Array, "n"], Float[Array, "n"]]:
    """The heights at which distances from the ground vanish, and what is left of them [m].

    From a height `top` down, each time by the distance, so that nothing is passed.
    """

    def one(place: Float[Array, "2"]) -> tuple[Any, Any]:
        def distance(z: Float[Array, ""]) -> Any:
            return ground.clearance(jnp.append(place, z))[0]

        z = jax.lax.fori_loop(0, _STEPS, lambda _, z: z - distance(z), jnp.asarray(top, places.dtype))
        return z, distance(z)

    return jax.vmap(one)(places)
