"""What is computed of one state by this package: functions of (model, q, v, x)."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

import jaxcfa
from jaxcfa import Model, closed_chains

from .case import OWN, Prepared
from .contestant import MakeProblem, compared, gradient, of_batch, of_function
from .methods import Function

FORWARD, INVERSE = "forward dynamics", "inverse dynamics"
MASS, KINEMATICS = "mass matrix", "kinematics and a Jacobian"
GRADIENT, MATRICES = "gradient", "derivative matrices"
CONSTRAINED = "constrained forward dynamics"


def mass_matrix(model: Model, q: jax.Array, v: jax.Array, x: jax.Array) -> jax.Array:
    return jaxcfa.mass_matrix(model, q)


def matrices(model: Model, q: jax.Array, v: jax.Array, tau: jax.Array) -> jax.Array:
    """Accelerations by the state and by torques, side by side (nv, 3 nv)."""
    return jnp.concatenate(jaxcfa.forward_dynamics_derivatives(model, q, v, tau), axis=1)


FUNCTIONS: dict[str, Function] = {
    FORWARD: jaxcfa.forward_dynamics,
    INVERSE: jaxcfa.inverse_dynamics,
    MASS: mass_matrix,
    GRADIENT: gradient(jaxcfa.forward_dynamics),
    MATRICES: matrices,
}
# What compiles longest comes last: nothing is tried after a contestant had to be stopped.
ALL = (FORWARD, INVERSE, MASS, KINEMATICS, GRADIENT, MATRICES, CONSTRAINED)


def kinematics(make: MakeProblem, way: str | None = None) -> Prepared:
    """Poses of all bodies, and the Jacobian of the first end, of all states; `way` as for `of_function`."""
    problem = make()

    def both(model: Model, q: jax.Array):
        motions = jaxcfa.body_motions(model, q)
        poses = jaxcfa.forward_kinematics(model, q, motions=motions)
        return poses, jaxcfa.jacobian(model, q, problem.ends[0], motions=motions)

    return of_batch(both, problem.model, problem.q, way=way, value=lambda found: compared(found[1]))


def constrained(solver: closed_chains.AbstractConstraintSolver, make: MakeProblem) -> Prepared:
    """Accelerations while the ends stay where they are."""
    problem = make().held()
    constraints = problem.constraints()

    def accelerations(model: Model, q: jax.Array, v: jax.Array, tau: jax.Array) -> jax.Array:
        return closed_chains.constrained_forward_dynamics(model, constraints, q, v, tau, solver=solver).qdd

    return of_batch(accelerations, problem.model, problem.q, problem.v, problem.x, way=None, value=compared)


def own(quantity: str, make: MakeProblem, way: str | None = None) -> dict[str, Callable[[], Prepared]]:
    """This package's contestants for a quantity, by name; `way` as for `of_function`."""
    name = f"{OWN}, {way}" if way else OWN
    if quantity == CONSTRAINED:
        solvers = {} if way else {OWN: closed_chains.LeastNorm(), f"{OWN}, Direct": closed_chains.Direct()}
        return {name: partial(constrained, solver, make) for name, solver in solvers.items()}
    prepare = kinematics if quantity == KINEMATICS else partial(of_function, FUNCTIONS[quantity])
    return {name: partial(prepare, make, way)}
