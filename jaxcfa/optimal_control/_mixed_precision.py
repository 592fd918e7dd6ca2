"""Solving in single precision first."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..numerics import all_finite, choose
from ..numerics._options import check_instance
from ._fddp import FDDP
from ._multiple_shooting import MultipleShooting
from ._problem import Problem
from ._solution import Solution, SolveStatus
from ._solver import AbstractSolver, Guess

_SINGLE = jnp.float32


class MixedPrecision(AbstractSolver):
    """Another solver twice: in single precision from the guess, then in that of the problem from where this has ended.

    The solution is as accurate as that of the solver itself. Most iterations take half the time, or less on
    accelerators, but there are two programs to compile: it is for batches of problems, and for programs that are used
    often. Problems in single precision are solved once. Where single precision leads nowhere, the second begins at the
    guess, too.

    **Fields:** `solver`, a `MultipleShooting` or `FDDP`, whose own tolerances count for the second time only.
    """

    solver: MultipleShooting | FDDP = MultipleShooting()

    def __check_init__(self):
        check_instance("solver", self.solver, (MultipleShooting, FDDP), "MultipleShooting(...) or FDDP(...)")

    def run(self, problem: Problem, x0: Float[Array, "nx"], guess: Guess, progress: bool) -> Solution:
        if jnp.finfo(x0.dtype).bits <= jnp.finfo(_SINGLE).bits:
            return self.solver.run(problem, x0, guess, progress)
        rough_solver = dataclasses.replace(self.solver, tolerance=None, stationarity=None)
        in_single, first, begin = _cast((problem, x0, guess), _SINGLE)
        rough = _cast(rough_solver.run(in_single, first, begin, progress), x0.dtype)
        found = self.solver.run(problem, x0, _begun(rough, guess), progress)
        return dataclasses.replace(
            found,
            iterations=rough.iterations + found.iterations,
            history=jax.tree.map(lambda *x: _after(rough.iterations, *x), rough.history, found.history),
        )


def _begun(rough: Solution, guess: Guess) -> Guess:
    """Where to go on: from the rough solution if it is one, else from the guess."""
    led = (rough.status == SolveStatus.SOLVED) | (rough.status == SolveStatus.STALLED)
    led &= all_finite((rough.states, rough.controls, rough.multipliers))
    known = jnp.asarray(True)
    found = Guess(rough.states, rough.controls, rough.multipliers, rough.barrier, known, guess.iterations)
    return choose(led, found, guess)


def _cast(tree: Any, dtype: Any) -> Any:
    """The same in another precision; what is no floating-point array is kept."""
    return jax.tree.map(lambda x: x.astype(dtype) if eqx.is_inexact_array(x) else x, tree)


def _after(count: Int[Array, ""], first: Float[Array, "n"], second: Float[Array, "n"]) -> Float[Array, "2n"]:
    """The first `count` entries of one history, and then the other."""
    unknown = jnp.full_like(second, jnp.inf)
    return jax.lax.dynamic_update_slice(jnp.concatenate([first, unknown]), second, (count,))
