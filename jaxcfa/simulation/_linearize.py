"""The derivative of one step."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from .._arguments import as_arrays
from .._precise import product
from .._types import BodyForcesLike, Configuration, ConfigurationLike, Velocity, VelocityLike
from ..closed_chains import AbstractConstraintSolver, AbstractStabilization
from ..closed_chains._delassus import LEAST_NORM
from ..configuration import displacement, integrate
from ..dynamics import AbstractForwardDynamics
from ..dynamics._forward_derivatives import accelerations_and_derivatives
from ..model import AbstractConstraint, Model
from ._checks import check_integrator, checked_dt
from ._equation_of_motion import EquationOfMotion, equation_of_motion
from ._integrators import AbstractIntegrator, ExplicitEuler, SemiImplicitEuler
from ._step import SEMI_IMPLICIT_EULER, advance
from ._stops import Stops

_CLOSED_FORM = (SemiImplicitEuler, ExplicitEuler)


class Linearization(NamedTuple):
    """Matrices of `dx' = A dx + B du`, with `dx = [displacement; dv]`: `A` (2 nv, 2 nv), `B` (2 nv, nv).

    With controls of actuators for u instead of torques B is (2 nv, nu).
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
    friction_velocity: float = 1e-3,
    constraints: Sequence[AbstractConstraint] | AbstractConstraint = (),
    stabilization: AbstractStabilization | None = None,
    solver: AbstractConstraintSolver = LEAST_NORM,
    actuated: bool = False,
    limits: bool | Stops = False,
) -> Linearization:
    """How the state after `step` depends on the state before it and on the torques, in tangent coordinates.

    Configurations are `integrate(model, q, dq)` before the step and `integrate(model, q', dq')` after it, where q' is
    the configuration that `step` gives: quaternions count three times, and A is square. With `dx = [dq; dv]`:
    `dx' = A dx + B dtau`. With constraints that holds for displacements that open them, too, as far as these keep the
    rank of their equations.

    The steps of both Euler methods are differentiated in closed form if there are no constraints, all others by JAX.

    **Arguments:** as for `step`.

    **Returns:** the pair `A` (2 nv, 2 nv), `B` (2 nv, nv), or (2 nv, nu) if `actuated`.

    **Raises:** `ValueError` as `step` does.
    """
    check_integrator(integrator)
    q, v, f_ext, inputs = as_arrays(model, q=q, v=v, f_ext=f_ext, **{"control" if actuated else "tau": tau})
    equation = equation_of_motion(
        model, method, passive_forces, friction_velocity, constraints, stabilization, solver, actuated, limits
    )
    return Linearization(*_matrices(integrator, equation, q, v, inputs, f_ext, checked_dt(dt, q.dtype)))


@eqx.filter_jit
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
) -> tuple[Configuration, Velocity, Float[Array, "n n"], Float[Array, "n nu"]]:
    """The state after a step, and the matrices A and B of `linearize`.

    `inputs` are torques (nv,), or controls (nu,) if the equation says so.
    """
    if equation.constraints or not isinstance(integrator, _CLOSED_FORM):
        return _by_differentiation(integrator, equation, q, v, inputs, f_ext, dt)
    tau = equation.torques(q, v, inputs)
    q_next, v_next, a, b = _in_closed_form(integrator, equation, q, v, tau, f_ext, dt)
    if not equation.actuated and equation.stops is None:
        return q_next, v_next, a, b

    def torques(dq: Array, dv: Array, du: Array) -> Array:
        return equation.torques(integrate(equation.model, q, dq), v + dv, inputs + du)

    _, of_inputs = _jacobian(torques, jnp.zeros_like(v), jnp.zeros_like(v), jnp.zeros_like(inputs))
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
) -> tuple[Configuration, Velocity, Float[Array, "n n"], Float[Array, "n nv"]]:
    """Of a step `v' = v + dt qdd` and `q' = integrate(q, v or v', dt)`.

    `qdd = (M + armature)^-1 (forces - bias)`, where forces and armature depend on the state joint by joint:
    `(M + armature) dqdd = dforces - darmature qdd - dID`.
    """
    model, nv, still = equation.model, v.shape[0], jnp.zeros_like(v)
    semi_implicit = isinstance(integrator, SemiImplicitEuler)

    def loads(dq: Array, dv: Array) -> tuple[Array, Array | None]:
        state = integrate(model, q, dq), v + dv
        return equation.forces_of_step(*state, tau, dt) if semi_implicit else (equation.forces(*state, tau), None)

    forces, armature = loads(still, still)
    qdd, found = accelerations_and_derivatives(equation.heavier(armature), q, v, forces, f_ext, equation.method)
    by_state = jnp.concatenate([found.dq, found.dv], axis=1)
    if equation.has_passive_forces or equation.stops is not None:

        def load(dq: Array, dv: Array) -> Array:
            forces, armature = loads(dq, dv)
            return forces if armature is None else forces - armature * qdd

        by_state = by_state + product(found.dtau, _jacobian(load, still, still)[1])

    v_next = v + dt * qdd
    a_v = jnp.eye(nv, 2 * nv, nv, dtype=v.dtype) + dt * by_state
    b_v = dt * found.dtau
    velocity = v_next if semi_implicit else v
    q_next = integrate(model, q, velocity, dt)

    def moved(dq: Array, dv: Array) -> Array:
        return displacement(model, q_next, integrate(model, integrate(model, q, dq), velocity + dv, dt))

    # Before the step all is displaced by dq = 1 0 0 and dv = 0 1 0 (the last of which for torques).
    displaced = jnp.eye(nv, 3 * nv, dtype=v.dtype)
    changed = jnp.concatenate([a_v, b_v], axis=1) if semi_implicit else jnp.eye(nv, 3 * nv, nv, dtype=v.dtype)
    ab_q = _columns(moved, (still, still), (displaced, changed))[1]
    a, b_q = jnp.concatenate([ab_q[:, : 2 * nv], a_v]), ab_q[:, 2 * nv :]
    return q_next, v_next, a, jnp.concatenate([b_q, b_v])


def _by_differentiation(
    integrator: AbstractIntegrator,
    equation: EquationOfMotion,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    inputs: Float[Array, "nu"],
    f_ext: Float[Array, "nb 6"],
    dt: Float[Array, ""],
) -> tuple[Configuration, Velocity, Float[Array, "n n"], Float[Array, "n nu"]]:
    """Of any step, by as many directions in forward mode as A and B have columns."""
    model, still = equation.model, jnp.zeros_like(v)

    def displaced(dq: Array, dv: Array, du: Array) -> tuple[Array, Array]:
        state = integrate(model, q, dq), v + dv
        return advance(integrator, equation, *state, equation.torques(*state, inputs + du), f_ext, dt)

    (q_next, v_next), (ab_q, ab_v) = _jacobian(displaced, still, still, jnp.zeros_like(inputs))
    _, ab_q = _columns(lambda q: displacement(model, q_next, q), (q_next,), (ab_q,))
    both = jnp.concatenate([ab_q, ab_v])
    return q_next, v_next, both[:, : 2 * v.shape[0]], both[:, 2 * v.shape[0] :]


def _jacobian(function: Callable[..., PyTree[Array]], *point: Float[Array, "_"]) -> tuple[PyTree[Array], PyTree[Array]]:
    """The value and the derivative by all arguments, which are vectors, side by side."""
    directions = jnp.split(jnp.eye(sum(x.size for x in point), dtype=point[0].dtype), _ends(point))
    return _columns(function, point, tuple(directions))


def _ends(point: tuple[Array, ...]) -> list[int]:
    return [sum(x.size for x in point[: i + 1]) for i in range(len(point) - 1)]


def _columns(
    function: Callable[..., PyTree[Array]], point: tuple[Array, ...], directions: tuple[Array, ...]
) -> tuple[PyTree[Array], PyTree[Array]]:
    """The value, and the derivative along each column of the directions."""
    return jax.vmap(lambda *x: jax.jvp(function, point, x), in_axes=1, out_axes=(None, 1))(*directions)
