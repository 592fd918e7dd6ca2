"""A joint whose point or line of action does not pass through the body's origin."""

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from ..numerics import matvec
from ..numerics._options import as_finite, check_instance
from ..spatial import Transform, shift_motion
from ..typing import Key
from ._base import AbstractJoint


class Anchored(AbstractJoint):
    """`joint` acting at the point `anchor` of the body (body axes, metres) instead of at the body's origin.

    The frame of the body stays where it is, as the `pos` of a joint in an MJCF file demands: body and joint frame
    still coincide where the inner joint's transform is the identity.
    """

    joint: AbstractJoint
    anchor: Float[Array | np.ndarray, "3"] = eqx.field(converter=lambda x: as_finite(x, (3,), "anchor of a joint"))

    def __check_init__(self):
        check_instance("joint", self.joint, AbstractJoint, "an instance of a joint type")

    @property
    def nq(self) -> int:
        return self.joint.nq

    @property
    def nv(self) -> int:
        return self.joint.nv

    @property
    def has_fixed_axes(self) -> bool:
        return self.joint.has_fixed_axes

    @property
    def quaternions(self) -> tuple[int, ...]:
        return self.joint.quaternions

    def transform(self, q: Float[Array, "nq"]) -> Transform:
        inner = self.joint.transform(q)
        return Transform(inner.rotation, inner.translation + self.anchor - matvec(inner.rotation, self.anchor))

    def motion_subspace(self, q: Float[Array, "nq"]) -> Float[Array, "6 nv"]:
        return shift_motion(self.joint.motion_subspace(q).T, -self.anchor[None]).T

    def bias(self, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "6"]:
        # The anchor is fixed in the body, so the shift is constant in body axes.
        return shift_motion(self.joint.bias(q, v), -self.anchor)

    def integrate(self, q: Float[Array, "nq"], dv: Float[Array, "nv"]) -> Float[Array, "nq"]:
        return self.joint.integrate(q, dv)

    def difference(self, q0: Float[Array, "nq"], q1: Float[Array, "nq"]) -> Float[Array, "nv"]:
        return self.joint.difference(q0, q1)

    def velocity(self, q: Float[Array, "nq"], q_dot: Float[Array, "nq"]) -> Float[Array, "nv"]:
        return self.joint.velocity(q, q_dot)

    def neutral(self) -> Float[Array, "nq"]:
        return self.joint.neutral()

    def random(self, key: Key, lower: Float[Array, "nq"], upper: Float[Array, "nq"]) -> Float[Array, "nq"]:
        return self.joint.random(key, lower, upper)
