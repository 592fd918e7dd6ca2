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
from ..model import Model, massless_subtrees
from ._inverse import inverse_dynamics_of_arrays


class AbstractForwardDynamics(eqx.Module):
    """An algorithm for forward dynamics, as an object whose fields are its options.

    A new one is a subclass with `solve`, handed to `forward_dynamics` as `method`. It need not be differentiable:
    derivatives come from those of inverse dynamics. (So there are none with respect to fields of the method.)
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


def solve_forward_dynamics(
    method: AbstractForwardDynamics,
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    tau: VelocityLike,
    f_ext: BodyForcesLike | None,
) -> Velocity:
    """`method.solve` with checked arguments, and an explanation where the mass matrix is singular."""
    if not isinstance(method, AbstractForwardDynamics):
        raise ValueError(f"method must be an algorithm for forward dynamics, such as ABA(), got {method!r}.")
    arguments = as_arrays(model, q=q, v=v, tau=tau, f_ext=f_ext)
    if is_concrete(model) and not is_concrete(arguments):
        # Results cannot be looked at while tracing, but the model usually can.
        _refuse_massless(model)
    qdd = _solve(method, model, *arguments)
    if is_concrete(qdd) and not np.all(np.isfinite(qdd)):
        _explain(model, arguments)
    return qdd


@jax.jit
def _solve(method: AbstractForwardDynamics, model: Model, *arguments: Array) -> Velocity:
    return _accelerations(method, model, *arguments)


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

    def residual(model: Model, q: Array, v: Array, tau: Array, f_ext: Array) -> Array:
        return tau - inverse_dynamics_of_arrays(model, q, v, qdd, f_ext)

    method, model, q, v, _, f_ext = primals
    still, at_rest, unloaded = eqx.tree_at(lambda m: m.gravity, model, replace_fn=jnp.zeros_like), 0 * v, 0 * f_ext
    qdd_dot = lax.custom_linear_solve(
        lambda x: inverse_dynamics_of_arrays(still, q, at_rest, x, unloaded),
        jax.jvp(residual, primals[1:], tangents[1:])[1],
        lambda _, b: method.solve(still, q, at_rest, b, unloaded),
        symmetric=True,
    )
    return qdd, qdd_dot


def _refuse_massless(model: Model) -> None:
    bodies = massless_subtrees(model)
    if bodies:
        raise ValueError(
            f"Forward dynamics needs an invertible mass matrix, but body {', '.join(map(repr, bodies))} "
            "and all that it carries have no inertia. Give them some, give their joints armature, or fix them."
        )


def _explain(model: Model, arguments: list[Array]) -> None:
    """Raises if a result that is not finite comes from finite arguments."""
    if not all(np.all(np.isfinite(x)) for x in (*arguments, *jax.tree.leaves((model.mass, model.com, model.inertia)))):
        return
    _refuse_massless(model)
    raise ValueError(
        "Forward dynamics needs an invertible mass matrix, but it is singular at this configuration: some joint moves "
        "no inertia. Give the bodies it carries inertia about its axis, or the joint armature."
    )
