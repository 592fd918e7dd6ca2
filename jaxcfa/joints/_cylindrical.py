"""Cylindrical joint."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..spatial import Transform, axis_angle_to_matrix, unit
from ..typing import Key
from ._base import FARTHEST, FARTHEST_ANGLE, AbstractJoint, uniform, unit_axis


class Cylindrical(AbstractJoint):
    """Rotation by `q[0]` [rad] about `axis` and translation by `q[1]` [m] along it."""

    axis: Float[Array | np.ndarray, "3"] = eqx.field(converter=unit_axis)
    nq: ClassVar[int] = 2
    nv: ClassVar[int] = 2
    has_fixed_axes: ClassVar[bool] = True

    def transform(self, q: Float[Array, "2"]) -> Transform:
        axis = unit(self.axis)
        return Transform(axis_angle_to_matrix(axis, q[0]), q[1] * axis)

    def motion_subspace(self, q: Float[Array, "2"]) -> Float[Array, "6 2"]:
        axis = unit(self.axis)
        zero = jnp.zeros_like(axis)
        return jnp.stack([jnp.concatenate([axis, zero]), jnp.concatenate([zero, axis])], axis=1)

    def bias(self, q: Float[Array, "2"], v: Float[Array, "2"]) -> Float[Array, "6"]:
        return jnp.zeros(6, jnp.result_type(self.axis, v))

    def integrate(self, q: Float[Array, "2"], dv: Float[Array, "2"]) -> Float[Array, "2"]:
        return q + dv

    def difference(self, q0: Float[Array, "2"], q1: Float[Array, "2"]) -> Float[Array, "2"]:
        return q1 - q0

    def neutral(self) -> Float[Array, "2"]:
        return jnp.zeros(2, self.axis.dtype)

    def random(self, key: Key, lower: Float[Array, "2"], upper: Float[Array, "2"]) -> Float[Array, "2"]:
        default, farthest = jnp.array([[jnp.pi, 1.0], [FARTHEST_ANGLE, FARTHEST]], lower.dtype)
        return uniform(key, lower, upper, default, farthest)
