"""Time of the mass matrix as an operator against the number of links: linear, where dense algebra is cubic."""

from functools import partial

import jax
import jax.numpy as jnp
import jax.scipy.linalg as linalg

import jaxcfa
from jaxcfa import Model
from jaxcfa.structured import AbstractSchedule, Doubling, Sequential

from .case import Case
from .chain import one_state
from .contestant import of_functions
from .methods import Function
from .settings import Settings

TITLE = "The mass matrix as an operator on a revolute chain, by number of links"
SIZES = (10, 100, 1000, 3000)


def solve_by(schedule: AbstractSchedule) -> Function:
    """Factors and one solution."""
    return lambda model, q, v, x: jaxcfa.mass_operator(model, q, schedule).solve(x)


def solve_densely(model: Model, q: jax.Array, v: jax.Array, x: jax.Array) -> jax.Array:
    return linalg.cho_solve(linalg.cho_factor(jaxcfa.mass_matrix(model, q), lower=True), x)


def tip_by(schedule: AbstractSchedule) -> Function:
    """The inverse inertia at the tip."""
    return lambda model, q, v, x: jaxcfa.operational_space_inertia(model, q, "tip", schedule).inverse_inertia


def tip_densely(model: Model, q: jax.Array, v: jax.Array, x: jax.Array) -> jax.Array:
    jacobian = jaxcfa.jacobian(model, q, "tip")
    factor = linalg.cho_factor(jaxcfa.mass_matrix(model, q), lower=True)
    return jnp.matmul(jacobian, linalg.cho_solve(factor, jacobian.T))


FUNCTIONS: dict[str, dict[str, Function]] = {
    "solution with the mass matrix": {
        "sweeps": solve_by(Sequential()),
        "scans": solve_by(Doubling()),
        "dense": solve_densely,
    },
    "inverse inertia at the tip": {
        "sweeps": tip_by(Sequential()),
        "scans": tip_by(Doubling()),
        "dense": tip_densely,
    },
}


def cases(settings: Settings) -> list[Case]:
    return [
        Case(quantity, str(n), of_functions(settings.chosen(functions), partial(one_state, n)), n)
        for quantity, functions in FUNCTIONS.items()
        for n in settings.sizes(SIZES, (3,))
    ]
