"""States as users give them."""

import operator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model._arguments import check_quaternions
from ..numerics._options import any_numbers
from ._costs_and_bounds import Bounds, Cost, as_floats
from ._problem import Problem
from ._robot_dynamics import AbstractRobotDynamics


def as_state(problem: Problem, x: Any, name: str = "x0", like: Float[Array, "nx"] | None = None) -> Float[Array, "nx"]:
    """A state, of a robot also the pair (q, v), as an array of the type that JAX promotes it and the problem to.

    Step lengths that are free need not be given: they are those of the state `like` it, or of the problem.

    **Raises:** `ValueError` that calls it by its `name`, for a wrong shape and for zero quaternions.
    """
    dynamics = problem.dynamics
    model = dynamics.model if isinstance(dynamics, AbstractRobotDynamics) else None
    _check_pair(problem, x, 1, name)
    try:
        x = any_numbers(name, _joined(problem, x, 1))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be a state of shape (nx,) = ({dynamics.state_size},), of real numbers, got {x!r:.200}."
        ) from error
    if not problem.has_given_duration:
        x = _with_step_lengths(problem, x, like)
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


def as_states(problem: Problem, states: Any) -> Float[Array, "T+1 nx"]:
    """The states of a guess, of a robot also the pair of q (T + 1, nq) and v (T + 1, nv).

    **Raises:** `ValueError` for what is no array of real numbers, and for q and v of other sizes.
    """
    name = "states, those of the guess,"
    _check_pair(problem, states, 2, name)
    try:
        found = any_numbers(name, _joined(problem, states, 2))
        return found if problem.has_given_duration else _with_step_lengths(problem, found, None)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of real numbers, got {states!r:.200}.") from error


def _check_pair(problem: Problem, x: Any, axes: int, name: str) -> None:
    """Raises `ValueError` for a pair (q, v) of a robot, whose arrays have so many axes, of wrong or exchanged sizes."""
    dynamics = problem.dynamics
    if not (isinstance(dynamics, AbstractRobotDynamics) and _is_pair(x, axes)):
        return
    expected, given = (dynamics.model.nq, dynamics.model.nv), tuple(np.shape(part)[-1] for part in x)
    if given != expected:
        q, v = (f"(T + 1, {size})" if axes > 1 else f"({size},)" for size in expected)
        raise ValueError(
            f"{name} must be a pair q {q}, v {v}, in this order, got {' and '.join(str(np.shape(part)) for part in x)}."
        )


def _joined(problem: Problem, x: Any, axes: int) -> Any:
    """A pair (q, v) of a robot, whose arrays have so many axes, as one array; all else as it is."""
    if isinstance(problem.dynamics, AbstractRobotDynamics) and _is_pair(x, axes):
        return jnp.concatenate([jnp.asarray(part) for part in x], axis=-1)
    return x


def _with_step_lengths(problem: Problem, x: Array, like: Array | None) -> Array:
    """States [q; v] with the step lengths of the phases."""
    lengths = problem.first_step_lengths if like is None else like[-len(problem.phases) :]
    if x.ndim == 0 or x.shape[-1] != problem.dynamics.state_size - len(lengths):
        return x
    return jnp.concatenate([x, jnp.broadcast_to(lengths, (*x.shape[:-1], len(lengths)))], axis=-1)


def _is_pair(x: Any, axes: int) -> bool:
    try:
        return isinstance(x, tuple | list) and len(x) == 2 and all(np.ndim(part) == axes for part in x)
    except ValueError:  # lists of different lengths
        return False


def strongly_typed(problem: Problem, dtype: np.dtype) -> Problem:
    """The problem with arrays of JAX alone, none of a weak type, as Python's numbers have: programs would be compiled
    again for these. Weights and bounds may have been replaced by such numbers, and any array by one of NumPy."""

    def typed(x: Any) -> Any:
        if not eqx.is_inexact_array(x):
            return x
        array = jnp.asarray(x)
        return array.astype(dtype) if array.weak_type else array

    def in_arrays(x: Any) -> Any:
        for name in _NUMBERS.get(type(x), ()):
            if isinstance(number := getattr(x, name), int | float):
                x = eqx.tree_at(operator.attrgetter(name), x, as_floats(number))
        return x

    return jax.tree.map(typed, jax.tree.map(in_arrays, problem, is_leaf=lambda x: type(x) in _NUMBERS))


_NUMBERS: dict[type, tuple[str, ...]] = {Cost: ("weight",), Bounds: ("lower", "upper")}
