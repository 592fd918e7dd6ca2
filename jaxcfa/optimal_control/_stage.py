"""What the terms of a problem see."""

from functools import cached_property, partial
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..model import Model
from ..motion import BodyMotions, body_motions
from ..numerics import instantiate
from ..typing import Configuration, Velocity
from ._dynamics import AbstractDynamics
from ._robot_dynamics import AbstractRobotDynamics

_Tree = TypeVar("_Tree")


class Stage:
    """One instant of a motion, as the terms of a problem see it: `x`, `u`, `t`, and of a robot `q`, `v`, `motions`.

    What several terms need of a robot is computed once.

    **Fields:** `dynamics` of the phase; `x` (nx,); `u` (m,), not at the end; `t`, the number of the stage.
    """

    def __init__(
        self,
        dynamics: AbstractDynamics,
        x: Float[Array, "nx"] | tuple[Array, ...],
        u: Float[Array, "m"] | None,
        t: Int[Array, ""],
        known: BodyMotions | None = None,
    ):
        self.dynamics = dynamics
        # Blocks of a state stay apart, so that what does not depend on one has no derivatives by it.
        self._blocks = x if isinstance(x, tuple) else dynamics.blocks(x)
        self.x = jnp.concatenate(x) if isinstance(x, tuple) else x
        self.t = t
        self._u = u
        self._known = known

    @property
    def u(self) -> Float[Array, "m"]:
        """The control (m,)."""
        if self._u is None:
            raise ValueError(
                "There is no control at the end of a motion, nor in inverse kinematics: leave out what depends on u."
            )
        return self._u

    @property
    def is_end(self) -> bool:
        """Whether this is the end of the motion, where there is no control."""
        return self._u is None

    @property
    def q(self) -> Configuration:
        """The configuration (nq,) of a robot."""
        return self._of_robot[0]

    @property
    def v(self) -> Velocity:
        """The velocity (nv,) of a robot [rad/s, m/s]."""
        return self._of_robot[1]

    @cached_property
    def tau(self) -> Velocity:
        """Joint torques and forces (nv,) of the control [N m, N]."""
        return self._robot.torques_at(self)

    @property
    def dt(self) -> Float[Array, ""]:
        """The time to the next stage of a robot [s], found with the motion if the problem has `step_lengths`."""
        return self._robot.step_length(self)

    @property
    def blocks(self) -> tuple[Array, ...]:
        """The parts of the state that are displaced by one block of a tangent vector each."""
        return self._blocks

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
        """`body_motions` of the robot at rest, which depend on q only."""
        return body_motions(self.model, self.q)

    def displaced(self, *dz: Float[Array, "_"], first_order: bool = False) -> "Stage":
        """This instant with the state displaced by its `tangent_blocks` and then, unless at the end, u by du.

        If only first derivatives where nothing is displaced are needed, `motions` need not be found again.
        """
        blocks = len(self.dynamics.tangent_blocks)
        u = None if self._u is None else self._u + dz[blocks]
        x = self.dynamics.displaced(self.x, *dz[:blocks])
        return Stage(self.dynamics, x, u, self.t, self.__dict__.get("motions") if first_order else None)

    def with_derivatives_if(self, active: Bool[Array, ""]) -> "Stage":
        """This instant, by which what is not `active` has no derivatives."""
        return _WithDerivativesIf(self, active)

    @property
    def constant_motions(self) -> BodyMotions:
        """`motions`, perhaps without derivatives: for functions that have these in closed form."""
        return self.motions if self._known is None else self._known

    @property
    def _robot(self) -> AbstractRobotDynamics:
        if not isinstance(self.dynamics, AbstractRobotDynamics):
            raise ValueError("Only dynamics of robots have q, v and a model. States of other dynamics are stage.x.")
        return self.dynamics

    @property
    def _of_robot(self) -> tuple[Array, ...]:
        _ = self._robot
        return self._blocks


class _WithDerivativesIf(Stage):
    """A stage with derivatives where a condition holds. What several terms need is still computed once."""

    def __init__(self, stage: Stage, active: Bool[Array, ""]):
        self._of = stage
        self._seen = partial(with_derivatives_if, active)
        dynamics, blocks, u = self._seen((stage.dynamics, stage._blocks, stage._u))
        super().__init__(dynamics, blocks, u, stage.t, stage._known)

    @cached_property
    def tau(self) -> Velocity:
        return self._seen(self._of.tau)

    @cached_property
    def motions(self) -> BodyMotions:
        return self._seen(self._of.motions)

    @cached_property
    def placed(self) -> BodyMotions:
        return self._seen(self._of.placed)


def with_derivatives_if(active: Bool[Array, ""], tree: _Tree) -> _Tree:
    """The same values, by which derivatives are zero unless `active`: those of a root at zero times zero are NaN."""

    return jax.tree.map(lambda x: _seen(active, x) if eqx.is_inexact_array(x) else x, tree)


@jax.custom_jvp
def _seen(active: Bool[Array, ""], x: Array) -> Array:
    # Not a choice between x and x without derivatives: of a batch of stages, that would make a batch of one model.
    return x


def _jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    return _seen(*primals), jnp.where(primals[0], instantiate(tangents[1]), 0)


_seen.defjvp(_jvp, symbolic_zeros=True)
