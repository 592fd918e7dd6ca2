"""Forces of a model's actuators."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .kinematics import jacobian
from .model import Model
from .model._arguments import as_arrays
from .numerics import matvec, product, transpose
from .typing import ConfigurationLike, Velocity, VelocityLike


def actuator_forces(model: Model, q: ConfigurationLike, v: VelocityLike, control: ArrayLike) -> Velocity:
    """Joint torques of the actuators, to be used as `tau` or part of it.

    Actuator by actuator, with length `l` and its rate `l' = moment v`,
    `force = clip(gain clip(control) + bias[0] + bias[1] l + bias[2] l')`; see `Actuators` for the symbols. Then
    `tau = moment^T force`, clipped to the `effort` of the joints' limits. The moments of those on frames are those of
    their wrenches, `wrench^T J(q)`; what they exert at joints is clipped with the rest, as MuJoCo does.

    **Arguments:** `q` (nq,), `v` (nv,); `control` (nu,), in the order of `model.actuators.names`.

    **Returns:** (nv,) [N m, N]. **Raises:** `ValueError` for a wrong shape.
    """
    return _actuator_forces(model, *as_arrays(model, q=q, v=v, control=control))


@jax.jit
def _actuator_forces(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], control: Float[Array, "nu"]
) -> Velocity:
    actuators, moment, effort = model.actuators, _moments(model, q), model.limits.effort
    force = jnp.clip(_unclipped(model, moment, q, v, control), actuators.force_lower, actuators.force_upper)
    return jnp.clip(product(moment.T, force), -effort, effort)


def servo_damping(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], control: Float[Array, "nu"]
) -> Float[Array, "nv"]:
    """How much `actuator_forces` fall with the velocities of joints (nv,) [N m s/rad, N s/m], to be taken as armature.

    That is the damping of servos on joints, `-bias[2] moment^2`, where no bound holds force or torque. Where tendons
    couple joints, each has the sum of what the velocities of all do to it: more, so that steps are stable. What is on
    frames does not count.
    """
    actuators, moment, effort = model.actuators, _moments(model, q), model.limits.effort
    free = _unclipped(model, moment, q, v, control)
    force = jnp.clip(free, actuators.force_lower, actuators.force_upper)
    torque, arms = product(moment.T, force), jnp.abs(actuators.moment.astype(q.dtype))
    damping = jnp.where(force == free, jnp.maximum(-actuators.bias[:, 2], 0), 0)
    return jnp.where(jnp.abs(torque) <= effort, product(arms.T, damping * jnp.sum(arms, axis=1)), 0)


def _unclipped(
    model: Model,
    moment: Float[Array, "nu nv"],
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    control: Float[Array, "nu"],
) -> Float[Array, "nu"]:
    """Forces without their bounds."""
    actuators = model.actuators
    length = product(actuators.length_gradient, q) + actuators.length_offset
    clipped = jnp.clip(control, actuators.control_lower, actuators.control_upper)
    bias = actuators.bias[:, 0] + actuators.bias[:, 1] * length + actuators.bias[:, 2] * product(moment, v)
    return actuators.gain * clipped + bias


def _moments(model: Model, q: Float[Array, "nq"]) -> Float[Array, "nu nv"]:
    """Moment arms of all actuators, those on frames included."""
    actuators = model.actuators
    frames = {row: frame for row, frame in enumerate(actuators.frames) if frame is not None}
    if not frames:
        return actuators.moment
    rows, distinct = np.array(list(frames)), list(dict.fromkeys(frames.values()))
    jacobians = jacobian(model, q, distinct, axes="local")
    of_each = jacobians[np.array([distinct.index(frame) for frame in frames.values()])]
    of_frames = matvec(transpose(of_each), actuators.wrench[rows].astype(q.dtype))
    return actuators.moment.astype(q.dtype).at[rows].add(of_frames)
