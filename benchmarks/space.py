"""A space robot with two arms by the four models of Liu, Hu & Zhang 2016, Table 1."""

from functools import partial

import jax
import jax.numpy as jnp

import jaxcfa
from examples.space_robot import space_robot  # found in the repository's root, where benchmarks are run

from . import methods
from .case import Case
from .contestant import of_functions
from .methods import Function
from .peers import of_peers
from .problem import Problem, with_states
from .quantities import FORWARD
from .settings import Settings

TITLE = "A free-floating robot with two arms of six joints, by four models"
TIME_STEP = 2e-3  # s; the paper simulates 10 s in steps of 2 ms
STEPS, BATCH = 5000, 1024
# The paper's models, and which of our algorithms is meant. Kane's equations are those of the joints' accelerations,
# with a dense matrix.
MODELS = {
    "recursive (ABA)": "ABA",
    "CFA, whole system (CFA dense)": "CFA dense",
    "CFA, serial (CFA leaf to root)": "CFA leaf to root",
    "Kane (mass matrix)": "mass matrix",
}


def simulation(function: Function, steps: int) -> Function:
    """The motion from rest under constant torques, by semi-implicit Euler steps: the coordinates at the end."""

    def simulate(model, q, v, tau):
        torque = jnp.where(jnp.arange(model.nv) < 6, 0.0, 0.1 * tau).astype(q.dtype)

        def step(state, _):
            q, v = state
            v = v + TIME_STEP * function(model, q, v, torque)
            return (jaxcfa.integrate(model, q, v, TIME_STEP), v), None

        return jax.lax.scan(step, (q, jnp.zeros_like(v)), length=steps)[0][0]

    return simulate


def states(batch: int | None) -> Problem:
    return with_states(space_robot(), "float64", batch)


def cases(settings: Settings) -> list[Case]:
    forward = settings.chosen({label: methods.FORWARD[name] for label, name in MODELS.items()})
    simulations = {name: simulation(function, STEPS) for name, function in forward.items()}

    def case(label: str, functions: dict[str, Function], batch: int | None, peers: tuple[str, ...]) -> Case:
        make = partial(states, batch)
        return Case(
            FORWARD, label, of_functions(functions, make) + of_peers(peers, make, FORWARD, "float64"), batch=batch or 1
        )

    chosen = [
        case("one state", forward, None, ("Pinocchio",)),
        case(f"batch of {BATCH}", forward, BATCH, ("Pinocchio",)),
        case(f"simulation of {STEPS} steps", simulations, None, ()),
    ]
    return chosen[:0] if settings.smoke else chosen
