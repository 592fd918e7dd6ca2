"""An arm that reaches for targets."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..configuration import integrate
from ..joints import Revolute
from ..joints._elements import elements
from ..kinematics import frame_pose
from ..model import Model
from ..model._arguments import as_arrays, as_positive, check_model
from ..model._joint_groups import free_dofs
from ..model._ranges import ends_of_ranges, middle
from ..model._topology import WORLD
from ..optimal_control import RobotDynamics
from ..simulation._inputs import Actuated
from ..typing import ConfigurationLike, Key, NameOrNumber
from ._plant import Plant, soft_stops, step_of
from ._robot import AbstractRobotEnvironment

_NEAR = 0.1  # m: where the reward is one half
_EFFORT = 0.01  # what the largest torques cost
_DISPLACED = 0.1  # rad, m: at the start


class Reacher(AbstractRobotEnvironment):
    """A robot that is to bring a frame to a target and keep it there, against gravity.

    - Action (m,): torques [N m] and forces [N] of the joints that are driven, as parts of their limits.
    - Observation: cosines of the angles of revolute joints, their sines, the coordinates of other joints, all
      velocities [rad/s, m/s], and the way (3,) from the frame to the target [m], in world axes.
    - Reward, between -0.01 and 1: `near`, `1 / (1 + (distance / 0.1 m)^2)`, less `effort`, 0.01 of the mean of the
      squared action.
    - Start: at rest near `home`, each joint displaced by at most 0.1 (rad, m). The target is where the frame is after
      displacements by up to `spread`, so that it can be reached.
    - End: never.

    Joints are stopped at the ends of their ranges. Mimic joints and other constraints of the model are not held: lock
    such joints, as those of a gripper, by `lock_joints`. The task in a state's `info` is the target (3,).

    **Fields:** `plant`; `home` (nq,); `spread` [rad, m]; `frame`.
    """

    plant: Plant
    home: Float[Array, "nq"]
    spread: Float[Array, ""]
    frame: NameOrNumber = eqx.field(static=True)

    def __init__(
        self,
        model: Model,
        frame: NameOrNumber,
        *,
        home: ConfigurationLike | None = None,
        spread: ArrayLike = 0.7,
        actuated: Actuated = None,
        limit: ArrayLike | None = None,
        dt: float = 0.04,
        substeps: int = 4,
    ):
        """
        **Arguments:** `model`: a robot with a fixed base; `frame`: a frame or body of it. `home` (nq,): by default the
        middle of the joints' ranges; where these do not end on both sides, zero, or the nearest that leaves room for
        the start. `spread` [rad, m] of the targets. `actuated`: the joints that are driven, by default all, or
        `"actuators"`, as for `RobotDynamics`; `limit`: as for `Plant`. Time `dt` of one action [s]
        and the number of `substeps` in it: more, or a lower `limit`, for arms without damping whose motors bring them
        to a radian in a substep or more.

        **Raises:** `ValueError` for an unknown frame or joint, a frame that is fixed to the world, free joints, a wrong
        shape, a negative `spread`, and unknown limits.
        """
        check_model(model)
        if model.locate(frame)[0] == WORLD:
            raise ValueError(f"Reacher needs a frame that joints move, but {frame!r} is fixed to the world.")
        free = free_dofs(model)
        if floating := [name for name in model.joint_names if free[model.v_slice(name)].any()]:
            raise ValueError(
                f"Reacher is for robots with a fixed base, but {floating[0]!r} is a free joint, which nothing drives: "
                f"load the robot without floating_base=True, or hold it, lock_joints(model, {floating[0]!r})."
            )
        dynamics = RobotDynamics(model, step_of(dt, substeps), actuated=actuated, limits=soft_stops())
        self.plant = Plant(dynamics, limit, substeps)
        (self.home,) = as_arrays(model, q=middle(model, inside=_DISPLACED) if home is None else home)
        self.spread = as_positive("spread", or_zero=True)(spread).astype(model.dtype)
        self.frame = frame

    def start(self, key: Key) -> tuple[Array, Array, Float[Array, "3"]]:
        model, (near, far) = self.plant.model, jax.random.split(key)
        target = frame_pose(model, self._displaced(far, self.spread), self.frame).translation
        return self._displaced(near, _DISPLACED), jnp.zeros(model.nv, model.dtype), target

    def observe(self, q: Float[Array, "nq"], v: Float[Array, "nv"], task: Float[Array, "3"]) -> Array:
        turns = _angles(self.plant.model)
        angles = q[turns]
        return jnp.concatenate([jnp.cos(angles), jnp.sin(angles), q[~turns], v, task - self._position(q)])

    def reward(
        self, q: Float[Array, "nq"], v: Float[Array, "nv"], action: Float[Array, "m"], task: Float[Array, "3"]
    ) -> dict[str, Array]:
        squared = jnp.sum((task - self._position(q)) ** 2)
        return {"near": 1 / (1 + squared / _NEAR**2), "effort": -_EFFORT * jnp.mean(action**2)}

    def terminated(self, q: Float[Array, "nq"], v: Float[Array, "nv"], task: Float[Array, "3"]) -> bool:
        return False

    def _position(self, q: Array) -> Float[Array, "3"]:
        return frame_pose(self.plant.model, q, self.frame).translation

    def _displaced(self, key: Key, size: Any) -> Float[Array, "nq"]:
        """`home`, with each joint displaced at random, within the ranges."""
        model = self.plant.model
        q = integrate(model, self.home, size * jax.random.uniform(key, (model.nv,), self.home.dtype, -1.0, 1.0))
        return jnp.clip(q, *ends_of_ranges(model)).astype(q.dtype)


def _angles(model: Model) -> np.ndarray:
    """(nq,): whether a coordinate is the angle of a revolute joint."""
    turns = np.zeros(model.nq, bool)
    for joint, group in zip(model.joints, model.topology.groups, strict=True):
        for element, in_q, _ in elements(joint):
            turns[group.q_index[:, in_q]] = isinstance(element, Revolute)
    return turns
