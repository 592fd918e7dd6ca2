"""Rigid attachment."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..spatial import Transform
from ..typing import Key
from ._base import AbstractFixedAxesJoint


class Fixed(AbstractFixedAxesJoint):
    """No motion. Bodies attached by a fixed joint are merged into their parent when a model is built, and stay
    available as named frames."""

    nq: ClassVar[int] = 0
    nv: ClassVar[int] = 0

    def transform(self, q: Float[Array, "0"]) -> Transform:
        return Transform.identity(q.dtype)

    def motion_subspace(self, q: Float[Array, "0"]) -> Float[Array, "6 0"]:
        return jnp.zeros((6, 0), q.dtype)

    def random(self, key: Key, lower: Float[Array, "0"], upper: Float[Array, "0"]) -> Float[Array, "0"]:
        return lower
