"""Ranges of the joints for searches and samples."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..joints._base import near_ends
from ..joints._elements import elements, farthest_ends
from ._joint_groups import neutral_configuration
from ._model import Model

Ends = tuple[Float[Array, "nq"], Float[Array, "nq"]]


def ends_of_ranges(model: Model) -> Ends:
    """The limits of the coordinates; of quaternions, whose numbers have none, infinite."""
    free = np.zeros(model.nq, bool)
    for joint, group in zip(model.joints, model.topology.groups, strict=True):
        for start in joint.quaternions:
            free[group.q_index[:, start : start + 4]] = True
    return jnp.where(free, -jnp.inf, model.limits.lower), jnp.where(free, jnp.inf, model.limits.upper)


def ranges_to_cover(model: Model, ends: Ends) -> Ends:
    """The ends within which searches begin: infinite where they are so far away that they stand for none."""
    farthest = np.zeros(model.nq)
    for joint, group in zip(model.joints, model.topology.groups, strict=True):
        for element, in_q, _ in elements(joint):
            farthest[group.q_index[:, in_q]] = farthest_ends(element)
    return near_ends(*ends, farthest.astype(ends[0].dtype))


def middle(model: Model, inside: float = 0.0) -> Float[Array, "nq"]:
    """The middle of ranges that end on both sides; else the nearest to neutral, so far `inside` of the one end."""
    lower, upper = ranges_to_cover(model, ends_of_ranges(model))
    both = jnp.isfinite(lower) & jnp.isfinite(upper)
    middle = 0.5 * (jnp.where(both, lower, 0) + jnp.where(both, upper, 0))
    nearest = jnp.clip(neutral_configuration(model), lower + inside, upper - inside)
    return jnp.where(both, middle, nearest)
