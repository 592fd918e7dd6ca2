"""Batches of states on a GPU, beside other packages on JAX. Not measured where there is none."""

from functools import partial

import jax

import jaxcfa

from .case import COMPARED, Case, Contestant, Prepared
from .contestant import compared, compiled
from .peers import PEERS
from .quantities import FORWARD, FUNCTIONS, GRADIENT, INVERSE, MASS
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
_WAYS = {"jaxcfa, one kernel": jaxcfa.one_kernel, "jaxcfa": jax.vmap}
# A kernel of this takes minutes to compile.
_TOO_LONG = ("G1", GRADIENT)


def cases(settings: Settings) -> list[Case]:
    if settings.smoke:
        return []
    return [_case(robot, quantity, batch) for robot in _ROBOTS for quantity in QUANTITIES for batch in BATCHES]


def _case(robot: str, quantity: str, batch: int) -> Case:
    """Each contestant has a process of its own, since all compile for long, and with many cores side by side."""
    task = f"{quantity} {batch}"
    exact = partial(_own, jax.vmap, robot, quantity, COMPARED, "exact")
    on_cpu = (("JAX_PLATFORMS", "cpu"),)
    contestants = [Contestant("in float64", exact, f"jaxcfa exact {task}", on_cpu, reference=True, timed=False)]
    for name, way in _WAYS.items():
        if (robot, quantity) != _TOO_LONG or way is jax.vmap:
            prepare = partial(_own, way, robot, quantity, batch)
            contestants.append(Contestant(name, prepare, f"{name} {task}"))
    for name in _PEERS:
        # Gradients of other packages take minutes to compile.
        if quantity in PEERS[name].quantities and (quantity != GRADIENT or robot == "Panda"):
            prepare = partial(_of_peer, name, robot, quantity, batch)
            # Not what is recommended for CPUs.
            precision = PEERS[name].environment("float32")[-1:]
            contestants.append(Contestant(name, prepare, f"{name} {task}", precision))
    later = int(quantity not in (FORWARD, GRADIENT))
    return Case(f"{quantity}, {batch} states", robot, contestants, None, "float32", batch, later=later)


def _own(way, robot: str, quantity: str, batch: int, dtype: str = "float32") -> Prepared:
    found = problem(robot, dtype, batch)

    def of_state(q, v, x):
        return FUNCTIONS[quantity](found.model, q, v, x)

    return compiled(way(of_state), found.q, found.v, found.x, value=compared)


def _of_peer(name: str, robot: str, quantity: str, batch: int) -> Prepared:
    return PEERS[name].prepare(problem(robot, "float32", batch), quantity)
