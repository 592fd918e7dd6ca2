"""Poses, velocities, accelerations and Jacobians of frames."""

from jaxtyping import Array, Float, Int

from ..compilation import jit_of_one_state
from ..model import Model, join_bodies
from ..model._arguments import as_arrays, as_frames
from ..motion import BodyMotions, drifts, motions_at, schedule_for
from ..motion._jacobians import point_jacobians
from ..numerics import cross, transpose
from ..one_function import as_one_function
from ..spatial import Transform, pack, rotate_columns, shift_motion
from ..structured import AbstractSchedule
from ..typing import ConfigurationLike, Frames, VelocityLike
from ._bodies import accelerations_at
from ._frames import Axes, PlacedFrames, check_axes, jit_with_axes, place_frames


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
@as_one_function
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


@jit_with_axes
@as_one_function
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


def frame_acceleration(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    qdd: VelocityLike,
    frames: Frames,
    axes: Axes = "world",
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> Float[Array, "*m 6"]:
    """Accelerations of frames: `[angular acceleration; acceleration of the frame's origin]` [rad/s^2, m/s^2].

    These are classical accelerations, time derivatives of `frame_velocity` in world axes; "local" ones are the same
    vectors in the frame's axes. Gravity is not added: an accelerometer also measures `-model.gravity`.

    **Arguments:** `q` (nq,), `v` (nv,), `qdd` (nv,); `frames` as for `frame_pose`; `axes`: "world", or "local" for the
    frame's own; `schedule` and `motions`, with this v, as for `forward_kinematics`.

    **Returns:** (6,), of several frames (m, 6).

    **Raises:** `ValueError` for a wrong shape, an unknown name, a number out of range and other axes.
    """
    check_axes(axes)
    q, v, qdd = as_arrays(model, q=q, v=v, qdd=qdd)
    numbers = as_frames(model, frames)
    return _frame_acceleration(model, q, v, qdd, numbers, schedule_for(model, schedule, motions, q, v), motions, axes)


@jit_with_axes
@as_one_function
def _frame_acceleration(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    qdd: Float[Array, "nv"],
    numbers: Int[Array, "*m"],
    schedule: AbstractSchedule,
    motions: BodyMotions | None,
    axes: Axes,
) -> Float[Array, "*m 6"]:
    motions = motions_at(model, q, v, schedule, motions)
    frames = place_frames(model, motions, numbers)
    return frames.in_axes(_carried(frames, motions, accelerations_at(motions, qdd)), axes)


def _carried(frames: PlacedFrames, motions: BodyMotions, bodies: Float[Array, "nb 6"]) -> Float[Array, "*m 6"]:
    """Accelerations of frames from those of all bodies: `a + alpha x r + w x (w x r)`."""
    acceleration, angular, lever = frames.rows(bodies), frames.rows(motions.velocities[:, :3]), frames.lever
    alpha, origin = acceleration[..., :3], acceleration[..., 3:]
    return pack(alpha, origin + cross(alpha, lever) + cross(angular, cross(angular, lever)))


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


@jit_with_axes
@as_one_function
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
    found = point_jacobians(model, columns, origins, frames.rows(origins) + frames.lever, frames.bodies)
    return rotate_columns(transpose(frames.rotation), found) if axes == "local" else found


def jacobian_dot_v(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    frames: Frames,
    axes: Axes = "world",
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> Float[Array, "*m 6"]:
    """`(dJ/dt) v` of `jacobian` in world axes: classical accelerations of frames at zero joint acceleration.

    "Local" ones are the same vectors in the frames' axes. In either, `J qdd + jacobian_dot_v` with the Jacobian in the
    same axes is `frame_acceleration`.

    **Arguments:** `q` (nq,), `v` (nv,); `frames` as for `frame_pose`; `axes`: "world", or "local" for the frame's own;
    `schedule` and `motions`, with this v, as for `forward_kinematics`.

    **Returns:** (6,), of several frames (m, 6) [rad/s^2, m/s^2].

    **Raises:** `ValueError` for a wrong shape, an unknown name, a number out of range and other axes.
    """
    check_axes(axes)
    q, v = as_arrays(model, q=q, v=v)
    numbers = as_frames(model, frames)
    return _jacobian_dot_v(model, q, v, numbers, schedule_for(model, schedule, motions, q, v), motions, axes)


@jit_with_axes
@as_one_function
def _jacobian_dot_v(
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
    drift = join_bodies(model.topology, [motion.array() for motion in drifts(motions)])
    return frames.in_axes(_carried(frames, motions, drift), axes)
