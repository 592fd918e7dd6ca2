"""What joints are made of."""

from collections.abc import Iterator

from ._anchored import Anchored
from ._base import AbstractJoint
from ._composite import Composite


def elements(joint: AbstractJoint) -> Iterator[tuple[AbstractJoint, slice, slice]]:
    """The joints in series, neither `Composite` nor `Anchored`, and which coordinates of q and v are theirs."""
    nq = nv = 0
    for element in _in_series(joint):
        yield element, slice(nq, nq + element.nq), slice(nv, nv + element.nv)
        nq, nv = nq + element.nq, nv + element.nv


def _in_series(joint: AbstractJoint) -> Iterator[AbstractJoint]:
    if isinstance(joint, Anchored):
        yield from _in_series(joint.joint)
    elif isinstance(joint, Composite):
        for part in joint.joints:
            yield from _in_series(part)
    else:
        yield joint
