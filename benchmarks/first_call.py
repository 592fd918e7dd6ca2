"""What the first call costs in a new process: imports, reading a robot, compiling, the first run, memory."""

from functools import partial

from .case import OWN, Case, Contestant, Prepared
from .peers import PEERS
from .quantities import FORWARD, GRADIENT, INVERSE, own
from .robots import problem
from .settings import Settings

TITLE = "The first call in a new process, of 2048 states"
BATCH, SMOKE = 2048, "chain of 7"
CASES = (("Panda", FORWARD), ("Panda", GRADIENT), ("G1", FORWARD))


def cases(settings: Settings) -> list[Case]:
    # With threads, or in parallel along the robot, what happens first is much the same.
    once = tuple(peer for name, peer in PEERS.items() if "threads" not in name and "parallel" not in name)
    peers = settings.sizes(once, (PEERS["Pinocchio"],))

    def case(robot: str, quantity: str) -> Case:
        make = partial(problem, robot, "float32", BATCH)
        # Processes make the states by this package, so that all of them have imported it.
        contestants = [Contestant("the states alone, by jaxcfa", lambda: Prepared(make, {}, None), f"{OWN} states")]
        contestants += [Contestant(name, prepare) for name, prepare in own(quantity, make).items()]
        contestants += [peer.contestant(make, quantity, "float32") for peer in peers if quantity in peer.quantities]
        return Case(quantity, robot, contestants, None, "float32", BATCH, fresh=True)

    return [case(*names) for names in settings.sizes(CASES, ((SMOKE, INVERSE),))]
