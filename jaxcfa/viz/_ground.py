"""The ground of contacts, to be seen."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..contacts import AbstractSurface, FlatGround
from ._shapes import Triangles

_ITERATIONS = 30  # of Newton's method, along z
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
    """The surface of any ground, above and below a square about a point (2,).

    **Raises:** `ValueError` where no height is at distance zero.
    """
    ends = np.linspace(-half, half, _CELLS + 1)
    places = np.stack(np.meshgrid(*(center[:, None] + ends), indexing="ij"), axis=-1).reshape(-1, 2)
    heights, distances = (np.asarray(x, float) for x in _heights(ground, jnp.asarray(places)))
    if not np.all(np.isfinite(heights)) or np.max(np.abs(distances)) > _LEVEL * half:
        raise ValueError("The ground cannot be drawn: it does not have one height at each x and y near the robot.")
    number = np.arange(len(places)).reshape(_CELLS + 1, -1)
    a, b, c, d = (x.ravel() for x in (number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]))
    faces = np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
    return Triangles(np.column_stack([places, heights]), faces)


@eqx.filter_jit
def _heights(ground: AbstractSurface, places: Float[Array, "n 2"]) -> tuple[Float[Array, "n"], Float[Array, "n"]]:
    """The heights at which distances from the ground vanish, and what is left of them [m]."""

    def one(place: Float[Array, "2"]) -> tuple[Any, Any]:
        def distance(z: Float[Array, ""]) -> Any:
            return ground.clearance(jnp.append(place, z))[0]

        def improve(_: Any, z: Float[Array, ""]) -> Any:
            value, slope = jax.value_and_grad(distance)(z)
            return z - value / slope

        z = jax.lax.fori_loop(0, _ITERATIONS, improve, jnp.zeros((), places.dtype))
        return z, distance(z)

    return jax.vmap(one)(places)
