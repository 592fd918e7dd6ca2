"""Time to trace, lower and compile forward dynamics, for a short and a long chain."""

from functools import partial

from .case import Case
from .contestant import of_functions
from .problem import revolute_chain, with_states
from .settings import Settings

TITLE = "Compilation of forward dynamics of one state, by number of links"
SIZES = (64, 4096)


def cases(settings: Settings) -> list[Case]:
    def contestants(n: int):
        return of_functions(settings.forward, with_states(revolute_chain(n), settings.float_type))

    return [
        Case("forward dynamics", str(n), n, partial(contestants, n), prepare_only=True)
        for n in settings.sizes(SIZES, (4,))
    ]
