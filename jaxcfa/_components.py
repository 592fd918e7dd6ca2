"""Vectors of all bodies by components: three arrays instead of one with an axis of length three.

Long expressions of vector products become plain loops over bodies and batch then, without strides and concatenations,
which XLA turns into a few vectorised kernels. Worth it outside of loops only, since there are more kernels.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._small import sum_of


class Vector(eqx.Module):
    """Vectors with three components, of all bodies (nb)."""

    x: Float[Array, "*n"]
    y: Float[Array, "*n"]
    z: Float[Array, "*n"]

    def __add__(self, other: "Vector") -> "Vector":
        return Vector(self.x + other.x, self.y + other.y, self.z + other.z)

    def __sub__(self, other: "Vector") -> "Vector":
        return Vector(self.x - other.x, self.y - other.y, self.z - other.z)

    def __rmul__(self, factor: Float[Array, "*n"] | float) -> "Vector":
        return Vector(factor * self.x, factor * self.y, factor * self.z)

    def cross(self, other: "Vector") -> "Vector":
        """The vector product."""
        return Vector(
            self.y * other.z - self.z * other.y,
            self.z * other.x - self.x * other.z,
            self.x * other.y - self.y * other.x,
        )


def components(array: Float[Array, "*n 3"]) -> Vector:
    """The vector of an array's last axis."""
    return Vector(array[..., 0], array[..., 1], array[..., 2])


def halves(array: Float[Array, "*n 6"]) -> tuple[Vector, Vector]:
    """Angular and linear part of spatial vectors."""
    return components(array[..., :3]), components(array[..., 3:])


def stacked(*parts: Vector) -> Float[Array, "*n k"]:
    """One array of all components."""
    return jnp.stack([c for part in parts for c in (part.x, part.y, part.z)], axis=-1)


def transformed(matrix: Float[Array, "*n 3 3"], vector: Vector) -> Vector:
    """Matrix times vector."""
    columns = vector.x, vector.y, vector.z
    return Vector(*(sum_of(matrix[..., i, k] * c for k, c in enumerate(columns)) for i in range(3)))
