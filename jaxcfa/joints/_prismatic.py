"""Prismatic joint."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..spatial import Pose, Transform, Vector, unit
from ..typing import Key
from ._base import AbstractFixedAxesJoint, uniform, unit_axis


class Prismatic(AbstractFixedAxesJoint):
    """Translation by `q` [m] along `axis`."""

    axis: Float[Array | np.ndarray, "3"] = eqx.field(converter=unit_axis)
    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1

    def transform(self, q: Float[Array, "1"]) -> Transform:
        return Transform(jnp.eye(3, dtype=q.dtype), unit(self.axis) * q[0])

    def placed(self, placement: Pose, q: Float[Array, "1"]) -> Pose:
        along = placement.rotation @ Vector.of(unit(self.axis))
        return Pose(placement.rotation, placement.translation + along * q[0])

    def motion_subspace(self, q: Float[Array, "1"]) -> Float[Array, "6 1"]:
        axis = unit(self.axis)
        return jnp.concatenate([jnp.zeros_like(axis), axis])[:, None]

    def random(self, key: Key, lower: Float[Array, "1"], upper: Float[Array, "1"]) -> Float[Array, "1"]:
        return uniform(key, lower, upper, 1.0)
