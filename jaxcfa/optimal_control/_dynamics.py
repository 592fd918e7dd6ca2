"""What a problem controls: a robot over one time step, or any function."""

import abc
from collections.abc import Callable, Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from .._arguments import as_arrays
from .._types import BodyForcesLike, NameOrNumber
from ..closed_chains import AbstractConstraintSolver, AbstractStabilization
from ..closed_chains._delassus import LEAST_NORM
from ..configuration import displacement, integrate
from ..dynamics import AbstractForwardDynamics
from ..model import AbstractConstraint, Model
from ..motion import BodyMotions
from ..simulation import AbstractIntegrator, EquationOfMotion, SemiImplicitEuler, Stops
from ..simulation._checks import check_integrator, checked_dt
from ..simulation._equation_of_motion import equation_of_motion
from ..simulation._linearize import linearized_step
from ..simulation._step import advance

Time = Int[Array, ""]
"""The number of a stage, from 0 on."""


class AbstractDynamics(eqx.Module):
    """A system in discrete time whose states x (nx,) are on a manifold with tangent vectors dx (n,).

    A new one is a subclass with what is abstract here.
    """

    @property
    @abc.abstractmethod
    def state_size(self) -> int:
        """How many numbers a state has: nx."""

    @property
    @abc.abstractmethod
    def tangent_blocks(self) -> tuple[int, ...]:
        """Sizes of the parts of a tangent vector that are differentiated separately; their sum is n."""

    @property
    @abc.abstractmethod
    def control_size(self) -> int:
        """How many controls there are: m."""

    @abc.abstractmethod
    def step(self, x: Float[Array, "nx"], u: Float[Array, "m"], t: Time) -> Float[Array, "nx"]:
        """The next state."""

    @abc.abstractmethod
    def plus(self, x: Float[Array, "nx"], dx: Float[Array, "n"]) -> Float[Array, "nx"]:
        """The state displaced by a tangent vector."""

    @abc.abstractmethod
    def minus(self, x: Float[Array, "nx"], origin: Float[Array, "nx"]) -> Float[Array, "n"]:
        """The displacement from `origin` to x."""

    @property
    def tangent_size(self) -> int:
        """How many numbers a tangent vector has: n."""
        return sum(self.tangent_blocks)

    def blocks(self, x: Float[Array, "nx"]) -> tuple[Array, ...]:
        """The parts of a state that are displaced by one block of a tangent vector each."""
        return (x,)

    def displaced(self, x: Float[Array, "nx"], *dx: Array) -> tuple[Array, ...]:
        """The `blocks` of the state displaced by those of a tangent vector."""
        return (self.plus(x, jnp.concatenate(dx)),)

    def linearized_step(
        self, x: Float[Array, "nx"], u: Float[Array, "m"], t: Time
    ) -> tuple[Float[Array, "nx"], Float[Array, "n n"], Float[Array, "n m"]]:
        """The next state, and its derivatives by displacements of the state and by the control."""
        after = self.step(x, u, t)

        def displaced(dx: Float[Array, "n"], du: Float[Array, "m"]) -> Float[Array, "n"]:
            return self.minus(self.step(self.plus(x, dx), u + du, t), after)

        zeros = jnp.zeros(self.tangent_size, x.dtype), jnp.zeros(self.control_size, x.dtype)
        return after, *jax.jacfwd(displaced, (0, 1))(*zeros)


class FunctionDynamics(AbstractDynamics):
    """`x' = function(x, u, t)` for vectors x (n,) and u (m,); t is the number of the stage.

    **Fields:** `function`; `sizes` (n, m).
    """

    function: Callable[[Array, Array, Array], Array]
    sizes: tuple[int, int] = eqx.field(static=True)

    def __init__(self, function: Callable[[Array, Array, Array], Array], states: int, controls: int):
        if not callable(function):
            raise ValueError(f"function must be x' = function(x, u, t), got {function!r}.")
        for name, size in (("states", states), ("controls", controls)):
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"{name} must be how many there are, a positive integer, got {size!r}.")
        self.function = function if isinstance(function, eqx.Module | Partial) else _Static(function)
        self.sizes = states, controls

    @property
    def state_size(self) -> int:
        return self.sizes[0]

    @property
    def tangent_blocks(self) -> tuple[int, ...]:
        return (self.sizes[0],)

    @property
    def control_size(self) -> int:
        return self.sizes[1]

    def step(self, x: Float[Array, "nx"], u: Float[Array, "m"], t: Time) -> Float[Array, "nx"]:
        after = jnp.asarray(self.function(x, u, t))
        if after.shape != x.shape:
            raise ValueError(f"function(x, u, t) must return the next state of shape {x.shape}, got {after.shape}.")
        return after.astype(x.dtype)

    def plus(self, x: Float[Array, "nx"], dx: Float[Array, "n"]) -> Float[Array, "nx"]:
        return x + dx

    def minus(self, x: Float[Array, "nx"], origin: Float[Array, "nx"]) -> Float[Array, "n"]:
        return x - origin


class _Static(eqx.Module):
    """A function that holds no arrays of its own, as far as JAX is concerned."""

    function: Callable = eqx.field(static=True)

    def __call__(self, *arguments: Array) -> Array:
        return self.function(*arguments)


class RobotDynamics(AbstractDynamics):
    """A mechanism over time steps `dt`. States are `[q; v]`, tangent vectors `[displacement of q; dv]`.

    **Fields:** `equation` of motion, `integrator`, `dt` [s], external wrenches `f_ext` (nb, 6); `actuated`: the
    coordinates of the velocity that the controls are torques or forces of, `None` for all, or `"actuators"`.
    """

    equation: EquationOfMotion
    integrator: AbstractIntegrator
    dt: Float[Array, ""]
    f_ext: Float[Array, "nb 6"]
    actuated: tuple[int, ...] | Literal["actuators"] | None = eqx.field(static=True)

    def __init__(
        self,
        model: Model,
        dt: ArrayLike,
        integrator: AbstractIntegrator | None = None,
        *,
        actuated: Sequence[NameOrNumber] | Literal["actuators"] | None = None,
        f_ext: BodyForcesLike | None = None,
        method: AbstractForwardDynamics | None = None,
        passive_forces: bool = True,
        friction_velocity: float = 0.1,
        constraints: Sequence[AbstractConstraint] | AbstractConstraint = (),
        stabilization: AbstractStabilization | None = None,
        solver: AbstractConstraintSolver = LEAST_NORM,
        limits: bool | Stops = False,
    ):
        """
        **Arguments:** `dt` [s]; `integrator`, `SemiImplicitEuler()` by default. `actuated`: names or numbers of the
        joints whose torques or forces are the controls, in this order (by default all joints), or `"actuators"` for
        the controls of `model.actuators`. All else as in `simulation.step`, but dry friction is smoother by default:
        with `friction_velocity` 1e-3 a linearised step from rest says that joints are stuck, and solvers believe it.

        **Raises:** `ValueError` as `simulation.step` does, and for unknown joints.
        """
        integrator = SemiImplicitEuler() if integrator is None else integrator
        check_integrator(integrator)
        self.integrator = integrator
        self.actuated = _actuated(model, actuated)
        by_actuators = self.actuated == "actuators"
        self.equation = equation_of_motion(
            model, method, passive_forces, friction_velocity, constraints, stabilization, solver, by_actuators, limits
        )
        self.dt = checked_dt(dt, model.dtype)
        (self.f_ext,) = as_arrays(model, f_ext=f_ext)

    @property
    def model(self) -> Model:
        """The mechanism."""
        return self.equation.model

    @property
    def state_size(self) -> int:
        return self.model.nq + self.model.nv

    @property
    def tangent_blocks(self) -> tuple[int, ...]:
        return self.model.nv, self.model.nv

    @property
    def control_size(self) -> int:
        if self.actuated == "actuators":
            return len(self.model.actuators.names)
        return self.model.nv if self.actuated is None else len(self.actuated)

    def split(self, x: Float[Array, "nx"]) -> tuple[Float[Array, "nq"], Float[Array, "nv"]]:
        """Q and v of a state."""
        return x[: self.model.nq], x[self.model.nq :]

    def torques(self, x: Float[Array, "nx"], u: Float[Array, "m"]) -> Float[Array, "nv"]:
        """Joint torques and forces (nv,) of a control [N m, N]."""
        return self.equation.torques(*self.split(x), self._inputs(u))

    def _inputs(self, u: Float[Array, "m"]) -> Array:
        """What the equation of motion takes: controls of actuators, or torques of all joints."""
        if not isinstance(self.actuated, tuple):
            return u
        return jnp.zeros(self.model.nv, u.dtype).at[np.asarray(self.actuated)].set(u)

    def step(self, x: Float[Array, "nx"], u: Float[Array, "m"], t: Time) -> Float[Array, "nx"]:
        q, v = self.split(x)
        tau = self.equation.torques(q, v, self._inputs(u))
        f_ext, dt = self.f_ext.astype(x.dtype), self.dt.astype(x.dtype)
        return jnp.concatenate(advance(self.integrator, self.equation, q, v, tau, f_ext, dt))

    def linearized_step(
        self, x: Float[Array, "nx"], u: Float[Array, "m"], t: Time
    ) -> tuple[Float[Array, "nx"], Float[Array, "n n"], Float[Array, "n m"]]:
        return self.linearized_step_of(x, u)

    def linearized_step_of(
        self, x: Float[Array, "nx"], u: Float[Array, "m"], motions: BodyMotions | None = None
    ) -> tuple[Float[Array, "nx"], Float[Array, "n n"], Float[Array, "n m"]]:
        """`linearized_step` with the `motions` of the state, if they are known."""
        q, v = self.split(x)
        f_ext, dt = self.f_ext.astype(x.dtype), self.dt.astype(x.dtype)
        q, v, a, b = linearized_step(self.integrator, self.equation, q, v, self._inputs(u), f_ext, dt, motions=motions)
        return jnp.concatenate([q, v]), a, b[:, np.asarray(self.actuated)] if isinstance(self.actuated, tuple) else b

    def plus(self, x: Float[Array, "nx"], dx: Float[Array, "n"]) -> Float[Array, "nx"]:
        return jnp.concatenate(self.displaced(x, *jnp.split(dx, 2)))

    def blocks(self, x: Float[Array, "nx"]) -> tuple[Float[Array, "nq"], Float[Array, "nv"]]:
        return self.split(x)

    def displaced(self, x: Float[Array, "nx"], *dx: Array) -> tuple[Float[Array, "nq"], Float[Array, "nv"]]:
        (q, v), (dq, dv) = self.split(x), dx
        return integrate(self.model, q, dq), v + dv

    def minus(self, x: Float[Array, "nx"], origin: Float[Array, "nx"]) -> Float[Array, "n"]:
        (q, v), (q0, v0) = self.split(x), self.split(origin)
        return jnp.concatenate([displacement(self.model, q0, q), v - v0])


def _actuated(model: Model, actuated) -> tuple[int, ...] | Literal["actuators"] | None:
    if actuated is None:
        return None
    if isinstance(actuated, str):
        if actuated != "actuators":
            raise ValueError(
                f'actuated must be a list of joints, such as [{actuated!r}], or "actuators", got {actuated!r}.'
            )
        if not model.actuators.names:
            raise ValueError('actuated="actuators" needs a model with actuators, and this one has none. Name joints.')
        return "actuators"
    chosen: list[int] = []
    for joint in actuated:
        coordinates = model.v_slice(joint)
        chosen.extend(range(coordinates.start, coordinates.stop))
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"actuated must name one joint or more, each once, got {list(actuated)}.")
    return tuple(chosen)
