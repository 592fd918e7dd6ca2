"""Prismatic joint."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..spatial import Pose, Transform, Vector, unit
from ..typing import Key
from ._base import AbstractJoint, uniform, unit_axis


class Prismatic(AbstractJoint):
    """Translation by `q` [m] along `axis`."""

    axis: Float[Array | np.ndarray, "3"] = eqx.field(converter=unit_axis)
    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1
    has_fixed_axes: ClassVar[bool] = True

    def transform(self, q: Float[Array, "1"]) -> Transform:
        return Transform(jnp.eye(3, dtype=q.dtype), unit(self.axis) * q[0])

    def placed(self, placement: Pose, q: Float[Array, "1"]) -> Pose:
        along = placement.rotation @ Vector.of(unit(self.axis))
        return Pose(placement.rotation, placement.translation + along * q[0])

    def motion_subspace(self, q: Float[Array, "1"]) -> Float[Array, "6 1"]:
        axis = unit(self.axis)
        return jnp.concatenate([jnp.zeros_like(axis), axis])[:, None]

    def bias(self, q: Float[Array, "1"], v: Float[Array, "1"]) -> Float[Array, "6"]:
        return jnp.zeros(6, jnp.result_type(self.axis, v))

    def integrate(self, q: Float[Array, "1"], dv: Float[Array, "1"]) -> Float[Array, "1"]:
        return q + dv

    def difference(self, q0: Float[Array, "1"], q1: Float[Array, "1"]) -> Float[Array, "1"]:
        return q1 - q0

    def neutral(self) -> Float[Array, "1"]:
        return jnp.zeros(1, self.axis.dtype)

    def random(self, key: Key, lower: Float[Array, "1"], upper: Float[Array, "1"]) -> Float[Array, "1"]:
        return uniform(key, lower, upper, 1.0)
