"""Free joint (six degrees of freedom)."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import cross, matvec, transpose
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
from ._base import AbstractJoint, uniform


class Free(AbstractJoint):
    """Unconstrained motion, in MuJoCo's coordinates.

    `q = [position (3, parent's axes), unit quaternion (4, w first)]`, `v = [linear velocity of the body's origin in
    the parent's axes, angular velocity in body axes]`. Position and orientation integrate independently.
    """

    nq: ClassVar[int] = 7
    nv: ClassVar[int] = 6
    quaternions: ClassVar[tuple[int, ...]] = (3,)

    def transform(self, q: Float[Array, "7"]) -> Transform:
        return Transform(quaternion_to_matrix(q[3:]), q[:3])

    def motion_subspace(self, q: Float[Array, "7"]) -> Float[Array, "6 6"]:
        to_body = transpose(quaternion_to_matrix(q[3:]))
        zero, one = jnp.zeros_like(to_body), jnp.eye(3, dtype=q.dtype)
        return jnp.concatenate([jnp.concatenate([zero, one], axis=1), jnp.concatenate([to_body, zero], axis=1)], axis=0)

    def bias(self, q: Float[Array, "7"], v: Float[Array, "6"]) -> Float[Array, "6"]:
        # The linear velocity is constant in the parent's axes, so in body axes it turns with -angular velocity.
        linear = matvec(transpose(quaternion_to_matrix(q[3:])), v[:3])
        return jnp.concatenate([jnp.zeros_like(linear), -cross(v[3:], linear)])

    def integrate(self, q: Float[Array, "7"], dv: Float[Array, "6"]) -> Float[Array, "7"]:
        quaternion = unit(quaternion_multiply(q[3:], quaternion_exp(dv[3:])))
        return jnp.concatenate([q[:3] + dv[:3], quaternion])

    def difference(self, q0: Float[Array, "7"], q1: Float[Array, "7"]) -> Float[Array, "6"]:
        rotation = quaternion_log(quaternion_multiply(quaternion_conjugate(unit(q0[3:])), unit(q1[3:])))
        return jnp.concatenate([q1[:3] - q0[:3], rotation])

    def velocity(self, q: Float[Array, "7"], q_dot: Float[Array, "7"]) -> Float[Array, "6"]:
        return jnp.concatenate([q_dot[:3], quaternion_velocity(q[3:], q_dot[3:])])

    def neutral(self) -> Float[Array, "7"]:
        return jnp.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])

    def random(self, key: Key, lower: Float[Array, "7"], upper: Float[Array, "7"]) -> Float[Array, "7"]:
        key_position, key_rotation = jax.random.split(key)
        position = uniform(key_position, lower[:3], upper[:3], 1.0)
        return jnp.concatenate([position, random_quaternion(key_rotation, lower.dtype)])
