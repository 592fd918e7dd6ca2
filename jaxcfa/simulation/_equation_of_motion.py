"""The accelerations of a mechanism and the forces that act on it during one step."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._arguments import is_concrete
from .._types import Configuration, Velocity
from ..closed_chains import (
    AbstractConstraintSolver,
    AbstractStabilization,
    Baumgarte,
    constrained_forward_dynamics,
)
from ..closed_chains._checks import check_constraints
from ..closed_chains._delassus import LEAST_NORM, check_solver
from ..closed_chains._forward import status_in_motion
from ..closed_chains._stabilization import check_stabilization
from ..dynamics import AbstractForwardDynamics, default_method, forward_dynamics, passive_forces
from ..model import AbstractConstraint, Model

_FREQUENCY = 20.0  # rad/s: loops that drift open close again within a few tenths of a second
_DRIFT = 0.01  # relative: loops that are open by more do not drift, but are not held


class EquationOfMotion(eqx.Module):
    """What an integrator integrates: `qdd = M^-1 (tau + passive forces - bias)`, under constant torques.

    **Fields:** `model`; `method`: the algorithm for forward dynamics; `has_passive_forces`: whether springs, damping
    and dry friction act; `friction_velocity` [rad/s, m/s]: see `passive_forces`; `constraints` that close loops, their
    `stabilization`, and the `solver` for their forces (which takes the place of `method`).
    """

    model: Model
    method: AbstractForwardDynamics
    has_passive_forces: bool = eqx.field(static=True)
    friction_velocity: float = eqx.field(static=True)
    constraints: tuple[AbstractConstraint, ...] = ()
    stabilization: AbstractStabilization | None = None
    solver: AbstractConstraintSolver = LEAST_NORM

    def acceleration(
        self, q: Float[Array, "nq"], v: Float[Array, "nv"], tau: Float[Array, "nv"], f_ext: Float[Array, "nb 6"]
    ) -> Velocity:
        """Joint accelerations (nv,) in the state `q`, `v`."""
        return self._solve(self.model, q, v, tau, f_ext)

    def acceleration_of_step(
        self,
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        tau: Float[Array, "nv"],
        f_ext: Float[Array, "nb 6"],
        dt: Float[Array, ""],
    ) -> Velocity:
        """`qdd` for which damping and dry friction are those at the velocity `v + dt qdd`.

        They are `-D v`, so that `(M + dt D) qdd = forces at v`: D acts like armature.
        """
        if not self.has_passive_forces:
            return self.acceleration(q, v, tau, f_ext)
        heavier = eqx.tree_at(lambda m: m.armature, self.model, self.model.armature + dt * self._damping(v))
        return self._solve(heavier, q, v, tau, f_ext)

    def after_step(
        self, start: Float[Array, "nq"], q: Float[Array, "nq"], v: Float[Array, "nv"], dt: Float[Array, ""]
    ) -> tuple[Configuration, Velocity]:
        """The state to go on from, where an integrator has come from `start` to `q`, `v` in `dt` [s]."""
        if not self.constraints or self.stabilization is None:
            return q, v
        return self.stabilization.correct(self.model, self.constraints, start, q, v, dt, self.solver)

    def status(
        self, q: Float[Array, "nq"], v: Float[Array, "nv"], tau: Float[Array, "nv"], f_ext: Float[Array, "nb 6"]
    ) -> Int[Array, ""]:
        """Flags of `ConstraintStatus` in the state `q`, `v` of a mechanism with constraints.

        Loops count as open, or as moving, from a hundredth on of what they are compared with: integrators leave more
        than the tolerance of `constrained_forward_dynamics`.
        """
        forces = self._forces(q, v, tau)
        return status_in_motion(
            self.model, self.constraints, q, v, forces, f_ext, self.solver, self._feedback, drift=_DRIFT
        )

    @property
    def _feedback(self) -> Baumgarte | None:
        return None if self.stabilization is None else self.stabilization.feedback

    def _solve(self, model: Model, q: Array, v: Array, tau: Array, f_ext: Array) -> Velocity:
        forces = self._forces(q, v, tau)
        if not self.constraints:
            return forward_dynamics(model, q, v, forces, f_ext, self.method)
        return constrained_forward_dynamics(
            model, self.constraints, q, v, forces, f_ext, self.solver, self._feedback
        ).qdd

    def _forces(self, q: Array, v: Array, tau: Array) -> Array:
        return tau + passive_forces(self.model, q, v, self.friction_velocity) if self.has_passive_forces else tau

    def _damping(self, v: Array) -> Array:
        """D >= 0 (nv,): damping and friction are `-D(v) v`."""
        x = v / self.friction_velocity
        # The double `where` keeps the quotient and its derivative finite at rest; the series is exact to rounding.
        small = jnp.abs(x) < jnp.finfo(x.dtype).eps ** 0.25
        slope = jnp.where(small, 1 - x * x / 3, jnp.tanh(x) / jnp.where(small, 1.0, x))
        return self.model.damping + self.model.friction_loss * slope / self.friction_velocity


def equation_of_motion(
    model: Model,
    method: Any,
    has_passive_forces: bool,
    friction_velocity: float,
    constraints: Sequence[AbstractConstraint] | AbstractConstraint = (),
    stabilization: Any = None,
    solver: Any = LEAST_NORM,
) -> EquationOfMotion:
    """The equation with checked options; `method` may be `None`, and must be so with constraints.

    The algorithm is chosen and checked here, where the model's values can still be looked at: inside `jit` they
    cannot.
    """
    loops = check_constraints(model, constraints)
    if loops and method is not None:
        raise ValueError(
            f"method is an algorithm for mechanisms without constraints, got {method!r} with {len(loops)} constraints. "
            "Omit it, and choose how the constraints are solved: solver=LeastNorm(), Proximal() or Direct()."
        )
    check_solver(solver)
    method = default_method(model) if method is None else method
    if not isinstance(method, AbstractForwardDynamics):
        raise ValueError(f"method must be an algorithm for forward dynamics, such as ABA(), got {method!r}.")
    if is_concrete(model):
        method.refuse(model)
    if not friction_velocity > 0:
        raise ValueError(f"friction_velocity must be positive, got {friction_velocity}.")
    if stabilization is not None:
        check_stabilization(stabilization)
    elif loops:
        stabilization = Baumgarte(jnp.asarray(_FREQUENCY))
    return EquationOfMotion(
        model, method, bool(has_passive_forces), float(friction_velocity), loops, stabilization, solver
    )
