"""Motions of all bodies as arrays, for algorithms that are built on blocks of six rows."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model import join_bodies
from ..spatial import shift_motion
from ._body_motions import BodyMotions


class BodyArrays(eqx.Module):
    """How bodies are placed and move, in world axes about their origins; see `Link`.

    **Fields:** `rotation`; `offset` from the parent's origin; `subspace` S, padded to d columns; `angular` velocity;
    `bias` acceleration.
    """

    rotation: Float[Array, "*n 3 3"]
    offset: Float[Array, "*n 3"]
    subspace: Float[Array, "*n 6 d"]
    angular: Float[Array, "*n 3"]
    bias: Float[Array, "*n 6"]

    def carried(self, parent: Float[Array, "6"]) -> Float[Array, "6"]:
        """Acceleration of the body from its parent's, at zero joint acceleration."""
        return shift_motion(parent, self.offset) + self.bias


def body_arrays(motions: BodyMotions) -> BodyArrays:
    """All bodies (nb). All subspaces have as many columns as that of the joint with most freedoms."""
    d = motions.topology.widest

    def padded(subspace: Float[Array, "n 6 k"]) -> Float[Array, "n 6 d"]:
        return jnp.pad(subspace, ((0, 0), (0, 0), (0, d - subspace.shape[-1])))

    return join_bodies(
        motions.topology,
        [
            BodyArrays(
                link.rotation.array(),
                link.offset.array(),
                padded(link.subspace.matrix()),
                link.velocity.angular.array(),
                link.bias.array(),
            )
            for link in motions.links
        ],
    )
