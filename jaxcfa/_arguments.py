"""Checking the arguments of public functions."""

import jax.numpy as jnp
from jaxtyping import Array

from .model import Model
from .model._given import as_list as as_list, check_quaternions as check_quaternions, is_concrete as is_concrete

_CONFIGURATIONS = ("q", "q0", "q1")
_WRENCHES = ("f_ext", "wrenches")
_INERTIAS = ("pi", "theta")
_CONTROLS = ("control", "actuated controls(t, q, v)")


def as_arrays(model: Model, **arguments) -> list[Array]:
    """The arguments as arrays of the shapes that the model demands, of one floating-point type.

    Names say what is expected: `q`, `q0`, `q1` (nq,); `f_ext` (zero where `None`) and `wrenches` (nb, 6); `pi` and
    `theta` (nb, 10); `control` (nu,); any other (nv,). The type is what JAX promotes the model's and the arguments' to;
    integers count as the model's.

    **Raises:** `ValueError` naming the argument, its shape, the expected one and, for a batch, the remedy; and for zero
    quaternions in a configuration that is not traced.
    """
    arrays = [_as_array(model, name, value) for name, value in arguments.items()]
    for name, array in zip(arguments, arrays, strict=True):
        if name in _CONFIGURATIONS:
            check_quaternions(model, name, array)
    dtype = jnp.result_type(model.dtype, *arrays)
    return [array if array.dtype == dtype else array.astype(dtype) for array in arrays]


def _as_array(model: Model, name: str, value) -> Array:
    shape, letters = _expected(model, name)
    if value is None and name == "f_ext":
        return jnp.zeros(shape, model.dtype)
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of shape {letters} = {shape}, got {value!r}.") from error
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise ValueError(f"{name} must be real, got dtype {array.dtype}.")
    if not jnp.issubdtype(array.dtype, jnp.floating):
        array = array.astype(model.dtype)
    if array.shape != shape:
        batch = array.ndim > len(shape) and array.shape[-len(shape) :] == shape
        remedy = " Functions are for one state; batch them with jax.vmap." if batch else ""
        raise ValueError(f"{name} must have shape {letters} = {shape}, got {array.shape}.{remedy}")
    return array


def _expected(model: Model, name: str) -> tuple[tuple[int, ...], str]:
    if name in _CONFIGURATIONS:
        return (model.nq,), "(nq,)"
    if name in _WRENCHES:
        return (model.nb, 6), "(nb, 6)"
    if name in _INERTIAS:
        return (model.nb, 10), "(nb, 10)"
    if name in _CONTROLS:
        return (len(model.actuators.names),), "(nu,)"
    return (model.nv,), "(nv,)"
