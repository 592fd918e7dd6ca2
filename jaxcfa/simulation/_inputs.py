"""What drives a mechanism: torques of all joints or of some, or controls of actuators."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from ..model import Model
from ..model._arguments import as_arrays, check_model, driven_coordinates
from ..typing import BodyForcesLike, ConfigurationLike, NameOrNumber, VelocityLike

# As users say it: joints, or actuators (also `True`), all coordinates (`False`), all joints but free ones (`None`).
Actuated = Sequence[NameOrNumber] | Literal["actuators"] | bool | None
# Coordinates of the velocity that torques are given for, `None` for all.
Driven = tuple[int, ...] | Literal["actuators"] | None


def driven_by(model: Model, actuated: Actuated) -> Driven:
    """What inputs belong to. **Raises:** `ValueError` for unknown joints, and for what says nothing of this kind."""
    check_model(model)
    if actuated == "actuators" if isinstance(actuated, str) else isinstance(actuated, bool | np.bool_) and actuated:
        return "actuators"
    return _or_all(model, driven_coordinates(model, actuated, '"actuators" (or True) for those of the model, '))


def input_size(model: Model, driven: Driven) -> tuple[int, str]:
    """How many inputs there are, and what messages call that."""
    if driven == "actuators":
        return len(model.actuators.names), "nu"
    return (model.nv, "nv") if driven is None else (len(driven), "m")


def as_state_and_inputs(
    model: Model,
    driven: Driven,
    q: ConfigurationLike,
    v: VelocityLike,
    inputs: ArrayLike,
    f_ext: BodyForcesLike | None,
) -> list[Array]:
    """All four, checked as by `as_arrays`."""
    name = "control" if driven == "actuators" else "tau"
    given: dict[str, Any] = {"q": q, "v": v, name: inputs, "f_ext": f_ext}
    return as_arrays(model, sizes={name: input_size(model, driven)}, **given)


def _or_all(model: Model, coordinates: list[int]) -> tuple[int, ...] | None:
    return None if coordinates == list(range(model.nv)) else tuple(coordinates)
