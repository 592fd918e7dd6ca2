"""Robots driven by actions."""

from typing import Any, SupportsIndex

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..model import Model
from ..model._arguments import as_array, is_concrete, known_numbers, positive_integer
from ..optimal_control import RobotDynamics
from ..simulation import State as Motion, Stops
from ..simulation._inputs import checked_dt, input_names

_STOPS = 50.0  # rad/s


class Plant(eqx.Module):
    """A robot that is driven by actions between -1 and 1, each held for some steps of simulation.

    The controls are `middle + scale * clip(action, -1, 1)`.

    **Fields:** `dynamics` of one step of simulation; `middle` and `scale` (m,) [N m, N, or what the actuators take];
    `substeps`: how many steps for one action.
    """

    dynamics: RobotDynamics
    middle: Float[Array, "m"]
    scale: Float[Array, "m"]
    substeps: int = eqx.field(static=True)

    def __init__(
        self,
        dynamics: RobotDynamics,
        limit: ArrayLike | None = None,
        substeps: SupportsIndex = 1,
        *,
        middle: ArrayLike | None = None,
    ):
        """
        **Arguments:** `dynamics`: what is simulated in which steps, and which joints or actuators are driven. `limit`:
        the controls of the action 1, less those of the action 0, one number or (m,) [N m, N, or what actuators take];
        by default the limits of effort of the joints, or the ranges of the actuators' controls. `substeps`: steps of
        simulation for one action. `middle`: the controls of the action 0, one number or (m,), with a `limit` only:
        zero by default.

        **Raises:** `ValueError` for limits that are not positive and finite, or that nobody knows, and for a `middle`
        without a limit.
        """
        if not isinstance(dynamics, RobotDynamics):
            raise ValueError(f"dynamics must be optimal_control.RobotDynamics(model, dt), got {dynamics!r:.200}.")
        if limit is None and middle is not None:
            raise ValueError(f"middle is that of a given limit; give limit, too, or leave out middle, got {middle}.")
        lower, upper = (
            _ranges(dynamics) if limit is None else _about(dynamics, 0.0 if middle is None else middle, limit)
        )
        self.dynamics = dynamics
        self.middle, self.scale = (lower + upper) / 2, (upper - lower) / 2
        self.substeps = positive_integer("substeps", substeps)

    @property
    def model(self) -> Model:
        """The robot."""
        return self.dynamics.model

    @property
    def dt(self) -> Float[Array, ""]:
        """The time for which an action is held [s]."""
        return self.substeps * self.dynamics.dt

    def step(self, q: Float[Array, "nq"], v: Float[Array, "nv"], action: Float[Array, "m"]) -> Motion:
        """The state after `dt`."""
        control = self.middle + self.scale * jnp.clip(action, -1.0, 1.0)

        def substep(x: Array, t: Array) -> tuple[Array, None]:
            return self.dynamics.step(x, control.astype(x.dtype), t), None

        x, _ = jax.lax.scan(substep, jnp.concatenate([q, v]), jnp.arange(self.substeps))
        return Motion(*self.dynamics.split(x))


def step_of(dt: ArrayLike, substeps: SupportsIndex) -> ArrayLike:
    """The length of one step of simulation, of `substeps` for each action, which is held for `dt` [s].

    **Raises:** `ValueError` for a `dt` that is not one positive number, as far as that can be seen.
    """
    checked_dt(dt, jnp.result_type(float))
    return (known_numbers("dt", dt) if is_concrete(dt) else dt) / positive_integer("substeps", substeps)


def _ranges(dynamics: RobotDynamics) -> tuple[Array, Array]:
    """The controls of the actions -1 and 1 that the model gives."""
    model = dynamics.model
    if dynamics.actuated == "actuators":
        actuators = model.actuators
        lower, upper = actuators.control_lower, actuators.control_upper
    else:
        driven = np.arange(model.nv) if dynamics.actuated is None else np.asarray(dynamics.actuated)
        upper = model.limits.effort[driven]
        lower = -upper
    if is_concrete(lower, upper):
        low, high = np.asarray(lower), np.asarray(upper)
        unknown = np.flatnonzero(~np.isfinite(low) | ~np.isfinite(high) | ~(high > low))
        if len(unknown):
            name = input_names(model, dynamics.actuated)[unknown[0]]
            raise ValueError(
                f"The model has no limit for the control of {name!r}: give the controls of the action 1 "
                "as limit, or dynamics with actuated=[...] that names the joints that are driven."
            )
    return lower, upper


def _about(dynamics: RobotDynamics, middle: Any, limit: Any) -> tuple[Array, Array]:
    extent = _controls(dynamics, "limit", limit)
    if is_concrete(extent) and not np.all(np.isfinite(extent) & (np.asarray(extent) > 0)):
        raise ValueError(f"limit must be positive and finite, got {limit}.")
    center = _controls(dynamics, "middle", middle)
    if is_concrete(center) and not np.all(np.isfinite(center)):
        raise ValueError(f"middle must be finite, got {middle}.")
    return center - extent, center + extent


def _controls(dynamics: RobotDynamics, name: str, value: Any) -> Float[Array, "m"]:
    shape = (dynamics.control_size,)
    array = as_array(name)(value).astype(dynamics.model.dtype)
    if array.shape not in ((), shape):
        raise ValueError(f"{name} must be one number or have shape (m,) = {shape}, got {array.shape}.")
    return jnp.broadcast_to(array, shape)


def soft_stops() -> Stops:
    """Ends of ranges that give way farther than by default, so that derivatives through them are smaller."""
    return Stops(jnp.asarray(_STOPS))
