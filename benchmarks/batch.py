"""Time of a batch against its size, for short and long chains (compare Yang, Wu & Pan 2016, Fig. 3)."""

from functools import partial

from . import methods
from .case import Case
from .contestant import of_functions
from .peers import of_peers
from .problem import Problem, revolute_chain, with_states
from .quantities import FORWARD
from .settings import Settings

TITLE = "Forward dynamics of a group of chains under jit(vmap), by size of the group"
LINKS = (10, 200)
BATCHES = (1, 100, 1000, 10_000)
# Those of the paper, and what is fastest otherwise.
METHODS = ("ABA", "ABA hybrid", "ABA scan", "CFA OEE", "CFA cyclic reduction", "JSI")


def states(n: int, batch: int) -> Problem:
    return with_states(revolute_chain(n), "float32", batch)


def cases(settings: Settings) -> list[Case]:
    functions = settings.chosen({name: methods.FORWARD[name] for name in METHODS})

    def case(n: int, batch: int) -> Case:
        make = partial(states, n, batch)
        contestants = of_functions(functions, make) + of_peers(("Pinocchio",), make, FORWARD, "float32")
        return Case(f"{n} links", str(batch), contestants, batch, "float32", batch)

    return [case(n, batch) for n in settings.sizes(LINKS, ()) for batch in BATCHES]
