"""What the terms of a problem see."""

from functools import cached_property

from jaxtyping import Array, Float, Int

from .._types import Configuration, Velocity
from ..model import Model
from ..motion import BodyMotions, body_motions
from ._dynamics import AbstractDynamics, RobotDynamics


class Stage:
    """One instant of a motion, as the terms of a problem see it: `x`, `u`, `t`, and of a robot `q`, `v`, `motions`.

    What several terms need of a robot is computed once.

    **Fields:** `dynamics` of the phase; `x` (nx,); `u` (m,), not at the end; `t`, the number of the stage.
    """

    def __init__(
        self,
        dynamics: AbstractDynamics,
        x: Float[Array, "nx"],
        u: Float[Array, "m"] | None,
        t: Int[Array, ""],
    ):
        self.dynamics = dynamics
        self.x = x
        self.t = t
        self._u = u

    @property
    def u(self) -> Float[Array, "m"]:
        """The control (m,)."""
        if self._u is None:
            raise ValueError("There is no control at the end of a motion: leave out of the end what depends on u.")
        return self._u

    @property
    def is_end(self) -> bool:
        """Whether this is the end of the motion, where there is no control."""
        return self._u is None

    @property
    def q(self) -> Configuration:
        """The configuration (nq,) of a robot."""
        return self._robot.split(self.x)[0]

    @property
    def v(self) -> Velocity:
        """The velocity (nv,) of a robot [rad/s, m/s]."""
        return self._robot.split(self.x)[1]

    @property
    def tau(self) -> Velocity:
        """Joint torques and forces (nv,) of the control [N m, N]."""
        return self._robot.torques(self.x, self.u)

    @property
    def model(self) -> Model:
        """The robot."""
        return self._robot.model

    @cached_property
    def motions(self) -> BodyMotions:
        """`body_motions` of the robot, with its velocity."""
        return body_motions(self.model, self.q, self.v)

    @cached_property
    def placed(self) -> BodyMotions:
        """`body_motions` of the robot at rest: all that depends on q alone."""
        return body_motions(self.model, self.q)

    @property
    def _robot(self) -> RobotDynamics:
        if not isinstance(self.dynamics, RobotDynamics):
            raise ValueError("Only RobotDynamics have q, v and a model. States of other dynamics are stage.x.")
        return self.dynamics
