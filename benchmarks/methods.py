"""The algorithms to measure. To add one, add one line."""

from collections.abc import Callable

import jax
import jax.scipy.linalg as linalg

import jaxcfa
from jaxcfa import AbstractForwardDynamics, Model

# Functions of (model, q, v, tau) -> qdd, or (model, q, v, qdd) -> tau, for one state.
Function = Callable[[Model, jax.Array, jax.Array, jax.Array], jax.Array]


def by(method: AbstractForwardDynamics) -> Function:
    """`forward_dynamics` by one algorithm."""
    return lambda model, q, v, tau: jaxcfa.forward_dynamics(model, q, v, tau, method=method)


def mass_matrix_cholesky(model: Model, q: jax.Array, v: jax.Array, tau: jax.Array) -> jax.Array:
    """Forward dynamics as it is in textbooks: form the mass matrix, and solve by a dense Cholesky factorisation."""
    factor = linalg.cho_factor(jaxcfa.mass_matrix(model, q), lower=True)
    return linalg.cho_solve(factor, tau - jaxcfa.bias_forces(model, q, v))


# The first of each is what others are compared with.
FORWARD: dict[str, Function] = {
    "ABA": by(jaxcfa.ABA()),
    "mass matrix": mass_matrix_cholesky,
}
INVERSE: dict[str, Function] = {
    "RNEA": jaxcfa.inverse_dynamics,
}
