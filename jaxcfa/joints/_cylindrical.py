"""Cylindrical joint."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..spatial import Transform, axis_angle_to_matrix, unit
from ..typing import Key
from ._base import FARTHEST, FARTHEST_ANGLE, AbstractFixedAxesJoint, uniform, unit_axis


class Cylindrical(AbstractFixedAxesJoint):
    """Rotation by `q[0]` [rad] about `axis` and translation by `q[1]` [m] along it."""

    axis: Float[Array | np.ndarray, "3"] = eqx.field(converter=unit_axis)
    nq: ClassVar[int] = 2
    nv: ClassVar[int] = 2

    def transform(self, q: Float[Array, "2"]) -> Transform:
        axis = unit(self.axis)
        return Transform(axis_angle_to_matrix(axis, q[0]), q[1] * axis)

    def motion_subspace(self, q: Float[Array, "2"]) -> Float[Array, "6 2"]:
        axis = unit(self.axis)
        zero = jnp.zeros_like(axis)
        return jnp.stack([jnp.concatenate([axis, zero]), jnp.concatenate([zero, axis])], axis=1)

    def random(self, key: Key, lower: Float[Array, "2"], upper: Float[Array, "2"]) -> Float[Array, "2"]:
        default, farthest = jnp.array([[jnp.pi, 1.0], [FARTHEST_ANGLE, FARTHEST]], lower.dtype)
        return uniform(key, lower, upper, default, farthest)
