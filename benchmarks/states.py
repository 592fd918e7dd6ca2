"""Batches of states of six robots, beside all other packages."""

from functools import partial

from .case import COMPARED, Case, Contestant
from .contestant import BATCHED, ONE_FUNCTION, STRAIGHT_LINE
from .peers import PEERS
from .quantities import ALL, CONSTRAINED, FORWARD, GRADIENT, INVERSE, KINEMATICS, MATRICES, own
from .robots import ROBOTS, problem
from .settings import Settings

TITLE = "Batches of states of six robots"
BATCH, LARGEST = 2048, 16_384
BATCHES = (1, 64, LARGEST)
# Of these robots, quantities that take long to compile, batches of all sizes, and float64.
CLOSER = ("chain of 30", "Panda", "G1")
_CLOSER_ONLY = (MATRICES, CONSTRAINED)
_ALL_SIZES = (FORWARD, GRADIENT)
# What is made of several functions, so that `batched` may gain; and robots whose straight lines compile in seconds.
_OF_SEVERAL = (KINEMATICS, GRADIENT)
_SHORT = ("chain of 7", "chain of 30", "Panda", "Go2")
# Where packages that take minutes to compile or to run are measured.
_SLOW = ("MJX", "JaxSim", "Brax")
_SLOW_ON = (("chain of 7", FORWARD), ("Panda", FORWARD), ("Panda", GRADIENT), ("G1", FORWARD))


def cases(settings: Settings) -> list[Case]:
    if settings.smoke:
        return [_case(settings, "chain of 7", quantity, 4, "float64") for quantity in (FORWARD, INVERSE, MATRICES)]
    first = [
        _case(settings, robot, quantity, BATCH, "float32")
        for robot in ROBOTS
        for quantity in ALL
        if robot in CLOSER or quantity not in _CLOSER_ONLY
    ]
    doubles = [
        _case(settings, robot, quantity, BATCH, "float64", later=1) for robot in CLOSER for quantity in _ALL_SIZES
    ]
    sizes = [
        _case(settings, robot, quantity, batch, "float32", later=1)
        for robot in CLOSER
        for quantity in _ALL_SIZES
        for batch in BATCHES
    ]
    return first + doubles + sizes


def _case(settings: Settings, robot: str, quantity: str, batch: int, dtype: str, later: int = 0) -> Case:
    make = partial(problem, robot, dtype, batch)
    single = dtype == "float32" and not settings.smoke
    compiled = single and batch == BATCH
    slow = compiled and (robot, quantity) in _SLOW_ON
    contestants = [Contestant(name, prepare) for name, prepare in own(quantity, make).items()]
    ways = [BATCHED] if batch == LARGEST or (compiled and quantity in _OF_SEVERAL) else []
    if single and batch == 1:
        ways.append(ONE_FUNCTION)
    elif single and robot in _SHORT:
        ways.append(STRAIGHT_LINE)
    for way in ways:
        # In processes of their own, so as to compile beside the others.
        contestants += [Contestant(name, prepare, name) for name, prepare in own(quantity, make, way).items()]
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
    contestants += [peer.contestant(make, quantity, dtype) for peer in chosen]
    return Case(f"{quantity}, {batch} state{'s' * (batch > 1)}", robot, contestants, None, dtype, batch, later=later)
