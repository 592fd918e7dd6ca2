"""Several joints in series without bodies between them."""

from collections.abc import Iterator
from itertools import accumulate

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import matvec, transpose
from ..numerics._options import check_instance
from ..spatial import Transform, motion_cross, rotate, shift_motion
from ..typing import Key
from ._base import AbstractJoint


class Composite(AbstractJoint):
    """`joints[0]`, next to the parent, followed by the others up to the body; all frames coincide at zero.

    This stands for a chain of massless bodies (several `<joint>` elements in one MJCF `<body>`): one body with
    several degrees of freedom instead, whose inertia is regular.
    """

    joints: tuple[AbstractJoint, ...] = eqx.field(converter=lambda x: tuple(x) if isinstance(x, list) else x)

    def __check_init__(self):
        if not isinstance(self.joints, tuple):
            raise ValueError(f"joints must be a sequence of joints, got {self.joints!r:.200}.")
        for joint in self.joints:
            check_instance("joints", joint, AbstractJoint, "instances of joint types")
        if not self.joints:
            raise ValueError("A composite joint needs at least one joint, got none.")

    @property
    def nq(self) -> int:
        return sum(joint.nq for joint in self.joints)

    @property
    def nv(self) -> int:
        return sum(joint.nv for joint in self.joints)

    @property
    def quaternions(self) -> tuple[int, ...]:
        starts = accumulate((joint.nq for joint in self.joints), initial=0)
        return tuple(start + k for start, joint in zip(starts, self.joints, strict=False) for k in joint.quaternions)

    def _parts(self, q: Array, size: str = "nq") -> Iterator[tuple[AbstractJoint, Array]]:
        start = 0
        for joint in self.joints:
            stop = start + getattr(joint, size)
            yield joint, q[start:stop]
            start = stop

    def transform(self, q: Float[Array, "nq"]) -> Transform:
        total = Transform.identity(q.dtype)
        for joint, q_joint in self._parts(q):
            total = total @ joint.transform(q_joint)
        return total

    def motion_subspace(self, q: Float[Array, "nq"]) -> Float[Array, "6 nv"]:
        columns = jnp.zeros((0, 6), q.dtype)
        for joint, q_joint in self._parts(q):
            moved = jax.vmap(_to_successor, (None, 0))(joint.transform(q_joint), columns)
            columns = jnp.concatenate([moved, joint.motion_subspace(q_joint).T])
        return columns.T

    def bias(self, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "6"]:
        # Velocity and acceleration at zero joint acceleration, carried outward over the joints (RBDA Eq. 5.9).
        velocity = acceleration = jnp.zeros(6, jnp.result_type(q, v))
        for (joint, q_joint), (_, v_joint) in zip(self._parts(q), self._parts(v, "nv"), strict=True):
            pose = joint.transform(q_joint)
            relative = matvec(joint.motion_subspace(q_joint), v_joint)
            velocity = _to_successor(pose, velocity) + relative
            acceleration = (
                _to_successor(pose, acceleration) + joint.bias(q_joint, v_joint) + motion_cross(velocity, relative)
            )
        return acceleration

    def integrate(self, q: Float[Array, "nq"], dv: Float[Array, "nv"]) -> Float[Array, "nq"]:
        pairs = zip(self._parts(q), self._parts(dv, "nv"), strict=True)
        return jnp.concatenate([joint.integrate(q_joint, dv_joint) for (joint, q_joint), (_, dv_joint) in pairs])

    def difference(self, q0: Float[Array, "nq"], q1: Float[Array, "nq"]) -> Float[Array, "nv"]:
        pairs = zip(self._parts(q0), self._parts(q1), strict=True)
        return jnp.concatenate([joint.difference(start, end) for (joint, start), (_, end) in pairs])

    def velocity(self, q: Float[Array, "nq"], q_dot: Float[Array, "nq"]) -> Float[Array, "nv"]:
        pairs = zip(self._parts(q), self._parts(q_dot), strict=True)
        return jnp.concatenate([joint.velocity(q_joint, rate) for (joint, q_joint), (_, rate) in pairs])

    def neutral(self) -> Float[Array, "nq"]:
        dtype = jnp.result_type(float, *jax.tree.leaves(self))
        return jnp.concatenate([joint.neutral().astype(dtype) for joint in self.joints])

    def random(self, key: Key, lower: Float[Array, "nq"], upper: Float[Array, "nq"]) -> Float[Array, "nq"]:
        keys = jax.random.split(key, len(self.joints))
        parts = zip(keys, self._parts(lower), self._parts(upper), strict=True)
        return jnp.concatenate([joint.random(k, low, high) for k, (joint, low), (_, high) in parts])


def _to_successor(pose: Transform, x: Float[Array, "6"]) -> Float[Array, "6"]:
    """A motion vector of the predecessor's frame expressed in the frame at `pose`."""
    return rotate(transpose(pose.rotation), shift_motion(x, pose.translation))
