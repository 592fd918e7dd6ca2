"""Multiple shooting: states and controls are unknowns alike, and dynamics are constraints between them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ..numerics import choose
from ..numerics._options import positive_number
from ..structured import AbstractStageSolver, Riccati
from ._curvature import Curvature
from ._interior_point import Barrier, Optimality, Point, Step, largest, newton_step, optimality, slope
from ._line_search import Found, Seen, Steps, Worth, search
from ._local import Hessian, LocalModel, Multipliers, Rows, Values, evaluate, model_of, unknown_model, with_curvature
from ._problem import Problem
from ._progress import report
from ._recovery import disturbed, is_at_rest, is_out_of_reach
from ._robot_dynamics import AbstractRobotDynamics
from ._solution import History, Solution, SolveStatus, coordinates
from ._solver import AbstractSolver, Guess, count, iterate, own_tolerance, tolerances

_FAR = 0.1  # violations of constraints from which on Hessians are those of Gauss and Newton
_SHIFTS = (1e-4, 5)  # what is added to Hessians that have no minimum: the least, and how often eight times as much
_FAIR = 0.03  # the least price, relative to the penalty of gaps and equalities
_UNFAIR = 0.5  # of that price, below which a step gives up bounds for gaps, and is not taken
_YIELD = 0.1  # proximity of the equalities relative to the barrier parameter
_PRICE = 1.0  # of violations, at first
_PRICE_OF_PLANS = 1e3  # where a solution is the guess: bounds that hold are not to be given up
_DEARER = 10.0  # how much more, where they are cheaper than what they are to prevent
_PROOFS = 10  # so often must multipliers prove that constraints cannot be satisfied to first order
_DISTURBANCES = 2  # how often a start is disturbed from which constraints cannot be satisfied to first order


class MultipleShooting(AbstractSolver):
    """Sequential quadratic programming with an interior point, and Hessians by Gauss and Newton, learned, or exact.

    Every iteration linearises all stages at once, solves one linear-quadratic problem, and tries step lengths on a
    merit function. Gaps between the stages close with the constraints. With `"linear"` steps and a parallel schedule of
    `Riccati` the depth of an iteration is the logarithm of the number of stages.

    **Fields:** `max_iterations`; `tolerance` of gaps, constraints and complementarity, and `stationarity` of the
    Lagrangian's gradient, both relative to the multipliers where these are large, by default 1e-8 and 1e-6 in float64,
    1e-4 and 1e-3 in float32; what a further step would gain must also be below `tolerance` times the cost, or its
    square. `hessian`: `"gauss_newton"`; `"secant"`, with the curvature of dynamics and constraints learned on the way,
    for swing-ups; or `"exact"`, with more work to compile and in each iteration; by default the first for robots, and
    the second for all else. `schedule`: what solves the linear-quadratic problems. `steps`: `"linear"`, all states at
    once; `"nonlinear"`, simulated one after the other under the feedback, which finds its way where dynamics are
    unstable; or the better of `"both"`; by default `"nonlinear"` if dynamics are the only constraints, else `"both"`.
    `barrier`: where the interior point starts. `regularization`: the least that is added to Hessians. `together`: how
    many step lengths are tried at once.
    """

    max_iterations: int = count("max_iterations", 200)
    tolerance: float | None = own_tolerance("tolerance")
    stationarity: float | None = own_tolerance("stationarity")
    hessian: Hessian | None = eqx.field(static=True, default=None)
    schedule: AbstractStageSolver = Riccati()
    steps: Steps | None = eqx.field(static=True, default=None)
    barrier: float = eqx.field(static=True, default=0.1, converter=lambda x: positive_number("barrier", x))
    regularization: float = eqx.field(
        static=True, default=1e-9, converter=lambda x: positive_number("regularization", x, or_zero=True)
    )
    together: int = count("together", 1)

    def __check_init__(self):
        if self.hessian not in (None, "secant", "gauss_newton", "exact"):
            raise ValueError(f'hessian must be "secant", "gauss_newton" or "exact", got {self.hessian!r}.')
        if self.steps not in (None, "linear", "nonlinear", "both"):
            raise ValueError(f'steps must be "linear", "nonlinear" or "both", got {self.steps!r}.')

    def run(self, problem: Problem, x0: Float[Array, "nx"], guess: Guess, progress: bool) -> Solution:
        settings = _Settings.of(self, x0.dtype)

        def body(state: _State) -> _State:
            return _iterate(self, settings, problem, x0, state, progress)

        return _solution(problem, iterate(problem, body, _start(self, settings, problem, x0, guess)))


class _Settings(NamedTuple):
    """Tolerances for a precision."""

    tolerance: float
    stationarity: float
    proximity: float
    smallest_barrier: float
    largest_price: float
    largest_regularization: float

    @staticmethod
    def of(solver: MultipleShooting, dtype) -> "_Settings":
        double = jnp.finfo(dtype).bits >= 64
        tolerance, stationarity = tolerances(dtype, solver.tolerance, solver.stationarity)
        largest = (1e8, 1e9) if double else (1e6, 1e5)
        return _Settings(tolerance, stationarity, 1e-8 if double else 1e-4, tolerance / 10, *largest)


class _State(NamedTuple):
    """**Fields:** what has been reached, the weights of the search, and what will be reported."""

    point: Point
    known: tuple[Point, LocalModel, Curvature] | None
    disturbances: Int[Array, ""]
    proofs: Int[Array, ""]
    contradicted: Bool[Array, ""]
    gains: Float[Array, "T m n"]
    barrier: Barrier
    regularization: Float[Array, ""]
    penalty: Float[Array, ""]
    seen: Seen
    worth: Worth
    stationarity: Float[Array, ""]
    iteration: Int[Array, ""]
    status: Int[Array, ""]
    done: Bool[Array, ""]
    history: History


def _start(solver: MultipleShooting, settings: _Settings, problem: Problem, x0: Array, guess: Guess) -> _State:
    dtype = x0.dtype
    # Gaps are not needed yet, and dynamics are not evaluated only to find them.
    unknown = jnp.zeros((problem.steps, problem.dynamics.tangent_size), dtype)
    values = evaluate(problem, x0, guess.states, guess.controls, unknown)
    barrier = _first_barrier(solver, dtype)
    if guess.barrier is not None:
        barrier = barrier._replace(parameter=jnp.maximum(guess.barrier, settings.smallest_barrier))
    if guess.multipliers is None or not _fits(guess.multipliers, values):
        multipliers = Multipliers(
            jnp.zeros((problem.steps + 1, problem.dynamics.tangent_size), dtype),
            Rows(*(jnp.zeros_like(h) for h in values.equalities)),
            Rows(*(barrier.multipliers(g) for g in values.inequalities)),
        )
    else:
        z = guess.multipliers.inequalities
        price = jnp.minimum(jnp.maximum(_PRICE_OF_PLANS, _DEARER * largest(*z)), settings.largest_price)
        barrier = barrier._replace(price=price)
        inequalities = Rows(*(barrier.near(z, g) for z, g in zip(z, values.inequalities, strict=True)))
        multipliers = guess.multipliers._replace(inequalities=inequalities)
    slack = Rows(*(barrier.divided(g)[0] for g in values.inequalities))
    point = Point(guess.states, guess.controls, multipliers, slack)
    finite = _all_finite(values) & _is_finite(guess)
    m, n = problem.dynamics.control_size, problem.dynamics.tangent_size
    nothing = jnp.asarray(jnp.inf, dtype)
    return _State(
        point=point,
        known=(point, unknown_model(values, n, m), Curvature.none(problem, dtype))
        if _hessian(solver, problem) == "secant"
        else None,
        # What was found before is not disturbed, since a controller may have to follow it.
        disturbances=jnp.asarray(0 if guess.multipliers is None else _DISTURBANCES, jnp.int32),
        proofs=jnp.asarray(0, jnp.int32),
        contradicted=jnp.asarray(False, bool),
        gains=jnp.zeros((problem.steps, m, n), dtype),
        barrier=barrier,
        regularization=jnp.asarray(solver.regularization, dtype),
        penalty=jnp.asarray(1.0, dtype),
        seen=Seen.nothing(dtype),
        worth=Worth(values.cost, nothing, nothing),
        stationarity=nothing,
        iteration=jnp.asarray(0, jnp.int32),
        status=jnp.where(finite, SolveStatus.ITERATIONS, SolveStatus.NOT_FINITE).astype(jnp.int32),
        done=~finite,
        history=History.empty(solver.max_iterations, dtype),
    )


def _first_barrier(solver: MultipleShooting, dtype) -> Barrier:
    return Barrier(jnp.asarray(solver.barrier, dtype), jnp.asarray(_PRICE, dtype))


def _fits(multipliers: Multipliers, values: Values) -> bool:
    """Whether multipliers are those of a problem with as many constraints."""
    given = multipliers.equalities, multipliers.inequalities
    rows = values.equalities, values.inequalities
    return [x.shape for x in jax.tree.leaves(given)] == [x.shape for x in jax.tree.leaves(rows)]


def _is_finite(guess: Guess) -> Bool[Array, ""]:
    return _all_finite((guess.states, guess.controls))


def _iterate(
    solver: MultipleShooting, settings: _Settings, problem: Problem, x0: Array, state: _State, progress: bool
) -> _State:
    """One iteration, and the decision whether it is the last."""
    point = state.point
    safe = model_of(problem, x0, point.states, point.controls)
    known, preferred = _preferred(solver, problem, x0, state, safe)
    end = state.barrier._replace(parameter=jnp.asarray(settings.smallest_barrier, x0.dtype))
    final = optimality(safe, point, end, problem.start)
    trial = _try(solver, settings, problem, x0, state, safe, preferred, final)
    setback = _look_back(solver, settings, problem, state, safe, final, trial)

    found, values, again, first = trial.found, trial.values, setback.again, _first_barrier(solver, x0.dtype)
    elsewhere = disturbed(problem, point, values, first, state.disturbances)
    history = state.history.with_entry(
        state.iteration,
        cost=values.cost,
        violation=final.violation,
        stationarity=final.stationarity,
        step=jnp.where(trial.taken, found.length, 0),
        regularization=state.regularization,
    )
    if progress:
        report(state.iteration, solver.max_iterations, values.cost, final.violation, final.stationarity)
    return _State(
        point=choose(again, elsewhere, choose(trial.taken, found.point, point)),
        known=known,
        disturbances=state.disturbances + again,
        proofs=jnp.where(again, 0, setback.proofs),
        contradicted=setback.contradicted,
        gains=trial.step.gains,
        barrier=choose(again, first, setback.barrier),
        regularization=setback.regularization,
        penalty=jnp.where(again, 1.0, found.penalty),
        seen=choose(again, Seen.nothing(x0.dtype), trial.seen),
        worth=choose(trial.taken, found.worth, Worth.of(values)),
        stationarity=final.stationarity,
        iteration=state.iteration + jnp.where(trial.solved, 0, 1).astype(jnp.int32),
        status=jnp.where(trial.solved, SolveStatus.SOLVED, setback.status).astype(jnp.int32),
        done=trial.solved | setback.final | _is_last(solver, state),
        history=history,
    )


class _Trial(NamedTuple):
    """**Fields:** `values` at the point, and the `step` from there; what the line search `found`, and has `seen`; the
    `barrier`; whether the point is `solved`, the step is `taken`, or refused as `unfair` to the bounds."""

    values: Values
    step: Step
    found: Found
    seen: Seen
    barrier: Barrier
    solved: Bool[Array, ""]
    taken: Bool[Array, ""]
    unfair: Bool[Array, ""]


def _try(
    solver: MultipleShooting,
    settings: _Settings,
    problem: Problem,
    x0: Array,
    state: _State,
    safe: LocalModel,
    preferred: LocalModel,
    final: Optimality,
) -> _Trial:
    """A step, and how far to go along it."""
    point = state.point
    barrier = _barrier(settings, problem, safe, point, state.barrier)
    proximity = jnp.maximum(settings.proximity, _YIELD * barrier.parameter)

    def newton(local: LocalModel, shift: Float[Array, ""]) -> Step:
        shift = state.regularization + shift
        return newton_step(local, point, barrier, proximity, shift, problem.start, solver.schedule)

    reached = _within(final, settings.tolerance, settings.stationarity)
    # Far away curvature leads astray. At the end all directions count, of which some may not have been learned: the
    # gains are those of Gauss and Newton.
    step, local, curved = _first_finite(newton, point, preferred, safe, reached | (final.violation > _FAR))
    steps, together = _steps(solver, problem), solver.together
    seen = state.seen.with_entry(local.values, barrier)
    # Those of Gauss and Newton converge linearly, and swing to and fro at the end if they may climb.
    found = search(problem, x0, local, point, step, barrier, proximity, state.penalty, seen, curved, steps, together)
    gain = jnp.abs(slope(local, step, barrier))
    settled = (gain <= settings.tolerance * (jnp.abs(local.values.cost) + settings.tolerance)) | (found.length == 0)
    solved = reached & settled
    # Where gaps are dear, bounds that are not would be given up for them.
    fair = jnp.minimum(_FAIR * found.penalty, settings.largest_price)
    unfair = (barrier.price < _UNFAIR * fair) & ~solved & ~_is_last(solver, state)
    barrier = barrier._replace(price=jnp.maximum(barrier.price, fair))
    taken = (found.length > 0) & ~solved & ~unfair
    return _Trial(local.values, step, found, seen, barrier, solved, taken, unfair)


class _Setback(NamedTuple):
    """**Fields:** `regularization`, `barrier`, `proofs` and `contradicted` of the next state; whether to start `again`
    elsewhere; whether this is `final`, and the `status` then."""

    regularization: Float[Array, ""]
    barrier: Barrier
    proofs: Int[Array, ""]
    contradicted: Bool[Array, ""]
    again: Bool[Array, ""]
    final: Bool[Array, ""]
    status: Int[Array, ""]


def _look_back(
    solver: MultipleShooting,
    settings: _Settings,
    problem: Problem,
    state: _State,
    safe: LocalModel,
    final: Optimality,
    trial: _Trial,
) -> _Setback:
    """What to do where a step leads nowhere, or constraints contradict one another."""
    point, barrier, last = state.point, trial.barrier, _is_last(solver, state)
    regularization = _regularization(solver, state.regularization, trial.found)
    regularization = jnp.where(trial.unfair, state.regularization, regularization)
    feasible = final.violation <= 100 * settings.tolerance
    stopped = ~trial.taken & ~trial.unfair & (regularization > settings.largest_regularization)
    stopped = (stopped | (is_at_rest(trial.step, point, final.violation) & ~feasible)) & ~trial.solved
    # Before anything is given up, violations become as dear as they can.
    cheap = stopped & _is_cheap(point, barrier) & (barrier.price < settings.largest_price)
    barrier = barrier._replace(price=jnp.where(cheap, _dearer(settings, barrier), barrier.price))
    # Linearised constraints contradict one another now and then on the way to a solution, too.
    proofs = state.proofs + is_out_of_reach(problem, safe, point, final.violation)
    contradictory = (proofs >= _PROOFS) & ~feasible & ~trial.solved
    contradicted = state.contradicted | contradictory
    stuck = (stopped & ~cheap) | contradictory | (last & contradicted & (final.violation > _FAR))
    # The first step shows whether dynamics and derivatives are finite, too.
    broken = (state.iteration == 0) & ~_all_finite(safe)
    again = stuck & ~feasible & ~last & ~broken & (state.disturbances < _DISTURBANCES)
    status = jnp.where(stuck, jnp.where(feasible, SolveStatus.STALLED, SolveStatus.INFEASIBLE), SolveStatus.ITERATIONS)
    return _Setback(
        regularization=jnp.where(again | cheap, solver.regularization, regularization),
        barrier=barrier,
        proofs=proofs,
        contradicted=contradicted,
        again=again,
        final=(stuck & ~again) | broken,
        status=jnp.where(broken, SolveStatus.NOT_FINITE, status),
    )


def _is_last(solver: MultipleShooting, state: _State) -> Bool[Array, ""]:
    return state.iteration + 1 >= solver.max_iterations


def _regularization(solver: MultipleShooting, before: Float[Array, ""], found: Found) -> Float[Array, ""]:
    """More if only a small part of the step was taken, less if most of it."""
    after = jnp.where(found.length > 0.5, before / 10, before)
    after = jnp.where(found.length <= 0.02, jnp.maximum(before, 1e-9) * 10, after)
    return jnp.maximum(after, solver.regularization)


def _steps(solver: MultipleShooting, problem: Problem) -> Steps:
    if solver.steps is not None:
        return solver.steps
    return "both" if problem.is_constrained else "nonlinear"


def _hessian(solver: MultipleShooting, problem: Problem) -> Hessian:
    if solver.hessian is not None:
        return solver.hessian
    return "gauss_newton" if isinstance(problem.dynamics, AbstractRobotDynamics) else "secant"


def _preferred(
    solver: MultipleShooting, problem: Problem, x0: Array, state: _State, safe: LocalModel
) -> tuple[tuple[Point, LocalModel, Curvature] | None, LocalModel]:
    """What is known for the next iteration, and the model with the Hessian that comes nearest to the true one."""
    point = state.point
    hessian = _hessian(solver, problem)
    if hessian == "secant":
        assert state.known is not None
        before, model, curvature = state.known
        seen = curvature.learned(problem, model, before, safe, point)
        curvature = choose(state.iteration > 0, seen, curvature)
        return (point, safe, curvature), curvature.added(safe)
    if hessian == "exact":
        return None, with_curvature(problem, safe, point.states, point.controls, point.multipliers)
    return None, safe


def _first_finite(
    newton: Callable[[LocalModel, Array], Step], point: Point, preferred: LocalModel, safe: LocalModel, only_safe: Array
) -> tuple[Step, LocalModel, Bool[Array, ""]]:
    """The step by the preferred model, with more and more convexity where that has no minimum, which its factors tell,
    and if nothing helps by the safe one; that model, and whether it is the preferred one and has its curvature."""
    least, times = _SHIFTS
    if preferred is safe:
        return newton(safe, jnp.zeros((), point.controls.dtype)), safe, jnp.asarray(False)

    def attempt(carry):
        k, *_ = carry
        local = choose(k <= times, preferred, safe)
        shift = jnp.where((k > 0) & (k <= times), least * 8.0 ** (k - 1), 0).astype(point.controls.dtype)
        return k + 1, newton(local, shift), local

    first = jnp.where(only_safe, times + 1, 0).astype(jnp.int32)

    def unfinished(carry):
        k, step, _ = carry
        return (k <= times + 1) & ~(jnp.all(jnp.isfinite(step.states)) & jnp.all(jnp.isfinite(step.controls)))

    start = first, Step.unknown(point, safe.input.mT), preferred
    k, step, local = lax.while_loop(unfinished, attempt, start)
    return step, local, k <= times + 1


def _all_finite(tree: Any) -> Bool[Array, ""]:
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(tree)]))


def _within(found: Optimality, tolerance: float, stationarity: float) -> Bool[Array, ""]:
    feasible = (found.violation <= tolerance) & (found.complementarity <= tolerance)
    return feasible & (found.stationarity <= stationarity)


def _barrier(settings: _Settings, problem: Problem, local: LocalModel, point: Point, barrier: Barrier) -> Barrier:
    """A smaller parameter, once its problem is solved well enough (Waechter & Biegler 2006, equation 7), or a higher
    price if constraints are violated there."""
    found, mu = optimality(local, point, barrier, problem.start), barrier.parameter
    smaller = jnp.maximum(settings.smallest_barrier, jnp.minimum(0.2 * mu, mu**1.5))
    reached = jnp.maximum(jnp.maximum(found.stationarity, found.equalities), found.complementarity) <= 10 * mu
    cheap = _is_cheap(point, barrier) & (barrier.price < settings.largest_price)
    return Barrier(
        jnp.where(reached & ~cheap, smaller, mu),
        jnp.where(reached & cheap, _dearer(settings, barrier), barrier.price),
    )


def _is_cheap(point: Point, barrier: Barrier) -> Bool[Array, ""]:
    """Whether some constraint is more violated than kept: its multiplier is nearer to the price than to zero."""
    return largest(*point.multipliers.inequalities) > 0.5 * barrier.price


def _dearer(settings: _Settings, barrier: Barrier) -> Float[Array, ""]:
    return jnp.minimum(_DEARER * barrier.price, settings.largest_price)


def _solution(problem: Problem, end: _State) -> Solution:
    point = end.point
    return Solution(
        states=point.states,
        controls=point.controls,
        gains=end.gains,
        multipliers=point.multipliers,
        slack=point.slack,
        cost=end.worth.cost,
        gap=end.worth.gap,
        violation=end.worth.violation,
        stationarity=end.stationarity,
        barrier=end.barrier.parameter,
        iterations=end.iteration,
        status=end.status,
        history=end.history,
        coordinates=coordinates(problem),
    )
