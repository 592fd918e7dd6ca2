"""Inverse dynamics as a linear function of the inertial parameters."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model import Model, join_bodies
from ..motion import BodyMotions, accelerations, of_motions, resting_world
from ..motion._jacobians import point_jacobians
from ..numerics import matmul, matvec, skew, transpose
from ..spatial import rotate_columns
from ..structured import AbstractSchedule
from ..typing import ConfigurationLike, VelocityLike


def regressor(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    qdd: VelocityLike,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> Float[Array, "nv parameters"]:
    """The matrix Y with `inverse_dynamics(model, q, v, qdd) = Y pi + armature * qdd`.

    `pi` are the inertial parameters of all bodies, body after body: `inertial_parameters(model).reshape(-1)`. Y depends
    on the state, on placements, axes and gravity, but on no mass or inertia (Atkeson, An & Hollerbach 1986).
    Columns `10 i` to `10 i + 9` are `J_i^T A_i`, with the Jacobian of body i and the regressor of the wrench that moves
    it, `F_i = A_i pi_i`; they vanish in all rows whose joints do not carry body i.

    Torques are linear in armature too, but it is a parameter of joints and has no column. To identify it as well,
    append `jnp.diag(qdd)`; for viscous damping `jnp.diag(v)`.

    **Arguments:** `q` (nq,); `v` (nv,) [rad/s, m/s]; `qdd` (nv,) [rad/s^2, m/s^2]; `schedule` and
    `motions` as for `inverse_dynamics`.

    **Returns:** Y (nv, 10 nb) [N m or N, for each kg, kg m or kg m^2]. **Raises:** `ValueError` for a wrong shape.
    """
    return _regressor(model, motions, schedule, q=q, v=v, qdd=qdd)


@of_motions
def _regressor(model: Model, motions: BodyMotions, qdd: Float[Array, "nv"]) -> Float[Array, "nv parameters"]:
    moved = accelerations(motions, qdd, resting_world(model, qdd.dtype))
    acceleration = join_bodies(model.topology, [x.array() for x in moved])
    rotation, angular, origin = motions.poses.rotation, motions.velocities[:, :3], motions.origins
    jacobians = point_jacobians(model, motions.subspace_columns, origin, origin, np.arange(model.nb))
    blocks = matmul(transpose(jacobians), wrench_regressor(acceleration, angular, rotation))
    return jnp.swapaxes(blocks, 0, 1).reshape(model.nv, 10 * model.nb)


def wrench_regressor(
    acceleration: Float[Array, "*n 6"], angular: Float[Array, "*n 3"], rotation: Float[Array, "*n 3 3"]
) -> Float[Array, "*n 6 10"]:
    """The matrix A with the wrench `F = A pi` that moves a body, in world axes about the body's origin.

    With classical acceleration `[alpha; a]` (less gravity) and angular velocity w, in body axes, Newton and Euler are
    `[J alpha + w x J w + h x a; m a + alpha x h + w x (w x h)]`, linear in m, h and J.
    """
    inverse = transpose(rotation)
    alpha, a, w = (matvec(inverse, x) for x in (acceleration[..., :3], acceleration[..., 3:], angular))
    turning = skew(w)
    of_mass = jnp.concatenate([jnp.zeros_like(a), a], axis=-1)[..., None]
    of_moment = jnp.concatenate([-skew(a), skew(alpha) + matmul(turning, turning)], axis=-2)
    euler = _product_with_inertia(alpha) + matmul(turning, _product_with_inertia(w))
    of_inertia = jnp.concatenate([euler, jnp.zeros_like(euler)], axis=-2)
    return rotate_columns(rotation, jnp.concatenate([of_mass, of_moment, of_inertia], axis=-1))


def _product_with_inertia(x: Float[Array, "*n 3"]) -> Float[Array, "*n 3 6"]:
    """The matrix L with `J x = L [Jxx, Jxy, Jyy, Jxz, Jyz, Jzz]`."""
    a, b, c = x[..., 0], x[..., 1], x[..., 2]
    o = jnp.zeros_like(a)
    rows = [jnp.stack(row, axis=-1) for row in ((a, b, o, c, o, o), (o, a, b, o, c, o), (o, o, o, a, b, c))]
    return jnp.stack(rows, axis=-2)
