"""The accelerations of a mechanism and the forces that act on it during one step."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from ..actuation import actuator_forces, servo_damping
from ..closed_chains import AbstractConstraintSolver, AbstractStabilization, Baumgarte, constrained_forward_dynamics
from ..closed_chains._checks import check_constraints
from ..closed_chains._delassus import LEAST_NORM, check_solver
from ..closed_chains._forward import accelerations_and_responses as responses_of_loops, status_in_motion
from ..closed_chains._stabilization import check_stabilization
from ..contacts import AbstractContacts
from ..contacts._point_contacts import check_contacts
from ..contacts._step import accelerations_in_contact
from ..contacts._systems import AbstractLawOfMotion
from ..dynamics import AbstractForwardDynamics, default_method, forward_dynamics, passive_forces
from ..dynamics._method import AbstractMassSolver, Loads, check_method
from ..dynamics._passive import as_friction_velocity, springs_and_damping
from ..dynamics._run import accelerations_and_responses, accelerations_and_root, unbalanced_torques
from ..model import AbstractConstraint, Model
from ..model._arguments import check_flag, check_instance, is_concrete
from ..model._model import carrier
from ..model._parts import joint_parts
from ..motion import BodyMotions, motions_at
from ..motion._jacobians import moving_dofs
from ..typing import Configuration, Velocity
from ._dry_friction import dry_friction
from ._inputs import Driven
from ._stops import StopForces, Stops, stop_forces

# Loops that drift open close again within a few tenths of a second, or of a dozen steps where these are long: explicit
# steps of 0.8 over the frequency are unstable.
_FREQUENCY = 20.0  # rad/s
_PER_STEP = 0.4  # the frequency, at most, times the time step
_DRIFT = 0.01  # relative: loops that are open by more do not drift, but are not held


class EquationOfMotion(eqx.Module):
    """What an integrator integrates: `qdd = M^-1 (tau + passive forces - bias)`, under constant torques or controls.

    **Fields:** `model`; `method`: the algorithm for forward dynamics; `has_passive_forces`: whether springs, damping
    and dry friction act; `friction_velocity` [rad/s, m/s]: see `passive_forces`; `constraints` that close loops, their
    `stabilization`, and the `solver` for their forces (which takes the place of `method`); `actuated`: the
    coordinates of the velocity that inputs are torques or forces of, `None` for all, or `"actuators"` for controls;
    `stops`, if positions and efforts are limited; `contacts`, which `acceleration_of_step` alone has; whether the model
    may have any dry friction, `has_dry_friction`; `controls` (nu,) of the actuators during a step, if these act: then
    torques are those of the actuators in every state that is looked at.
    """

    model: Model
    method: AbstractForwardDynamics
    has_passive_forces: bool = eqx.field(static=True)
    friction_velocity: Float[Array, ""]
    constraints: tuple[AbstractConstraint, ...] = ()
    stabilization: AbstractStabilization | None = None
    solver: AbstractConstraintSolver = LEAST_NORM
    actuated: Driven = eqx.field(static=True, default=None)
    stops: StopForces | None = None
    contacts: AbstractContacts | None = None
    has_dry_friction: bool = eqx.field(static=True, default=True)
    controls: Float[Array, "nu"] | None = None

    @property
    def is_unconstrained(self) -> bool:
        """Whether there are neither loops to keep closed nor contacts."""
        return not self.constraints and self.contacts is None

    def during_step(self, inputs: Float[Array, "nu"]) -> "EquationOfMotion":
        """The equation for a step with these inputs."""
        return dataclasses.replace(self, controls=inputs) if self.actuated == "actuators" else self

    def torques(self, q: Float[Array, "nq"], v: Float[Array, "nv"], inputs: Float[Array, "nu"]) -> Velocity:
        """Joint torques (nv,) in the state `q`, `v`.

        `inputs` are torques (nv,), or those of the driven coordinates (m,), or the actuators' controls (nu,).
        """
        if self.actuated is None:
            tau = inputs
        elif self.actuated == "actuators":
            tau = actuator_forces(self.model, q, v, inputs)
        else:
            tau = jnp.zeros(self.model.nv, inputs.dtype).at[np.asarray(self.actuated, int)].set(inputs)
        if self.stops is None:
            return tau
        effort = self.model.limits.effort.astype(tau.dtype)
        return jnp.clip(tau, -effort, effort)

    def acceleration(
        self, q: Float[Array, "nq"], v: Float[Array, "nv"], tau: Float[Array, "nv"], f_ext: Float[Array, "nb 6"]
    ) -> Velocity:
        """Joint accelerations (nv,) in the state `q`, `v`. **Raises:** `ValueError` if there are contacts."""
        if self.contacts is not None:
            raise ValueError(
                "Contacts are too stiff for this integrator: take SemiImplicitEuler(), which solves "
                "for their forces at the end of each step, or acceleration_of_step in one of your own."
            )
        tau = tau if self.controls is None else self.torques(q, v, self.controls)
        return self._solve(self.model, q, v, self.forces(q, v, tau), f_ext)

    def acceleration_of_step(
        self,
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        tau: Float[Array, "nv"],
        f_ext: Float[Array, "nb 6"],
        dt: Float[Array, ""],
        friction_rounds: int = 2,
    ) -> Velocity:
        """`qdd` for which damping is that at the velocity `v' = v + dt qdd`; stops, dry friction and contacts, too.

        It is `-D v'`, so that `(M + dt D) qdd = forces at v`: D acts like armature; also that of servos. Dry friction,
        which is not linear, is taken so in the first round, and within its bound in the second, if there are two.
        """
        still = jnp.zeros_like(v)
        if not self.has_rounds(friction_rounds):
            return self._accelerated(q, v, tau, f_ext, dt, still)
        if self.contacts is None:
            motions = None
            if not self.constraints:
                motions = motions_at(self.model, q, v, self.method.motion_schedule(), by_rules=True)
            first = self._accelerated(q, v, tau, f_ext, dt, still, motions)
            return self._accelerated(q, v, tau, f_ext, dt, v + dt * first, motions)

        def one_round(found: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
            qdd = self._accelerated(q, v, tau, f_ext, dt, found[0])
            return (v + dt * qdd, qdd), None

        # A loop, so that the program has the contacts once.
        return lax.scan(one_round, (still, still), length=friction_rounds)[0][1]

    def has_rounds(self, friction_rounds: int) -> bool:
        """Whether a second round finds something else: not where the model is known to have no dry friction."""
        return friction_rounds > 1 and self.has_dry_friction

    def forces(self, q: Float[Array, "nq"], v: Float[Array, "nv"], tau: Float[Array, "nv"]) -> Velocity:
        """Torques (nv,), those of springs, damping, friction and stops included."""
        if self.has_passive_forces:
            tau = tau + passive_forces(self.model, q, v, self.friction_velocity.astype(v.dtype))
        if self.stops is not None:
            force, damping = self.stops.at(self.model, q, 0.0)
            tau = tau + force - damping * v
        return tau

    def forces_of_step(
        self,
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        tau: Float[Array, "nv"],
        dt: Float[Array, ""],
        reached: Float[Array, "nv"],
    ) -> tuple[Velocity, Velocity | None]:
        """Torques (nv,) and armature (nv,), if any, of which the accelerations are those of `acceleration_of_step`.

        Stops are where v leads: `-k (x + dt v')`, with `v' = v + dt qdd`, is `-k x - (dt k) v'`. Dry friction is linear
        about the velocities that the round before has `reached`, zero in the first.
        """
        if not self.has_passive_forces and self.stops is None and self.controls is None:
            return tau, None
        damping = jnp.zeros_like(v)
        if self.has_passive_forces:
            tau, damping = tau + springs_and_damping(self.model, q, v), damping + self.model.damping
            smooth = self.friction_velocity.astype(v.dtype)
            friction, slope = dry_friction(self.model.friction_loss, smooth, v, reached)
            tau, damping = tau - friction - slope * v, damping + slope
        if self.stops is not None:
            force, of_stops = self.stops.at(self.model, q, dt)
            tau, damping = tau + force - of_stops * v, damping + of_stops
        if self.controls is not None:
            # The torques have that of servos at v already.
            damping = damping + servo_damping(self.model, q, v, self.controls)
        return tau, dt * damping

    def heavier(self, armature: Float[Array, "nv"] | None) -> Model:
        """The model with more armature."""
        if armature is None:
            return self.model
        return eqx.tree_at(lambda m: m.armature, self.model, self.model.armature + armature)

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

        Loops count as open, or as moving, if the error is more than a hundredth of what it is compared with:
        integrators leave more than the tolerance of `constrained_forward_dynamics`.
        """
        forces = self.forces(q, v, tau)
        return status_in_motion(
            self.model, self.constraints, q, v, forces, f_ext, self.solver, self._feedback, drift=_DRIFT
        )

    @property
    def _feedback(self) -> Baumgarte | None:
        return None if self.stabilization is None else self.stabilization.feedback

    def _accelerated(
        self,
        q: Array,
        v: Array,
        tau: Array,
        f_ext: Array,
        dt: Array,
        reached: Array,
        motions: BodyMotions | None = None,
    ) -> Velocity:
        """The accelerations by `forces_of_step`."""
        forces, armature = self.forces_of_step(q, v, tau, dt, reached)
        model = self.heavier(armature)
        if self.contacts is None:
            return self._solve(model, q, v, forces, f_ext, motions)
        state = model, q, v, Loads(forces, f_ext)
        without = dataclasses.replace(self, contacts=None)
        motion = _OfLoops(without, *state) if self.constraints else _OfTree(self.method, *state)
        return accelerations_in_contact(self.model, self.contacts, q, v, motion, dt)

    def _solve(
        self, model: Model, q: Array, v: Array, forces: Array, f_ext: Array, motions: BodyMotions | None = None
    ) -> Velocity:
        if not self.constraints:
            return forward_dynamics(model, q, v, forces, f_ext, self.method, motions=motions)
        return constrained_forward_dynamics(
            model, self.constraints, q, v, forces, f_ext, self.solver, self._feedback
        ).qdd


class _OfTree(AbstractLawOfMotion):
    """The law of motion of a mechanism without constraints, with E = M."""

    method: AbstractForwardDynamics
    model: Model
    q: Float[Array, "nq"]
    v: Float[Array, "nv"]
    loads: Loads

    def respond(self, directions: Float[Array, "k nv"]) -> tuple[Velocity, Float[Array, "k nv"], AbstractMassSolver]:
        loads = self.loads.tau, self.loads.f_ext
        return accelerations_and_responses(self.method, self.model, self.q, self.v, *loads, directions)

    def respond_by_root(self) -> tuple[Velocity, Float[Array, "nv nv"]]:
        loads = self.loads.tau, self.loads.f_ext
        return accelerations_and_root(self.method, self.model, self.q, self.v, *loads)

    def unbalanced(self, qdd: Float[Array, "nv"], tau: Float[Array, "nv"]) -> Float[Array, "nv"]:
        loads = self.loads.tau + tau, self.loads.f_ext
        return unbalanced_torques(self.method, self.model, self.q, self.v, *loads, qdd)

    def solve(self, needed: AbstractMassSolver, b: Float[Array, "nv"]) -> Velocity:
        return needed.solve(self.model, b)


class _OfLoops(AbstractLawOfMotion):
    """That of an equation with constraints and without contacts, with E = 1, for a heavier model."""

    equation: EquationOfMotion
    model: Model
    q: Float[Array, "nq"]
    v: Float[Array, "nv"]
    loads: Loads

    def respond(self, directions: Float[Array, "k nv"]) -> tuple[Velocity, Float[Array, "k nv"], None]:
        own = self.equation
        given = self.model, own.constraints, self.q, self.v, self.loads, own.solver, own._feedback
        return *responses_of_loops(*given, directions), None

    def unbalanced(self, qdd: Float[Array, "nv"], tau: Float[Array, "nv"]) -> Float[Array, "nv"]:
        return self._accelerations(tau) - qdd

    def solve(self, needed: None, b: Float[Array, "nv"]) -> Velocity:
        return b

    def _accelerations(self, tau: Float[Array, "nv"]) -> Velocity:
        return self.equation._solve(self.model, self.q, self.v, self.loads.tau + tau, self.loads.f_ext)


class Options(NamedTuple):
    """What else acts in a step, and how forces and accelerations are found: as users of `simulation.step` say it."""

    method: AbstractForwardDynamics | None
    passive_forces: bool
    friction_velocity: ArrayLike
    constraints: AbstractConstraint | Sequence[AbstractConstraint]
    stabilization: AbstractStabilization | None
    solver: AbstractConstraintSolver
    limits: bool | Stops
    contacts: AbstractContacts | None


def equation_of_motion(model: Model, options: Options, actuated: Driven, dt: Float[Array, ""]) -> EquationOfMotion:
    """The equation of `simulation.step` with its options, checked; `dt` is the length of the steps [s].

    The algorithm is chosen and checked here, where the model's values can still be looked at: inside `jit` they
    cannot.
    """
    method, passive_forces, friction_velocity, constraints, stabilization, solver, limits, contacts = options
    loops = check_constraints(model, constraints)
    if loops and method is not None:
        raise ValueError(
            f"method is an algorithm for mechanisms without constraints, got {method!r} with {len(loops)} constraints. "
            "Omit it, and choose how the constraints are solved: solver=LeastNorm(), Proximal() or Direct()."
        )
    check_flag("passive_forces", passive_forces)
    check_solver(solver)
    method = default_method(model) if method is None else method
    check_method(method)
    if is_concrete(model):
        method.refuse(model)
    if stabilization is not None:
        check_stabilization(stabilization)
    elif loops:
        stabilization = Baumgarte(jnp.minimum(_FREQUENCY, _PER_STEP / dt))
    if contacts is not None:
        check_contacts(model, contacts)
    stops = _stops(model, limits)
    if actuated == "actuators" or stops is not None:
        _check_efforts(model, actuated)
    loss = model.friction_loss
    has_friction = bool(passive_forces) and not (is_concrete(loss) and np.all(np.asarray(loss) == 0))
    return EquationOfMotion(
        model=model,
        method=method,
        has_passive_forces=bool(passive_forces),
        friction_velocity=as_friction_velocity(friction_velocity, model.dtype),
        constraints=loops,
        stabilization=stabilization,
        solver=solver,
        actuated=actuated,
        stops=stops,
        contacts=contacts,
        has_dry_friction=has_friction,
    )


def _stops(model: Model, limits: Any) -> StopForces | None:
    if isinstance(limits, (bool, np.bool_)):
        return stop_forces(model, Stops()) if limits else None
    check_instance("limits", limits, Stops, "True, False or Stops(...)")
    return stop_forces(model, limits)


def _check_efforts(model: Model, driven: Driven) -> None:
    """Raises `ValueError` for driven joints whose torques would be clipped to nothing, where that can be seen."""
    effort, moment = model.limits.effort, model.actuators.moment
    if not is_concrete(effort, moment):
        return
    if driven == "actuators":
        moved = np.any(np.asarray(moment) != 0, axis=0)
        for frame in filter(None, model.actuators.frames):  # the thrust of propellers, too
            moved = moved | moving_dofs(model.topology, np.array(carrier(model, frame)))
        rows = np.flatnonzero(moved)
    else:
        rows = np.arange(model.nv) if driven is None else np.asarray(driven, int)
    idle = rows[np.asarray(effort)[rows] == 0]
    if len(idle):
        parts = joint_parts(model.joints, model.topology)
        names = [part.name for part in parts if np.any((idle >= part.v.start) & (idle < part.v.stop))]
        raise ValueError(
            f"Torques are clipped to the effort limits, and those of the joints {names} are zero, as many files say "
            "for want of a number: nothing would drive them. Give the limits, which may be infinite, by "
            f"jaxcfa.with_joint(model, {names[0]!r}, effort_limit=...)."
        )
