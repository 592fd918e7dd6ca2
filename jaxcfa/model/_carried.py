"""Constraints of bodies that have become parts of others, and of joints that are held."""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from ..spatial import Transform
from ._constraints import (
    AbstractConstraint,
    AbstractFrameConstraint,
    Connect,
    Distance,
    JointCoupling,
    LoopJoint,
    Weld,
)
from ._topology import WORLD

# Of a body (-1 for the world): the number of the one that carries it, and its pose there, `None` if it is the same.
Place = Callable[[int], tuple[int, Transform | None]]


class Carried(AbstractFrameConstraint):
    """A constraint of two parts, each of which has a placement in the body that carries it.

    It stands for a constraint of a type of its own whose bodies were locked to others. Multipliers are those of the
    constraint itself.

    **Fields:** `constraint`, whose numbers of bodies are not used; `placement1` in `body1`, `placement2` in `body2`.
    """

    body1: int = eqx.field(static=True)
    body2: int = eqx.field(static=True)
    constraint: AbstractFrameConstraint
    placement1: Transform
    placement2: Transform
    name: str = eqx.field(static=True, default="")

    def residual(self, body1: Transform, body2: Transform) -> Float[Array, "k"]:
        return self.constraint.residual(body1 @ self.placement1, body2 @ self.placement2)


def ends_of(constraint: AbstractConstraint, function: str) -> tuple[str, str]:
    """The fields that hold numbers of bodies or joints, -1 for the world or no joint."""
    if isinstance(constraint, JointCoupling):
        return "joint", "reference"
    if isinstance(constraint, AbstractFrameConstraint):
        return "body1", "body2"
    raise ValueError(
        f"{function} cannot renumber the bodies of {type(constraint).__name__}; derive it from "
        "AbstractFrameConstraint, or take it out of the model's constraints."
    )


def renumbered(constraint: AbstractConstraint, numbers: np.ndarray, function: str) -> AbstractConstraint:
    """The same relation of bodies or joints with other numbers: `numbers[i]` for i, the last for -1."""
    fields = ends_of(constraint, function)
    return dataclasses.replace(constraint, **{field: int(numbers[getattr(constraint, field)]) for field in fields})


def carried(constraint: AbstractConstraint, place: Place, function: str) -> AbstractConstraint | None:
    """The constraint of the bodies that carry those it relates, or `None` where that is one body."""
    fields = ends_of(constraint, function)
    if not isinstance(constraint, AbstractFrameConstraint):
        return constraint
    carriers, poses = zip(*(place(getattr(constraint, field)) for field in fields), strict=True)
    if carriers[0] == carriers[1]:
        return None
    changes: dict = dict(zip(fields, carriers, strict=True))
    if all(pose is None for pose in poses):
        return dataclasses.replace(constraint, **changes)
    if isinstance(constraint, (Connect, Distance, Weld, LoopJoint)):
        for number, pose in enumerate(poses, 1):
            changes |= {} if pose is None else _moved(constraint, number, pose)
        return dataclasses.replace(constraint, **changes)
    dtype = next(pose.translation.dtype for pose in poses if pose is not None)
    first, second = (Transform.identity(dtype) if pose is None else pose for pose in poses)
    return Carried(carriers[0], carriers[1], constraint, first, second, constraint.name)


def _moved(constraint: AbstractConstraint, number: int, pose: Transform) -> dict:
    """The point or frame of one of the two bodies, as it is in the body that carries it."""
    point, frame = f"point{number}", f"frame{number}"
    if hasattr(constraint, point):
        return {point: pose.apply(getattr(constraint, point))}
    return {frame: pose @ getattr(constraint, frame)}


def with_held_joints(
    coupling: JointCoupling, held: np.ndarray, q: Float[Array, "nq"], coordinates: tuple[int, int]
) -> JointCoupling | None:
    """The coupling once joints stay where they are (`held`, by joint): their positions become part of the offsets.

    `coordinates`: those of the configuration that it relates. `None` if no joint is left that could move.
    """
    changes: dict = {}
    for field, coordinate in zip(("joint", "reference"), coordinates, strict=True):
        number, offset = getattr(coupling, field), f"{field}_offset"
        if number != WORLD and held[number]:
            changes |= {field: WORLD, f"{field}_coordinate": 0, offset: getattr(coupling, offset) - q[coordinate]}
    changed = dataclasses.replace(coupling, **changes)
    return None if changed.joint == changed.reference == WORLD else changed
