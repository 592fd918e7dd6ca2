"""Universal joint."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..numerics import cross, matmul, matvec
from ..spatial import Transform, axis_angle_to_matrix, unit
from ..typing import Key
from ._base import FARTHEST_ANGLE, AbstractVectorJoint, uniform, unit_axis


class Universal(AbstractVectorJoint):
    """Rotation by `q[0]` [rad] about `axis1`, fixed in the parent, then by `q[1]` about `axis2`, fixed in the body.

    The axes need not be perpendicular, only not parallel.
    """

    axis1: Float[Array | np.ndarray, "3"] = eqx.field(converter=unit_axis)
    axis2: Float[Array | np.ndarray, "3"] = eqx.field(converter=unit_axis)
    nq: ClassVar[int] = 2
    nv: ClassVar[int] = 2
    only_turns: ClassVar[bool] = True

    def __check_init__(self):
        if isinstance(self.axis1, np.ndarray) and isinstance(self.axis2, np.ndarray):
            parallel = np.linalg.norm(np.cross(self.axis1, self.axis2)) < 1e-9
            if parallel:
                raise ValueError(
                    f"The axes of a universal joint must not be parallel, got {self.axis1.tolist()} and "
                    f"{self.axis2.tolist()}; use Revolute for one axis."
                )

    def transform(self, q: Float[Array, "2"]) -> Transform:
        first = axis_angle_to_matrix(unit(self.axis1), q[0])
        second = axis_angle_to_matrix(unit(self.axis2), q[1])
        return Transform(matmul(first, second), jnp.zeros(3, q.dtype))

    def _first_axis_in_body(self, q: Float[Array, "2"]) -> Float[Array, "3"]:
        return matvec(axis_angle_to_matrix(unit(self.axis2), -q[1]), unit(self.axis1))

    def motion_subspace(self, q: Float[Array, "2"]) -> Float[Array, "6 2"]:
        angular = jnp.stack([self._first_axis_in_body(q), unit(self.axis2)], axis=1)
        return jnp.concatenate([angular, jnp.zeros_like(angular)], axis=0)

    def bias(self, q: Float[Array, "2"], v: Float[Array, "2"]) -> Float[Array, "6"]:
        angular = cross(self._first_axis_in_body(q) * v[0], unit(self.axis2) * v[1])
        return jnp.concatenate([angular, jnp.zeros_like(angular)])

    def random(self, key: Key, lower: Float[Array, "2"], upper: Float[Array, "2"]) -> Float[Array, "2"]:
        return uniform(key, lower, upper, jnp.pi, FARTHEST_ANGLE)
