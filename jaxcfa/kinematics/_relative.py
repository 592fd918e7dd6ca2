"""Poses and motions of frames relative to other frames.

Positions are differences within one tree, from the origin of its first body, and of the trees' first bodies, which
vanish within one tree: far from the world's origin no digits are lost.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..compilation import jit_of_one_state
from ..model import Model
from ..model._arguments import as_arrays, as_frames
from ..motion import BodyMotions, motions_at, schedule_for
from ..motion._jacobians import moving_dofs
from ..numerics import matmul, matvec, transpose
from ..one_function import as_one_function
from ..spatial import Transform, rotate, rotate_columns, shift_motion
from ..structured import AbstractSchedule
from ..typing import ConfigurationLike, Frames, VelocityLike
from ._frames import PlacedFrames, place_frames

Numbers = Int[Array, "*m"]


def relative_pose(
    model: Model,
    q: ConfigurationLike,
    frames: Frames,
    reference: Frames,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> Transform:
    """Poses of frames in other frames.

    **Arguments:** `q` (nq,); `frames` and `reference` as for `frame_pose`: one of each, several of one and one of the
    other, or equally many of both, taken in pairs; `schedule` and `motions` as for `forward_kinematics`.

    **Returns:** a `Transform`, of several with leading axis m.

    **Raises:** `ValueError` for a wrong shape, an unknown name, a number out of range, and numbers of frames that do
    not fit.
    """
    (q,) = as_arrays(model, q=q)
    pairs = _pairs(model, frames, reference)
    return _relative_pose(model, q, *pairs, schedule_for(model, schedule, motions, q), motions)


@jit_of_one_state
@as_one_function
def _relative_pose(
    model: Model,
    q: Float[Array, "nq"],
    numbers: Numbers,
    references: Numbers,
    schedule: AbstractSchedule,
    motions: BodyMotions | None,
) -> Transform:
    motions = motions_at(model, q, None, schedule, motions)
    frames, reference = (place_frames(model, motions, x) for x in (numbers, references))
    turned = transpose(reference.rotation)
    return Transform(matmul(turned, frames.rotation), matvec(turned, _separation(motions, frames, reference)))


def relative_velocity(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    frames: Frames,
    reference: Frames,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> Float[Array, "*m 6"]:
    """Velocities of frames as seen from other frames, in these frames' axes [rad/s, m/s].

    `[w; dp/dt]` where p is the translation and `dR/dt = [w]x R` for the rotation R of `relative_pose`.

    **Arguments:** `q` (nq,), `v` (nv,); `frames` and `reference` as for `relative_pose`; `schedule` and `motions`, with
    this v, as for `forward_kinematics`.

    **Returns:** (6,), of several (m, 6). **Raises:** `ValueError` as for `relative_pose`.
    """
    q, v = as_arrays(model, q=q, v=v)
    pairs = _pairs(model, frames, reference)
    return _relative_velocity(model, q, v, *pairs, schedule_for(model, schedule, motions, q, v), motions)


@jit_of_one_state
@as_one_function
def _relative_velocity(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    numbers: Numbers,
    references: Numbers,
    schedule: AbstractSchedule,
    motions: BodyMotions | None,
) -> Float[Array, "*m 6"]:
    motions = motions_at(model, q, v, schedule, motions)
    frames, reference = (place_frames(model, motions, x) for x in (numbers, references))
    own, other = (shift_motion(x.rows(motions.velocities), x.lever) for x in (frames, reference))
    # The reference's velocity at the point where the frame is.
    there = shift_motion(other, _separation(motions, frames, reference))
    return rotate(transpose(reference.rotation), own - there)


def relative_jacobian(
    model: Model,
    q: ConfigurationLike,
    frames: Frames,
    reference: Frames,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> Float[Array, "*m 6 nv"]:
    """Jacobians of frames relative to other frames: `J v` is `relative_velocity`, in the reference frames' axes.

    `J v = [w; dp/dt]` where p is the translation and `dR/dt = [w]x R` for the rotation R of `relative_pose`. Columns of
    joints that carry both frames vanish exactly.

    **Arguments:** `q` (nq,); `frames` and `reference` as for `relative_pose`; `schedule` and `motions` as for
    `forward_kinematics`.

    **Returns:** (6, nv), of several (m, 6, nv). **Raises:** `ValueError` as for `relative_pose`.
    """
    (q,) = as_arrays(model, q=q)
    pairs = _pairs(model, frames, reference)
    return _relative_jacobian(model, q, *pairs, schedule_for(model, schedule, motions, q), motions)


@jit_of_one_state
@as_one_function
def _relative_jacobian(
    model: Model,
    q: Float[Array, "nq"],
    numbers: Numbers,
    references: Numbers,
    schedule: AbstractSchedule,
    motions: BodyMotions | None,
) -> Float[Array, "*m 6 nv"]:
    motions = motions_at(model, q, None, schedule, motions)
    frames, reference = (place_frames(model, motions, x) for x in (numbers, references))
    columns, origins, dofs = motions.subspace_columns, motions.origins, model.topology.dof_bodies
    roots = motions.roots
    carries = (moving_dofs(model.topology, x.bodies).astype(q.dtype) for x in (frames, reference))
    sign = jnp.subtract(*carries)

    def of_one(point: Array, root: Array, sign: Array) -> Float[Array, "6 nv"]:
        lever = (point[None] - origins[dofs]) + (root[None] - roots[dofs])
        return (sign[:, None] * shift_motion(columns, lever)).T

    of_all = jax.vmap(of_one) if frames.bodies.ndim else of_one
    found = of_all(frames.rows(origins) + frames.lever, frames.rows(roots), sign)
    return rotate_columns(transpose(reference.rotation), found)


def _pairs(model: Model, frames: Frames, reference: Frames) -> tuple[Array | np.ndarray, Array | np.ndarray]:
    """Numbers of both, equally many."""
    numbers, references = as_frames(model, frames), as_frames(model, reference)
    if numbers.ndim and references.ndim and numbers.shape != references.shape:
        raise ValueError(
            f"frames and reference must be equally many, or one of either, got {len(numbers)} and {len(references)}."
        )
    shape = numbers.shape or references.shape
    return jnp.broadcast_to(numbers, shape), jnp.broadcast_to(references, shape)


def _separation(motions: BodyMotions, frames: PlacedFrames, reference: PlacedFrames) -> Float[Array, "*m 3"]:
    """Vectors from the references' origins to those of the frames, world axes."""
    origins, roots = motions.origins, motions.roots
    within = (frames.rows(origins) - reference.rows(origins)) + (frames.lever - reference.lever)
    return within + (frames.rows(roots) - reference.rows(roots))
