"""Robots over one time step, under torques or under accelerations."""

import abc
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..closed_chains import AbstractConstraintSolver, AbstractStabilization
from ..closed_chains._delassus import LEAST_NORM
from ..configuration import displacement, integrate, velocity
from ..contacts import AbstractContacts
from ..dynamics import AbstractForwardDynamics, inverse_dynamics, passive_forces
from ..dynamics._passive import as_friction_velocity
from ..model import WORLD, AbstractConstraint, Model
from ..model._arguments import as_arrays, is_concrete, require_single
from ..model._joint_groups import free_dofs
from ..model._parts import joint_parts
from ..motion import BodyMotions
from ..numerics import cross, matvec, transpose
from ..numerics._options import check_flag, quoted
from ..simulation import AbstractIntegrator, EquationOfMotion, SemiImplicitEuler, Stops
from ..simulation._equation_of_motion import Options, equation_of_motion
from ..simulation._inputs import Actuated, Driven, checked_dt, driven_by, input_size
from ..simulation._integrators import check_integrator
from ..simulation._linearize import linearized_step
from ..simulation._step import advance
from ..typing import BodyForces, BodyForcesLike, NameOrNumber
from ._dynamics import AbstractDynamics, LinearizedStep, Time
from ._frame_motions import placed_frame

if TYPE_CHECKING:
    from ._stage import Stage


class AbstractRobotDynamics(AbstractDynamics):
    """A mechanism over time steps `dt` [s]. States are `[q; v]`, tangent vectors `[displacement of q; dv]`."""

    model: eqx.AbstractVar[Model]
    dt: eqx.AbstractVar[Float[Array, ""]]

    @abc.abstractmethod
    def torques_at(self, stage: "Stage") -> Float[Array, "nv"]:
        """Joint torques and forces (nv,) of a stage with a control [N m, N]."""

    @property
    def state_size(self) -> int:
        return self.model.nq + self.model.nv

    @property
    def tangent_blocks(self) -> tuple[int, ...]:
        return self.model.nv, self.model.nv

    def split(self, x: Float[Array, "nx"]) -> tuple[Float[Array, "nq"], Float[Array, "nv"]]:
        """The q and v of a state."""
        nq, nv = self.model.nq, self.model.nv
        return x[:nq], x[nq : nq + nv]

    def step_length(self, stage: "Stage") -> Float[Array, ""]:
        """The time between a stage and the next one [s]."""
        return self.dt.astype(stage.x.dtype)

    def plus(self, x: Float[Array, "nx"], dx: Float[Array, "n"]) -> Float[Array, "nx"]:
        return jnp.concatenate(self.displaced(x, *jnp.split(dx, 2)))

    def blocks(self, x: Float[Array, "nx"]) -> tuple[Array, ...]:
        return self.split(x)

    def displaced(self, x: Float[Array, "nx"], *dx: Array) -> tuple[Array, ...]:
        (q, v), (dq, dv) = self.split(x), dx
        return integrate(self.model, q, dq), v + dv

    def minus(self, x: Float[Array, "nx"], origin: Float[Array, "nx"]) -> Float[Array, "n"]:
        (q, v), (q0, v0) = self.split(x), self.split(origin)
        return jnp.concatenate([displacement(self.model, q0, q), v - v0])

    def velocity(self, x: Float[Array, "nx"], x_dot: Float[Array, "nx"]) -> Float[Array, "n"]:
        (q, _), (q_dot, v_dot) = self.split(x), self.split(x_dot)
        return jnp.concatenate([velocity(self.model, q, q_dot), v_dot])


class RobotDynamics(AbstractRobotDynamics):
    """A mechanism under torques over time steps `dt`. States are `[q; v]`, tangent vectors `[displacement of q; dv]`.

    **Fields:** `equation` of motion, `integrator`, `dt` [s], external wrenches `f_ext` (nb, 6).
    """

    equation: EquationOfMotion
    integrator: AbstractIntegrator
    dt: Float[Array, ""]
    f_ext: Float[Array, "nb 6"]

    def __init__(
        self,
        model: Model,
        dt: ArrayLike,
        integrator: AbstractIntegrator | None = None,
        *,
        actuated: Actuated = None,
        f_ext: BodyForcesLike | None = None,
        method: AbstractForwardDynamics | None = None,
        passive_forces: bool = True,
        friction_velocity: ArrayLike = 0.1,
        constraints: AbstractConstraint | Sequence[AbstractConstraint] = (),
        stabilization: AbstractStabilization | None = None,
        solver: AbstractConstraintSolver = LEAST_NORM,
        limits: bool | Stops = False,
        contacts: AbstractContacts | None = None,
    ):
        """
        **Arguments:** `dt` [s]; `integrator`, `SemiImplicitEuler(friction_rounds=1)` by default. `actuated`: names or
        numbers of the joints whose torques or forces are the controls, in this order (by default all joints but `Free`
        ones, such as that of a floating base; `False`: these, too), or `"actuators"` or `True` for the controls of
        `model.actuators`.
        All else as in `simulation.step`, but dry friction is smoother by default: with `friction_velocity` 1e-3 a
        linearised step from rest says that joints are stuck, and solvers believe it. It is found in one round, with
        which steps are more nearly linear.

        **Raises:** `ValueError` as `simulation.step` does, and for unknown joints.
        """
        require_single(model, "RobotDynamics")
        integrator = SemiImplicitEuler(friction_rounds=1) if integrator is None else integrator
        check_integrator(integrator)
        self.integrator = integrator
        driven = driven_by(model, actuated)
        if actuated is None:
            _warn_of_joints_without_actuators(model)
        if driven == ():
            others = ', or by its actuators: actuated="actuators"' if model.actuators.names else ""
            raise ValueError(
                "The model has free joints only, which no motor drives unless they are named: "
                f"actuated={list(model.joint_names)!r:.200}{others}."
            )
        if driven == "actuators" and not model.actuators.names:
            raise ValueError('actuated="actuators" needs a model with actuators, and this one has none. Name joints.')
        self.dt = checked_dt(dt, model.dtype)
        given = Options(method, passive_forces, friction_velocity, constraints, stabilization, solver, limits, contacts)
        self.equation = equation_of_motion(model, given, driven, self.dt)
        (self.f_ext,) = as_arrays(model, f_ext=f_ext)

    @property  # type: ignore[misc]
    def model(self) -> Model:  # type: ignore[override]
        """The mechanism."""
        return self.equation.model

    @property
    def actuated(self) -> Driven:
        """The coordinates of the velocity that controls are torques or forces of, `None` for all, or `"actuators"`."""
        return self.equation.actuated

    @property
    def control_size(self) -> int:
        return input_size(self.model, self.actuated)[0]

    def torques(self, x: Float[Array, "nx"], u: Float[Array, "m"]) -> Float[Array, "nv"]:
        """Joint torques and forces (nv,) of a control [N m, N]."""
        return self.equation.torques(*self.split(x), u)

    def torques_at(self, stage: "Stage") -> Float[Array, "nv"]:
        return self.torques(stage.x, stage.u)

    def step(self, x: Float[Array, "nx"], u: Float[Array, "m"], t: Time) -> Float[Array, "nx"]:
        q, v = self.split(x)
        f_ext, dt = self.f_ext.astype(x.dtype), self.dt.astype(x.dtype)
        return jnp.concatenate(advance(self.integrator, self.equation, q, v, u, f_ext, dt))

    def linearized_step(self, x: Float[Array, "nx"], u: Float[Array, "m"], t: Time) -> LinearizedStep:
        return self._linearized(x, u, None)

    def linearized_step_at(self, stage: "Stage") -> LinearizedStep:
        return self._linearized(stage.x, stage.u, stage.motions)

    def _linearized(self, x: Float[Array, "nx"], u: Float[Array, "m"], motions: BodyMotions | None) -> LinearizedStep:
        q, v = self.split(x)
        f_ext, dt = self.f_ext.astype(x.dtype), self.dt.astype(x.dtype)
        q, v, a, b = linearized_step(self.integrator, self.equation, q, v, u, f_ext, dt, motions=motions)
        return jnp.concatenate([q, v]), a, b


def _warn_of_joints_without_actuators(model: Model) -> None:
    """Where some joints have actuators, the others count as driven unless something else is said."""
    moment = model.actuators.moment
    if not is_concrete(moment) or not np.asarray(moment).any():
        return
    idle = ~np.any(np.asarray(moment) != 0, axis=0) & ~free_dofs(model)
    names = [part.name for part in joint_parts(model.joints, model.topology) if np.any(idle[part.v])]
    if names:
        warnings.warn(
            f"The model has actuators, but none that acts on {quoted(names)}: by default these joints are driven, too. "
            "Name those that have motors, actuated=[...].",
            stacklevel=3,
        )


class RobotInverseDynamics(AbstractRobotDynamics):
    """A mechanism under accelerations: torques follow by inverse dynamics, and forces at contacts are controls too.

    `u = [qdd; forces]`: accelerations (nv,) [rad/s^2, m/s^2], and for each contact the force (3,) on the robot at the
    frame's origin, in world axes [N]. Steps are `v' = v + dt qdd` and `q' = integrate(q, v', dt)`, linear but for
    rotations. `stage.tau` is what the joints must supply; where nothing drives them, it is zero, an equation that the
    solver keeps at all stages. So which feet stand when, and how hard they push, are constraints like all others:
    `FramePosition`, `PointVelocity` and `ContactForce` of a foot, with `during`.

    Needs `MultipleShooting`, as all constraints do.

    **Fields:** `model`; `dt` [s]; `contacts`, names or numbers of frames; `actuated`: the coordinates of the velocity
    that have motors, `None` for all; `has_passive_forces`: whether springs, damping and dry friction act;
    `friction_velocity` [rad/s, m/s]: see `jaxcfa.passive_forces`.
    """

    model: Model
    dt: Float[Array, ""]
    contacts: tuple[NameOrNumber, ...] = eqx.field(static=True)
    actuated: tuple[int, ...] | None = eqx.field(static=True)
    has_passive_forces: bool = eqx.field(static=True)
    friction_velocity: Float[Array, ""]

    def __init__(
        self,
        model: Model,
        dt: ArrayLike,
        contacts: Sequence[NameOrNumber] = (),
        *,
        actuated: Sequence[NameOrNumber] | Literal[False] | None = None,
        passive_forces: bool = True,
        friction_velocity: ArrayLike = 0.1,
    ):
        """
        **Arguments:** `contacts`: names or numbers of frames or bodies that forces may act on. `actuated`: names or
        numbers of the joints with motors, by default all but `Free` ones, such as that of a floating base (`False`:
        these, too).
        `passive_forces`: whether `jaxcfa.passive_forces` act; `friction_velocity` [rad/s, m/s]: its argument, larger
        by default, as in `RobotDynamics`.

        **Raises:** `ValueError` for unknown frames and joints, a `dt` or a `friction_velocity` that is not positive.
        """
        require_single(model, "RobotInverseDynamics")
        if isinstance(contacts, str) or not isinstance(contacts, Iterable):
            frames, got = getattr(contacts, "frames", [contacts]), f"{contacts!r:.200}"
            raise ValueError(f"contacts must be a list of frames, such as {list(frames)!r:.200}, got {got}.")
        if len({model.frame_number(contact) for contact in contacts}) < len(contacts):
            raise ValueError(f"contacts must name every frame once, got {list(contacts)}.")
        driven = driven_by(model, actuated)
        if actuated is None:
            _warn_of_joints_without_actuators(model)
        if isinstance(driven, str):
            raise ValueError("RobotInverseDynamics finds torques of joints: name them in actuated, or omit it.")
        self.model = model
        self.dt = checked_dt(dt, model.dtype)
        self.contacts = tuple(contacts)
        self.actuated = driven
        check_flag("passive_forces", passive_forces)
        self.has_passive_forces = bool(passive_forces)
        self.friction_velocity = as_friction_velocity(friction_velocity, model.dtype)

    @property
    def control_size(self) -> int:
        return self.model.nv + 3 * len(self.contacts)

    def accelerations(self, u: Float[Array, "m"]) -> Float[Array, "nv"]:
        """The joint accelerations (nv,) in a control."""
        return u[: self.model.nv]

    def force(self, u: Float[Array, "m"], contact: NameOrNumber) -> Float[Array, "3"]:
        """The force on the robot at a contact, in world axes [N]."""
        number, *numbers = (self.model.frame_number(frame) for frame in (contact, *self.contacts))
        if number not in numbers:
            raise ValueError(
                f"{contact!r} is not among the contacts of the dynamics, {list(self.contacts)}. Of phases with other "
                "contacts: let what needs its force count during those alone that have it."
            )
        first = self.model.nv + 3 * numbers.index(number)
        return u[first : first + 3]

    def step(self, x: Float[Array, "nx"], u: Float[Array, "m"], t: Time) -> Float[Array, "nx"]:
        (q, v), dt = self.split(x), self.dt.astype(x.dtype)
        v = v + dt * self.accelerations(u)
        return jnp.concatenate([integrate(self.model, q, v, dt), v])

    def wrenches_at(self, stage: "Stage") -> BodyForces:
        """The forces at the contacts as `f_ext` (nb, 6) of dynamics [N m, N]."""
        wrenches = jnp.zeros((self.model.nb, 6), stage.x.dtype)
        for contact in self.contacts:
            body, placement = self.model.locate(contact)
            if body == WORLD:
                continue
            # From the body's origin, in the axes of the frame, whose derivatives by q are known in closed form.
            lever = matvec(transpose(placement.rotation), placement.translation).astype(stage.x.dtype)
            pose = placed_frame(contact, self.model, stage.q, stage.constant_motions)
            force = self.force(stage.u, contact)
            moment = cross(matvec(pose.rotation, lever), force)
            wrenches = wrenches.at[body].add(jnp.concatenate([moment, force]))
        return wrenches

    def torques_at(self, stage: "Stage") -> Float[Array, "nv"]:
        qdd, f_ext = self.accelerations(stage.u), self.wrenches_at(stage)
        # Derivatives of inverse dynamics are in closed form, by what is handed in beside the motions.
        tau = inverse_dynamics(self.model, stage.q, stage.v, qdd, f_ext, motions=stage.constant_motions)
        if not self.has_passive_forces:
            return tau
        return tau - passive_forces(self.model, stage.q, stage.v, self.friction_velocity.astype(stage.x.dtype))

    @property
    def defect_size(self) -> int:
        return 0 if self.actuated is None else self.model.nv - len(self.actuated)

    def defects(self, stage: "Stage") -> Float[Array, "k"]:
        if self.actuated is None:
            return jnp.zeros(0, stage.x.dtype)
        return stage.tau[np.setdiff1d(np.arange(self.model.nv), self.actuated)]
