"""Batches of states of six robots, beside all other packages."""

from functools import partial

from .case import COMPARED, Case, Contestant
from .peers import PEERS, Peer
from .quantities import ALL, FORWARD, GRADIENT, INVERSE, MATRICES, as_one_function, in_chunks, own
from .robots import ROBOTS, problem
from .settings import Settings

TITLE = "Batches of states of six robots"
BATCH, BATCHES = 2048, (1, 64, 16_384)
LARGEST = 16_384
# Of these, batches of all sizes, and float64.
CLOSER = ("chain of 30", "Panda", "G1")
# Where packages that take minutes to compile or to run are measured, and all packages on JAX beyond the batch of 2048.
_EVERYWHERE = (("Panda", FORWARD), ("Panda", GRADIENT), ("G1", FORWARD))
_SLOW = ("MJX", "JaxSim", "Brax")


def cases(settings: Settings) -> list[Case]:
    if settings.smoke:
        return [_case(settings, "chain of 7", quantity, 4, "float64") for quantity in (FORWARD, INVERSE, MATRICES)]
    first = [_case(settings, robot, quantity, BATCH, "float32") for robot in ROBOTS for quantity in ALL]
    sizes = [
        _case(settings, robot, quantity, batch, "float32", later=_later(quantity))
        for robot in CLOSER
        for quantity in ALL
        for batch in BATCHES
    ]
    doubles = [
        _case(settings, robot, quantity, BATCH, "float64", later=_later(quantity))
        for robot in CLOSER
        for quantity in ALL
    ]
    return first + doubles + sizes


def _later(quantity: str) -> int:
    """Beyond the batch that every robot has: when a quantity is measured."""
    return 1 if quantity in (FORWARD, GRADIENT) else 2


def _case(settings: Settings, robot: str, quantity: str, batch: int, dtype: str, later: int = 0) -> Case:
    make = partial(problem, robot, dtype, batch)
    single = dtype == "float32" and not settings.smoke
    slow = single and ((robot, quantity) in _EVERYWHERE or (robot == "chain of 7" and batch == BATCH))
    compiled = slow or (single and batch == BATCH)
    named = own(quantity, make) | (in_chunks(quantity, make) if batch == LARGEST else {})
    if single:
        named |= as_one_function(quantity, make)
    contestants = [Contestant(name, prepare) for name, prepare in named.items()]
    if dtype == "float32" and quantity in (GRADIENT, MATRICES) and ROBOTS[robot].floating_base:
        # Of coordinates that no other package with derivatives in closed form has.
        exact = own(quantity, partial(problem, robot, "exact", COMPARED))["jaxcfa"]
        contestants.append(Contestant("jaxcfa in float64", exact, "jaxcfa exact", reference=True, timed=False))
    chosen = (
        peer
        for peer in PEERS.values()
        if quantity in peer.quantities
        and (batch > 1 or "threads" not in peer.name)
        and (not peer.compiled or (slow if peer.package in _SLOW else compiled))
    )
    contestants += [_of_peer(peer, quantity, robot, dtype, batch) for peer in chosen]
    return Case(f"{quantity}, {batch} states", robot, contestants, None, dtype, batch, later=later)


def _of_peer(peer: Peer, quantity: str, robot: str, dtype: str, batch: int) -> Contestant:
    return Contestant(
        peer.name,
        lambda: peer.prepare(problem(robot, dtype, batch), quantity),
        peer.package,
        peer.environment(dtype),
        reference=peer.reference,
    )
