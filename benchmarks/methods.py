"""The algorithms to measure. To add one, add one line."""

from collections.abc import Callable

import jax
import jax.scipy.linalg as linalg

import jaxcfa
from jaxcfa import ABA, CFA, JSI, AbstractForwardDynamics, FactoredFD, Model
from jaxcfa.structured import (
    AbstractSchedule,
    BlockLDL,
    CyclicReduction,
    Dense,
    Doubling,
    LeafToRoot,
    OddEvenElimination,
    Sequential,
)

# Functions of (model, q, v, tau) -> qdd, or (model, q, v, qdd) -> tau, for one state.
Function = Callable[[Model, jax.Array, jax.Array, jax.Array], jax.Array]


def by(method: AbstractForwardDynamics) -> Function:
    """`forward_dynamics` by one algorithm."""
    return lambda model, q, v, tau: jaxcfa.forward_dynamics(model, q, v, tau, method=method)


def mass_matrix_cholesky(model: Model, q: jax.Array, v: jax.Array, tau: jax.Array) -> jax.Array:
    """Forward dynamics as it is in textbooks: form the mass matrix, and solve by a dense Cholesky factorisation."""
    factor = linalg.cho_factor(jaxcfa.mass_matrix(model, q), lower=True)
    return linalg.cho_solve(factor, tau - jaxcfa.bias_forces(model, q, v))


def inverse_by(schedule: AbstractSchedule) -> Function:
    """`inverse_dynamics` by one schedule."""
    return lambda model, q, v, qdd: jaxcfa.inverse_dynamics(model, q, v, qdd, schedule=schedule)


# The first of each is what others are compared with.
FORWARD: dict[str, Function] = {
    "ABA": by(ABA()),
    "ABA hybrid": by(ABA(schedule="hybrid")),
    "ABA scan": by(ABA(schedule="scan")),
    "CFA OEE": by(CFA(OddEvenElimination())),
    "CFA cyclic reduction": by(CFA(CyclicReduction())),
    "CFA block LDL": by(CFA(BlockLDL())),
    "CFA leaf to root": by(CFA(LeafToRoot())),
    "CFA dense": by(CFA(Dense())),
    "JSI": by(JSI()),
    "factored FD1": by(FactoredFD(1)),
    "factored FD3": by(FactoredFD(3)),
    "factored FD4": by(FactoredFD(4)),
    "mass matrix": mass_matrix_cholesky,
}
INVERSE: dict[str, Function] = {
    "RNEA": inverse_by(Sequential()),
    "RNEA scan": inverse_by(Doubling()),
}
