"""The derivative of one step."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..closed_chains import AbstractConstraintSolver, AbstractStabilization
from ..closed_chains._delassus import LEAST_NORM
from ..compilation import jit_of_one_state
from ..configuration import integrate, velocity
from ..contacts import AbstractContacts
from ..dynamics import AbstractForwardDynamics
from ..dynamics._run import are_finite, refuse_singular
from ..model import AbstractConstraint, Model
from ..model._arguments import is_concrete
from ..motion import BodyMotions
from ..numerics import product
from ..typing import BodyForcesLike, Configuration, ConfigurationLike, Velocity, VelocityLike
from ._derivatives import acceleration_by_state, columns, jacobian
from ._equation_of_motion import EquationOfMotion, Options
from ._inputs import Actuated
from ._integrators import AbstractIntegrator, ExplicitEuler, SemiImplicitEuler
from ._step import SEMI_IMPLICIT_EULER, advance, checked_step
from ._stops import Stops

_CLOSED_FORM = (SemiImplicitEuler, ExplicitEuler)


class Linearization(NamedTuple):
    """Matrices of `dx' = A dx + B du`, with `dx = [displacement; dv]`: `A` (2 nv, 2 nv), `B` (2 nv, nv).

    B is (2 nv, m) by torques of m driven coordinates, and (2 nv, nu) by controls of actuators.
    """

    A: Float[Array, "2*nv 2*nv"]
    B: Float[Array, "2*nv nu"]


def linearize(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    tau: ArrayLike,
    dt: ArrayLike,
    integrator: AbstractIntegrator = SEMI_IMPLICIT_EULER,
    f_ext: BodyForcesLike | None = None,
    method: AbstractForwardDynamics | None = None,
    *,
    passive_forces: bool = True,
    friction_velocity: ArrayLike = 1e-3,
    constraints: AbstractConstraint | Sequence[AbstractConstraint] = (),
    stabilization: AbstractStabilization | None = None,
    solver: AbstractConstraintSolver = LEAST_NORM,
    actuated: Actuated = False,
    limits: bool | Stops = False,
    contacts: AbstractContacts | None = None,
) -> Linearization:
    """How the state after `step` depends on the state before it and on the torques, in tangent coordinates.

    Configurations are `integrate(model, q, dq)` before the step and `integrate(model, q', dq')` after it, where q' is
    the configuration that `step` gives: quaternions count three times, and A is square. With `dx = [dq; dv]`:
    `dx' = A dx + B dtau`. With constraints that holds for displacements that open them, too, as far as these keep the
    rank of their equations.

    The steps of both Euler methods are differentiated in closed form if there are no constraints and no contacts, all
    others by JAX.

    **Arguments:** as for `step`.

    **Returns:** the pair `A` (2 nv, 2 nv), `B` (2 nv, nv), or (2 nv, m) or (2 nv, nu) if `actuated` says so.

    **Raises:** `ValueError` as `step` does, and for a configuration in which the mass matrix is singular, such as
    gimbal lock. (If that is traced, the result is NaN.)
    """
    options = Options(method, passive_forces, friction_velocity, constraints, stabilization, solver, limits, contacts)
    checked = checked_step(model, q, v, tau, dt, integrator, f_ext, actuated, options)
    matrices = Linearization(*_matrices(*checked))
    if is_concrete(matrices) and not are_finite(matrices):
        refuse_singular(model, checked[2])
    return matrices


@partial(jit_of_one_state, jit=eqx.filter_jit)
def _matrices(integrator: AbstractIntegrator, equation: EquationOfMotion, *arguments: Array) -> tuple[Array, Array]:
    return linearized_step(integrator, equation, *arguments)[2:]


def linearized_step(
    integrator: AbstractIntegrator,
    equation: EquationOfMotion,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    inputs: Float[Array, "nu"],
    f_ext: Float[Array, "nb 6"],
    dt: Float[Array, ""],
    *,
    motions: BodyMotions | None = None,
) -> tuple[Configuration, Velocity, Float[Array, "n n"], Float[Array, "n nu"]]:
    """The state after a step, and the matrices A and B of `linearize`.

    `inputs` are those that the equation takes; `motions` of the state, if they are known.
    """
    # Not for subclasses, whose steps may be others.
    if equation.constraints or equation.contacts is not None or type(integrator) not in _CLOSED_FORM:
        return _by_differentiation(integrator, equation, q, v, inputs, f_ext, dt)
    tau = equation.torques(q, v, inputs)
    q_next, v_next, a, b = _in_closed_form(integrator, equation.during_step(inputs), q, v, tau, f_ext, dt, motions)
    if equation.actuated != "actuators" and equation.stops is None:
        return q_next, v_next, a, b if equation.actuated is None else b[:, np.asarray(equation.actuated, int)]

    def torques(dq: Array, dv: Array, du: Array) -> Array:
        return equation.torques(integrate(equation.model, q, dq), v + dv, inputs + du)

    _, of_inputs = jacobian(torques, jnp.zeros_like(v), jnp.zeros_like(v), jnp.zeros_like(inputs))
    both = product(b, of_inputs)
    return q_next, v_next, a + both[:, : 2 * v.shape[0]], both[:, 2 * v.shape[0] :]


def _in_closed_form(
    integrator: AbstractIntegrator,
    equation: EquationOfMotion,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
    dt: Float[Array, ""],
    motions: BodyMotions | None,
) -> tuple[Configuration, Velocity, Float[Array, "n n"], Float[Array, "n nv"]]:
    """The next state, A and B of a step `v' = v + dt qdd` and `q' = integrate(q, v or v', dt)`."""
    model, nv, still = equation.model, v.shape[0], jnp.zeros_like(v)
    implicit = (dt, integrator.friction_rounds) if isinstance(integrator, SemiImplicitEuler) else None
    semi_implicit = implicit is not None
    qdd, by_state, by_tau = acceleration_by_state(equation, q, v, tau, f_ext, implicit, motions)
    v_next = v + dt * qdd
    # Rows of A and B side by side, whose columns are displacements, velocities and torques before the step.
    displaced, faster = (jnp.eye(nv, 3 * nv, k, dtype=v.dtype) for k in (0, nv))
    ab_v = faster + dt * jnp.concatenate([by_state, by_tau], axis=1)

    taken = v_next if semi_implicit else v
    q_next = integrate(model, q, taken, dt)

    def moved(dq: Array, dv: Array) -> Array:
        return integrate(model, integrate(model, q, dq), taken + dv, dt)

    _, rates = columns(moved, (still, still), (displaced, ab_v if semi_implicit else faster))
    both = jnp.concatenate([_velocities(model, q_next, rates), ab_v])
    return q_next, v_next, both[:, : 2 * nv], both[:, 2 * nv :]


def _velocities(model: Model, q: Float[Array, "nq"], rates: Float[Array, "nq n"]) -> Float[Array, "nv n"]:
    """The velocities of which configurations change at these rates, column by column."""
    return jax.vmap(lambda rate: velocity(model, q, rate), in_axes=1, out_axes=1)(rates)


def _by_differentiation(
    integrator: AbstractIntegrator,
    equation: EquationOfMotion,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    inputs: Float[Array, "nu"],
    f_ext: Float[Array, "nb 6"],
    dt: Float[Array, ""],
) -> tuple[Configuration, Velocity, Float[Array, "n n"], Float[Array, "n nu"]]:
    """The next state, A and B of any step, by forward mode in as many directions as A and B have columns."""
    model, still = equation.model, jnp.zeros_like(v)

    def displaced(dq: Array, dv: Array, du: Array) -> tuple[Array, Array]:
        state = integrate(model, q, dq), v + dv
        return advance(integrator, equation, *state, inputs + du, f_ext, dt)

    (q_next, v_next), (rates, ab_v) = jacobian(displaced, still, still, jnp.zeros_like(inputs))
    both = jnp.concatenate([_velocities(model, q_next, rates), ab_v])
    return q_next, v_next, both[:, : 2 * v.shape[0]], both[:, 2 * v.shape[0] :]
