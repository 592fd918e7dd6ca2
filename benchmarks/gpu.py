"""Batches of states on a GPU, beside other packages on JAX. Not measured where there is none."""

from functools import partial

from .case import COMPARED, OWN, Case, Contestant
from .contestant import STRAIGHT_LINE
from .peers import PEERS
from .quantities import FORWARD, GRADIENT, INVERSE, MASS, own
from .robots import problem
from .settings import Settings

TITLE = "Batches of states on a GPU"
NEEDS = "gpu"
REMARK = """\
Each result is dropped before the next run, which writes into its place. Where it is kept, XLA changes the CUDA graph of
a program's kernels at each call, which takes some 4 us for each of them. By `jax.vmap` what can be one kernel is one.
The products of other packages have JAX's default precision on GPUs, TF32.
"""
BATCHES = 4096, 65_536
QUANTITIES = FORWARD, INVERSE, MASS, GRADIENT
_ROBOTS = "Panda", "Go2", "G1"
_PEERS = "MJX", "Brax", "frax"
# A kernel of this takes minutes to compile.
_TOO_LONG = ("G1", GRADIENT)


def cases(settings: Settings) -> list[Case]:
    if settings.smoke:
        return []
    return [_case(robot, quantity, batch) for robot in _ROBOTS for quantity in QUANTITIES for batch in BATCHES]


def _case(robot: str, quantity: str, batch: int) -> Case:
    """Each contestant has a process of its own, since all compile for long, and with many cores side by side."""
    task = f"{quantity} {batch}"
    exact = own(quantity, partial(problem, robot, "exact", COMPARED))[OWN]
    on_cpu = (("JAX_PLATFORMS", "cpu"),)
    contestants = [Contestant("in float64", exact, f"jaxcfa exact {task}", on_cpu, reference=True, timed=False)]
    make = partial(problem, robot, "float32", batch)
    for way in [None] if (robot, quantity) == _TOO_LONG else [STRAIGHT_LINE, None]:
        contestants += [Contestant(name, x, f"{name} {task}") for name, x in own(quantity, make, way).items()]
    for name in _PEERS:
        # Gradients of other packages take minutes to compile.
        if quantity in PEERS[name].quantities and (quantity != GRADIENT or robot == "Panda"):
            peer = PEERS[name].contestant(make, quantity, "float32")
            # Of the environment the precision alone, not what is recommended for CPUs.
            contestants.append(peer._replace(package=f"{name} {task}", environment=peer.environment[-1:]))
    later = int(quantity not in (FORWARD, GRADIENT))
    return Case(f"{quantity}, {batch} states", robot, contestants, None, "float32", batch, later=later)
