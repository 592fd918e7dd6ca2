"""What can be wrong with constraints in a state."""

import enum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int


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


def is_not_finite(tree: Any) -> Bool[Array, ""]:
    """Whether any number in the tree is infinite or NaN."""
    return ~jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(tree)]))


def status_tolerance(dtype: jnp.dtype) -> float:
    """How large violations may be, relative to what they are compared with: 6e-6 in float64, 5e-3 in float32."""
    return float(jnp.finfo(dtype).eps) ** (1 / 3)


def explain(status: ConstraintStatus, result: Array, arguments: list[Array]) -> None:
    """Raises `ValueError` if a result that is not finite comes from finite arguments."""
    if np.all(np.isfinite(result)) or not all(np.all(np.isfinite(x)) for x in arguments):
        return
    if ConstraintStatus.SINGULAR in status:
        raise ValueError(
            "Delassus' matrix J M^-1 J^T is singular: constraints repeat one another, or the configuration is "
            "singular. Use LeastNorm() or Proximal(), which do not need its inverse, or leave constraints out."
        )
    raise ValueError(
        "Forward dynamics needs an invertible mass matrix, but it is singular at this configuration: some joint moves "
        "no inertia. Give the bodies it carries inertia about its axis, or the joint armature."
    )
