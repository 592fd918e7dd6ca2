"""Which joints are driven, as users say it."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ._joint_groups import free_dofs
from ._model import Model


def driven_coordinates(model: Model, actuated: Any, otherwise: str = "") -> list[int]:
    """Coordinates of the velocity: of the joints in a list, of all (`False`), or of all but free ones (`None`).

    `otherwise`: what else may be said, for messages. **Raises:** `ValueError` for unknown joints, none and repeated
    ones, and for what says nothing of this kind.
    """
    if actuated is None:
        return np.flatnonzero(~free_dofs(model)).tolist()
    if isinstance(actuated, bool | np.bool_) and not actuated:
        return list(range(model.nv))
    if isinstance(actuated, str) or not isinstance(actuated, Iterable):
        raise ValueError(
            f'actuated must be a list of joints, such as [0] or ["elbow"], {otherwise}or False for all joints, got '
            f"{actuated!r}."
        )
    chosen: list[int] = []
    for joint in actuated:
        coordinates = model.v_slice(joint)
        chosen.extend(range(coordinates.start, coordinates.stop))
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"actuated must name one joint or more, each once, got {list(actuated)}.")
    return chosen
