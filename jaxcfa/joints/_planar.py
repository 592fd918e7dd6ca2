"""Planar joint."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..numerics import cross, dot, matvec, transpose
from ..spatial import Transform, axis_angle_to_matrix, unit
from ..typing import Key
from ._base import FARTHEST, FARTHEST_ANGLE, AbstractVectorJoint, uniform, unit_axis


class Planar(AbstractVectorJoint):
    """Motion in a plane: `q = [x, y, angle]`, translation [m] along `axis_x` and `axis_y` = normal x `axis_x`, both
    fixed in the parent, then rotation [rad] about the normal. Velocities are the rates of `q`.

    **Arguments:** `normal`: of the plane; z by default. `axis_x`: direction of the first translation, made
    perpendicular to the normal; by default the parent's x, or y where the normal is x.
    """

    normal: Float[Array | np.ndarray, "3"] = eqx.field(converter=unit_axis)
    axis_x: Float[Array | np.ndarray, "3"] = eqx.field(converter=unit_axis)
    nq: ClassVar[int] = 3
    nv: ClassVar[int] = 3

    def __init__(self, normal=(0.0, 0.0, 1.0), axis_x=None):
        self.normal = unit_axis(normal)
        if axis_x is None:
            axis_x = (1.0, 0.0, 0.0) if abs(self.normal[0]) < 0.9 else (0.0, 1.0, 0.0)
        axis_x = unit_axis(axis_x)
        in_plane = axis_x - np.dot(axis_x, self.normal) * self.normal
        if np.linalg.norm(in_plane) < 1e-9:
            raise ValueError(f"axis_x of a planar joint must not be along its normal {self.normal.tolist()}.")
        self.axis_x = unit_axis(in_plane)

    def _axes(self) -> tuple[Array, Array, Array]:
        # Perpendicular also where one of them was changed afterwards.
        normal, x = unit(self.normal), unit(self.axis_x)
        x = unit(x - dot(x, normal) * normal)
        return x, cross(normal, x), normal

    def transform(self, q: Float[Array, "3"]) -> Transform:
        x, y, normal = self._axes()
        return Transform(axis_angle_to_matrix(normal, q[2]), q[0] * x + q[1] * y)

    def motion_subspace(self, q: Float[Array, "3"]) -> Float[Array, "6 3"]:
        x, y, normal = self._axes()
        to_body = transpose(axis_angle_to_matrix(normal, q[2]))
        zero = jnp.zeros_like(normal)
        angular = jnp.stack([zero, zero, normal], axis=1)
        linear = jnp.stack([matvec(to_body, x), matvec(to_body, y), zero], axis=1)
        return jnp.concatenate([angular, linear], axis=0)

    def bias(self, q: Float[Array, "3"], v: Float[Array, "3"]) -> Float[Array, "6"]:
        # The translation axes are fixed in the parent, so in body axes they turn with -angular velocity.
        x, y, normal = self._axes()
        linear = matvec(transpose(axis_angle_to_matrix(normal, q[2])), v[0] * x + v[1] * y)
        return jnp.concatenate([jnp.zeros_like(linear), -cross(normal * v[2], linear)])

    def random(self, key: Key, lower: Float[Array, "3"], upper: Float[Array, "3"]) -> Float[Array, "3"]:
        default, farthest = jnp.array([[1.0, 1.0, jnp.pi], [FARTHEST, FARTHEST, FARTHEST_ANGLE]], lower.dtype)
        return uniform(key, lower, upper, default, farthest)
