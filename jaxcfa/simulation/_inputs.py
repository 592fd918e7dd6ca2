"""What steps are given, checked: torques of all joints or of some, controls of actuators, functions; their length."""

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model import Model
from ..model._arguments import check_model, driven_coordinates, is_concrete
from ..model._joint_groups import coordinate_names
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


def input_names(model: Model, driven: Driven) -> list[str]:
    """What inputs are called after: actuators, or coordinates of the velocity."""
    if driven == "actuators":
        return list(model.actuators.names)
    names = coordinate_names(model, "v")
    return names if driven is None else [names[i] for i in driven]


def checked_dt(dt: Any, dtype: Any) -> Float[Array, ""]:
    """The time step as a scalar, positive if that can be seen."""
    try:
        array = jnp.asarray(dt)
        if array.dtype == bool or jnp.iscomplexobj(array):
            raise TypeError
    except (TypeError, ValueError) as error:
        raise ValueError(f"dt must be a time step in seconds, got {dt!r}.") from error
    if array.shape != ():
        raise ValueError(f"dt must be one number, got shape {array.shape}. Batch with jax.vmap.")
    # As a number of Python's: comparing JAX's own would be traced where anything is, and arrays made there are, too.
    if is_concrete(dt) and not 0 < float(np.asarray(dt)) < math.inf:
        raise ValueError(f"dt must be positive and finite, got {dt}.")
    return array.astype(dtype)


def check_arguments(wanted: str, function: Callable, *arguments: str) -> None:
    """Raises `ValueError`, which begins with what is `wanted`, for a function that does not take these arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # functions that are not Python's may have none
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise ValueError(f"{wanted}, but {function!r:.200} has the arguments {signature}.") from error
