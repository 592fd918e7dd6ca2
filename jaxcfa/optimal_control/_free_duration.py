"""Robots over time steps whose length is found with the motion.

Their bounds are constraints like others, which a search may violate on its way, but by a factor at most: steps of no
length tell nothing about a motion, and searches that come there do not return. (Between bounds that hold always, as by
a logistic function, there is no slope at the ends, and they do not return from these.)
"""

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model import Model
from ._dynamics import AbstractDynamics, LinearizedStep, Time
from ._robot_dynamics import AbstractRobotDynamics

if TYPE_CHECKING:
    from ._stage import Stage

_BEYOND = 2.0  # the factor by which lengths may violate their bounds
_FARTHEST = 20.0  # what is displaced by more is kept within these, but must be finite


class FreeDuration(AbstractRobotDynamics):
    """A robot over time steps of unknown length, the same in all of a phase.

    States are `[q; v; h]` with the step lengths h (P,) of all phases [s], which no step changes and no start gives.
    Displacements are relative, `h exp(dh)`.

    **Fields:** `dynamics`, whose `dt` is the first guess; `shortest` and `longest` [s]; `phase`, the number of the
    phase, of so many `phases`.
    """

    dynamics: AbstractRobotDynamics
    shortest: Float[Array, ""]
    longest: Float[Array, ""]
    phase: int = eqx.field(static=True)
    phases: int = eqx.field(static=True)

    def __init__(
        self,
        dynamics: AbstractRobotDynamics,
        shortest: Float[Array, ""],
        longest: Float[Array, ""],
        phase: int,
        phases: int,
    ):
        self.dynamics, self.phase, self.phases = dynamics, phase, phases
        self.shortest, self.longest = shortest, longest

    @property  # type: ignore[misc]
    def model(self) -> Model:  # type: ignore[override]
        """The mechanism."""
        return self.dynamics.model

    @property  # type: ignore[misc]
    def dt(self) -> Float[Array, ""]:  # type: ignore[override]
        """The first guess of the step length [s]."""
        return self.dynamics.dt

    @property
    def state_size(self) -> int:
        return self.dynamics.state_size + self.phases

    @property
    def tangent_blocks(self) -> tuple[int, ...]:
        return *self.dynamics.tangent_blocks, self.phases

    @property
    def free_at_start(self) -> tuple[int, ...]:
        first = self.dynamics.tangent_size
        return tuple(range(first, first + self.phases))

    @property
    def control_size(self) -> int:
        return self.dynamics.control_size

    @property
    def defect_size(self) -> int:
        return self.dynamics.defect_size

    def lengths(self, x: Float[Array, "nx"]) -> Float[Array, "P"]:
        """The step lengths of all phases in a state [s]."""
        return x[-self.phases :]

    def step_length(self, stage: "Stage") -> Float[Array, ""]:
        return stage.blocks[-1][self.phase]

    def plus(self, x: Float[Array, "nx"], dx: Float[Array, "n"]) -> Float[Array, "nx"]:
        nv = self.model.nv
        return jnp.concatenate(self.displaced(x, dx[:nv], dx[nv : 2 * nv], dx[2 * nv :]))

    def blocks(self, x: Float[Array, "nx"]) -> tuple[Array, ...]:
        return *self.split(x), self.lengths(x)

    def displaced(self, x: Float[Array, "nx"], *dx: Array) -> tuple[Array, ...]:
        return *super().displaced(x, *dx[:2]), self._longer(self.lengths(x), dx[2])

    def minus(self, x: Float[Array, "nx"], origin: Float[Array, "nx"]) -> Float[Array, "n"]:
        longer = jnp.log(self.lengths(x) / self.lengths(origin))
        return jnp.concatenate([super().minus(x, origin), longer])

    def velocity(self, x: Float[Array, "nx"], x_dot: Float[Array, "nx"]) -> Float[Array, "n"]:
        return jnp.concatenate([super().velocity(x, x_dot), self.lengths(x_dot) / self.lengths(x)])

    def step(self, x: Float[Array, "nx"], u: Float[Array, "m"], t: Time) -> Float[Array, "nx"]:
        lengths = self.lengths(x)
        return jnp.concatenate([self._over(lengths[self.phase]).step(x, u, t), lengths])

    def linearized_step_at(self, stage: "Stage") -> LinearizedStep:
        x, lengths = stage.x, self.lengths(stage.x)
        here, nv2 = lengths[self.phase], self.dynamics.tangent_size

        def over(length: Float[Array, ""]) -> Float[Array, "nq+nv"]:
            return self._over(length).step(x, stage.u, stage.t)

        after, a, b = self._over(here).linearized_step_at(stage)
        _, rate = jax.jvp(over, (here,), (here,))
        by_length = jnp.zeros((nv2, self.phases), x.dtype).at[:, self.phase].set(super().velocity(after, rate))
        same = jnp.eye(self.phases, nv2 + self.phases, nv2, dtype=x.dtype)
        a = jnp.concatenate([jnp.concatenate([a, by_length], axis=1), same])
        b = jnp.concatenate([b, jnp.zeros((self.phases, b.shape[1]), x.dtype)])
        return jnp.concatenate([after, lengths]), a, b

    def torques_at(self, stage: "Stage") -> Float[Array, "nv"]:
        return self.dynamics.torques_at(stage)

    def defects(self, stage: "Stage") -> Float[Array, "k"]:
        return self.dynamics.defects(stage)

    def _longer(self, lengths: Float[Array, "P"], longer: Float[Array, "P"]) -> Float[Array, "P"]:
        """Lengths displaced, not far beyond their bounds; derivatives are those without these."""
        displaced = lengths * jnp.exp(jnp.clip(longer, -_FARTHEST, _FARTHEST))
        shortest, longest = (x.astype(lengths.dtype) for x in (self.shortest, self.longest))
        kept = jnp.clip(displaced, shortest / _BEYOND, longest * _BEYOND)
        return displaced * jax.lax.stop_gradient(kept / displaced)

    def _over(self, length: Float[Array, ""]) -> AbstractRobotDynamics:
        """The robot over steps of this length."""
        return eqx.tree_at(lambda dynamics: dynamics.dt, self.dynamics, length)


def of_given_duration(dynamics: AbstractDynamics) -> AbstractDynamics:
    """The dynamics without the step lengths in their states."""
    return dynamics.dynamics if isinstance(dynamics, FreeDuration) else dynamics
