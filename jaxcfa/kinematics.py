"""Poses, velocities, accelerations and Jacobians of bodies and frames.

Every function takes a `schedule`, `Sequential()` or one that is parallel along the mechanism such as `Doubling()`; if
it is not given, `default_schedule` chooses.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._arguments import as_arrays
from ._defaults import choose_schedule
from ._jacobians import point_jacobian, supporting_dofs
from ._motion import BodyMotion, sweep_motions
from ._motion_scan import poses_by, scan_accelerations, scan_motions, scan_wrenches, velocities_by
from ._small import cross, matvec
from ._types import BodyForcesLike, ConfigurationLike, NameOrNumber, Velocity, VelocityLike
from .model import Model, pad_dofs, split_dofs
from .spatial import Transform, pack
from .structured import AbstractSchedule, Sequential

# A traced number, so that one compiled function serves all bodies and frames.
BodyNumber = int | Int[Array, ""]


def forward_kinematics(model: Model, q: ConfigurationLike, schedule: AbstractSchedule | None = None) -> Transform:
    """Poses of all bodies in the world.

    **Arguments:** `q` (nq,) [rad, m]. **Returns:** a `Transform` with leading axis nb.

    **Raises:** `ValueError` for a wrong shape.
    """
    return _forward_kinematics(model, *as_arrays(model, q=q), choose_schedule(model, schedule))


@jax.jit
def _forward_kinematics(model: Model, q: Float[Array, "nq"], schedule: AbstractSchedule) -> Transform:
    return poses_by(schedule, model, q).pose


def frame_pose(
    model: Model, q: ConfigurationLike, frame_or_body: NameOrNumber, schedule: AbstractSchedule | None = None
) -> Transform:
    """Pose of a frame or body in the world.

    **Arguments:** `q` (nq,); `frame_or_body`: name of a frame or body, or number of a body (-1 is the world).

    **Raises:** `ValueError` for a wrong shape or an unknown name.
    """
    (q,) = as_arrays(model, q=q)
    body, placement = model.locate(frame_or_body)
    return _frame_pose(model, q, body, placement, choose_schedule(model, schedule))


@jax.jit
def _frame_pose(
    model: Model, q: Float[Array, "nq"], body: BodyNumber, placement: Transform, schedule: AbstractSchedule
) -> Transform:
    return _pose_of(poses_by(schedule, model, q).pose, body) @ placement


def body_velocities(
    model: Model, q: ConfigurationLike, v: VelocityLike, schedule: AbstractSchedule | None = None
) -> Float[Array, "nb 6"]:
    """Velocities of all bodies: `[angular velocity; velocity of the body's origin]` in world axes [rad/s, m/s].

    **Arguments:** `q` (nq,), `v` (nv,). **Raises:** `ValueError` for a wrong shape.
    """
    return _body_velocities(model, *as_arrays(model, q=q, v=v), choose_schedule(model, schedule))


@jax.jit
def _body_velocities(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], schedule: AbstractSchedule
) -> Float[Array, "nb 6"]:
    return velocities_by(schedule, model, poses_by(schedule, model, q), v)


def body_accelerations(
    model: Model, q: ConfigurationLike, v: VelocityLike, qdd: VelocityLike, schedule: AbstractSchedule | None = None
) -> Float[Array, "nb 6"]:
    """Accelerations of all bodies: `[angular acceleration; acceleration of the body's origin]` in world axes.

    These are classical accelerations (time derivatives of `body_velocities`), in [rad/s^2, m/s^2]; gravity is not
    added.

    **Arguments:** `q` (nq,), `v` (nv,), `qdd` (nv,). **Raises:** `ValueError` for a wrong shape.
    """
    return _body_accelerations(model, *as_arrays(model, q=q, v=v, qdd=qdd), choose_schedule(model, schedule))


@jax.jit
def _body_accelerations(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], qdd: Float[Array, "nv"], schedule: AbstractSchedule
) -> Float[Array, "nb 6"]:
    return _accelerations(model, q, v, qdd, schedule)[0]


def _accelerations(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], qdd: Float[Array, "nv"], schedule: AbstractSchedule
) -> tuple[Float[Array, "nb 6"], Float[Array, "nb 3 3"], Float[Array, "nb 3"]]:
    """Accelerations, rotations and angular velocities of all bodies."""

    def visit(parent: Array, motion: BodyMotion, qdd: Array):
        acceleration = motion.acceleration(parent, qdd)
        return acceleration, (acceleration, motion.rotation, motion.angular)

    base = jnp.zeros(6, q.dtype)
    if isinstance(schedule, Sequential):
        segments = sweep_motions(model, q, v, visit, base, split_dofs(model, qdd))
        return jax.tree.map(lambda *x: jnp.concatenate(x), *segments)
    motion = scan_motions(model, q, v, schedule)
    return scan_accelerations(model, motion, pad_dofs(model, qdd), base, schedule), motion.rotation, motion.angular


def jacobian(
    model: Model, q: ConfigurationLike, frame_or_body: NameOrNumber, schedule: AbstractSchedule | None = None
) -> Float[Array, "6 nv"]:
    """Jacobian of a frame or body: `J v = [angular velocity; velocity of the frame's origin]` in world axes.

    **Arguments:** `q` (nq,); `frame_or_body`: name of a frame or body, or number of a body (-1 is the world).

    **Raises:** `ValueError` for a wrong shape or an unknown name.
    """
    (q,) = as_arrays(model, q=q)
    body, placement = model.locate(frame_or_body)
    return _jacobian(
        model, q, body, placement, jnp.asarray(supporting_dofs(model, body)), choose_schedule(model, schedule)
    )


@jax.jit
def _jacobian(
    model: Model,
    q: Float[Array, "nq"],
    body: BodyNumber,
    placement: Transform,
    support: Bool[Array, "nv"],
    schedule: AbstractSchedule,
) -> Float[Array, "6 nv"]:
    where = poses_by(schedule, model, q)
    point = _pose_of(Transform(where.pose.rotation, where.in_tree), body).apply(placement.translation)
    return point_jacobian(model, where.subspace.columns(), where.in_tree, point, support)


def jacobian_dot_v(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    frame_or_body: NameOrNumber,
    schedule: AbstractSchedule | None = None,
) -> Float[Array, "6"]:
    """`(dJ/dt) v` of `jacobian`: the classical acceleration of the frame at zero joint acceleration.

    **Arguments:** `q` (nq,), `v` (nv,); `frame_or_body` as for `jacobian`.

    **Returns:** (6,) [rad/s^2, m/s^2]. **Raises:** `ValueError` for a wrong shape or an unknown name.
    """
    q, v = as_arrays(model, q=q, v=v)
    body, placement = model.locate(frame_or_body)
    return _jacobian_dot_v(model, q, v, body, placement, choose_schedule(model, schedule))


@jax.jit
def _jacobian_dot_v(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    body: BodyNumber,
    placement: Transform,
    schedule: AbstractSchedule,
) -> Float[Array, "6"]:
    everywhere = _accelerations(model, q, v, jnp.zeros_like(v), schedule)
    acceleration, rotation, angular = (_row(x, body) for x in everywhere)
    lever = matvec(rotation, placement.translation)
    alpha, origin = acceleration[:3], acceleration[3:]
    return pack(alpha, origin + cross(alpha, lever) + cross(angular, cross(angular, lever)))


def generalized_forces(
    model: Model, q: ConfigurationLike, wrenches: BodyForcesLike, schedule: AbstractSchedule | None = None
) -> Velocity:
    """Joint torques and forces equivalent to wrenches on the bodies: `sum of J_i^T w_i`, the transpose of `J v`.

    The product with the Jacobians of all bodies at once, none of which is formed; `body_velocities` is the other one.

    **Arguments:** `q` (nq,); `wrenches` (nb, 6): `[moment; force]` on each body, world axes, at its origin [N m, N].

    **Returns:** (nv,) [N m, N]. **Raises:** `ValueError` for a wrong shape.
    """
    q, wrenches = as_arrays(model, q=q, wrenches=wrenches)
    return _generalized_forces(model, q, wrenches, choose_schedule(model, schedule))


@jax.jit
def _generalized_forces(
    model: Model, q: Float[Array, "nq"], wrenches: Float[Array, "nb 6"], schedule: AbstractSchedule
) -> Velocity:
    where = poses_by(schedule, model, q)
    return where.subspace.transpose_mv(scan_wrenches(model, where.offset, wrenches, schedule))


def _row(x: Float[Array, "nb *rest"], body: BodyNumber) -> Float[Array, "*rest"]:
    """`x[body]`, zero for the world."""
    return jnp.concatenate([x, jnp.zeros((1, *x.shape[1:]), x.dtype)])[body]


def _pose_of(pose: Transform, body: BodyNumber) -> Transform:
    """`pose[body]`, the identity for the world."""
    world = Transform.identity(pose.translation.dtype)
    return jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]])[body], pose, world)
