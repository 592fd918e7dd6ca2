"""Revolute joint."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..spatial import Pose, Transform, Vector, axis_angle_to_matrix, unit
from ..typing import Key
from ._base import FARTHEST_ANGLE, AbstractFixedAxesJoint, uniform, unit_axis


class Revolute(AbstractFixedAxesJoint):
    """Rotation by `q` [rad] about `axis`, a line through the body's origin."""

    axis: Float[Array | np.ndarray, "3"] = eqx.field(converter=unit_axis)
    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1
    only_turns: ClassVar[bool] = True

    def transform(self, q: Float[Array, "1"]) -> Transform:
        return Transform(axis_angle_to_matrix(unit(self.axis), q[0]), jnp.zeros(3, q.dtype))

    def placed(self, placement: Pose, q: Float[Array, "1"]) -> Pose:
        return Pose(placement.rotation.turned(Vector.of(unit(self.axis)), q[0]), placement.translation)

    def motion_subspace(self, q: Float[Array, "1"]) -> Float[Array, "6 1"]:
        axis = unit(self.axis)
        return jnp.concatenate([axis, jnp.zeros_like(axis)])[:, None]

    def random(self, key: Key, lower: Float[Array, "1"], upper: Float[Array, "1"]) -> Float[Array, "1"]:
        return uniform(key, lower, upper, jnp.pi, FARTHEST_ANGLE)
