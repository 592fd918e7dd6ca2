"""A pole on a cart."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..joints import Prismatic, Revolute
from ..model import Model, ModelBuilder
from ..model._arguments import check_flag, positive_number
from ..optimal_control import RobotDynamics
from ..typing import Key
from ._plant import Plant, step_of
from ._robot import AbstractRobotEnvironment

_TRACK = 2.4  # m, to each side
_FALLEN = 0.2  # rad
_EFFORT = 0.01  # what the largest force costs


class CartPole(AbstractRobotEnvironment):
    """A pole, hinged on a cart that a force drives along a track: to be swung up, or only to be kept upright.

    `q = [position of the cart along x [m], angle of the pole about y [rad]]`, which is zero where the pole stands. The
    cart weighs 1 kg; the pole is a thin rod of 0.1 kg and 1 m. There is no friction. (Barto, Sutton & Anderson,
    Neuronlike adaptive elements that can solve difficult learning control problems, 1983.)

    - Action (1,): the force on the cart, up to 10 N, for 0.04 s (two steps of simulation).
    - Observation (5,): position, cosine and sine of the angle, both velocities [m, 1, 1, m/s, rad/s].
    - Reward, between -0.01 and 1: `posture`, `(1 + cos angle) / 2 * exp(-(x / 1.2 m)^2)`, less `effort`,
      0.01 of the squared action.
    - Start: hanging, or standing if `swing_up=False`, with random displacements of at most 0.05 (m, rad, m/s, rad/s).
    - End: 2.4 m from the middle; without swinging up also with the pole 0.2 rad from upright.

    **Fields:** `plant`; `swing_up`.
    """

    plant: Plant
    swing_up: bool = eqx.field(static=True)

    def __init__(
        self,
        swing_up: bool = True,
        *,
        cart_mass: float = 1.0,
        pole_mass: float = 0.1,
        pole_length: float = 1.0,
        force: float = 10.0,
        dt: float = 0.04,
        substeps: int = 2,
        dtype=None,
    ):
        """
        **Arguments:** `swing_up`: whether the pole hangs at the start. Masses [kg], `pole_length` [m], largest `force`
        [N], time `dt` of one action [s] and the number of `substeps` in it; `dtype` of the arrays.

        **Raises:** `ValueError` for other values.
        """
        model = _cart_pole(cart_mass, pole_mass, positive_number("pole_length", pole_length), dtype)
        self.plant = Plant(RobotDynamics(model, step_of(dt, substeps), actuated=["slide"]), force, substeps)
        check_flag("swing_up", swing_up)
        self.swing_up = bool(swing_up)

    def start(self, key: Key) -> tuple[Array, Array, tuple[()]]:
        x = jax.random.uniform(key, (4,), self.plant.model.dtype, -0.05, 0.05)
        hanging = jnp.array([0.0, jnp.pi if self.swing_up else 0.0], x.dtype)
        return hanging + x[:2], x[2:], ()

    def observe(self, q: Float[Array, "2"], v: Float[Array, "2"], task: tuple[()]) -> Float[Array, "5"]:
        return jnp.stack([q[0], jnp.cos(q[1]), jnp.sin(q[1]), v[0], v[1]])

    def reward(
        self, q: Float[Array, "2"], v: Float[Array, "2"], action: Float[Array, "1"], task: tuple[()]
    ) -> dict[str, Array]:
        near = jnp.exp(-((q[0] / (_TRACK / 2)) ** 2))
        return {"posture": (1 + jnp.cos(q[1])) / 2 * near, "effort": -_EFFORT * action[0] ** 2}

    def terminated(self, q: Float[Array, "2"], v: Float[Array, "2"], task: tuple[()]) -> Array:
        left = jnp.abs(q[0]) > _TRACK
        return left if self.swing_up else left | (jnp.abs(q[1]) > _FALLEN)


def _cart_pole(cart_mass: float, pole_mass: float, pole_length: float, dtype) -> Model:
    builder = ModelBuilder()
    # The cart does not turn, so that its rotational inertia does not matter.
    builder.add_body(
        "cart", joint=Prismatic(np.array([1.0, 0.0, 0.0])), mass=cart_mass, inertia=0.01, joint_name="slide"
    )
    across, thin = pole_mass * pole_length**2 / 12, pole_mass * (pole_length / 50) ** 2 / 2
    rod: dict[str, Any] = {"mass": pole_mass, "com": (0.0, 0.0, pole_length / 2), "inertia": (across, across, thin)}
    builder.add_body("pole", "cart", Revolute(np.array([0.0, 1.0, 0.0])), joint_name="hinge", **rod)
    builder.add_frame("tip", "pole", (0.0, 0.0, pole_length))
    return builder.build(dtype=dtype)
