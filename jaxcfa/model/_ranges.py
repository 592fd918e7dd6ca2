"""Ranges of the joints for searches and samples."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..joints import Free
from ..joints._base import FARTHEST, FARTHEST_ANGLE, near_ends
from ..joints._elements import turning
from ._constraints import JointCoupling
from ._joint_groups import elementary_joints, free_dofs, neutral_configuration
from ._model import Model

Ends = tuple[Float[Array, "nq"], Float[Array, "nq"]]


def ends_of_ranges(model: Model) -> Ends:
    """The limits of the coordinates; of quaternions, whose numbers have none, infinite."""
    free = np.zeros(model.nq, bool)
    for element, q, _ in elementary_joints(model):
        for start in element.quaternions:
            free[q[:, start : start + 4]] = True
    return jnp.where(free, -jnp.inf, model.limits.lower), jnp.where(free, jnp.inf, model.limits.upper)


def ranges_to_cover(model: Model, ends: Ends) -> Ends:
    """The ends within which searches begin: infinite where they are so far away that they stand for none."""
    farthest = np.where(turning_coordinates(model), FARTHEST_ANGLE, FARTHEST)
    return near_ends(*ends, farthest.astype(ends[0].dtype))


def turning_coordinates(model: Model) -> np.ndarray:
    """(nq,): which coordinates only turn a body."""
    turns = np.zeros(model.nq, bool)
    for element, q, _ in elementary_joints(model):
        turns[q] = turning(element)
    return turns


def rated_coordinates(model: Model) -> np.ndarray:
    """(nv,): the configuration coordinate that each one of the velocity is the rate of; -1 if it is of none."""
    own = np.full(model.nv, -1)
    for element, q, v in elementary_joints(model):
        if isinstance(element, Free):  # its position, but not its quaternion
            own[v[:, :3]] = q[:, :3]
        elif not element.quaternions and element.nq == element.nv:
            own[v] = q
    return own


def coupled_coordinates(model: Model, coupling: JointCoupling) -> tuple[int, int]:
    """Which coordinates of the configuration a coupling relates; -1 for none."""
    own = rated_coordinates(model)

    def of(joint: int, coordinate: int) -> int:
        return -1 if joint < 0 else int(own[model.topology.v_starts[joint] + coordinate])

    return of(coupling.joint, coupling.joint_coordinate), of(coupling.reference, coupling.reference_coordinate)


def even_displacement(
    model: Model, ends: Ends, origin: Float[Array, "nq"], number: Int[Array, ""]
) -> Float[Array, "nv"]:
    """From the origin to the configuration of that number in a sequence that covers the ranges evenly.

    Additive recurrence with the powers of the root of `x^(n + 1) = x + 1` (Roberts 2018). Where there are no ends,
    displacements are up to half a turn or a metre. Free joints stay where they are.
    """
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (model.nv + 1))
    rates = jnp.asarray(root ** -np.arange(1.0, model.nv + 1) % 1, origin.dtype)
    part = (0.5 + number.astype(origin.dtype) * rates) % 1
    own, free = rated_coordinates(model), free_dofs(model)
    lower, upper = (
        jnp.where(own < 0, default, jnp.where(jnp.isfinite(end - origin), end - origin, default)[own])
        for end, default in zip(ranges_to_cover(model, ends), (-np.pi, np.pi), strict=True)
    )
    return jnp.where(free, 0, lower + part * (upper - lower))


def middle(model: Model, inside: float = 0.0) -> Float[Array, "nq"]:
    """The middle of ranges that end on both sides; else the nearest to neutral, so far `inside` of the one end."""
    lower, upper = ranges_to_cover(model, ends_of_ranges(model))
    both = jnp.isfinite(lower) & jnp.isfinite(upper)
    middle = 0.5 * (jnp.where(both, lower, 0) + jnp.where(both, upper, 0))
    nearest = jnp.clip(neutral_configuration(model), lower + inside, upper - inside)
    return jnp.where(both, middle, nearest)
