"""What can be wrong with constraints in a state."""

import enum

import jax.numpy as jnp


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


def status_tolerance(dtype: jnp.dtype) -> float:
    """How large violations may be, relative to what they are compared with: 6e-6 in float64, 5e-3 in float32."""
    return float(jnp.finfo(dtype).eps) ** (1 / 3)
