"""Surfaces that others make: put elsewhere, several together, with friction; and heights of a grid."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model._given import Numbers, Placement, as_placement, is_concrete
from ..numerics import matvec, transpose
from ..numerics._options import as_finite, check_flag, check_instance, floating_numbers, is_hashable
from ..spatial import Transform
from ._shapes import largest, one_number
from ._surfaces import AbstractSurface, Touch


class Placed(AbstractSurface):
    """A surface that is put elsewhere. **Fields:** the `surface`; its `placement`, as of any frame in another."""

    surface: AbstractSurface
    placement: Transform

    def __init__(self, surface: AbstractSurface, placement: Placement):
        """**Arguments:** `placement`: a `Transform`, a 4 x 4 matrix, or a translation (3,) [m].

        **Raises:** `ValueError` for what is no surface or placement.
        """
        check_instance("The surface", surface, AbstractSurface, "one of jaxcfa.contacts, such as Box([0.1, 0.1, 0.2])")
        self.surface = surface
        self.placement = as_placement(placement, jnp.result_type(float), "the surface")

    def distance(self, point: Float[Array, "3"]) -> Float[Array, ""]:
        return self.surface.distance(self._own(point))

    def clearance(self, point: Float[Array, "3"]) -> tuple[Float[Array, ""], Float[Array, "3"]]:
        return self.touch(point)[:2]

    def touch(self, point: Float[Array, "3"]) -> Touch:
        found = self.surface.touch(self._own(point))
        return found._replace(normal=matvec(self.placement.rotation, found.normal))

    def _own(self, point: Float[Array, "3"]) -> Float[Array, "3"]:
        return matvec(transpose(self.placement.rotation), point - self.placement.translation)


class Union(AbstractSurface):
    """Several surfaces, of which a point touches the nearest alone. **Fields:** the `surfaces`.

    Where a point is to touch two at a time, as a ball between floor and wall, contacts with each are added instead:
    `ground_contacts(..., ground=floor) + ground_contacts(..., ground=wall)`.
    """

    surfaces: tuple[AbstractSurface, ...]

    def __init__(self, surfaces: Sequence[AbstractSurface]):
        """**Raises:** `ValueError` for none, and for what is no surface."""
        check_instance("The surfaces of the union", surfaces, Sequence, "a list of those of jaxcfa.contacts")
        if not surfaces:
            raise ValueError("The surfaces of the union must be one or more, got none.")
        for surface in surfaces:
            check_instance("Each surface of the union", surface, AbstractSurface, "one of jaxcfa.contacts")
        self.surfaces = tuple(surfaces)

    def distance(self, point: Float[Array, "3"]) -> Float[Array, ""]:
        return self.clearance(point)[0]

    def clearance(self, point: Float[Array, "3"]) -> tuple[Float[Array, ""], Float[Array, "3"]]:
        return self.touch(point)[:2]

    def touch(self, point: Float[Array, "3"]) -> Touch:
        groups = _alike(self.surfaces)
        touches = [_touch_each([self.surfaces[i] for i in group], point) for group in groups]
        order = np.argsort(np.concatenate(groups))  # of several that are nearest the first one counts
        distances = jnp.concatenate([x.distance for x in touches])[order]
        nearest = jnp.arange(len(distances)) == jnp.argmin(distances)

        def chosen(x: Sequence[Array]) -> Array:
            rows = jnp.concatenate(x)[order]
            return jnp.sum(jnp.where(nearest.reshape(-1, *[1] * (rows.ndim - 1)), rows, 0), axis=0)

        found = Touch(jnp.sum(jnp.where(nearest, distances, 0)), chosen([x.normal for x in touches]))
        frictions = [x.friction for x in touches]
        if all(x is None for x in frictions):
            return found
        none = [jnp.zeros_like(x.distance) for x in touches]
        return found._replace(friction=chosen([y if x is None else x for x, y in zip(frictions, none, strict=True)]))


def _alike(surfaces: Sequence[AbstractSurface]) -> list[list[int]]:
    """Numbers of surfaces that differ in their numbers alone: of these, one program serves all."""
    groups: dict[Any, list[int]] = {}
    for i, surface in enumerate(surfaces):
        leaves, structure = jax.tree.flatten(surface)
        alone = not all(eqx.is_array(x) for x in leaves) or not is_hashable(structure)
        key = i if alone else (structure, *((x.shape, x.dtype) for x in leaves))
        groups.setdefault(key, []).append(i)
    return list(groups.values())


def _touch_each(surfaces: Sequence[AbstractSurface], point: Float[Array, "3"]) -> Touch:
    """What a point meets of each of some surfaces that are alike: `Touch` with a first axis (k,)."""
    if len(surfaces) == 1:
        return jax.tree.map(lambda x: x[None], surfaces[0].touch(point))

    def stack(*x: Array) -> Array | np.ndarray:
        return np.stack(x) if is_concrete(*x) else jnp.stack(x)

    return jax.vmap(lambda surface: surface.touch(point))(jax.tree.map(stack, *surfaces))


class Rough(AbstractSurface):
    """A surface with a friction of its own, as of one among several. **Fields:** the `surface`; its `friction`.

    The larger coefficient counts, this one or that of the contacts, as in MuJoCo:
    `ground_contacts(..., ground=Union([Rough(floor, 0.8), Rough(ice, 0.1)]), friction=0.1)`.
    """

    surface: AbstractSurface
    friction: Float[Array, ""]

    def __init__(self, surface: AbstractSurface, friction: Numbers):
        """**Raises:** `ValueError` for what is no surface, and a friction that is negative, not finite, or not one."""
        check_instance("The surface", surface, AbstractSurface, "one of jaxcfa.contacts, such as Box([0.1, 0.1, 0.2])")
        self.surface, self.friction = surface, one_number("friction of the surface", friction)

    def distance(self, point: Float[Array, "3"]) -> Float[Array, ""]:
        return self.surface.distance(point)

    def clearance(self, point: Float[Array, "3"]) -> tuple[Float[Array, ""], Float[Array, "3"]]:
        return self.surface.clearance(point)

    def touch(self, point: Float[Array, "3"]) -> Touch:
        found, own = self.surface.touch(point), self.friction.astype(point.dtype)
        return found._replace(friction=own if found.friction is None else jnp.maximum(own, found.friction))


class HeightField(AbstractSurface):
    """Ground of heights on a rectangle, between whose points it is bilinear.

    **Fields:** `heights` (rows, columns) [m], the rows from y = lower[1] to upper[1], the columns along x; `lower`,
    `upper` (2,): x and y of the first and the last [m]; `bounded`: whether it ends at its border, like a block that
    has no bottom, or goes on level.
    """

    heights: Float[Array, "rows columns"]
    lower: Float[Array, "2"]
    upper: Float[Array, "2"]
    bounded: bool = eqx.field(static=True)

    def __init__(self, heights: Numbers, lower: Numbers, upper: Numbers, *, bounded: bool = False):
        """**Raises:** `ValueError` for less than two rows or columns, no area, wrong shapes, what is not finite."""
        self.heights = floating_numbers("The heights", heights)
        if self.heights.ndim != 2 or min(self.heights.shape) < 2:
            raise ValueError(f"The heights must be two rows and columns or more, got shape {self.heights.shape}.")
        if is_concrete(self.heights) and not np.all(np.isfinite(self.heights)):
            raise ValueError(f"The heights must be finite, got {heights!r:.200}.")
        check_flag("bounded", bounded)
        corners = as_finite(lower, (2,), "lower corner"), as_finite(upper, (2,), "upper corner")
        if not np.all(corners[0] < corners[1]):
            raise ValueError(f"lower must be less than upper, got {lower} and {upper}.")
        (self.lower, self.upper), self.bounded = map(jnp.asarray, corners), bool(bounded)

    def distance(self, point: Float[Array, "3"]) -> Float[Array, ""]:
        last = jnp.array(self.heights.shape[::-1]) - 1
        x = (point[:2] - self.lower) / (self.upper - self.lower) * last
        x = jnp.where(x < 0, 0, jnp.where(x > last, last, x))
        first = jax.lax.stop_gradient(jnp.clip(jnp.floor(x).astype(int), 0, last - 1))
        (i, j), (s, t) = first, x - first
        near = self.heights[j, i] * (1 - s) + self.heights[j, i + 1] * s
        far = self.heights[j + 1, i] * (1 - s) + self.heights[j + 1, i + 1] * s
        above = point[2] - near * (1 - t) - far * t
        if not self.bounded:
            return above
        return largest(jnp.concatenate([above[None], self.lower - point[:2], point[:2] - self.upper]))
