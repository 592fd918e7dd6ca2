"""Single shooting: the controls alone are unknown, and an optimizer of optax follows the gradient."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ..numerics import all_finite
from ..numerics._options import check_instance
from ._fddp import feedback
from ._local import evaluate, model_of
from ._problem import Problem
from ._rollout import closed_loop
from ._solution import History, Solution, SolveStatus
from ._solver import (
    AbstractSolver,
    Guess,
    check_unconstrained,
    count,
    own_tolerance,
    recorded,
    tolerances,
    unconstrained,
)

LBFGS = optax.lbfgs()


class Shooting(AbstractSolver):
    """Gradient descent on the controls, from which the states are simulated; those of the guess are not used.

    For short or damped motions without constraints, and for comparison: it needs only first derivatives.

    **Fields:** `optimizer`, any of optax, `optax.lbfgs()` by default; `max_iterations`; `stationarity`: tolerance of
    the gradient by the controls, by default 1e-6 in float64 and 1e-3 in float32.
    """

    optimizer: optax.GradientTransformation = eqx.field(static=True, default=LBFGS)
    max_iterations: int = count("max_iterations", 1000)
    stationarity: float | None = own_tolerance("stationarity")

    def __check_init__(self):
        wanted = "one of optax, such as optax.lbfgs()"
        check_instance("optimizer", self.optimizer, optax.GradientTransformation, wanted)

    def run(self, problem: Problem, x0: Float[Array, "nx"], guess: Guess, progress: bool) -> Solution:
        check_unconstrained(type(self).__name__, problem)
        _, stationarity = tolerances(x0.dtype, None, self.stationarity)
        optimizer = optax.with_extra_args_support(self.optimizer)
        most = jnp.minimum(guess.iterations, self.max_iterations)

        def cost(controls: Float[Array, "T m"]) -> Float[Array, ""]:
            return _values(problem, x0, controls)[0]

        def body(state: _State) -> _State:
            value, gradient = jax.value_and_grad(cost)(state.controls)
            updates, optimizer_state = optimizer.update(
                gradient, state.optimizer, state.controls, value=value, grad=gradient, value_fn=cost
            )
            slope = jnp.max(jnp.abs(gradient), initial=0)
            solved, finite = slope <= stationarity, jnp.isfinite(value) & jnp.isfinite(slope)
            last = state.iteration + 1 >= most
            zero, one = jnp.zeros_like(value), jnp.ones_like(value)
            history = recorded(
                state, progress, cost=value, violation=zero, stationarity=slope, step=one, regularization=zero
            )
            status = jnp.where(solved, SolveStatus.SOLVED, SolveStatus.ITERATIONS)
            going = finite & ~solved
            # Later it is the step that was too long: the controls before it are what was reached.
            first = state.iteration == 0
            failed = jnp.where(first, SolveStatus.NOT_FINITE, SolveStatus.STALLED)
            end = jnp.where(finite | first, state.controls, state.before)
            return _State(
                jnp.where(going, optax.apply_updates(state.controls, updates), end),
                state.controls,
                optimizer_state,
                jnp.where(finite | first, slope, state.slope),
                state.iteration + jnp.where(solved, 0, 1).astype(jnp.int32),
                jnp.where(finite, status, failed).astype(jnp.int32),
                ~going | last,
                history,
            )

        start = _State(
            guess.controls,
            guess.controls,
            optimizer.init(guess.controls),
            jnp.asarray(jnp.inf, x0.dtype),
            jnp.asarray(0, jnp.int32),
            jnp.asarray(SolveStatus.ITERATIONS, jnp.int32),
            jnp.asarray(False),
            History.empty(self.max_iterations, x0.dtype),
        )

        def goes_on(state: _State) -> Array:
            # The second is for XLA alone: see `lane_loop`.
            return ~state.done & (state.iteration < most)

        return _solution(problem, x0, lax.while_loop(goes_on, body, start))


class _State(NamedTuple):
    """**Fields:** the controls, and those `before` the last step."""

    controls: Float[Array, "T m"]
    before: Float[Array, "T m"]
    optimizer: optax.OptState
    slope: Float[Array, ""]
    iteration: Int[Array, ""]
    status: Int[Array, ""]
    done: Bool[Array, ""]
    history: History


def _values(problem: Problem, x0: Array, controls: Array) -> tuple[Float[Array, ""], Float[Array, "T+1 nx"]]:
    n, m = problem.dynamics.tangent_size, problem.dynamics.control_size
    at_rest = jnp.broadcast_to(x0, (problem.steps + 1, *x0.shape))
    states, _ = closed_loop(problem, x0, at_rest, controls, jnp.zeros((problem.steps, m, n), x0.dtype))
    known = jnp.zeros((problem.steps, n), x0.dtype)
    return evaluate(problem, x0, states, controls, known).cost, states


def _solution(problem: Problem, x0: Array, end: _State) -> Solution:
    # No iteration has looked at what the last step led to: if that is not finite, the controls before it count.
    both = jnp.stack([end.controls, end.before])
    costs, motions = jax.vmap(lambda controls: _values(problem, x0, controls))(both)
    failed = (end.status == SolveStatus.ITERATIONS) & ~all_finite((costs[0], motions[0]))
    cost, states, controls = (jnp.where(failed, x[1], x[0]) for x in (costs, motions, both))
    status = jnp.where(failed, SolveStatus.STALLED, end.status).astype(jnp.int32)
    end = end._replace(controls=controls, status=status)
    gains, costates = feedback(model_of(problem, x0, states, end.controls))
    return unconstrained(
        problem,
        end,
        states=states,
        gains=gains,
        costates=costates,
        cost=cost,
        gap=jnp.zeros_like(cost),
        stationarity=end.slope,
    )
