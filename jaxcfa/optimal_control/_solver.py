"""The interface of solvers."""

import abc
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..numerics._options import positive_integer, positive_number
from ..structured._lane_loop import closed_lane_loop
from ._local import Multipliers, Rows
from ._problem import Problem
from ._solution import History, Solution, coordinates, with_unbounded

State = TypeVar("State", bound=Any)


def count(name: str, default: int) -> Any:
    """A field of a solver for a number of iterations or the like."""
    return eqx.field(static=True, default=default, converter=lambda x: positive_integer(name, x))


def own_tolerance(name: str) -> Any:
    """A field of a solver for a tolerance, by default that of the precision."""
    return eqx.field(
        static=True, default=None, converter=lambda x: None if x is None else positive_number(name, x, or_zero=True)
    )


def tolerances(dtype: np.dtype, tolerance: float | None, stationarity: float | None) -> tuple[float, float]:
    """The given tolerances, or defaults for a precision."""
    defaults = (1e-8, 1e-6) if jnp.finfo(dtype).bits >= 64 else (1e-4, 1e-3)
    return defaults[0] if tolerance is None else tolerance, defaults[1] if stationarity is None else stationarity


class Guess(eqx.Module):
    """Where a solver starts, and how far it may go. All guesses have the same shapes, so that they share a program.

    **Fields:** `states` (T + 1, nx); `controls` (T, m); `multipliers` and the `barrier` parameter of a `Solution`, of
    all else zeros; whether these are `known`; the most `iterations`, of which there may be fewer than the solver's
    own `max_iterations`.
    """

    states: Float[Array, "T+1 nx"]
    controls: Float[Array, "T m"]
    multipliers: Multipliers
    barrier: Float[Array, ""]
    known: Bool[Array, ""]
    iterations: Int[Array, ""]


class AbstractSolver(eqx.Module):
    """A way to solve problems of optimal control. A new one is a subclass with `run`."""

    @abc.abstractmethod
    def run(self, problem: Problem, x0: Float[Array, "nx"], guess: Guess, progress: bool, /) -> Solution:
        """The solution, or what has been reached after `guess.iterations`.

        Without derivatives, which `solve` supplies.
        """


def check_unconstrained(name: str, problem: Problem) -> None:
    """Raises `ValueError` for what solvers by simulation cannot do."""
    if problem.is_constrained:
        raise ValueError(
            f"{name} solves problems without constraints and with a given start. Use MultipleShooting(), or costs in "
            "the place of constraints."
        )


def unconstrained(
    problem: Problem,
    end: Any,
    *,
    states: Float[Array, "T+1 nx"],
    gains: Float[Array, "T m n"],
    costates: Float[Array, "T+1 n"],
    cost: Float[Array, ""],
    gap: Float[Array, ""],
    stationarity: Float[Array, ""],
) -> Solution:
    """The solution of a problem without constraints, whose `end` of the iterations has all else."""
    nothing = Rows(jnp.zeros((problem.steps, 0), states.dtype), jnp.zeros(0, states.dtype))
    return Solution(
        states=states,
        controls=end.controls,
        gains=gains,
        multipliers=Multipliers(costates, nothing, nothing),
        slack=nothing,
        cost=cost,
        gap=gap,
        violation=gap,
        stationarity=stationarity,
        barrier=jnp.zeros_like(cost),
        iterations=end.iteration,
        status=with_unbounded(end.status, cost, end.history),
        history=end.history,
        coordinates=coordinates(problem),
    )


def recorded(state: Any, progress: bool, **entries: Array) -> History:
    """The history of a solver's state with what its iteration has found, which is shown if `progress` is."""
    i, total = state.iteration, len(state.history.cost)

    def show(i, cost, violation, stationarity) -> None:
        text = f"iteration {int(i) + 1:4d} of {total}: cost {float(cost):.6g}, violation {float(violation):.1e}"
        # One line that is written over by the next, from within a compiled loop.
        sys.stderr.write(f"\r{text}, stationarity {float(stationarity):.1e} ")
        sys.stderr.flush()

    if progress:
        jax.debug.callback(show, i, entries["cost"], entries["violation"], entries["stationarity"])
    return state.history.with_entry(i, **entries)


# Numbers in the states of all stages that make a program on a CPU as fast for each as more would.
_ENOUGH = 40_000


def iterate(problem: Problem, iteration: Callable[[State], State], start: State) -> State:
    """`iteration` until its state is `done`. In batches, problems that are done make place for others.

    Stages are a batch already, so a CPU is busy with few of long problems, and then the fewer wait for the last.
    """
    return closed_lane_loop(
        lambda state: ~state.done,
        iteration,
        start,
        lanes_on_cpu=max(1, _ENOUGH // max(1, 16 * problem.steps * problem.dynamics.tangent_size)) * 16,
        steps=4,
    )
