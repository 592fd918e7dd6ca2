"""Poses, velocities, accelerations and Jacobians of bodies and frames.

Every function takes a `schedule`, `Sequential()` or one that is parallel along the mechanism such as `Doubling()`; if
it is not given, `default_schedule` chooses. And every function takes `motions`, `body_motions` of the same state, if
these are known already.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._arguments import as_arrays
from ._jacobians import point_jacobian, supporting_dofs
from ._small import cross, matvec
from ._types import BodyForcesLike, ConfigurationLike, NameOrNumber, Velocity, VelocityLike
from .model import Model, join_bodies, split_bodies
from .motion import (
    BodyMotions,
    carried_motions,
    drifts,
    joint_motions,
    joint_torques,
    motions_at,
    schedule_for,
    total_forces,
)
from .spatial import Force, Motion, Transform, pack
from .structured import AbstractSchedule

# A traced number, so that one compiled function serves all bodies and frames.
BodyNumber = int | Int[Array, ""]


def forward_kinematics(
    model: Model, q: ConfigurationLike, schedule: AbstractSchedule | None = None, motions: BodyMotions | None = None
) -> Transform:
    """Poses of all bodies in the world.

    **Arguments:** `q` (nq,) [rad, m]. **Returns:** a `Transform` with leading axis nb.

    **Raises:** `ValueError` for a wrong shape.
    """
    return _forward_kinematics(model, *as_arrays(model, q=q), schedule_for(model, schedule, motions), motions)


@jax.jit
def _forward_kinematics(
    model: Model, q: Float[Array, "nq"], schedule: AbstractSchedule, motions: BodyMotions | None
) -> Transform:
    return motions_at(model, q, None, schedule, motions).poses


def frame_pose(
    model: Model,
    q: ConfigurationLike,
    frame_or_body: NameOrNumber,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> Transform:
    """Pose of a frame or body in the world.

    **Arguments:** `q` (nq,); `frame_or_body`: name of a frame or body, or number of a body (-1 is the world).

    **Raises:** `ValueError` for a wrong shape or an unknown name.
    """
    (q,) = as_arrays(model, q=q)
    body, placement = model.locate(frame_or_body)
    return _frame_pose(model, q, body, placement, schedule_for(model, schedule, motions), motions)


@jax.jit
def _frame_pose(
    model: Model,
    q: Float[Array, "nq"],
    body: BodyNumber,
    placement: Transform,
    schedule: AbstractSchedule,
    motions: BodyMotions | None,
) -> Transform:
    return _pose_of(motions_at(model, q, None, schedule, motions).poses, body) @ placement


def body_velocities(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> Float[Array, "nb 6"]:
    """Velocities of all bodies: `[angular velocity; velocity of the body's origin]` in world axes [rad/s, m/s].

    **Arguments:** `q` (nq,), `v` (nv,). **Raises:** `ValueError` for a wrong shape.
    """
    return _body_velocities(model, *as_arrays(model, q=q, v=v), schedule_for(model, schedule, motions), motions)


@jax.jit
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

    **Arguments:** `q` (nq,), `v` (nv,), `qdd` (nv,). **Raises:** `ValueError` for a wrong shape.
    """
    return _body_accelerations(
        model, *as_arrays(model, q=q, v=v, qdd=qdd), schedule_for(model, schedule, motions), motions
    )


@jax.jit
def _body_accelerations(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    qdd: Float[Array, "nv"],
    schedule: AbstractSchedule,
    motions: BodyMotions | None,
) -> Float[Array, "nb 6"]:
    return _accelerations(motions_at(model, q, v, schedule, motions), qdd)


def _accelerations(motions: BodyMotions, qdd: Float[Array, "nv"]) -> Float[Array, "nb 6"]:
    relative = [link.bias + own for link, own in zip(motions.links, joint_motions(motions, qdd), strict=True)]
    found = carried_motions(motions, relative, Motion.zero(qdd.dtype))
    return join_bodies(motions.topology, [acceleration.array() for acceleration in found])


def jacobian(
    model: Model,
    q: ConfigurationLike,
    frame_or_body: NameOrNumber,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> Float[Array, "6 nv"]:
    """Jacobian of a frame or body: `J v = [angular velocity; velocity of the frame's origin]` in world axes.

    **Arguments:** `q` (nq,); `frame_or_body`: name of a frame or body, or number of a body (-1 is the world).

    **Raises:** `ValueError` for a wrong shape or an unknown name.
    """
    (q,) = as_arrays(model, q=q)
    body, placement = model.locate(frame_or_body)
    return _jacobian(
        model,
        q,
        body,
        placement,
        jnp.asarray(supporting_dofs(model, body)),
        schedule_for(model, schedule, motions),
        motions,
    )


@jax.jit
def _jacobian(
    model: Model,
    q: Float[Array, "nq"],
    body: BodyNumber,
    placement: Transform,
    support: Bool[Array, "nv"],
    schedule: AbstractSchedule,
    motions: BodyMotions | None,
) -> Float[Array, "6 nv"]:
    motions = motions_at(model, q, None, schedule, motions)
    pose = Transform(motions.poses.rotation, motions.origins)
    point = _pose_of(pose, body).apply(placement.translation)
    return point_jacobian(model, motions.subspace_columns, motions.origins, point, support)


def jacobian_dot_v(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    frame_or_body: NameOrNumber,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> Float[Array, "6"]:
    """`(dJ/dt) v` of `jacobian`: the classical acceleration of the frame at zero joint acceleration.

    **Arguments:** `q` (nq,), `v` (nv,); `frame_or_body` as for `jacobian`.

    **Returns:** (6,) [rad/s^2, m/s^2]. **Raises:** `ValueError` for a wrong shape or an unknown name.
    """
    q, v = as_arrays(model, q=q, v=v)
    body, placement = model.locate(frame_or_body)
    return _jacobian_dot_v(model, q, v, body, placement, schedule_for(model, schedule, motions), motions)


@jax.jit
def _jacobian_dot_v(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    body: BodyNumber,
    placement: Transform,
    schedule: AbstractSchedule,
    motions: BodyMotions | None,
) -> Float[Array, "6"]:
    motions = motions_at(model, q, v, schedule, motions)
    drift = join_bodies(model.topology, [motion.array() for motion in drifts(motions)])
    everywhere = drift, motions.poses.rotation, motions.velocities[:, :3]
    acceleration, rotation, angular = (_row(x, body) for x in everywhere)
    lever = matvec(rotation, placement.translation)
    alpha, origin = acceleration[:3], acceleration[3:]
    return pack(alpha, origin + cross(alpha, lever) + cross(angular, cross(angular, lever)))


def generalized_forces(
    model: Model,
    q: ConfigurationLike,
    wrenches: BodyForcesLike,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> Velocity:
    """Joint torques and forces equivalent to wrenches on the bodies: `sum of J_i^T w_i`, the transpose of `J v`.

    The product with the Jacobians of all bodies at once, none of which is formed; `body_velocities` is the other one.

    **Arguments:** `q` (nq,); `wrenches` (nb, 6): `[moment; force]` on each body, world axes, at its origin [N m, N].

    **Returns:** (nv,) [N m, N]. **Raises:** `ValueError` for a wrong shape.
    """
    q, wrenches = as_arrays(model, q=q, wrenches=wrenches)
    return _generalized_forces(model, q, wrenches, schedule_for(model, schedule, motions), motions)


@jax.jit
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


def _row(x: Float[Array, "nb *rest"], body: BodyNumber) -> Float[Array, "*rest"]:
    """`x[body]`, zero for the world."""
    return jnp.concatenate([x, jnp.zeros((1, *x.shape[1:]), x.dtype)])[body]


def _pose_of(pose: Transform, body: BodyNumber) -> Transform:
    """`pose[body]`, the identity for the world."""
    world = Transform.identity(pose.translation.dtype)
    return jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]])[body], pose, world)
