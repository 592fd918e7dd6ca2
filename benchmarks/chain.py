"""Time of one evaluation against the number of links of a chain (compare Yang, Wu & Pan 2016, Fig. 2)."""

from functools import partial

from .case import Case
from .contestant import Contestant, of_functions, of_peers
from .problem import revolute_chain, with_states
from .settings import Settings

TITLE = "One evaluation on a revolute chain, by number of links"
SIZES = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
PEERS = ("Pinocchio", "MuJoCo")


def cases(settings: Settings) -> list[Case]:
    functions = {"forward dynamics": settings.forward, "inverse dynamics": settings.inverse}

    def contestants(quantity: str, n: int) -> list[Contestant]:
        problem = with_states(revolute_chain(n), settings.float_type)
        return of_functions(functions[quantity], problem) + of_peers(PEERS, problem, quantity)

    return [
        Case(quantity, str(n), n, partial(contestants, quantity, n))
        for quantity in functions
        for n in settings.sizes(SIZES, (3,))
    ]
