"""Batches of states of three robots: forward and inverse dynamics and gradients, against other packages."""

import warnings
from functools import cache, partial
from importlib import metadata, resources
from pathlib import Path

import jaxcfa

from .case import Case
from .contestant import Contestant, Unable, of_functions, of_gradients, of_peers
from .problem import Problem, revolute_chain, with_states
from .settings import Settings

TITLE = "A batch of states of three robots under jit(vmap)"
BATCH = 2048
PEERS = ("Pinocchio", "frax", "MJX")
_FOLDER = "cmeel.prefix/share/example-robot-data/robots"
_G1 = "g1_description/urdf/g1_29dof_rev_1_0.urdf"


def example_robot(name: str) -> Path:
    """A file of the package example-robot-data."""
    try:
        return Path(str(metadata.distribution("example-robot-data").locate_file(f"{_FOLDER}/{name}")))
    except metadata.PackageNotFoundError:
        raise Unable("the package example-robot-data is not installed") from None


@cache
def arm7(dtype, batch: int) -> Problem:
    path = Path(str(resources.files("jaxcfa") / "data" / "arm7.urdf"))
    return with_states(jaxcfa.load_model(path), dtype, batch, path)


@cache
def chain30(dtype, batch: int) -> Problem:
    return with_states(revolute_chain(30), dtype, batch)


@cache
def g1(dtype, batch: int) -> Problem:
    """The humanoid Unitree G1: 29 joints and a free base."""
    path = example_robot(_G1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an attribute without meaning here
        model = jaxcfa.load_model(path, floating_base=True)
    return with_states(model, dtype, batch, path)


ROBOTS = {"7-joint arm": arm7, "30-joint chain": chain30, "Unitree G1": g1}


def cases(settings: Settings) -> list[Case]:
    robots = dict(settings.sizes(tuple(ROBOTS.items()), tuple(ROBOTS.items())[:1]))
    (batch,) = settings.sizes((BATCH,), (4,))
    makers = {
        "forward dynamics": partial(of_functions, settings.forward),
        "inverse dynamics": partial(of_functions, settings.inverse),
        # All algorithms are differentiated in the same way, so the first stands for them.
        "gradient": partial(of_gradients, dict(list(settings.forward.items())[:1])),
    }

    def contestants(quantity: str, robot) -> list[Contestant]:
        problem = robot(settings.float_type, batch)
        return makers[quantity](problem) + of_peers(settings.sizes(PEERS, PEERS[:2]), problem, quantity)

    return [
        Case(quantity, label, None, partial(contestants, quantity, robot))
        for quantity in makers
        for label, robot in robots.items()
    ]
