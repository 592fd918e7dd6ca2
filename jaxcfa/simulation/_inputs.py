"""What drives a mechanism: torques of all joints or of some, or controls of actuators."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from ..model import Model
from ..model._arguments import check_model
from ..model._driven import driven_coordinates
from ..typing import NameOrNumber

# As users say it: joints, or actuators (also `True`), all coordinates (`False`), all joints but free ones (`None`).
Actuated = Sequence[NameOrNumber] | Literal["actuators"] | bool | None
# Coordinates of the velocity that torques are given for, `None` for all.
Driven = tuple[int, ...] | Literal["actuators"] | None


def driven_by(model: Model, actuated: Actuated) -> Driven:
    """What inputs belong to. **Raises:** `ValueError` for unknown joints, and for what says nothing of this kind."""
    check_model(model)
    if actuated == "actuators" if isinstance(actuated, str) else isinstance(actuated, bool | np.bool_) and actuated:
        return "actuators"
    coordinates = driven_coordinates(model, actuated, '"actuators" (or True) for those of the model, ')
    return None if coordinates == list(range(model.nv)) else tuple(coordinates)


def input_size(model: Model, driven: Driven) -> tuple[int, str]:
    """How many inputs there are, and what messages call that."""
    if driven == "actuators":
        return len(model.actuators.names), "nu"
    return (model.nv, "nv") if driven is None else (len(driven), "m")
