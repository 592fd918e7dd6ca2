"""Wrenches on bodies and frames."""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from ..compilation import jit_of_one_state
from ..model import Model, split_bodies
from ..model._arguments import as_array, as_arrays, as_frames
from ..motion import BodyMotions, joint_torques, motions_at, schedule_for, total_forces
from ..one_function import as_one_function
from ..spatial import Force, rotate, shift_force
from ..structured import AbstractSchedule
from ..typing import BodyForces, BodyForcesLike, ConfigurationLike, Frames, Velocity
from ._frames import Axes, check_axes, jit_with_axes, place_frames


def generalized_forces(
    model: Model,
    q: ConfigurationLike,
    wrenches: BodyForcesLike,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> Velocity:
    """Joint torques and forces equivalent to wrenches on the bodies: `sum of J_i^T w_i`, the transpose of `J v`.

    No Jacobian is formed. The product `J v` is `body_velocities`.

    **Arguments:** `q` (nq,); `wrenches` (nb, 6): `[moment; force]` on each body, world axes, at its origin [N m, N];
    `schedule` and `motions` as for `forward_kinematics`.

    **Returns:** (nv,) [N m, N]. **Raises:** `ValueError` for a wrong shape.
    """
    q, wrenches = as_arrays(model, q=q, wrenches=wrenches)
    return _generalized_forces(model, q, wrenches, schedule_for(model, schedule, motions, q), motions)


@jit_of_one_state
@as_one_function
def _generalized_forces(
    model: Model,
    q: Float[Array, "nq"],
    wrenches: Float[Array, "nb 6"],
    schedule: AbstractSchedule,
    motions: BodyMotions | None,
) -> Velocity:
    motions = motions_at(model, q, None, schedule, motions)
    own = [Force.of(wrench) for wrench in split_bodies(model.topology, wrenches)]
    return joint_torques(motions, total_forces(motions, own))


def wrench_at(
    model: Model,
    q: ConfigurationLike,
    frames: Frames,
    wrenches: ArrayLike,
    axes: Axes = "world",
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> BodyForces:
    """Wrenches at frames as the `f_ext` of dynamics: on each body, world axes, at the body's origin.

    Those at frames of one body add up; those at frames fixed to the world move nothing and do not count.

    **Arguments:** `q` (nq,); `frames` as for `frame_pose`; `wrenches` (6,), of several frames (m, 6): `[moment; force]`
    at each frame's origin [N m, N]; their `axes`: "world", or "local" for the frame's own; `schedule` and `motions` as
    for `forward_kinematics`.

    **Returns:** (nb, 6) [N m, N].

    **Raises:** `ValueError` for a wrong shape, an unknown name, a number out of range and other axes.
    """
    check_axes(axes)
    (q,) = as_arrays(model, q=q)
    numbers = as_frames(model, frames)
    values = as_array("wrenches")(wrenches)
    if values.shape != (*numbers.shape, 6):
        raise ValueError(f"wrenches must have shape {(*numbers.shape, 6)}, six for each frame, got {values.shape}.")
    dtype = jnp.result_type(q, values)
    schedule = schedule_for(model, schedule, motions, q)
    return _wrench_at(model, q.astype(dtype), numbers, values.astype(dtype), schedule, motions, axes)


@jit_with_axes
@as_one_function
def _wrench_at(
    model: Model,
    q: Float[Array, "nq"],
    numbers: Int[Array, "*m"],
    wrenches: Float[Array, "*m 6"],
    schedule: AbstractSchedule,
    motions: BodyMotions | None,
    axes: Axes,
) -> BodyForces:
    frames = place_frames(model, motions_at(model, q, None, schedule, motions), numbers)
    in_world = rotate(frames.rotation, wrenches) if axes == "local" else wrenches
    at_origins = shift_force(in_world, frames.lever)
    # One row more, for the world, whose number counts from the end.
    return jnp.zeros((model.nb + 1, 6), at_origins.dtype).at[frames.bodies].add(at_origins)[:-1]
