"""Jacobians of frames."""

from functools import partial

import jax
from jaxtyping import Array, Bool, Float, Int

from ..compilation import jit_of_one_state
from ..model import Model
from ..model._arguments import as_arrays, as_frames
from ..motion import BodyMotions, motions_at, schedule_for
from ..motion._jacobians import moving_dofs, point_jacobian
from ..numerics import transpose
from ..one_function import in_batches
from ..spatial import rotate_columns
from ..structured import AbstractSchedule
from ..typing import ConfigurationLike, Frames
from ._frames import Axes, check_axes, place_frames


def jacobian(
    model: Model,
    q: ConfigurationLike,
    frames: Frames,
    axes: Axes = "world",
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> Float[Array, "*m 6 nv"]:
    """Jacobians of frames or bodies: `J v = [angular velocity; velocity of the frame's origin]`.

    **Arguments:** `q` (nq,); `frames` as for `frame_pose`; `axes` of the velocities: "world", or "local" for the
    frame's own; `schedule` and `motions` as for `forward_kinematics`.

    **Returns:** (6, nv), of several frames (m, 6, nv).

    **Raises:** `ValueError` for a wrong shape, an unknown name, a number out of range and other axes.
    """
    check_axes(axes)
    (q,) = as_arrays(model, q=q)
    return _jacobian(model, q, as_frames(model, frames), schedule_for(model, schedule, motions, q), motions, axes)


@partial(jit_of_one_state, jit=partial(jax.jit, static_argnames="axes"))
@in_batches
def _jacobian(
    model: Model,
    q: Float[Array, "nq"],
    numbers: Int[Array, "*m"],
    schedule: AbstractSchedule,
    motions: BodyMotions | None,
    axes: Axes,
) -> Float[Array, "*m 6 nv"]:
    motions = motions_at(model, q, None, schedule, motions)
    columns, origins = motions.subspace_columns, motions.origins
    frames = place_frames(model, motions, numbers)

    def of_one(point: Float[Array, "3"], support: Bool[Array, "nv"]) -> Float[Array, "6 nv"]:
        return point_jacobian(model, columns, origins, point, support)

    of_all = jax.vmap(of_one) if frames.bodies.ndim else of_one
    found = of_all(frames.rows(origins) + frames.lever, moving_dofs(model.topology, frames.bodies))
    return rotate_columns(transpose(frames.rotation), found) if axes == "local" else found
