"""Keeping loops closed in simulations; integrators alone do so only up to the error of each step."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model import Model
from ..model._arguments import as_positive, check_instance, positive_integer
from ..typing import Configuration, Velocity
from ._delassus import AbstractConstraintSolver
from ._projection import project_step
from ._relations import Constraints, Motion


class AbstractStabilization(eqx.Module):
    """How simulations limit drift: while accelerations are computed, and after each step."""

    @property
    @abc.abstractmethod
    def feedback(self) -> "Baumgarte | None":
        """What changes the accelerations, if anything."""

    def correct(
        self,
        model: Model,
        constraints: Constraints,
        start: Float[Array, "nq"],
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        dt: Float[Array, ""],
        solver: AbstractConstraintSolver,
    ) -> tuple[Configuration, Velocity]:
        """The state to go on from, where an integrator has come from `start` to `q`, `v` in `dt` [s]: by default that.

        `solver`: that of the accelerations.
        """
        return q, v


class Baumgarte(AbstractStabilization):
    """Stabilisation (Baumgarte 1972): residuals obey `phi'' + 2 damping w phi' + w^2 phi = 0` instead of `phi'' = 0`.

    Costs next to nothing, and bounds the drift. It takes forces at the start of a step, so that with integrators of
    order one energy may grow: a four-bar without friction has a third more after 20 s in steps of 1 ms, and ever more
    in longer ones. With `Projection` it has 2 % less, and `RungeKutta4` keeps it.

    **Fields:** `frequency` w [rad/s], at most two fifths of the inverse of the time step (explicit steps are unstable
    at twice that); `damping` ratio, 1 for the fastest decay without oscillation.
    """

    frequency: Float[Array, ""] = eqx.field(converter=as_positive("frequency of Baumgarte's stabilisation"))
    damping: Float[Array, ""] = eqx.field(
        converter=as_positive("damping of Baumgarte's stabilisation", or_zero=True), default=1.0
    )

    @property
    def feedback(self) -> "Baumgarte":
        return self


class Projection(AbstractStabilization):
    """Stabilisation by projection after each step of any integrator: nothing drifts, and the integrator's order stays.

    The step goes on to where loops are closed, along the forces of the constraints at its start, and what that adds to
    the configuration counts as velocity (the impulses of SHAKE; Hairer, Lubich & Wanner, Geometric Numerical
    Integration, 2006, VII.1.4). From there simplified Newton steps in the metric of the mass matrix,
    `dq = -M^-1 J^T A^+ phi` and `dv = -M^-1 J^T A^+ J v` with `A = J M^-1 J^T`, do what `project_configuration` and
    `project_velocity` do. Derivatives are those of the steps taken.

    **Fields:** `iterations`: the number of steps in each of the two stages.
    """

    iterations: int = eqx.field(converter=lambda x: positive_integer("iterations", x), static=True, default=2)

    @property
    def feedback(self) -> None:
        return None

    def correct(
        self,
        model: Model,
        constraints: Constraints,
        start: Float[Array, "nq"],
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        dt: Float[Array, ""],
        solver: AbstractConstraintSolver,
    ) -> tuple[Configuration, Velocity]:
        return project_step(model, constraints, start, q, v, dt, solver, self.iterations)


def check_stabilization(stabilization: Any) -> None:
    """Raises `ValueError` for anything but a stabilisation."""
    check_instance("stabilization", stabilization, AbstractStabilization, "one such as Projection() or Baumgarte(20.0)")


def check_feedback(stabilization: Any) -> None:
    """Raises `ValueError` for anything that changes no accelerations."""
    if not (stabilization is None or isinstance(stabilization, Baumgarte)):
        acts_later = isinstance(stabilization, Projection)
        remedy = " That acts after the steps of a simulation: give it to step or rollout." if acts_later else ""
        raise ValueError(f"stabilization must be Baumgarte(...) or None, got {stabilization!r}.{remedy}")


def stabilising(feedback: Baumgarte | None, motion: Motion) -> Float[Array, "k"]:
    """What the residuals' accelerations are to be, up to the sign."""
    if feedback is None:
        return jnp.zeros_like(motion.residual)
    w = feedback.frequency.astype(motion.rate.dtype)
    return 2 * feedback.damping.astype(w.dtype) * w * motion.rate + w**2 * motion.residual
