"""Multiple shooting: states and controls are unknowns alike, and dynamics are constraints between them."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ..structured import AbstractStageSolver, Riccati
from ._interior_point import (
    Optimality,
    Point,
    Step,
    barrier_function,
    fraction_to_boundary,
    infeasibility,
    newton_step,
    optimality,
    remaining,
    slope,
)
from ._local import Hessian, LocalModel, Multipliers, Rows, evaluate, model_of, projected_model
from ._problem import Problem
from ._progress import report
from ._solution import History, Solution, SolveStatus
from ._solver import AbstractSolver, Guess

_ARMIJO = 1e-4
import os
_PROX=float(os.environ.get("PROX","0"))


class MultipleShooting(AbstractSolver):
    """Sequential quadratic programming with an interior point (Gauss-Newton or exact Hessians).

    Every iteration linearises all stages at once, solves one linear-quadratic problem, and tries step lengths on a merit
    function: nothing is simulated in sequence, and with a parallel schedule of `Riccati` the depth of an iteration is
    the logarithm of the number of stages. Gaps between the stages close with the constraints.

    **Fields:** `max_iterations`; `tolerance` of gaps, constraints and complementarity, and `stationarity` of the
    Lagrangian's gradient, both relative to the multipliers where these are large, by default 1e-8 and 1e-6 in float64,
    1e-4 and 1e-3 in float32; `hessian`: `"gauss_newton"`, or `"exact"`, with the curvature of dynamics and constraints,
    projected: more work in each iteration, fewer of them; `schedule`: what solves the linear-quadratic problems;
    `barrier`: where the interior point starts; `regularisation`: the least that is added to Hessians; `together`: how
    many step lengths are tried at once.
    """

    max_iterations: int = eqx.field(static=True, default=200)
    tolerance: float | None = eqx.field(static=True, default=None)
    stationarity: float | None = eqx.field(static=True, default=None)
    hessian: Hessian = eqx.field(static=True, default="gauss_newton")
    schedule: AbstractStageSolver = Riccati()
    barrier: float = eqx.field(static=True, default=0.1)
    regularisation: float = eqx.field(static=True, default=1e-9)
    together: int = eqx.field(static=True, default=1)

    def __check_init__(self):
        if self.hessian not in ("gauss_newton", "exact"):
            raise ValueError(f'hessian must be "gauss_newton" or "exact", got {self.hessian!r}.')
        if not self.max_iterations >= 1 or not self.together >= 1:
            raise ValueError(
                "max_iterations and together must be positive integers, got "
                f"{self.max_iterations} and {self.together}."
            )
        if not self.barrier > 0:
            raise ValueError(f"barrier must be positive, got {self.barrier}.")

    def run(self, problem: Problem, x0: Float[Array, "nx"], guess: Guess, progress: bool) -> Solution:
        settings = _Settings.of(self, x0.dtype)

        def body(state: _State) -> _State:
            return _iterate(self, settings, problem, x0, state, progress)

        end = lax.while_loop(lambda state: ~state.done, body, _start(self, settings, problem, x0, guess))
        return _solution(problem, end)


class _Settings(NamedTuple):
    """Tolerances for a precision."""

    tolerance: float
    stationarity: float
    proximity: float
    smallest_barrier: float
    largest_regularisation: float

    @staticmethod
    def of(solver: MultipleShooting, dtype) -> "_Settings":
        double = jnp.finfo(dtype).bits >= 64
        tolerance = (1e-8 if double else 1e-4) if solver.tolerance is None else solver.tolerance
        stationarity = (1e-6 if double else 1e-3) if solver.stationarity is None else solver.stationarity
        return _Settings(tolerance, stationarity, 1e-8 if double else 1e-4, tolerance / 10, 1e9 if double else 1e5)


class _State(NamedTuple):
    """**Fields:** what has been reached, the weights of the search, and what will be reported."""

    point: Point
    gains: Float[Array, "T m n"]
    barrier: Float[Array, ""]
    regularisation: Float[Array, ""]
    penalty: Float[Array, ""]
    cost: Float[Array, ""]
    gap: Float[Array, ""]
    optimality: Optimality
    iteration: Int[Array, ""]
    status: Int[Array, ""]
    done: Bool[Array, ""]
    history: History


def _start(solver: MultipleShooting, settings: _Settings, problem: Problem, x0: Array, guess: Guess) -> _State:
    values = evaluate(problem, x0, guess.states, guess.controls)
    dtype = x0.dtype
    barrier = jnp.asarray(solver.barrier if guess.barrier is None else guess.barrier, dtype)
    barrier = jnp.maximum(barrier, settings.smallest_barrier)
    if guess.multipliers is None or guess.slack is None:
        slack = Rows(*(jnp.maximum(-g, jnp.sqrt(barrier)) for g in values.inequalities))
        multipliers = Multipliers(
            jnp.zeros((problem.steps + 1, problem.dynamics.tangent_size), dtype),
            Rows(*(jnp.zeros_like(h) for h in values.equalities)),
            Rows(*(barrier / s for s in slack)),
        )
    else:
        slack = Rows(*(jnp.maximum(jnp.maximum(-g, s), barrier) for g, s in zip(values.inequalities, guess.slack)))
        inequalities = Rows(*(jnp.maximum(z, barrier / s) for z, s in zip(guess.multipliers.inequalities, slack)))
        multipliers = guess.multipliers._replace(inequalities=inequalities)
    point = Point(guess.states, guess.controls, multipliers, slack)
    finite = jnp.isfinite(values.cost) & jnp.isfinite(infeasibility(values, slack))
    m, n = problem.dynamics.control_size, problem.dynamics.tangent_size
    nothing = jnp.asarray(jnp.inf, dtype)
    return _State(
        point=point,
        gains=jnp.zeros((problem.steps, m, n), dtype),
        barrier=barrier,
        regularisation=jnp.asarray(solver.regularisation, dtype),
        penalty=jnp.asarray(1.0, dtype),
        cost=values.cost,
        gap=nothing,
        optimality=Optimality(nothing, nothing, nothing),
        iteration=jnp.asarray(0, jnp.int32),
        status=jnp.where(finite, SolveStatus.ITERATIONS, SolveStatus.NOT_FINITE).astype(jnp.int32),
        done=~finite,
        history=History.empty(solver.max_iterations, dtype),
    )


def _iterate(
    solver: MultipleShooting, settings: _Settings, problem: Problem, x0: Array, state: _State, progress: bool
) -> _State:
    """One iteration, and the decision whether it is the last."""
    point = state.point
    local = _model(solver, problem, x0, point)
    final = optimality(local, point, jnp.asarray(settings.smallest_barrier, x0.dtype), problem.start)
    solved = _within(final, settings.tolerance, settings.stationarity)
    barrier = _barrier(settings, problem, local, point, state.barrier)
    proximity = jnp.maximum(settings.proximity, _PROX * barrier)
    step = newton_step(local, point, barrier, proximity, state.regularisation, problem.start, solver.schedule)
    closed = infeasibility(local.values, point.slack) - remaining(step, point, proximity)
    penalty = _penalty(local, point, step, barrier, state.penalty, closed)
    length, longest, moved = _search(solver, problem, x0, local, point, step, barrier, penalty, closed)
    crowded = (longest < float(os.environ.get("CROWD","0.1"))) & ~solved
    taken = (length > 0) & ~solved & ~crowded
    moved = jax.tree.map(lambda x, y: jnp.where(taken, y, x), point, moved)

    harder = jnp.where(length > 0.5*longest, state.regularisation / 10, state.regularisation)
    harder = jnp.where(length <= 0.02*longest, jnp.maximum(state.regularisation, 1e-9) * 10, harder)
    harder = jnp.maximum(harder, solver.regularisation)
    harder = jnp.where(crowded, state.regularisation, harder)
    raised = float(os.environ.get("RAISE","10"))*barrier
    wide = Rows(*(jnp.where(crowded, jnp.maximum(x, jnp.sqrt(raised)), x) for x in moved.slack))
    reset = Rows(*(jnp.where(crowded, raised/s, zz) for s, zz in zip(wide, moved.multipliers.inequalities)))
    moved = moved._replace(slack=wide, multipliers=moved.multipliers._replace(inequalities=reset))
    barrier = jnp.where(crowded, raised, barrier)
    stuck = ~taken & ~crowded & (harder > settings.largest_regularisation)
    feasible = final.violation <= 100 * settings.tolerance
    last = state.iteration + 1 >= solver.max_iterations
    status = jnp.where(stuck, jnp.where(feasible, SolveStatus.STALLED, SolveStatus.INFEASIBLE), SolveStatus.ITERATIONS)
    status = jnp.where(solved, SolveStatus.SOLVED, status).astype(jnp.int32)
    history = state.history.with_entry(
        state.iteration,
        cost=local.values.cost,
        violation=final.violation,
        stationarity=final.stationarity,
        step=jnp.where(taken, length, 0),
        regularisation=state.regularisation,
    )
    if os.environ.get("DBG"):
        jax.debug.print("it {i} cost {c:.4g} viol {v:.3g} stat {s:.2e} longest {l:.2e} len {n:.2e} reg {r:.0e} mu {m:.1e} pen {p:.1e} desc {d:.2e} closed {cl:.2e} smin {sm:.1e}",i=state.iteration,c=local.values.cost,v=final.violation,s=final.stationarity,l=longest,n=length,r=state.regularisation,m=barrier,p=penalty,d=slope(local, point, step, barrier),cl=closed,sm=jnp.min(point.slack.stages,initial=99.))
    if progress:
        report(state.iteration, solver.max_iterations, local.values.cost, final.violation, final.stationarity)
    return _State(
        point=moved,
        gains=step.gains,
        barrier=barrier,
        regularisation=harder,
        penalty=penalty,
        cost=local.values.cost,
        gap=jnp.max(jnp.abs(local.values.gaps)),
        optimality=final,
        iteration=state.iteration + jnp.where(solved, 0, 1).astype(jnp.int32),
        status=status,
        done=solved | stuck | last,
        history=history,
    )


def _model(solver: MultipleShooting, problem: Problem, x0: Array, point: Point) -> LocalModel:
    if solver.hessian == "gauss_newton":
        return model_of(problem, x0, point.states, point.controls)
    return projected_model(model_of(problem, x0, point.states, point.controls, point.multipliers))


def _within(found: Optimality, tolerance: float, stationarity: float) -> Bool[Array, ""]:
    feasible = (found.violation <= tolerance) & (found.complementarity <= tolerance)
    return feasible & (found.stationarity <= stationarity)


def _barrier(
    settings: _Settings, problem: Problem, local: LocalModel, point: Point, barrier: Float[Array, ""]
) -> Float[Array, ""]:
    """A smaller barrier parameter, once its problem is solved well enough (Fiacco & McCormick; Waechter & Biegler 2006)."""
    if os.environ.get("LOQO"):
        products = jnp.concatenate([(s*z).reshape(-1) for s,z in zip(point.slack, point.multipliers.inequalities)])
        if products.size==0: return barrier
        mean=jnp.mean(products); xi=jnp.min(products)/mean
        return jnp.maximum(settings.smallest_barrier, 0.1*jnp.minimum(0.05*(1-xi)/xi,2.)**3*mean)
    found = optimality(local, point, barrier, problem.start)
    smaller = jnp.maximum(settings.smallest_barrier, jnp.minimum(0.2 * barrier, barrier**1.5))
    reached = jnp.maximum(jnp.maximum(found.stationarity, found.violation), found.complementarity) <= 10 * barrier
    return jnp.where(reached, smaller, barrier)


def _penalty(
    local: LocalModel, point: Point, step: Step, barrier: Float[Array, ""], penalty: Float[Array, ""], closed: Float[Array, ""],
) -> Float[Array, ""]:
    """The weight of violations in the merit function, large enough for the step to go downhill."""
    z = jnp.concatenate([step.states[:-1], step.controls], axis=-1)
    curvature = jnp.einsum("ti,tij,tj", z, local.stages.hessian, z, precision="highest")
    curvature = curvature + step.states[-1] @ local.end.hessian @ step.states[-1]
    rise = slope(local, point, step, barrier) + 0.5 * jnp.maximum(curvature, 0)
    needed = rise / (0.7 * jnp.where(closed > 0, closed, 1))
    return jnp.where((closed > 0) & (needed > penalty), 1.5 * needed, penalty)


def _search(
    solver: MultipleShooting,
    problem: Problem,
    x0: Array,
    local: LocalModel,
    point: Point,
    step: Step,
    barrier: Float[Array, ""],
    penalty: Float[Array, ""],
    closed: Float[Array, ""],
) -> tuple[Float[Array, ""], Point]:
    """The longest of the step lengths that make the merit function smaller, zero if none does, and where it leads."""
    fraction = jnp.maximum(0.99, 1 - barrier)
    longest = fraction_to_boundary(point.slack, step.slack, fraction)
    violation = infeasibility(local.values, point.slack)
    merit = barrier_function(local.values, point.slack, barrier) + penalty * violation
    descent = slope(local, point, step, barrier) - penalty * closed
    rounding = 10 * jnp.finfo(x0.dtype).eps * jnp.abs(merit)

    def along(length: Float[Array, ""]):
        states = jax.vmap(lambda x, dx: problem.dynamics.plus(x, length * dx))(point.states, step.states)
        controls = point.controls + length * step.controls
        slack = Rows(*(s + length * ds for s, ds in zip(point.slack, step.slack)))
        values = evaluate(problem, x0, states, controls)
        reached = barrier_function(values, slack, barrier) + penalty * infeasibility(values, slack)
        return reached <= merit + _ARMIJO * length * descent + rounding, states, controls, slack

    def attempt(carry):
        k, *_ = carry
        lengths = longest * 0.5 ** (k * solver.together + jnp.arange(solver.together, dtype=x0.dtype))
        accepted, *found = jax.vmap(along)(lengths)
        first = jnp.argmax(accepted)
        return k + 1, jnp.any(accepted), lengths[first], jax.tree.map(lambda x: x[first], tuple(found))

    attempts = -(-_STEP_LENGTHS // solver.together)
    nothing = jnp.asarray(0, jnp.int32), jnp.asarray(False), longest, (point.states, point.controls, point.slack)
    _, accepted, length, (states, controls, slack) = lax.while_loop(
        lambda carry: ~carry[1] & (carry[0] < attempts), attempt, nothing
    )
    # Multipliers of inequalities have a step length of their own, and stay near `barrier / slack`.
    dual = fraction_to_boundary(point.multipliers.inequalities, step.multipliers.inequalities, fraction)
    lam, y, z = point.multipliers
    dlam, dy, dz = step.multipliers
    inequalities = Rows(
        *(jnp.clip(a + dual * b, barrier / s / 1e10, barrier / s * 1e10) for a, b, s in zip(z, dz, slack))
    )
    multipliers = Multipliers(lam + length * dlam, Rows(*(a + length * b for a, b in zip(y, dy))), inequalities)
    return jnp.where(accepted, length, 0), longest, Point(states, controls, multipliers, slack)


_STEP_LENGTHS = 12


def _solution(problem: Problem, end: _State) -> Solution:
    point = end.point
    return Solution(
        problem=problem,
        states=point.states,
        controls=point.controls,
        gains=end.gains,
        multipliers=point.multipliers,
        slack=point.slack,
        cost=end.cost,
        gap=end.gap,
        violation=end.optimality.violation,
        stationarity=end.optimality.stationarity,
        barrier=end.barrier,
        iterations=end.iteration,
        status=end.status,
        history=end.history,
    )
