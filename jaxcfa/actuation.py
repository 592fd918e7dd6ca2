"""Forces of a model's actuators."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

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
    effort = model.limits.effort
    return jnp.clip(_before_efforts(model, q, v, control)[1], -effort, effort)


def servo_damping(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], control: Float[Array, "nu"]
) -> Float[Array, "nv"]:
    """How much `actuator_forces` fall with the velocities of joints (nv,) [N m s/rad, N s/m], to be taken as armature.

    That is the damping of servos on joints, `-bias[2] moment^2`, where no bound holds force or torque. Where tendons
    couple joints, each has the sum of what the velocities of all do to it: more, so that steps are stable. What is on
    frames does not count.
    """
    is_free, torque = _before_efforts(model, q, v, control)
    damping = jnp.where(is_free, jnp.maximum(-model.actuators.bias[:, 2], 0), 0)
    arms = jnp.abs(model.actuators.moment.astype(q.dtype))
    found = product(arms.T, damping * jnp.sum(arms, axis=1))
    return jnp.where(jnp.abs(torque) <= model.limits.effort, found, 0)


def _before_efforts(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], control: Float[Array, "nu"]
) -> tuple[Bool[Array, "nu"], Velocity]:
    """Whether no bound holds the force of each actuator, and the torques that no effort limits."""
    actuators, moment = model.actuators, _moments(model, q)
    length = product(actuators.length_gradient, q) + actuators.length_offset
    clipped = jnp.clip(control, actuators.control_lower, actuators.control_upper)
    bias = actuators.bias[:, 0] + actuators.bias[:, 1] * length + actuators.bias[:, 2] * product(moment, v)
    wanted = actuators.gain * clipped + bias
    force = jnp.clip(wanted, actuators.force_lower, actuators.force_upper)
    return force == wanted, product(moment.T, force)


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
