"""What can be wrong with constraints in a state."""

import enum

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from ..dynamics._run import are_finite, mechanism_of, refuse_without_accelerations
from ..model import Model
from ..model._arguments import is_concrete
from ._relations import Constraints


class ConstraintStatus(enum.IntFlag):
    """Flags of a solution; `ConstraintStatus(int(solution.status))` shows them by name."""

    OK = 0
    SINGULAR = 1
    """Delassus' matrix has no inverse, and the solver needs one: redundant constraints, or a singular configuration."""
    UNSATISFIED = 2
    """The accelerations found do not satisfy the constraints: they contradict one another."""
    OPEN = 4
    """Some loop is open: a constraint is violated by the configuration."""
    MOVING = 8
    """A constraint is violated by the velocities."""
    NOT_FINITE = 16
    """The result has infinities or NaN: these were given, or the mass matrix is singular, or Delassus' matrix.

    What cannot be compared with a tolerance counts as violated, so other flags come with this one.
    """


def combined(flags: dict[ConstraintStatus, Bool[Array, ""]]) -> Int[Array, ""]:
    """The flags that are set, as a number."""
    return sum((jnp.where(wrong, int(flag), 0) for flag, wrong in flags.items()), jnp.zeros((), jnp.int32))


def exceeds(violations: Array, allowed: Array) -> Bool[Array, ""]:
    """Whether any magnitude is larger than allowed, or not a number: NaN compares as false."""
    return ~jnp.all(jnp.abs(violations) <= allowed)


def status_tolerance(dtype: jnp.dtype) -> float:
    """How large violations may be, relative to what they are compared with: 6e-6 in float64, 5e-3 in float32."""
    return float(jnp.finfo(dtype).eps) ** (1 / 3)


def explain(
    status: Int[Array, ""] | int, result: Array, model: Model, constraints: Constraints, arguments: list[Array]
) -> None:
    """Raises `ValueError` if a result that is not finite, and not traced, comes from what is finite.

    The configuration is the first of the `arguments`.
    """
    if not is_concrete(status, result) or are_finite(result):
        return
    if not are_finite(arguments, mechanism_of(model), constraints):
        return
    if ConstraintStatus.SINGULAR in ConstraintStatus(int(status)):
        raise ValueError(
            "Delassus' matrix J M^-1 J^T is singular: constraints repeat one another, or the configuration is "
            "singular. Use LeastNorm() or Proximal(), which do not need its inverse, or leave constraints out."
        )
    refuse_without_accelerations(model, arguments[0])
