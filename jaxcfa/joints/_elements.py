"""The elementary joints that a joint consists of."""

from collections.abc import Iterator

import numpy as np

from ._anchored import Anchored
from ._base import AbstractJoint
from ._composite import Composite
from ._cylindrical import Cylindrical
from ._planar import Planar

# Which coordinate only turns the body, where others move it.
_TURNS: dict[type, int] = {Cylindrical: 0, Planar: 2}


def elements(joint: AbstractJoint) -> Iterator[tuple[AbstractJoint, slice, slice]]:
    """The joints in series, neither `Composite` nor `Anchored`, and which coordinates of q and v are theirs."""
    nq = nv = 0
    for element in _in_series(joint):
        yield element, slice(nq, nq + element.nq), slice(nv, nv + element.nv)
        nq, nv = nq + element.nq, nv + element.nv


def turning(element: AbstractJoint) -> np.ndarray:
    """(nq,): which coordinates only turn the body."""
    turns = np.full(element.nq, element.only_turns)
    if type(element) in _TURNS:
        turns[_TURNS[type(element)]] = True
    return turns


def _in_series(joint: AbstractJoint) -> Iterator[AbstractJoint]:
    if isinstance(joint, Anchored):
        yield from _in_series(joint.joint)
    elif isinstance(joint, Composite):
        for part in joint.joints:
            yield from _in_series(part)
    else:
        yield joint
