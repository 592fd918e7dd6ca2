"""Poses, velocities and accelerations of all bodies."""

from jaxtyping import Array, Float

from ..compilation import jit_of_one_state
from ..model import Model, join_bodies
from ..model._arguments import as_arrays
from ..motion import BodyMotions, accelerations, motions_at, schedule_for
from ..one_function import as_one_function
from ..spatial import Motion, Transform
from ..structured import AbstractSchedule
from ..typing import ConfigurationLike, VelocityLike


def forward_kinematics(
    model: Model, q: ConfigurationLike, schedule: AbstractSchedule | None = None, motions: BodyMotions | None = None
) -> Transform:
    """Poses of all bodies in the world.

    **Arguments:** `q` (nq,) [rad, m]. `schedule`: `Sequential()`, or one that is parallel along the mechanism such as
    `Doubling()`; `default_schedule(model)` if not given. `motions`: `body_motions` of the same q, if known already.

    **Returns:** a `Transform` with leading axis nb.

    **Raises:** `ValueError` for a wrong shape, and for motions that are seen to be of another state.
    """
    (q,) = as_arrays(model, q=q)
    return _forward_kinematics(model, q, schedule_for(model, schedule, motions, q), motions)


@jit_of_one_state
@as_one_function
def _forward_kinematics(
    model: Model, q: Float[Array, "nq"], schedule: AbstractSchedule, motions: BodyMotions | None
) -> Transform:
    return motions_at(model, q, None, schedule, motions).poses


def body_velocities(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> Float[Array, "nb 6"]:
    """Velocities of all bodies: `[angular velocity; velocity of the body's origin]` in world axes [rad/s, m/s].

    **Arguments:** `q` (nq,), `v` (nv,) [rad/s, m/s]; `schedule` and `motions`, with this v, as for
    `forward_kinematics`.

    **Returns:** (nb, 6). **Raises:** `ValueError` as `forward_kinematics`.
    """
    q, v = as_arrays(model, q=q, v=v)
    return _body_velocities(model, q, v, schedule_for(model, schedule, motions, q, v), motions)


@jit_of_one_state
@as_one_function
def _body_velocities(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], schedule: AbstractSchedule, motions: BodyMotions | None
) -> Float[Array, "nb 6"]:
    return motions_at(model, q, v, schedule, motions).velocities


def body_accelerations(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    qdd: VelocityLike,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> Float[Array, "nb 6"]:
    """Accelerations of all bodies: `[angular acceleration; acceleration of the body's origin]` in world axes.

    These are classical accelerations (time derivatives of `body_velocities`), in [rad/s^2, m/s^2]; gravity is not
    added.

    **Arguments:** `q` (nq,), `v` (nv,) [rad/s, m/s], `qdd` (nv,) [rad/s^2, m/s^2]; `schedule` and `motions`, with this
    v, as for `forward_kinematics`.

    **Returns:** (nb, 6). **Raises:** `ValueError` as `forward_kinematics`.
    """
    q, v, qdd = as_arrays(model, q=q, v=v, qdd=qdd)
    return _body_accelerations(model, q, v, qdd, schedule_for(model, schedule, motions, q, v), motions)


@jit_of_one_state
@as_one_function
def _body_accelerations(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    qdd: Float[Array, "nv"],
    schedule: AbstractSchedule,
    motions: BodyMotions | None,
) -> Float[Array, "nb 6"]:
    return accelerations_at(motions_at(model, q, v, schedule, motions), qdd)


def accelerations_at(motions: BodyMotions, qdd: Float[Array, "nv"]) -> Float[Array, "nb 6"]:
    """`body_accelerations` in the state of the motions."""
    found = accelerations(motions, qdd, Motion.zero(qdd.dtype))
    return join_bodies(motions.topology, [acceleration.array() for acceleration in found])
