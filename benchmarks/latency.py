"""Latency of one state at a time: as JAX compiles and starts it, as one function, and by `enable_low_latency`."""

from collections.abc import Callable
from functools import partial

import jax

import jaxcfa

from .case import Case, Contestant, Prepared
from .chain import one_state
from .contestant import ONE_FUNCTION, MakeProblem, compiled
from .methods import Function
from .peers import of_peers
from .quantities import FORWARD, FUNCTIONS, GRADIENT
from .robots import problem
from .settings import Settings

TITLE = "Latency of one state at a time"
ENABLED = "jaxcfa, low latency enabled"  # by `jaxcfa.enable_low_latency`
CHAINS, NAMES = (7, 30, 1000), ("Panda", "G1")


def alone(function: Function, make: MakeProblem, way: str | None = None) -> Prepared:
    """A function of one state of a robot that is known when the program is compiled."""
    problem = make()
    of_state = partial(function, problem.model)
    jit = jaxcfa.low_latency if way == ONE_FUNCTION else jax.jit
    return compiled(of_state, problem.q, problem.v, problem.x, jit=jit)


def enabled(prepare: Callable[[], Prepared]) -> Prepared:
    """What is prepared in a process where `jaxcfa.enable_low_latency` comes first."""
    jaxcfa.enable_low_latency()
    return prepare()


def cases(settings: Settings) -> list[Case]:
    problems: dict[str, MakeProblem] = {f"chain of {n}": partial(one_state, n) for n in CHAINS}
    problems |= {name: partial(problem, name, "float64", None) for name in NAMES}

    def case(quantity: str, label: str) -> Case:
        make = problems[label]
        prepare = partial(alone, FUNCTIONS[quantity], make)
        contestants = [
            Contestant("jaxcfa", prepare),
            Contestant(f"jaxcfa, {ONE_FUNCTION}", partial(prepare, ONE_FUNCTION)),
            Contestant(ENABLED, partial(enabled, prepare), ENABLED),
        ]
        names = ("Pinocchio", "MuJoCo") if quantity == FORWARD else ("Pinocchio",)
        peers = of_peers(settings.sizes(names, ()), make, quantity, "float64")
        return Case(quantity, label, contestants + peers)

    labels = settings.sizes(tuple(problems), ("chain of 7",))
    return [case(quantity, label) for quantity in settings.sizes((FORWARD, GRADIENT), (FORWARD,)) for label in labels]
