"""Time of a batch against its size, for short and long chains (compare Yang, Wu & Pan 2016, Fig. 3)."""

from functools import partial

from .case import Case
from .contestant import Contestant, of_functions, of_peers
from .problem import revolute_chain, with_states
from .settings import Settings

TITLE = "Forward dynamics of a batch of chains under jit(vmap), by size of the batch"
LINKS = (10, 200)
BATCHES = (1, 10, 100, 1000, 10_000)


def cases(settings: Settings) -> list[Case]:
    def contestants(n: int, batch: int) -> list[Contestant]:
        problem = with_states(revolute_chain(n), settings.float_type, batch)
        return of_functions(settings.forward, problem) + of_peers(["Pinocchio"], problem, "forward dynamics")

    return [
        Case(f"{n} links", str(batch), batch, partial(contestants, n, batch))
        for n in settings.sizes(LINKS, (3,))
        for batch in settings.sizes(BATCHES, (4,))
    ]
