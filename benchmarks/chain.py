"""Time of one evaluation against the number of links of a chain (compare Yang, Wu & Pan 2016, Fig. 2)."""

from functools import partial

from . import methods
from .case import Case
from .contestant import of_functions
from .peers import of_peers
from .problem import Problem, revolute_chain, with_states
from .quantities import FORWARD, INVERSE
from .settings import Settings

TITLE = "One evaluation on a revolute chain, by number of links"
SIZES = (10, 30, 100, 1000, 10_000, 100_000)
PEERS = ("Pinocchio", "MuJoCo")


def one_state(n: int, dtype: str = "float64") -> Problem:
    return with_states(revolute_chain(n), dtype)


def cases(settings: Settings) -> list[Case]:
    functions = {FORWARD: settings.chosen(methods.FORWARD), INVERSE: methods.INVERSE}

    def case(quantity: str, n: int) -> Case:
        make = partial(one_state, n)
        own = of_functions(functions[quantity], make)
        return Case(quantity, str(n), own + of_peers(PEERS, make, quantity, "float64"), n)

    quantities = settings.sizes((FORWARD, INVERSE), (FORWARD,))
    return [case(quantity, n) for quantity in quantities for n in settings.sizes(SIZES, (3,))]
