"""Multiple shooting: states and controls are unknowns alike, and dynamics are constraints between them."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..numerics import all_finite, choose
from ..numerics._options import check_instance, positive_number
from ..structured import AbstractSchedule, AbstractStageSolver, Riccati
from ._barrier_updates import first_barrier
from ._interior_point import optimality
from ._line_search import Penalty, Seen, Steps, Worth
from ._local import Hessian, model_of
from ._multiple_shooting_start import begun, start_of
from ._multiple_shooting_state import FEW, Settings, State, is_last
from ._multiple_shooting_step import preferred_model, trial_of
from ._problem import Problem
from ._recovery import afresh, disturbed, is_tight, look_back
from ._robot_dynamics import AbstractRobotDynamics
from ._solution import Solution, SolveStatus, coordinates, with_unbounded
from ._solver import AbstractSolver, Guess, count, iterate, own_tolerance, recorded, tolerances


def _stage_solver(schedule: Any) -> AbstractStageSolver:
    """A solver of linear-quadratic problems; of a schedule, the Riccati recursion in its order."""
    if isinstance(schedule, AbstractSchedule):
        return Riccati(schedule)
    wanted = "a solver of linear-quadratic problems such as Riccati() or StageMultipliers(), or a schedule for Riccati"
    check_instance("schedule", schedule, AbstractStageSolver, wanted)
    return schedule


class MultipleShooting(AbstractSolver):
    """Sequential quadratic programming with an interior point, and Hessians by Gauss and Newton, learned, or exact.

    Every iteration linearises all stages at once, solves one linear-quadratic problem, and tries step lengths on a
    merit function. Gaps between the stages close with the constraints. With `"linear"` steps and a parallel schedule of
    `Riccati` the depth of an iteration is the logarithm of the number of stages.

    **Fields:** `max_iterations`; `tolerance` of gaps, constraints and complementarity, and `stationarity` of the
    Lagrangian's gradient, both relative to the multipliers where these are large, by default 1e-8 and 1e-6 in float64,
    1e-4 and 1e-3 in float32; what a further step would gain must also be below `tolerance` times the cost, or its
    square. `hessian`: `"gauss_newton"`; `"secant"`, with the curvature of dynamics and constraints learned on the way,
    for swing-ups; or `"exact"`, with more work to compile and in each iteration, for jumps with `RobotInverseDynamics`;
    by default the first for robots, whose steps are accelerated by what the last ones tell, the last for robots whose
    step lengths are found, and the second for all else. `schedule`: what solves the linear-quadratic problems, of
    `jaxcfa.structured`: `Riccati()`; a schedule for it, such as `Doubling()`; or another, such as `StageMultipliers()`,
    beside which gains take a Riccati recursion. `steps`: `"linear"`, all states at once;
    `"nonlinear"`, simulated one after the other under the feedback, which finds its way where dynamics are unstable; or
    the better of `"both"`; by default `"nonlinear"` if dynamics are the only constraints, else `"both"`. `barrier`:
    where the interior point starts. `regularization`: the least that is added to Hessians. `together`: how many step
    lengths are tried at once.
    """

    max_iterations: int = count("max_iterations", 200)
    tolerance: float | None = own_tolerance("tolerance")
    stationarity: float | None = own_tolerance("stationarity")
    hessian: Hessian | None = eqx.field(static=True, default=None)
    schedule: AbstractStageSolver = eqx.field(converter=_stage_solver, default=Riccati())
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
        settings = self._settings(problem, x0.dtype, guess.iterations)

        def body(state: State) -> State:
            return _iterate(settings, problem, x0, guess, state, progress)

        return _solution(problem, iterate(problem, body, start_of(settings, problem, x0, guess)))

    def _settings(self, problem: Problem, dtype, iterations: Int[Array, ""]) -> Settings:
        """The settings for a precision and a problem, with at most so many iterations."""
        double = jnp.finfo(dtype).bits >= 64
        tolerance, stationarity = tolerances(dtype, self.tolerance, self.stationarity)
        return Settings(
            tolerance=tolerance,
            stationarity=stationarity,
            proximity=1e-8 if double else 1e-4,
            smallest_barrier=tolerance / 10,
            largest_price=1e8 if double else 1e6,
            largest_regularization=1e9 if double else 1e5,
            max_iterations=jnp.minimum(iterations, self.max_iterations),
            recorded=self.max_iterations,
            hessian=self.hessian or _usual_hessian(problem),
            schedule=self.schedule,
            steps=self.steps or ("both" if problem.is_constrained else "nonlinear"),
            barrier=self.barrier,
            regularization=self.regularization,
            together=self.together,
        )


def _usual_hessian(problem: Problem) -> Hessian:
    if not isinstance(problem.dynamics, AbstractRobotDynamics):
        return "secant"
    # Costs say little about motions that shall only be short: what they have of curvature is that of the dynamics.
    return "gauss_newton" if problem.has_given_duration else "exact"


def _iterate(settings: Settings, problem: Problem, x0: Array, guess: Guess, state: State, progress: bool) -> State:
    """One iteration, and the decision whether it is the last."""
    safe = model_of(problem, x0, state.point.states, state.point.controls)
    state = begun(settings, guess, state, safe.values)
    point = state.point
    known, preferred = preferred_model(settings, problem, state, safe)
    end = state.barrier._replace(parameter=jnp.asarray(settings.smallest_barrier, x0.dtype))
    final = optimality(safe, point, end, problem.start)
    trial = trial_of(settings, problem, x0, state, safe, preferred, final)
    setback = look_back(settings, problem, state, safe, final, trial)

    found, values, first = trial.found, trial.values, first_barrier(settings, x0.dtype)
    tight = is_tight(settings, state, trial, final.violation, first)
    # A few iterations do not come back from a wide barrier.
    few = guess.known & (settings.max_iterations <= FEW)
    first = first._replace(parameter=jnp.where(few, state.barrier.parameter, first.parameter))
    again, taken = setback.again | tight, trial.taken & ~tight
    elsewhere = choose(
        tight, afresh(point, values, first), disturbed(problem, point, values, first, state.disturbances)
    )
    history = recorded(
        state,
        progress,
        cost=values.cost,
        violation=final.violation,
        stationarity=final.stationarity,
        step=jnp.where(taken, found.length, 0),
        regularization=state.regularization,
    )
    return State(
        point=choose(again, elsewhere, choose(taken, found.point, point)),
        known=known,
        memory=trial.memory,
        disturbances=state.disturbances + setback.again.astype(state.disturbances.dtype),
        proofs=jnp.where(again, 0, setback.proofs),
        contradicted=setback.contradicted,
        gains=choose(all_finite(trial.step.gains), trial.step.gains, state.gains),
        barrier=choose(again, first, setback.barrier),
        soft=trial.soft,
        regularization=setback.regularization,
        penalty=choose(again, Penalty.first(x0.dtype), found.penalty),
        seen=choose(again, Seen.nothing(x0.dtype), trial.seen),
        length=jnp.where(taken & ~again, found.length, 0),
        worth=choose(taken, found.worth, Worth.of(values)),
        stationarity=final.stationarity,
        iteration=state.iteration + jnp.where(trial.solved, 0, 1).astype(jnp.int32),
        status=jnp.where(trial.solved, SolveStatus.SOLVED, setback.status).astype(jnp.int32),
        done=trial.solved | setback.final | is_last(settings, state),
        history=history,
    )


def _solution(problem: Problem, end: State) -> Solution:
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
        status=with_unbounded(end.status, end.worth.cost, end.history),
        history=end.history,
        coordinates=coordinates(problem),
    )
