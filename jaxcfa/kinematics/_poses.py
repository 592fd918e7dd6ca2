"""Poses of frames."""

from jaxtyping import Array, Float, Int

from ..compilation import jit_of_one_state
from ..model import Model
from ..model._arguments import as_arrays, as_frames
from ..motion import BodyMotions, motions_at, schedule_for
from ..one_function import in_batches
from ..spatial import Transform
from ..structured import AbstractSchedule
from ..typing import ConfigurationLike, Frames
from ._frames import place_frames


def frame_pose(
    model: Model,
    q: ConfigurationLike,
    frames: Frames,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> Transform:
    """Poses of frames or bodies in the world.

    **Arguments:** `q` (nq,); `frames`: name or number (`Model.frame_number`, may be traced), or several of them, such
    as `model.frame_names`; `schedule` and `motions` as for `forward_kinematics`.

    **Returns:** a `Transform`, of several with leading axis m.

    **Raises:** `ValueError` for a wrong shape, an unknown name or a number out of range.
    """
    (q,) = as_arrays(model, q=q)
    return _frame_pose(model, q, as_frames(model, frames), schedule_for(model, schedule, motions, q), motions)


@jit_of_one_state
@in_batches
def _frame_pose(
    model: Model,
    q: Float[Array, "nq"],
    numbers: Int[Array, "*m"],
    schedule: AbstractSchedule,
    motions: BodyMotions | None,
) -> Transform:
    motions = motions_at(model, q, None, schedule, motions)
    frames = place_frames(model, motions, numbers)
    return Transform(frames.rotation, frames.rows(motions.poses.translation) + frames.lever)
