"""Checking the arguments that all functions of the simulation have."""

import inspect
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model._arguments import check_instance, is_concrete
from ._integrators import AbstractIntegrator


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


def check_integrator(integrator: Any) -> None:
    """Raises `ValueError` for anything but an integrator."""
    check_instance("integrator", integrator, AbstractIntegrator, "one such as SemiImplicitEuler() or RungeKutta4()")


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
