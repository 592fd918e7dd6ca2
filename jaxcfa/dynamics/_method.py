"""The interface of forward-dynamics algorithms, and what all of them share."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .._arguments import as_arrays, is_concrete
from .._types import BodyForcesLike, ConfigurationLike, Velocity, VelocityLike
from ..model import Model
from ..structured import AbstractSchedule, Sequential
from ._inverse import inverse_dynamics_of_arrays, joint_wrenches_of_arrays
from ._suitability import refuse_massless_subtrees


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
    if is_concrete(result) and not _finite(result):
        _explain(method, model, arguments)
    return result


@jax.jit
def _solve(method: AbstractForwardDynamics, model: Model, *arguments: Array) -> Velocity:
    return _accelerations(method, model, *arguments)


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


@_accelerations.defjvp
def _accelerations_jvp(primals: tuple, tangents: tuple) -> tuple[Velocity, Velocity]:
    """Differentiates the law of motion instead of the algorithm: `M dqdd = dtau - dID` at the qdd found.

    This holds for any parameter, and needs the derivatives of inverse dynamics only. `M^-1` is the algorithm itself,
    without bias; since M is symmetric that serves reverse mode too.
    """
    qdd = _accelerations(*primals)
    method, model, q, v, _, f_ext = primals
    schedule = method.inverse_schedule()

    def residual(model: Model, q: Array, v: Array, tau: Array, f_ext: Array) -> Array:
        return tau - inverse_dynamics_of_arrays(model, q, v, qdd, f_ext, schedule)

    still, at_rest, unloaded = eqx.tree_at(lambda m: m.gravity, model, replace_fn=jnp.zeros_like), 0 * v, 0 * f_ext
    qdd_dot = lax.custom_linear_solve(
        lambda x: inverse_dynamics_of_arrays(still, q, at_rest, x, unloaded, schedule),
        jax.jvp(residual, primals[1:], tangents[1:])[1],
        lambda _, b: method.solve(still, q, at_rest, b, unloaded),
        symmetric=True,
    )
    return qdd, qdd_dot


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


@_accelerations_and_wrenches.defjvp
def _accelerations_and_wrenches_jvp(primals: tuple, tangents: tuple) -> tuple[tuple, tuple]:
    """The wrenches are those of inverse dynamics at the accelerations found, and so are their derivatives."""
    result = _accelerations_and_wrenches(*primals)
    method, model, q, v, _, f_ext = primals
    _, model_dot, q_dot, v_dot, _, f_ext_dot = tangents
    qdd, qdd_dot = jax.jvp(lambda *x: _accelerations(method, *x), primals[1:], tangents[1:])
    _, wrenches_dot = jax.jvp(
        lambda *x: joint_wrenches_of_arrays(*x, method.inverse_schedule()),
        (model, q, v, qdd, f_ext),
        (model_dot, q_dot, v_dot, qdd_dot, f_ext_dot),
    )
    return result, (qdd_dot, wrenches_dot)


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
