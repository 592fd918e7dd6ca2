"""The interface of solvers."""

import abc
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
from jaxtyping import Array, Float

from ..structured._lane_loop import lane_loop
from ._local import Multipliers
from ._problem import Problem
from ._solution import Solution

State = TypeVar("State", bound=Any)


class Guess(eqx.Module):
    """Where a solver starts: `states` (T + 1, nx), `controls` (T, m), and of a `Solution` also its multipliers and
    barrier parameter."""

    states: Float[Array, "T+1 nx"]
    controls: Float[Array, "T m"]
    multipliers: Multipliers | None = None
    barrier: Float[Array, ""] | None = None


class AbstractSolver(eqx.Module):
    """A way to solve problems of optimal control. A new one is a subclass with `run`."""

    @abc.abstractmethod
    def run(self, problem: Problem, x0: Float[Array, "nx"], guess: Guess, progress: bool, /) -> Solution:
        """The solution, or what has been reached; without derivatives, which `solve` supplies."""


def check_unconstrained(name: str, problem: Problem) -> None:
    """Raises `ValueError` for what solvers by simulation cannot do."""
    if problem.is_constrained:
        raise ValueError(
            f"{name} solves problems without constraints and with a given start. Use MultipleShooting(), or costs in "
            "the place of constraints."
        )


# Numbers in the states of all stages that make a program on a CPU as fast for each as more would.
_ENOUGH = 16_000


def iterate(problem: Problem, iteration: Callable[[State], State], start: State) -> State:
    """`iteration` until its state is `done`. In batches, problems that are done make place for others.

    Stages are a batch already, so a CPU is busy with few of long problems, and then the fewer wait for the last.
    """
    # With all that it closes over as leaves: whatever of it a user's functions have brought along.
    converted = eqx.filter_closure_convert(iteration, start)
    arrays, static = eqx.partition(converted, eqx.is_array)
    return lane_loop(
        lambda _, state: ~state.done,
        lambda arrays, state: eqx.combine(arrays, static)(state),
        arrays,
        start,
        lanes_on_cpu=max(8, _ENOUGH // max(1, problem.steps * problem.dynamics.tangent_size)),
        steps=4,
    )
