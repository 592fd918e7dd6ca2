"""Models of a space robot with two arms (compare Liu, Hu & Zhang 2016, Table 1)."""

import jax
import jax.numpy as jnp

import jaxcfa
from examples.space_robot import space_robot  # found in the repository's root, where benchmarks are run

from .case import Case
from .contestant import Contestant, of_functions, of_peers
from .methods import Function
from .problem import Problem, with_states
from .settings import Settings

TITLE = "Forward dynamics of a free-floating robot with two arms of six joints"
TIME_STEP = 2e-3  # s; the paper simulates 10 s in steps of 2 ms
STEPS = 5000


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


def cases(settings: Settings) -> list[Case]:
    forward = settings.forward
    (batch,), (steps,) = settings.sizes((1024,), (4,)), settings.sizes((STEPS,), (10,))
    simulations = {name: simulation(function, steps) for name, function in forward.items()}

    def case(label: str, functions: dict[str, Function], batch: int | None, peers: tuple[str, ...]) -> Case:
        def contestants() -> list[Contestant]:
            problem: Problem = with_states(space_robot(), settings.float_type, batch)
            return of_functions(functions, problem) + of_peers(peers, problem, "forward dynamics")

        return Case("forward dynamics", label, None, contestants)

    chosen = [
        case("one state", forward, None, ("Pinocchio",)),
        case(f"batch of {batch}", forward, batch, ("Pinocchio",)),
        case(f"simulation of {steps} steps", simulations, None, ()),
    ]
    return chosen[::2] if settings.smoke else chosen
