"""Helical (screw) joint."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..numerics._options import as_finite
from ..spatial import Pose, Transform, Vector, axis_angle_to_matrix, unit
from ..typing import Key
from ._base import AbstractFixedAxesJoint, uniform, unit_axis


class Helical(AbstractFixedAxesJoint):
    """Rotation by `q` [rad] about `axis` with a translation of `pitch q` along it.

    **Arguments:** `axis`: direction of the screw axis, through the body's origin. `pitch`: advance per radian
    [m/rad]; zero is a revolute joint.
    """

    axis: Float[Array | np.ndarray, "3"] = eqx.field(converter=unit_axis)
    pitch: Float[Array | np.ndarray, ""] = eqx.field(converter=lambda x: as_finite(x, (), "pitch of a helical joint"))
    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1

    def transform(self, q: Float[Array, "1"]) -> Transform:
        axis = unit(self.axis)
        return Transform(axis_angle_to_matrix(axis, q[0]), self.pitch * q[0] * axis)

    def placed(self, placement: Pose, q: Float[Array, "1"]) -> Pose:
        axis = Vector.of(unit(self.axis))
        along = placement.rotation @ axis * self.pitch
        return Pose(placement.rotation.turned(axis, q[0]), placement.translation + along * q[0])

    def motion_subspace(self, q: Float[Array, "1"]) -> Float[Array, "6 1"]:
        axis = unit(self.axis)
        return jnp.concatenate([axis, self.pitch * axis])[:, None]

    def random(self, key: Key, lower: Float[Array, "1"], upper: Float[Array, "1"]) -> Float[Array, "1"]:
        return uniform(key, lower, upper, jnp.pi)
