"""Rigid attachment."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..spatial import Transform
from ..typing import Key
from ._base import AbstractJoint


class Fixed(AbstractJoint):
    """No motion. Bodies attached by a fixed joint are merged into their parent when a model is built, and stay
    available as named frames."""

    nq: ClassVar[int] = 0
    nv: ClassVar[int] = 0
    has_fixed_axes: ClassVar[bool] = True

    def transform(self, q: Float[Array, "0"]) -> Transform:
        return Transform.identity(q.dtype)

    def motion_subspace(self, q: Float[Array, "0"]) -> Float[Array, "6 0"]:
        return jnp.zeros((6, 0), q.dtype)

    def bias(self, q: Float[Array, "0"], v: Float[Array, "0"]) -> Float[Array, "6"]:
        return jnp.zeros(6, v.dtype)

    def integrate(self, q: Float[Array, "0"], dv: Float[Array, "0"]) -> Float[Array, "0"]:
        return q

    def difference(self, q0: Float[Array, "0"], q1: Float[Array, "0"]) -> Float[Array, "0"]:
        return q1

    def neutral(self) -> Float[Array, "0"]:
        return jnp.zeros(0)

    def random(self, key: Key, lower: Float[Array, "0"], upper: Float[Array, "0"]) -> Float[Array, "0"]:
        return lower
