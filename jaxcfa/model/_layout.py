"""What the arrays of a model are indexed by: one table for all that checks models, takes them apart and joins them."""

import math
import operator
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import equinox as eqx
from jaxtyping import Array

Tree = TypeVar("Tree")

# By part of the model and name, in the letters of `jaxcfa.typing`, and `nu` for actuators, `nk` for keyframes.
LAYOUT = {
    "": {
        "mass": "nb",
        "com": "nb 3",
        "inertia": "nb 3 3",
        "gravity": "3",
        **dict.fromkeys(("armature", "damping", "friction_loss", "stiffness"), "nv"),
        "spring_reference": "nq",
    },
    "limits": {"lower": "nq", "upper": "nq", "velocity": "nv", "effort": "nv", "stop_frequency": "nv"},
    "placement": {"translation": "nb 3", "rotation": "nb 3 3"},
    "frame_placement": {"translation": "nf 3", "rotation": "nf 3 3"},
    "actuators": {
        "moment": "nu nv",
        "wrench": "nu 6",
        "length_gradient": "nu nq",
        "bias": "nu 3",
        **dict.fromkeys(("length_offset", "gain"), "nu"),
        **dict.fromkeys(("control_lower", "control_upper", "force_lower", "force_upper"), "nu"),
    },
    "keyframes": {"q": "nk nq", "v": "nk nv", "control": "nk nu"},
}

# The same by the attribute of the model, such as "limits.lower".
PLACES = {
    f"{part}.{name}" if part else name: letters for part, arrays in LAYOUT.items() for name, letters in arrays.items()
}


class Parameter(NamedTuple):
    """A parameter of the coordinates of joints. It may be infinite if its default is.

    **Fields:** `place`, the attribute of the model; `default`, `None` for the neutral configuration; `not_negative`.
    """

    place: str
    default: float | None
    not_negative: bool = False

    @property
    def letters(self) -> str:
        """Whether it is of coordinates of the configuration, "nq", or of the velocity, "nv"."""
        return PLACES[self.place]


# As users call them.
PARAMETERS = {
    "armature": Parameter("armature", 0.0, not_negative=True),
    "damping": Parameter("damping", 0.0, not_negative=True),
    "friction_loss": Parameter("friction_loss", 0.0, not_negative=True),
    "stiffness": Parameter("stiffness", 0.0),
    "velocity_limit": Parameter("limits.velocity", math.inf, not_negative=True),
    "effort_limit": Parameter("limits.effort", math.inf, not_negative=True),
    "stop_frequency": Parameter("limits.stop_frequency", 224.0, not_negative=True),
    "spring_reference": Parameter("spring_reference", None),
    "lower": Parameter("limits.lower", -math.inf),
    "upper": Parameter("limits.upper", math.inf),
}


def shape_of(letters: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape that letters stand for."""
    return tuple(sizes[x] if x in sizes else int(x) for x in letters.split())


def array_at(model: object, place: str) -> Array:
    """The array that an attribute of the model is."""
    return operator.attrgetter(place)(model)


def with_arrays(model: Tree, arrays: Mapping[str, Array]) -> Tree:
    """The model with other arrays, two or more, by the places where they are; whatever their sizes."""
    return eqx.tree_at(operator.attrgetter(*arrays), model, tuple(arrays.values()))
