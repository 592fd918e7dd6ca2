"""Checking the arguments of public functions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from ..numerics._options import (
    check_flag as check_flag,
    check_instance as check_instance,
    checked_key as checked_key,
    known_numbers as known_numbers,
    positive_integer as positive_integer,
    positive_number as positive_number,
)
from ..typing import Frames
from ._given import (
    as_array as as_array,
    as_list as as_list,
    as_positive as as_positive,
    check_positive as check_positive,
    check_quaternions as check_quaternions,
    is_concrete as is_concrete,
)
from ._joint_groups import free_dofs
from ._model import Model, check_model as check_model, require_single as require_single

_CONFIGURATIONS = ("q", "q0", "q1")
_WRENCHES = ("f_ext", "wrenches")
_INERTIAS = ("pi", "theta")
NO_ACTUATORS = (
    "The model has no actuators. Those of MJCF files are read, unless the warning at loading named them as not "
    "modelled; add_servos adds some."
)
FOR_ACTUATORS = "Controls of the model's actuators are taken with actuated=True."


def as_arrays(model: Model, *, sizes: Mapping[str, tuple[int, str]] | None = None, **arguments) -> list[Array]:
    """The arguments as arrays of the shapes that the model demands, of one floating-point type.

    Names say what is expected: `q`, `q0`, `q1` (nq,); `f_ext` (zero where `None`) and `wrenches` (nb, 6); `pi` and
    `theta` (nb, 10); `control` (nu,); any other (nv,), unless `sizes` gives its size and the name of that in messages.
    Their type is promoted from those of the model and the arguments; integers count as the model's.

    **Raises:** `ValueError` naming the argument, its shape, the expected one and, for a batch, the remedy; for a batch
    of models; and for zero quaternions in a configuration that is not traced.
    """
    require_single(model)
    sizes = sizes or {}
    arrays = [_as_array(model, name, value, sizes.get(name)) for name, value in arguments.items()]
    for name, array in zip(arguments, arrays, strict=True):
        if name in _CONFIGURATIONS:
            check_quaternions(model, name, array)
    dtype = jnp.result_type(model.dtype, *arrays)
    return [array if array.dtype == dtype else array.astype(dtype) for array in arrays]


def _as_array(model: Model, name: str, value, size: tuple[int, str] | None) -> Array:
    shape, letters = _expected(model, name) if size is None else ((size[0],), f"({size[1]},)")
    if value is None and name == "f_ext":
        return jnp.zeros(shape, model.dtype)
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of shape {letters} = {shape}, got {_named(value)}") from error
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise ValueError(f"{name} must be real, got dtype {array.dtype}.")
    if not jnp.issubdtype(array.dtype, jnp.floating):
        array = array.astype(model.dtype)
    if array.shape != shape:
        batch = array.ndim > len(shape) and array.shape[-len(shape) :] == shape
        remedy = " Functions are for one state; batch them with jax.vmap." if batch else ""
        if letters == "(nu,)" and not shape[0]:
            remedy = f" {NO_ACTUATORS}"
        elif size is not None and letters == "(nv,)" and array.size and array.shape == (len(model.actuators.names),):
            remedy = f" {FOR_ACTUATORS}"
        raise ValueError(f"{name} must have shape {letters} = {shape}, got {array.shape}.{remedy}")
    return array


def _named(value: Any) -> str:
    """What was given instead of an array. Motions, of a layer above this one, are known by the name of their type."""
    if type(value).__name__ == "BodyMotions":
        return "body motions. Functions take them beside q, as motions=motions."
    return f"{value!r:.200}."


def _expected(model: Model, name: str) -> tuple[tuple[int, ...], str]:
    if name in _CONFIGURATIONS:
        return (model.nq,), "(nq,)"
    if name in _WRENCHES:
        return (model.nb, 6), "(nb, 6)"
    if name in _INERTIAS:
        return (model.nb, 10), "(nb, 10)"
    if name == "control":
        return (len(model.actuators.names),), "(nu,)"
    return (model.nv,), "(nv,)"


def as_frames(model: Model, frames: Frames) -> Int[Array | np.ndarray, "*m"]:
    """Numbers of frames and bodies, see `Model.frame_number`: () of one, (m,) of several, any of them traced.

    **Raises:** `ValueError` for unknown names, for what is known to be out of range, and for what is no integer.
    """
    if isinstance(frames, np.ndarray) and frames.dtype.kind in "UO":
        frames = frames.tolist()
    if isinstance(frames, (jax.Array, np.ndarray)):
        return _as_numbers(model, frames, most=1)
    if isinstance(frames, Sequence) and not isinstance(frames, str):
        numbers = [_as_numbers(model, x) if isinstance(x, jax.core.Tracer) else model.frame_number(x) for x in frames]
        return np.array(numbers, np.int32) if is_concrete(numbers) else jnp.stack(list(map(jnp.asarray, numbers)))
    return np.array(model.frame_number(frames), np.int32)


def _as_numbers(model: Model, numbers: Array | np.ndarray, most: int = 0) -> Array | np.ndarray:
    """Numbers in an array that has at most so many axes."""
    if not jnp.issubdtype(numbers.dtype, jnp.integer) or numbers.ndim > most:
        raise ValueError(
            "frames must be names, or integers, or an array of integers of shape () or (m,), got an array of shape "
            f"{numbers.shape} and dtype {numbers.dtype}."
        )
    if is_concrete(numbers):
        numbers = np.asarray(numbers)
        model.check_frame_numbers(numbers)
    return numbers.astype(np.int32)


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
            f"{actuated!r:.200}."
        )
    chosen: list[int] = []
    for joint in actuated:
        coordinates = model.v_slice(joint)
        chosen.extend(range(coordinates.start, coordinates.stop))
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"actuated must name one joint or more, each once, got {list(actuated)}.")
    return chosen
