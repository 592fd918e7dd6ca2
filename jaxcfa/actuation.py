"""Forces of a model's actuators."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .model import Model
from .model._arguments import as_arrays
from .numerics import product
from .typing import ConfigurationLike, Velocity, VelocityLike


def actuator_forces(model: Model, q: ConfigurationLike, v: VelocityLike, control: ArrayLike) -> Velocity:
    """Joint torques of the actuators, to be used as `tau` or part of it.

    Actuator by actuator, with length `l` and its rate `l' = moment v`,
    `force = clip(gain clip(control) + bias[0] + bias[1] l + bias[2] l')`; see `Actuators` for the symbols. Then
    `tau = moment^T force`, clipped to the `effort` of the joints' limits.

    **Arguments:** `q` (nq,), `v` (nv,); `control` (nu,), in the order of `model.actuators.names`.

    **Returns:** (nv,) [N m, N]. **Raises:** `ValueError` for a wrong shape.
    """
    return _actuator_forces(model, *as_arrays(model, q=q, v=v, control=control))


@jax.jit
def _actuator_forces(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], control: Float[Array, "nu"]
) -> Velocity:
    actuators = model.actuators
    length = product(actuators.length_gradient, q) + actuators.length_offset
    velocity = product(actuators.moment, v)
    clipped = jnp.clip(control, actuators.control_lower, actuators.control_upper)
    bias = actuators.bias[:, 0] + actuators.bias[:, 1] * length + actuators.bias[:, 2] * velocity
    force = jnp.clip(actuators.gain * clipped + bias, actuators.force_lower, actuators.force_upper)
    effort = model.limits.effort
    return jnp.clip(product(actuators.moment.T, force), -effort, effort)
