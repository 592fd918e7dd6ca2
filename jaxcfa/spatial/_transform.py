"""Rigid transforms (poses)."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._small import matmul, matvec, transpose


class Transform(eqx.Module):
    """Pose of a frame B in a frame A: `x_A = rotation x_B + translation`. Leading axes are a batch.

    **Fields:** `rotation` (columns are B's axes in A), `translation` (B's origin in A, metres).
    """

    rotation: Float[Array, "*batch 3 3"]
    translation: Float[Array, "*batch 3"]

    @staticmethod
    def identity(dtype: jnp.dtype | None = None) -> "Transform":
        """The pose of a frame in itself."""
        return Transform(jnp.eye(3, dtype=dtype), jnp.zeros(3, dtype))

    def __matmul__(self, other: "Transform") -> "Transform":
        """Composition: pose of C in A from the poses of B in A and of C in B."""
        return Transform(matmul(self.rotation, other.rotation), self.apply(other.translation))

    def apply(self, point: Float[Array, "*#batch 3"]) -> Float[Array, "*#batch 3"]:
        """Coordinates in A of a point given in B."""
        return matvec(self.rotation, point) + self.translation

    def inverse(self) -> "Transform":
        """Pose of A in B."""
        rotation = transpose(self.rotation)
        return Transform(rotation, -matvec(rotation, self.translation))

    def as_matrix(self) -> Float[Array, "*batch 4 4"]:
        """Homogeneous 4 x 4 matrix."""
        top = jnp.concatenate([self.rotation, self.translation[..., None]], axis=-1)
        bottom = jnp.broadcast_to(jnp.array([0, 0, 0, 1], top.dtype), (*top.shape[:-2], 1, 4))
        return jnp.concatenate([top, bottom], axis=-2)

    def __getitem__(self, index) -> "Transform":
        """Select from the batch axes."""
        return Transform(self.rotation[index], self.translation[index])
