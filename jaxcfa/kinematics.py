"""Poses, velocities, accelerations and Jacobians of bodies and frames."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._arguments import as_arrays
from ._motion import BodyMotion, poses, sweep_motions, velocities
from ._small import cross, matvec
from ._types import ConfigurationLike, VelocityLike
from .model import Model, split_dofs
from .spatial import Transform, pack, shift_motion

# A traced number, so that one compiled function serves all bodies and frames.
BodyNumber = int | Int[Array, ""]


def forward_kinematics(model: Model, q: ConfigurationLike) -> Transform:
    """Poses of all bodies in the world.

    **Arguments:** `q` (nq,) [rad, m]. **Returns:** a `Transform` with leading axis nb.

    **Raises:** `ValueError` for a wrong shape.
    """
    return _forward_kinematics(model, *as_arrays(model, q=q))


@jax.jit
def _forward_kinematics(model: Model, q: Float[Array, "nq"]) -> Transform:
    return poses(model, q).pose


def frame_pose(model: Model, q: ConfigurationLike, frame_or_body: str | int) -> Transform:
    """Pose of a frame or body in the world.

    **Arguments:** `q` (nq,); `frame_or_body`: name of a frame or body, or number of a body (-1 is the world).

    **Raises:** `ValueError` for a wrong shape or an unknown name.
    """
    (q,) = as_arrays(model, q=q)
    body, placement = model.locate(frame_or_body)
    return _frame_pose(model, q, body, placement)


@jax.jit
def _frame_pose(model: Model, q: Float[Array, "nq"], body: BodyNumber, placement: Transform) -> Transform:
    return _pose_of(poses(model, q).pose, body) @ placement


def body_velocities(model: Model, q: ConfigurationLike, v: VelocityLike) -> Float[Array, "nb 6"]:
    """Velocities of all bodies: `[angular velocity; velocity of the body's origin]` in world axes [rad/s, m/s].

    **Arguments:** `q` (nq,), `v` (nv,). **Raises:** `ValueError` for a wrong shape.
    """
    return _body_velocities(model, *as_arrays(model, q=q, v=v))


@jax.jit
def _body_velocities(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "nb 6"]:
    where = poses(model, q)
    return velocities(model, where, v)


def body_accelerations(model: Model, q: ConfigurationLike, v: VelocityLike, qdd: VelocityLike) -> Float[Array, "nb 6"]:
    """Accelerations of all bodies: `[angular acceleration; acceleration of the body's origin]` in world axes.

    These are classical accelerations (time derivatives of `body_velocities`), in [rad/s^2, m/s^2]; gravity is not
    added.

    **Arguments:** `q` (nq,), `v` (nv,), `qdd` (nv,). **Raises:** `ValueError` for a wrong shape.
    """
    return _body_accelerations(model, *as_arrays(model, q=q, v=v, qdd=qdd))


@jax.jit
def _body_accelerations(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], qdd: Float[Array, "nv"]
) -> Float[Array, "nb 6"]:
    return jnp.concatenate([acceleration for acceleration, *_ in _accelerations(model, q, v, qdd)])


def _accelerations(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], qdd: Float[Array, "nv"]
) -> list[tuple[Array, Array, Array]]:
    """Accelerations, rotations and angular velocities of all bodies, by segment."""

    def visit(parent: Array, motion: BodyMotion, qdd: Array):
        acceleration = motion.acceleration(parent, qdd)
        return acceleration, (acceleration, motion.rotation, motion.angular)

    return sweep_motions(model, q, v, visit, jnp.zeros(6, q.dtype), split_dofs(model, qdd))


def jacobian(model: Model, q: ConfigurationLike, frame_or_body: str | int) -> Float[Array, "6 nv"]:
    """Jacobian of a frame or body: `J v = [angular velocity; velocity of the frame's origin]` in world axes.

    **Arguments:** `q` (nq,); `frame_or_body`: name of a frame or body, or number of a body (-1 is the world).

    **Raises:** `ValueError` for a wrong shape or an unknown name.
    """
    (q,) = as_arrays(model, q=q)
    body, placement = model.locate(frame_or_body)
    return _jacobian(model, q, body, placement, _supporting_dofs(model, body))


@jax.jit
def _jacobian(
    model: Model, q: Float[Array, "nq"], body: BodyNumber, placement: Transform, support: Bool[Array, "nv"]
) -> Float[Array, "6 nv"]:
    where = poses(model, q)
    point = _pose_of(where.pose, body).apply(placement.translation)
    origins = where.pose.translation[model.topology.dof_bodies]
    columns = shift_motion(where.subspace.columns(), point - origins)
    return jnp.where(support[:, None], columns, 0).T


def jacobian_dot_v(model: Model, q: ConfigurationLike, v: VelocityLike, frame_or_body: str | int) -> Float[Array, "6"]:
    """`(dJ/dt) v` of `jacobian`: the classical acceleration of the frame at zero joint acceleration.

    **Arguments:** `q` (nq,), `v` (nv,); `frame_or_body` as for `jacobian`.

    **Returns:** (6,) [rad/s^2, m/s^2]. **Raises:** `ValueError` for a wrong shape or an unknown name.
    """
    q, v = as_arrays(model, q=q, v=v)
    body, placement = model.locate(frame_or_body)
    return _jacobian_dot_v(model, q, v, body, placement)


@jax.jit
def _jacobian_dot_v(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], body: BodyNumber, placement: Transform
) -> Float[Array, "6"]:
    segments = _accelerations(model, q, v, jnp.zeros_like(v))
    acceleration, rotation, angular = jax.tree.map(lambda *x: _row(jnp.concatenate(x), body), *segments)
    lever = matvec(rotation, placement.translation)
    alpha, origin = acceleration[:3], acceleration[3:]
    return pack(alpha, origin + cross(alpha, lever) + cross(angular, cross(angular, lever)))


def _supporting_dofs(model: Model, body: int) -> Bool[Array, "nv"]:
    return jnp.asarray(model.topology.supports(body)[model.topology.dof_bodies])


def _row(x: Float[Array, "nb *rest"], body: BodyNumber) -> Float[Array, "*rest"]:
    """`x[body]`, zero for the world."""
    return jnp.concatenate([x, jnp.zeros((1, *x.shape[1:]), x.dtype)])[body]


def _pose_of(pose: Transform, body: BodyNumber) -> Transform:
    """`pose[body]`, the identity for the world."""
    world = Transform.identity(pose.translation.dtype)
    return jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]])[body], pose, world)
