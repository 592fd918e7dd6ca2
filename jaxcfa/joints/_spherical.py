"""Spherical (ball) joint."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..spatial import (
    Transform,
    quaternion_conjugate,
    quaternion_exp,
    quaternion_log,
    quaternion_multiply,
    quaternion_to_matrix,
    quaternion_velocity,
    random_quaternion,
    unit,
)
from ..typing import Key
from ._base import AbstractJoint


class Spherical(AbstractJoint):
    """Rotation about the body's origin: `q` is a unit quaternion `[w, x, y, z]`, `v` the angular velocity in body
    axes [rad/s]. Quaternions of any length are accepted and treated as normalised."""

    nq: ClassVar[int] = 4
    nv: ClassVar[int] = 3
    quaternions: ClassVar[tuple[int, ...]] = (0,)
    has_fixed_axes: ClassVar[bool] = True
    only_turns: ClassVar[bool] = True

    def transform(self, q: Float[Array, "4"]) -> Transform:
        return Transform(quaternion_to_matrix(q), jnp.zeros(3, q.dtype))

    def motion_subspace(self, q: Float[Array, "4"]) -> Float[Array, "6 3"]:
        return jnp.eye(6, 3, dtype=q.dtype)

    def bias(self, q: Float[Array, "4"], v: Float[Array, "3"]) -> Float[Array, "6"]:
        return jnp.zeros(6, v.dtype)

    def integrate(self, q: Float[Array, "4"], dv: Float[Array, "3"]) -> Float[Array, "4"]:
        return unit(quaternion_multiply(q, quaternion_exp(dv)))

    def difference(self, q0: Float[Array, "4"], q1: Float[Array, "4"]) -> Float[Array, "3"]:
        return quaternion_log(quaternion_multiply(quaternion_conjugate(unit(q0)), unit(q1)))

    def velocity(self, q: Float[Array, "4"], q_dot: Float[Array, "4"]) -> Float[Array, "3"]:
        return quaternion_velocity(q, q_dot)

    def neutral(self) -> Float[Array, "4"]:
        return jnp.array([1.0, 0.0, 0.0, 0.0])

    def random(self, key: Key, lower: Float[Array, "4"], upper: Float[Array, "4"]) -> Float[Array, "4"]:
        return random_quaternion(key, lower.dtype)
