"""Velocities of frames."""

from functools import partial

import jax
from jaxtyping import Array, Float, Int

from ..compilation import jit_of_one_state
from ..model import Model
from ..model._arguments import as_arrays, as_frames
from ..motion import BodyMotions, motions_at, schedule_for
from ..one_function import in_batches
from ..spatial import shift_motion
from ..structured import AbstractSchedule
from ..typing import ConfigurationLike, Frames, VelocityLike
from ._frames import Axes, check_axes, place_frames


def frame_velocity(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    frames: Frames,
    axes: Axes = "world",
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> Float[Array, "*m 6"]:
    """Velocities of frames: `[angular velocity; velocity of the frame's origin]` [rad/s, m/s].

    **Arguments:** `q` (nq,), `v` (nv,); `frames` as for `frame_pose`; `axes`: "world", or "local" for the frame's own;
    `schedule` and `motions`, with this v, as for `forward_kinematics`.

    **Returns:** (6,), of several frames (m, 6).

    **Raises:** `ValueError` for a wrong shape, an unknown name, a number out of range and other axes.
    """
    check_axes(axes)
    q, v = as_arrays(model, q=q, v=v)
    numbers = as_frames(model, frames)
    return _frame_velocity(model, q, v, numbers, schedule_for(model, schedule, motions, q, v), motions, axes)


@partial(jit_of_one_state, jit=partial(jax.jit, static_argnames="axes"))
@in_batches
def _frame_velocity(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    numbers: Int[Array, "*m"],
    schedule: AbstractSchedule,
    motions: BodyMotions | None,
    axes: Axes,
) -> Float[Array, "*m 6"]:
    motions = motions_at(model, q, v, schedule, motions)
    frames = place_frames(model, motions, numbers)
    return frames.in_axes(shift_motion(frames.rows(motions.velocities), frames.lever), axes)
