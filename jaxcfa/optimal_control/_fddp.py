"""Differential dynamic programming whose guess need not be feasible."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..numerics import all_finite, transpose
from ..one_function import as_one_function
from ..structured import Riccati, RiccatiFactors
from ..structured._products import matvec
from ._line_search import search_loop
from ._local import LocalModel, evaluate, linear_quadratic_of, model_of
from ._problem import Problem
from ._rollout import closed_loop
from ._solution import History, Solution, SolveStatus
from ._solver import (
    AbstractSolver,
    Guess,
    check_unconstrained,
    count,
    iterate,
    own_tolerance,
    recorded,
    tolerances,
    unconstrained,
)

_RICCATI = Riccati()
_ACCEPTED, _UPHILL = 0.1, 2.0
_LEAST, _MOST = 1e-9, 1e9


class FDDP(AbstractSolver):
    """Feasibility-driven differential dynamic programming, with Gauss-Newton Hessians (Mastalli et al., Crocoddyl: An
    efficient and versatile framework for multi-contact optimal control, 2020).

    Each trial of a step length is a simulation under the feedback, one stage after the other, which keeps a part of the
    gaps that the guess has. For problems without constraints but the dynamics, and where these are unstable.

    **Fields:** `max_iterations`; `stationarity`: tolerance of the gradient, relative to the multipliers where these are
    large, by default 1e-6 in float64 and 1e-3 in float32; `tolerance` of gaps, and of what a further step would gain,
    relative to the cost, 1e-8 and 1e-4.
    """

    max_iterations: int = count("max_iterations", 200)
    tolerance: float | None = own_tolerance("tolerance")
    stationarity: float | None = own_tolerance("stationarity")

    def run(self, problem: Problem, x0: Float[Array, "nx"], guess: Guess, progress: bool) -> Solution:
        check_unconstrained(type(self).__name__, problem)
        tolerance, stationarity = tolerances(x0.dtype, self.tolerance, self.stationarity)
        values = evaluate(problem, x0, guess.states, guess.controls)
        finite, most = all_finite((values.cost, values.gaps)), jnp.minimum(guess.iterations, self.max_iterations)
        n, m = problem.dynamics.tangent_size, problem.dynamics.control_size
        start = _State(
            guess.states,
            guess.controls,
            jnp.zeros((problem.steps, m, n), x0.dtype),
            jnp.zeros((problem.steps + 1, n), x0.dtype),
            jnp.asarray(_LEAST, x0.dtype),
            values.cost,
            *(jnp.asarray(jnp.inf, x0.dtype),) * 2,
            jnp.asarray(0, jnp.int32),
            jnp.where(finite, SolveStatus.ITERATIONS, SolveStatus.NOT_FINITE).astype(jnp.int32),
            ~finite,
            History.empty(self.max_iterations, x0.dtype),
        )

        def body(state: _State) -> _State:
            return _iterate(problem, x0, state, tolerance, stationarity, most, progress)

        return _solution(problem, iterate(problem, body, start))


class _State(NamedTuple):
    states: Float[Array, "T+1 nx"]
    controls: Float[Array, "T m"]
    gains: Float[Array, "T m n"]
    costates: Float[Array, "T+1 n"]
    regularization: Float[Array, ""]
    cost: Float[Array, ""]
    gap: Float[Array, ""]
    stationarity: Float[Array, ""]
    iteration: Int[Array, ""]
    status: Int[Array, ""]
    done: Bool[Array, ""]
    history: History


def _iterate(
    problem: Problem,
    x0: Array,
    state: _State,
    tolerance: float,
    stationarity: float,
    most: Int[Array, ""],
    progress: bool,
) -> _State:
    local = model_of(problem, x0, state.states, state.controls)
    values = local.values
    found = _descent(local, state.regularization)
    gains, residual = found.gains, found.stationarity
    feedforward = found.controls - jnp.einsum("tmn,tn->tm", gains, found.states[:-1], precision="highest")
    gap = jnp.maximum(jnp.max(jnp.abs(values.gaps)), jnp.max(jnp.abs(values.start)))
    z = jnp.concatenate([found.states[:-1], found.controls], axis=-1)
    slope = jnp.sum(local.stages.gradient * z) + jnp.sum(local.end.gradient * found.states[-1])
    curvature = jnp.einsum("ti,tij,tj", z, local.stages.hessian, z, precision="highest")
    curvature = curvature + jnp.sum(found.states[-1] * matvec(local.end.hessian, found.states[-1]))

    settled = jnp.abs(slope) <= tolerance * jnp.abs(values.cost)

    def trial(length: Array):
        remains = 1 - length
        start = problem.dynamics.plus(state.states[0], length * values.start)
        states, controls = closed_loop(
            problem, start, state.states, state.controls + length * feedforward, gains, -remains * values.gaps
        )
        cost = evaluate(problem, x0, states, controls, remains * values.gaps).cost
        expected = -length * (slope + 0.5 * length * curvature)
        decrease = values.cost - cost
        rounding = 10 * jnp.finfo(x0.dtype).eps * jnp.abs(values.cost)
        needed = jnp.where(expected >= 0, _ACCEPTED * expected - rounding, _UPHILL * expected)
        return (decrease >= needed) & jnp.isfinite(cost), states, controls, cost

    def attempt(carry):
        k, _, *_ = carry
        length = 0.5**k
        return (k + 1, *trial(length), length)

    nothing = jnp.asarray(0.0, x0.dtype), jnp.asarray(False), state.states, state.controls, values.cost
    first = *nothing, jnp.asarray(1.0, x0.dtype)
    _, accepted, states, controls, cost, length = search_loop(lambda carry: ~carry[1] & (carry[0] < 10), attempt, first)
    solved = (residual <= stationarity) & (gap <= tolerance) & (settled | ~accepted)
    taken = accepted & ~solved
    harder = jnp.where(accepted & (length > 0.5), state.regularization / 10, state.regularization)
    harder = jnp.where(~accepted | (length <= 0.01), state.regularization * 10, harder)
    stuck = ~accepted & (harder > _MOST)
    harder = jnp.maximum(harder, _LEAST)
    status = jnp.where(
        stuck, jnp.where(gap <= tolerance, SolveStatus.STALLED, SolveStatus.INFEASIBLE), SolveStatus.ITERATIONS
    )
    # The first step shows whether derivatives are finite, too.
    broken = (state.iteration == 0) & ~all_finite(local)
    status = jnp.where(broken, SolveStatus.NOT_FINITE, status)
    history = recorded(
        state,
        progress,
        cost=values.cost,
        violation=gap,
        stationarity=residual,
        step=jnp.where(taken, length, 0),
        regularization=state.regularization,
    )
    return _State(
        jnp.where(taken, states, state.states),
        jnp.where(taken, controls, state.controls),
        gains,
        found.costates,
        harder,
        jnp.where(taken, cost, values.cost),
        jnp.where(taken, (1 - length) * gap, gap),
        residual,
        state.iteration + jnp.where(solved, 0, 1).astype(jnp.int32),
        jnp.where(solved, SolveStatus.SOLVED, status).astype(jnp.int32),
        solved | stuck | broken | (state.iteration + 1 >= most),
        history,
    )


class _Descent(NamedTuple):
    """What the quadratic model asks for.

    **Fields:** displacements of `states` and `controls`, and the `gains` K of the feedback; the gradients of the cost
    to go, `costates` where that leads, `slopes` along the motion as it is; `stationarity`, the gradient of the cost by
    the controls, relative to `slopes` where these are large.
    """

    states: Float[Array, "T+1 n"]
    controls: Float[Array, "T m"]
    gains: Float[Array, "T m n"]
    costates: Float[Array, "T+1 n"]
    slopes: Float[Array, "T+1 n"]
    stationarity: Float[Array, ""]


@jax.jit  # Without, XLA:CPU (jaxlib 0.10) refuses to compile a loop before it that shows its progress.
def feedback(local: LocalModel) -> tuple[Float[Array, "T m n"], Float[Array, "T+1 n"]]:
    """The gains of the optimal feedback near a motion, and the gradients of the cost to go along it."""
    found = _descent(local, jnp.asarray(_LEAST, local.input.dtype))
    return found.gains, found.slopes


@partial(as_one_function, derivatives=False, alike=False)
def _descent(local: LocalModel, regularization: Float[Array, ""]) -> _Descent:
    """The displacements that the quadratic model asks for, with more weight on the controls."""
    n, m = local.input.shape[1:]
    of_controls = jnp.diag((jnp.arange(n + m) >= n).astype(local.input.dtype))
    hessians = local.stages.hessian + regularization * of_controls[None], local.end.hessian
    problem, terms = linear_quadratic_of(local, hessians, (local.stages.gradient, local.end.gradient))
    factored = problem.factor(_RICCATI)
    factors = factored.factors
    assert isinstance(factors, RiccatiFactors)
    # The next iteration mends what rounding leaves.
    found = factored.solve(terms, refined=False)
    slopes = found.costates - matvec(factors.stiffness, found.states)
    reached = slopes[1:] + matvec(factors.stiffness[1:], terms.offsets)
    pushed = terms.control_gradients + matvec(transpose(local.input), reached)
    stationarity = jnp.max(jnp.abs(pushed), initial=0) / jnp.maximum(1, jnp.max(jnp.abs(slopes)) / 100)
    return _Descent(found.states, found.controls, factors.gains, found.costates, slopes, stationarity)


def _solution(problem: Problem, end: _State) -> Solution:
    return unconstrained(
        problem,
        end,
        states=end.states,
        gains=end.gains,
        costates=end.costates,
        cost=end.cost,
        gap=end.gap,
        stationarity=end.stationarity,
    )
