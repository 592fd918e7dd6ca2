"""What joints are made of."""

from ._anchored import Anchored
from ._base import AbstractJoint
from ._composite import Composite


def elements(joint: AbstractJoint) -> tuple[AbstractJoint, ...]:
    """The joints in series, neither `Composite` nor `Anchored`, whose coordinates one after the other are its own."""
    if isinstance(joint, Anchored):
        return elements(joint.joint)
    if isinstance(joint, Composite):
        return tuple(element for part in joint.joints for element in elements(part))
    return (joint,)
