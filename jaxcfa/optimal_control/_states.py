"""States as users give them."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model._arguments import check_quaternions
from ._problem import Problem
from ._robot_dynamics import AbstractRobotDynamics


def as_state(problem: Problem, x: Any, name: str = "x0") -> Float[Array, "nx"]:
    """A state, of a robot also the pair (q, v), as an array of the type that JAX promotes it and the problem to.

    **Raises:** `ValueError` that calls it by its `name`, for a wrong shape and for zero quaternions.
    """
    dynamics = problem.dynamics
    model = dynamics.model if isinstance(dynamics, AbstractRobotDynamics) else None
    try:
        if model is not None and isinstance(x, tuple) and len(x) == 2:
            x = jnp.concatenate([jnp.asarray(part) for part in x])
        x = jnp.asarray(x)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a state of shape (nx,) = ({dynamics.state_size},), got {x!r}.") from error
    if x.shape != (dynamics.state_size,):
        pair = "" if model is None else f", or a pair q ({model.nq},), v ({model.nv},)"
        remedy = " Functions are for one problem; batch them with jax.vmap." if x.ndim > 1 else ""
        raise ValueError(
            f"{name} must be a state of shape (nx,) = ({dynamics.state_size},){pair}, got {x.shape}.{remedy}"
        )
    floating = [y for y in jax.tree.leaves(problem) if eqx.is_inexact_array(y)]
    dtype = jnp.result_type(x if jnp.issubdtype(x.dtype, jnp.floating) else 0.0, *floating)
    if model is not None:
        check_quaternions(model, name, x[: model.nq])
    return x.astype(dtype)
