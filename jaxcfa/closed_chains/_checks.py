"""Checking constraints, and naming them in messages."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..model import WORLD, AbstractConstraint, AbstractFrameConstraint, JointCoupling, Model
from ..model._arguments import as_arrays
from ..model._parts import parts_of_composites, whole_joint
from ._relations import Constraints, coupled, number_of_rows, related


def prepared(model: Model, constraints: object, **arguments) -> tuple[Model, Constraints, list[Array]]:
    """Model, constraints and `as_arrays(model, **arguments)`, all of one floating-point type.

    **Raises:** `ValueError` for what is no constraint, does not fit the model, or has a wrong shape.
    """
    constraints = check_constraints(model, constraints)
    arrays = as_arrays(model, **arguments)
    dtype = arrays[0].dtype

    def cast(x: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), x)

    return (model if model.dtype == dtype else cast(model)), cast(constraints), arrays


def check_constraints(model: Model, constraints: object) -> Constraints:
    """The constraints as a tuple. **Raises:** `ValueError` for what is none, or does not fit the model."""
    given = (constraints,) if isinstance(constraints, AbstractConstraint) else constraints
    kinds = AbstractFrameConstraint, JointCoupling
    if not isinstance(given, (tuple, list)) or not all(isinstance(c, kinds) for c in given):
        raise ValueError(
            f"constraints must be a sequence of constraints such as Weld, or model.constraints, got {given!r:.200}."
        )
    for number, constraint in enumerate(given):
        _check_constraint(model, constraint, f"Constraint {constraint.name or number!r}")
    return tuple(given)


def _check_constraint(model: Model, constraint: AbstractConstraint, what: str) -> None:
    first, second = pair = related(constraint)
    if any(x >= model.nb or x < WORLD for x in pair):
        raise ValueError(
            f"{what} relates numbers {pair}, but the model has {model.nb} bodies, numbered from 0 (-1 is the world). "
            "Was it made for another model?"
        )
    coordinates = coupled(constraint)
    if first == second and (coordinates[0] == coordinates[1] or first == WORLD):
        raise ValueError(f"{what} relates number {first} to itself.")
    shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(constraint)]
    if isinstance(constraint, JointCoupling):
        fits = len(shapes[0]) == 1 and not any(shapes[1:])
        for joint, coordinate in zip(pair, coordinates, strict=True):
            if joint >= 0 and not _can_be_coupled(model, joint, coordinate):
                raise ValueError(
                    f"{what} couples coordinate {coordinate} of joint {model.joint_names[joint]!r}, but only joints of "
                    "one degree of freedom can be coupled, alone or in a composite joint. Use closed_chains.couple."
                )
    else:
        fits = all(shape in ((), (3,), (3, 3)) for shape in shapes)
    if not fits:
        raise ValueError(
            f"The fields of {what} have the shapes {shapes}, but functions are for one mechanism: points (3,), "
            "rotations (3, 3), numbers (). Batch with jax.vmap."
        )


def _can_be_coupled(model: Model, joint: int, coordinate: int) -> bool:
    """Whether a coordinate of the velocity is that of a joint of one degree of freedom."""
    whole = whole_joint(model.topology, joint)
    parts = [part for part in parts_of_composites(model.joints, model.topology) if part.body == joint] or [whole]
    own = whole.v.start + coordinate
    return any(part.v == slice(own, own + 1) and part.q.stop == part.q.start + 1 for part in parts)


def row_labels(model: Model, constraints: Constraints) -> list[str]:
    """What each row belongs to, for messages: by the constraint's name, or else by its number and what it relates."""
    labels = []
    for number, constraint in enumerate(constraints):
        kind = type(constraint).__name__
        label = f"{kind} {constraint.name!r}" if constraint.name else f"constraint {number}, {_of(model, constraint)},"
        labels.extend([label] * number_of_rows(constraint))
    return labels


def _of(model: Model, constraint: AbstractConstraint) -> str:
    """The type of a constraint and what it relates; of frames only their bodies are known."""
    pair = related(constraint)
    if isinstance(constraint, JointCoupling):
        related_names = [f"joint {model.joint_names[x]!r}" for x in pair if x >= 0]
    else:
        related_names = [f"body {model.body_names[x]!r}" if x >= 0 else "the world" for x in pair]
    return f"a {type(constraint).__name__} of {' and '.join(related_names)}"
