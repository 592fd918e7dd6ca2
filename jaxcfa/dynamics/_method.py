"""The interface of forward-dynamics algorithms, and what all of them share."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._arguments import as_arrays, is_concrete
from .._linear_solution import linear_solution
from .._perturbed import jvp_of_perturbed, no_tangent
from .._types import BodyForcesLike, ConfigurationLike, Velocity, VelocityLike
from ..model import Model
from ..structured import AbstractSchedule, Sequential
from ._inverse import inverse_dynamics_of_arrays, joint_wrenches_of_arrays
from ._suitability import refuse_massless_subtrees


class AbstractMassSolver(eqx.Module):
    """Solutions with the mass matrix at one configuration, where an algorithm has found what that takes."""

    @abc.abstractmethod
    def solve(self, model: Model, b: Float[Array, "nv"]) -> Velocity:
        """`M^-1 b` (nv,), of the model it was made for."""

    def inverse(self, model: Model, dtype: jnp.dtype) -> Float[Array, "nv nv"]:
        """`M^-1`, dense."""
        return jax.vmap(self.solve, (None, 1), 1)(model, jnp.eye(model.nv, dtype=dtype))


class AbstractForwardDynamics(eqx.Module):
    """An algorithm for forward dynamics, as an object whose fields are its options.

    A new one is a subclass with `solve`, handed to `forward_dynamics` as `method`. It need not be differentiable:
    derivatives come from those of inverse dynamics. (So there are none with respect to fields of the method.) The
    other methods have defaults, which may be replaced.
    """

    @abc.abstractmethod
    def solve(
        self,
        model: Model,
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        tau: Float[Array, "nv"],
        f_ext: Float[Array, "nb 6"],
    ) -> Velocity:
        """Joint accelerations (nv,); not finite where the mass matrix is singular."""

    def solve_with_wrenches(
        self,
        model: Model,
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        tau: Float[Array, "nv"],
        f_ext: Float[Array, "nb 6"],
    ) -> tuple[Velocity, Float[Array, "nb 6"]]:
        """Joint accelerations, and the wrenches that joints transmit: by default those of inverse dynamics."""
        qdd = self.solve(model, q, v, tau, f_ext)
        return qdd, joint_wrenches_of_arrays(model, q, v, qdd, f_ext, self.inverse_schedule())

    def solve_and_factor(
        self,
        model: Model,
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        tau: Float[Array, "nv"],
        f_ext: Float[Array, "nb 6"],
    ) -> tuple[Velocity, AbstractMassSolver]:
        """Joint accelerations, and a solver with the same mass matrix for derivatives: by default `solve` at rest."""
        return self.solve(model, q, v, tau, f_ext), _SolverAtRest(self, q)

    def inverse_schedule(self) -> AbstractSchedule:
        """How inverse dynamics is done for derivatives: one as parallel as the algorithm."""
        return Sequential()

    def refuse(self, model: Model) -> None:
        """Raises `ValueError` for a concrete model that the algorithm cannot serve in any configuration."""
        refuse_massless_subtrees(model)


def solve_forward_dynamics(
    method: AbstractForwardDynamics,
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    tau: VelocityLike,
    f_ext: BodyForcesLike | None,
) -> Velocity:
    """`method.solve` with checked arguments, and an explanation where the mass matrix is singular."""
    return _explained(_solve, method, model, q, v, tau, f_ext)


def solve_and_factor(
    method: AbstractForwardDynamics,
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    tau: VelocityLike,
    f_ext: BodyForcesLike | None,
) -> tuple[Velocity, AbstractMassSolver]:
    """The same of `method.solve_and_factor`. The solver has no derivatives."""
    return _explained(_solve_and_factor, method, model, q, v, tau, f_ext)


def solve_joint_reactions(
    method: AbstractForwardDynamics,
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    tau: VelocityLike,
    f_ext: BodyForcesLike | None,
) -> tuple[Velocity, Float[Array, "nb 6"]]:
    """The same of `method.solve_with_wrenches`."""
    return _explained(_solve_with_wrenches, method, model, q, v, tau, f_ext)


def _explained(function, method, model: Model, q, v, tau, f_ext):
    """`function(method, model, ...)` with checked arguments, and with an explanation where it has no finite result."""
    if not isinstance(method, AbstractForwardDynamics):
        raise ValueError(f"method must be an algorithm for forward dynamics, such as ABA(), got {method!r}.")
    arguments = as_arrays(model, q=q, v=v, tau=tau, f_ext=f_ext)
    if is_concrete(model) and not is_concrete(arguments):
        # Results cannot be looked at while tracing, but the model usually can.
        method.refuse(model)
    result = function(method, model, *arguments)
    # Not at the solver or the wrenches, which would be copied from the device for nothing.
    qdd = result[0] if isinstance(result, tuple) else result
    if is_concrete(qdd) and not _finite(qdd):
        _explain(method, model, arguments)
    return result


@jax.jit
def _solve(method: AbstractForwardDynamics, model: Model, *arguments: Array) -> Velocity:
    return _accelerations(method, model, *arguments)


@jax.jit
def _solve_and_factor(
    method: AbstractForwardDynamics, model: Model, *arguments: Array
) -> tuple[Velocity, AbstractMassSolver]:
    return _accelerations_and_solver(method, model, *arguments)


@jax.jit
def _solve_with_wrenches(
    method: AbstractForwardDynamics, model: Model, *arguments: Array
) -> tuple[Velocity, Float[Array, "nb 6"]]:
    return _accelerations_and_wrenches(method, model, *arguments)


@jax.custom_jvp
def _accelerations(
    method: AbstractForwardDynamics,
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
) -> Velocity:
    return method.solve(model, q, v, tau, f_ext)


def _accelerations_jvp(primals: tuple, tangents: tuple) -> tuple[Velocity, Velocity]:
    (qdd, _), (qdd_dot, _) = _accelerations_and_solver_jvp(primals, tangents)
    return qdd, qdd_dot


_accelerations.defjvp(_accelerations_jvp, symbolic_zeros=True)


@jax.custom_jvp
def _accelerations_and_solver(
    method: AbstractForwardDynamics,
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
) -> tuple[Velocity, AbstractMassSolver]:
    return method.solve_and_factor(model, q, v, tau, f_ext)


def _accelerations_and_solver_jvp(primals: tuple, tangents: tuple) -> tuple[tuple, tuple]:
    """Differentiates the law of motion instead of the algorithm: `M dqdd = dtau - dID` at the qdd found.

    This holds for any parameter, and needs the derivatives of inverse dynamics only. `M^-1` is what the algorithm has
    found anyway; since M is symmetric that serves reverse mode too. How the solver was found has no derivative.
    """
    qdd, solver = _accelerations_and_solver(*primals)
    method, model, q, v, _, f_ext = primals
    schedule = method.inverse_schedule()

    def residual(model: Model, q: Array, v: Array, tau: Array, f_ext: Array) -> Array:
        return tau - inverse_dynamics_of_arrays(model, q, v, qdd, f_ext, schedule)

    still, at_rest, unloaded = _without_gravity(model), jnp.zeros_like(v), jnp.zeros_like(f_ext)
    qdd_dot = linear_solution(
        lambda x: inverse_dynamics_of_arrays(still, q, at_rest, x, unloaded, schedule),
        jvp_of_perturbed(residual, primals[1:], tangents[1:])[1],
        lambda found, b: found[0].solve(found[1], b),
        (solver, model),
    )
    return (qdd, solver), (qdd_dot, no_tangent(solver))


_accelerations_and_solver.defjvp(_accelerations_and_solver_jvp, symbolic_zeros=True)


class _SolverAtRest(AbstractMassSolver):
    """The algorithm itself, without bias."""

    method: AbstractForwardDynamics
    q: Float[Array, "nq"]

    def solve(self, model: Model, b: Float[Array, "nv"]) -> Velocity:
        unloaded = jnp.zeros((model.nb, 6), b.dtype)
        return self.method.solve(_without_gravity(model), self.q, jnp.zeros_like(b), b, unloaded)


def _without_gravity(model: Model) -> Model:
    return eqx.tree_at(lambda m: m.gravity, model, replace_fn=jnp.zeros_like)


@jax.custom_jvp
def _accelerations_and_wrenches(
    method: AbstractForwardDynamics,
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
) -> tuple[Velocity, Float[Array, "nb 6"]]:
    return method.solve_with_wrenches(model, q, v, tau, f_ext)


def _accelerations_and_wrenches_jvp(primals: tuple, tangents: tuple) -> tuple[tuple, tuple]:
    """The wrenches are those of inverse dynamics at the accelerations found, and so are their derivatives."""
    result = _accelerations_and_wrenches(*primals)
    method, model, q, v, _, f_ext = primals
    _, model_dot, q_dot, v_dot, _, f_ext_dot = tangents
    qdd, qdd_dot = jvp_of_perturbed(lambda *x: _accelerations(method, *x), primals[1:], tangents[1:])
    _, wrenches_dot = jvp_of_perturbed(
        lambda *x: joint_wrenches_of_arrays(*x, method.inverse_schedule()),
        (model, q, v, qdd, f_ext),
        (model_dot, q_dot, v_dot, qdd_dot, f_ext_dot),
    )
    return result, (qdd_dot, wrenches_dot)


_accelerations_and_wrenches.defjvp(_accelerations_and_wrenches_jvp, symbolic_zeros=True)


def _finite(*trees) -> bool:
    return all(np.all(np.isfinite(x)) for x in jax.tree.leaves(trees))


def _explain(method: AbstractForwardDynamics, model: Model, arguments: list[Array]) -> None:
    """Raises if a result that is not finite comes from finite arguments."""
    if not _finite(arguments, model.mass, model.com, model.inertia):
        return
    method.refuse(model)
    # Here because that algorithm is built on this interface.
    from ._articulated_body import ABA

    if method != ABA() and _finite(_solve(ABA(), model, *arguments)):
        name = eqx.tree_pformat(method, width=200)
        raise ValueError(
            f"{name} lost all digits at this configuration: some joint moves almost no inertia of its own body, or the "
            f"mechanism is too long for {arguments[0].dtype}, as long planar chains are. Use ABA(), or float64."
        )
    raise ValueError(
        "Forward dynamics needs an invertible mass matrix, but it is singular at this configuration: some joint moves "
        "no inertia. Give the bodies it carries inertia about its axis, or the joint armature."
    )
