"""The robots that batches of states are measured on."""

import dataclasses
import warnings
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import jaxcfa

from .case import Unable
from .problem import Problem, revolute_chain, with_states

_FOLDER = "cmeel.prefix/share/example-robot-data/robots"


class Robot(NamedTuple):
    """A chain of so many links, or a file of the package example-robot-data; `ends`: bodies that may be held."""

    links: int = 0
    file: str = ""
    floating_base: bool = False
    ends: tuple[str, ...] = ()


ROBOTS = {
    "chain of 7": Robot(7),
    "chain of 30": Robot(30),
    "Panda": Robot(file="panda_description/urdf/panda.urdf", ends=("panda_link7",)),
    "Go2": Robot(0, "go2_description/urdf/go2.urdf", True, ("FL_calf", "FR_calf", "RL_calf", "RR_calf")),
    "G1": Robot(
        0, "g1_description/urdf/g1_29dof_rev_1_0.urdf", True, ("left_ankle_roll_link", "right_ankle_roll_link")
    ),
    "Talos": Robot(0, "talos_data/robots/talos_full_v2.urdf", True, ("leg_left_6_link", "leg_right_6_link")),
}


def example_robot(name: str) -> Path:
    """A file of the package example-robot-data."""
    try:
        return Path(str(metadata.distribution("example-robot-data").locate_file(f"{_FOLDER}/{name}")))
    except metadata.PackageNotFoundError:
        raise Unable("the package example-robot-data is not installed") from None


def load(path: Path, floating_base: bool = False) -> jaxcfa.Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of attributes without meaning here
        return jaxcfa.load_model(path, floating_base=floating_base)


@cache
def problem(name: str, dtype: str, batch: int | None) -> Problem:
    """States of a robot, or one state. `exact`: those of float32, and its numbers, in float64."""
    robot = ROBOTS[name]
    if dtype == "exact":
        rounded = problem(name, "float32", batch)
        states = {part: getattr(rounded, part).astype("float64") for part in ("q", "v", "x")}
        return dataclasses.replace(rounded, model=rounded.model.astype("float64"), **states)
    if robot.links:
        return with_states(revolute_chain(robot.links), dtype, batch)
    path = example_robot(robot.file)
    return with_states(load(path, robot.floating_base), dtype, batch, path, robot.ends)
