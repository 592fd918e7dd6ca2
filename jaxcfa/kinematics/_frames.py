"""Placements of frames, whose numbers may be traced, and the axes of their motions."""

from functools import partial
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..compilation import jit_of_one_state
from ..model import WORLD, Model
from ..motion import BodyMotions
from ..numerics import matmul, matvec, transpose
from ..spatial import Transform, rotate

Axes = Literal["world", "local"]
jit_with_axes = partial(jit_of_one_state, jit=partial(jax.jit, static_argnames="axes"))


class PlacedFrames(eqx.Module):
    """Frames on their bodies, in world axes.

    **Fields:** `bodies` that carry them, -1 for the world; `rotation`, the frames' axes; `lever` from the bodies'
    origins to theirs.
    """

    bodies: Int[Array, "*m"]
    rotation: Float[Array, "*m 3 3"]
    lever: Float[Array, "*m 3"]

    def rows(self, x: Float[Array, "nb *rest"]) -> Float[Array, "..."]:
        """What arrays over all bodies have for those of the frames, zero for the world."""
        return jnp.concatenate([x, jnp.zeros((1, *x.shape[1:]), x.dtype)])[self.bodies]

    def in_axes(self, x: Float[Array, "*m 6"], axes: Axes) -> Float[Array, "*m 6"]:
        """Vectors in world axes in the `axes` that are wanted."""
        return rotate(transpose(self.rotation), x) if axes == "local" else x


def place_frames(model: Model, motions: BodyMotions, numbers: Int[Array, "*m"]) -> PlacedFrames:
    """Frames given by numbers, which are -1 for the world, then count bodies, then frames."""
    numbers = jnp.asarray(numbers)
    carriers = np.concatenate([np.arange(model.nb), model.topology.frame_bodies, [WORLD]]).astype(np.int32)
    bodies = jnp.asarray(carriers)[numbers]
    turned = motions.poses.rotation
    of_body = jnp.concatenate([turned, jnp.eye(3, dtype=turned.dtype)[None]])[bodies]
    placement = _placements(model, numbers)
    return PlacedFrames(bodies, matmul(of_body, placement.rotation), matvec(of_body, placement.translation))


def _placements(model: Model, numbers: Int[Array, "*m"]) -> Transform:
    """Poses of frames in the bodies that carry them: that of a body in itself is the identity."""
    identity = Transform.identity(model.dtype)
    if not model.frame_names:
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (*numbers.shape, *x.shape)), identity)
    named = model.frame_placement[jnp.maximum(numbers - model.nb, 0)]
    is_named = numbers >= model.nb

    def choose(own: Array, nothing: Array) -> Array:
        return jnp.where(is_named.reshape(*numbers.shape, *(1,) * nothing.ndim), own, nothing)

    return jax.tree.map(choose, named, identity)


def check_axes(axes: object) -> None:
    """Raises `ValueError` for what are no axes."""
    if axes not in ("world", "local"):
        raise ValueError(f'axes must be "world" or "local", got {axes!r}.')
