"""The interface of solvers."""

import abc

import equinox as eqx
from jaxtyping import Array, Float

from ._local import Multipliers, Rows
from ._problem import Problem
from ._solution import Solution


class Guess(eqx.Module):
    """Where a solver starts: `states` (T + 1, nx), `controls` (T, m), and of a `Solution` also its multipliers, slack
    and barrier parameter."""

    states: Float[Array, "T+1 nx"]
    controls: Float[Array, "T m"]
    multipliers: Multipliers | None = None
    slack: Rows | None = None
    barrier: Float[Array, ""] | None = None


class AbstractSolver(eqx.Module):
    """A way to solve problems of optimal control. A new one is a subclass with `run`."""

    @abc.abstractmethod
    def run(self, problem: Problem, x0: Float[Array, "nx"], guess: Guess, progress: bool, /) -> Solution:
        """The solution, or what has been reached; without derivatives, which `solve` supplies."""


def check_unconstrained(name: str, problem: Problem) -> None:
    """Raises `ValueError` for what solvers by simulation cannot do."""
    if problem.constraints or problem.end_constraints or problem.start != "given":
        raise ValueError(
            f"{name} solves problems without constraints and with a given start. Use MultipleShooting(), or costs in "
            "the place of constraints."
        )
