"""Two links, driven at the second joint."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..joints import Revolute
from ..model import Model, ModelBuilder
from ..model._arguments import positive_number
from ..optimal_control import RobotDynamics
from ..typing import Key
from ._plant import Plant, step_of
from ._robot import AbstractRobotEnvironment

_EFFORT = 0.01  # what the largest torque costs


class Acrobot(AbstractRobotEnvironment):
    """A double pendulum driven at its second joint only, to be swung up and balanced.

    `q = [shoulder, elbow]` [rad] about y, zero where both links hang. Each is a thin rod of 1 kg and 1 m. There is no
    friction. (Spong, The swing up control problem for the acrobot, 1995.)

    - Action (1,): the torque of the elbow, up to 8 N m, for 0.04 s (four steps of simulation).
    - Observation (6,): cosines of both angles, their sines, both velocities [1, 1, rad/s].
    - Reward, between -0.01 and 1: `height` of the end of the second link, 0 below and 1 above, less `effort`, 0.01 of
      the squared action.
    - Start: hanging, with random displacements of at most 0.1 (rad, rad/s).
    - End: never.

    **Fields:** `plant`.
    """

    plant: Plant

    def __init__(
        self,
        *,
        mass: float = 1.0,
        length: float = 1.0,
        torque: float = 8.0,
        dt: float = 0.04,
        substeps: int = 4,
        dtype=None,
    ):
        """
        **Arguments:** `mass` [kg] and `length` [m] of each link, largest `torque` [N m], time `dt` of one action [s]
        and the number of `substeps` in it; `dtype` of the arrays.
        """
        model = _double_pendulum(mass, positive_number("length", length), dtype)
        self.plant = Plant(RobotDynamics(model, step_of(dt, substeps), actuated=["elbow"]), torque, substeps)

    def start(self, key: Key) -> tuple[Array, Array, tuple[()]]:
        x = jax.random.uniform(key, (4,), self.plant.model.dtype, -0.1, 0.1)
        return x[:2], x[2:], ()

    def observe(self, q: Float[Array, "2"], v: Float[Array, "2"], task: tuple[()]) -> Float[Array, "6"]:
        return jnp.concatenate([jnp.cos(q), jnp.sin(q), v])

    def reward(
        self, q: Float[Array, "2"], v: Float[Array, "2"], action: Float[Array, "1"], task: tuple[()]
    ) -> dict[str, Array]:
        height = (2 - jnp.cos(q[0]) - jnp.cos(q[0] + q[1])) / 4
        return {"height": height, "effort": -_EFFORT * action[0] ** 2}

    def terminated(self, q: Float[Array, "2"], v: Float[Array, "2"], task: tuple[()]) -> bool:
        return False


def _double_pendulum(mass: float, length: float, dtype) -> Model:
    builder = ModelBuilder()
    across, thin = mass * length**2 / 12, mass * (length / 50) ** 2 / 2
    rod: dict[str, Any] = {"mass": mass, "com": (0.0, 0.0, -length / 2), "inertia": (across, across, thin)}
    builder.add_body("upper", joint=Revolute(np.array([0.0, 1.0, 0.0])), joint_name="shoulder", **rod)
    builder.add_body(
        "lower", "upper", Revolute(np.array([0.0, 1.0, 0.0])), (0.0, 0.0, -length), joint_name="elbow", **rod
    )
    builder.add_frame("tip", "lower", (0.0, 0.0, -length))
    return builder.build(dtype=dtype)
