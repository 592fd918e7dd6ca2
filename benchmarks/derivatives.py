"""What derivatives of forward dynamics cost, against forward dynamics itself and against other packages."""

from functools import partial

import jax
import jax.numpy as jnp

import jaxcfa
from jaxcfa import ABA, Loads, Model
from jaxcfa.dynamics import AbstractForwardDynamics
from jaxcfa.structured import Sequential

from .case import Case
from .contestant import Contestant, of_functions, of_gradients, of_peers
from .methods import Function, by, inverse_by
from .problem import Problem, revolute_chain, with_states
from .robots import arm7
from .settings import Settings

TITLE = "Derivatives of forward dynamics under jit(vmap), against forward dynamics"
BATCH, LONG = 1024, 1024
PEERS = ("Pinocchio", "frax", "MJX")


def of_the_recursions(method: AbstractForwardDynamics) -> Function:
    """Forward dynamics without this package's rule for derivatives."""

    def solve(model: Model, q: jax.Array, v: jax.Array, tau: jax.Array) -> jax.Array:
        loads = Loads(tau, jnp.zeros((model.nb, 6), q.dtype))
        return method.solve(model, jaxcfa.body_motions(model, q, v), loads)

    return solve


def matrices(model: Model, q: jax.Array, v: jax.Array, tau: jax.Array) -> jax.Array:
    return jnp.concatenate(jaxcfa.forward_dynamics_derivatives(model, q, v, tau, method=ABA()), axis=1)


def contestants(settings: Settings, problem: Problem, with_matrices: bool) -> list[Contestant]:
    values = {"forward dynamics": by(ABA()), "inverse dynamics": inverse_by(Sequential())}
    gradients = {"gradient": by(ABA()), "gradient through the recursions": of_the_recursions(ABA())}
    if not settings.smoke:
        gradients["gradient, ABA scan"] = by(ABA(schedule="scan"))
    # Times of these are compared, not results.
    own = [_without_value(c) for c in of_functions(values, problem)] + of_gradients(gradients, problem)
    if with_matrices:
        own += of_functions({"all derivatives": matrices}, problem)
    peers = of_peers(settings.sizes(PEERS, PEERS[:2]), problem, "gradient")
    return own + [c._replace(name=f"{c.name}, gradient") for c in peers]


def _without_value(contestant: Contestant) -> Contestant:
    return contestant._replace(prepare=lambda: contestant.prepare()._replace(value=None))


def cases(settings: Settings) -> list[Case]:
    (batch,) = settings.sizes((BATCH,), (4,))
    problems = {
        f"7-joint arm, {batch} states": (lambda: arm7(settings.float_type, batch), True),
        f"30-joint chain, {batch} states": (
            lambda: with_states(revolute_chain(30), settings.float_type, batch),
            True,
        ),
        f"{LONG} joints, one state": (lambda: with_states(revolute_chain(LONG), settings.float_type), False),
    }

    def made(problem, with_matrices: bool) -> list[Contestant]:
        return contestants(settings, problem(), with_matrices)

    return [
        Case("derivatives", label, None, partial(made, *problem))
        for label, problem in settings.sizes(tuple(problems.items()), tuple(problems.items())[:1])
    ]
