"""What went wrong, in words: what is not finite, what the start violates, and what may help."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..compilation import quick_compilation
from ..numerics._options import quoted
from ..simulation._inputs import input_names
from ._costs_and_bounds import Bounds
from ._dynamics import AbstractDynamics
from ._free_duration import FreeDuration
from ._local import by_displacements, end_stage, over_stages
from ._multiple_shooting import MultipleShooting
from ._problem import Problem, stage_parts
from ._robot_dynamics import AbstractRobotDynamics, RobotDynamics
from ._shooting import Shooting
from ._solution import Solution, SolveStatus
from ._solver import AbstractSolver, Guess
from ._stage import Stage

_KEPT = SolveStatus.STALLED, SolveStatus.UNBOUNDED  # constraints are not what is wrong
_VIOLATED = 1e-2  # from here on, constraints may be what is wrong
_NOTHING = 1e-12  # costs of rounding
_REMEDY = "Start from another guess."
_SLOPES = "A norm where it is zero, and a root at zero, have no derivative; add something small inside."


def explain(problem: Problem, x0: Array, guess: Guess, found: Solution, solver: AbstractSolver) -> None:
    """Says what went wrong, where it can be seen."""
    status = SolveStatus(int(found.status))
    if status == SolveStatus.SOLVED:
        return
    if status == SolveStatus.NOT_FINITE:
        states = found.states if isinstance(solver, Shooting) else guess.states  # of which states do not count
        raise ValueError(_first_that_is_not_finite(problem, x0, states, guess.controls))
    where = ""
    if status not in _KEPT and found.violation > _seen(found.states):
        where = _violated_by_the_start(problem, x0, found.controls[0]) or _most_violated(problem, found)
    where += _clipped(problem, found)
    advice = {
        SolveStatus.STALLED: "no step makes the cost smaller. Often this is as good as precision allows; if not, scale "
        "costs and states to similar sizes, or use float64",
        SolveStatus.INFEASIBLE: "the constraints could not be satisfied. Look whether they contradict one another, "
        "start from a guess closer to satisfying them, or allow more steps",
        SolveStatus.ITERATIONS: "the iterations were used up. Continue with this solution as the guess, raise "
        "max_iterations, or try another guess",
        SolveStatus.UNBOUNDED: "the cost falls without bound. Give every control and what they drive a cost that grows "
        "with it, such as Cost(Control()), or Bounds",
    }[status]
    if status == SolveStatus.ITERATIONS and found.violation > _VIOLATED:
        advice += ". Constraints are far from being satisfied: look whether they contradict one another, too"
    if status == SolveStatus.ITERATIONS and not isinstance(solver, MultipleShooting):
        advice += ". MultipleShooting(), which learns the curvature that this solver leaves out, needs fewer"
    if status == SolveStatus.ITERATIONS and isinstance(solver, MultipleShooting) and solver.hessian is None:
        advice += _other_hessian(problem.dynamics)
    warnings.warn(
        f"Not solved after {int(found.iterations)} iterations ({status.name}): {advice}.{where} "
        f"Cost {float(found.cost):.6g}, largest violation {float(found.violation):.1e}, "
        f"stationarity {float(found.stationarity):.1e}.",
        stacklevel=3,
    )


def _other_hessian(dynamics: AbstractDynamics) -> str:
    if isinstance(dynamics, FreeDuration):
        return '. Scale the costs so that the sum is 10 to 1000; or try MultipleShooting(hessian="gauss_newton")'
    if dynamics.defect_size:
        return '. Jumps, and what else is far from standing, need MultipleShooting(hessian="exact")'
    if isinstance(dynamics, AbstractRobotDynamics):
        return '. Swing-ups from rest need MultipleShooting(hessian="secant")'
    return '. MultipleShooting(hessian="gauss_newton"), or "exact", may be steadier'


def warn_of_rest(found: Solution) -> None:
    """Warns where the first guess, standing still, was taken for the solution, though it costs something."""
    if found.status == SolveStatus.SOLVED and found.iterations == 0 and found.cost > _NOTHING:
        warnings.warn(
            f"Standing still was found optimal without a step, at the cost {float(found.cost):.6g}: it satisfies the "
            "conditions of first order, as the worst motion of a symmetric problem does too. If it should move, give a "
            "guess, or a start, a little beside the symmetry. If the costs are tiny, scale them up.",
            stacklevel=3,
        )


def _violated_by_the_start(problem: Problem, x0: Float[Array, "nx"], u: Float[Array, "m"]) -> str:
    """A sentence about the first constraint of stage 0 that x0 violates and u does not change; empty if none does."""
    if problem.start != "given":
        return ""
    dynamics = problem.phases[0].dynamics
    for part in problem.constraints:
        if not part.counts_at(0):
            continue

        def rows(u: Array, part=part) -> Array:
            return _violations(part, Stage(dynamics, x0, u, jnp.asarray(0)))

        violated = np.asarray(_quickly(rows, u)) > _seen(x0)
        # Derivatives take longer to compile than the search for them that is left so.
        if np.any(violated) and np.any(violated & np.all(np.asarray(_quickly(jax.jacfwd(rows), u)) == 0, axis=1)):
            return (
                f" The start violates the {type(part).__name__} of {part.term!r} at stage 0, where no control changes "
                "that: let these count during=(1, None), or start elsewhere."
            )
    return ""


def _violations(part: Any, stage: Stage) -> Float[Array, "k"]:
    """How much each row of a constraint is violated; bounds that hold are negative."""
    rows = part.rows(stage)
    return rows if isinstance(part, Bounds) else jnp.abs(rows)


def _most_violated(problem: Problem, found: Solution) -> str:
    """A sentence about the constraint that is violated most, and the stage; empty if all hold."""

    def at_stage(phase: int, here: Stage) -> tuple:
        return tuple(_violations(part, here) for part in stage_parts(problem, phase, here.x.dtype).constraints)

    def everywhere(states: Array, controls: Array) -> tuple:
        last = end_stage(problem, states)
        of_stages = over_stages(problem, at_stage, states[:-1], controls)
        return of_stages, tuple(_violations(part, last) for part in problem.end_constraints)

    of_stages, of_end = _quickly(everywhere, found.states, found.controls)
    where = [("the dynamics, as gaps between the stages", float(found.gap))]
    for part, rows in zip(problem.constraints, of_stages, strict=True):
        largest = np.max(np.asarray(rows), axis=1, initial=0)
        where.append((f"the {_name(part)} at stage {np.argmax(largest)}", largest.max()))
    at_end = [np.max(np.asarray(rows), initial=0) for rows in of_end]
    where += [(f"the {_name(x)} at the end", v) for x, v in zip(problem.end_constraints, at_end, strict=True)]
    name, most = max(where, key=lambda x: x[1])
    return f" Most violated: {name}." if most > _seen(found.states) else ""


def _clipped(problem: Problem, found: Solution) -> str:
    """A sentence about controls of a robot that limits clip, so that they have no effect; empty if there are none."""
    robots = [_with_limits(phase.dynamics) for phase in problem.phases]
    if all(robot is None for robot in robots):
        return ""

    def at_stage(phase: int, here: Stage) -> Array:
        if robots[phase] is None:
            return jnp.ones(here.u.shape, bool)
        slopes = jax.jacfwd(lambda u: Stage(here.dynamics, here.x, u, here.t).tau)(here.u)
        return jnp.any(slopes != 0, axis=0)

    acts = np.asarray(_quickly(partial(over_stages, problem, at_stage), found.states[:-1], found.controls))
    at_stages = [robot for robot, phase in zip(robots, problem.phases, strict=True) for _ in range(phase.steps)]
    for stage, (robot, acting) in enumerate(zip(at_stages, acts, strict=True)):
        if robot is not None and np.any(clipped := ~acting & _can_act(robot)):
            names = input_names(robot.model, robot.actuated)
            return (
                f" At stage {stage} limits of the model clip the controls of "
                f"{quoted([names[i] for i in np.flatnonzero(clipped)])}: changing them has no effect there. Keep them "
                "where they have one by Bounds(Control(), lower, upper)."
            )
    return ""


def _with_limits(dynamics: AbstractDynamics) -> RobotDynamics | None:
    """The robot, if limits of its model may clip controls."""
    robot = dynamics.dynamics if isinstance(dynamics, FreeDuration) else dynamics
    if not isinstance(robot, RobotDynamics):
        return None
    return robot if robot.actuated == "actuators" or robot.equation.stops is not None else None


def _can_act(robot: RobotDynamics) -> Bool[np.ndarray, "m"]:
    """Which controls have an effect where nothing is clipped."""
    actuators = robot.model.actuators
    if robot.actuated != "actuators":
        return np.ones(robot.control_size, bool)
    on_frames = np.array([frame is not None for frame in actuators.frames], bool)
    return (np.asarray(actuators.gain) != 0) & (np.any(np.asarray(actuators.moment) != 0, axis=1) | on_frames)


def _seen(x: Array) -> float:
    """The least violation that is spoken of."""
    return float(jnp.finfo(x.dtype).eps) ** 0.5


def _quickly(function: Callable, *arguments: Array) -> Any:
    """The value of a function that is called once."""
    return jax.jit(function, compiler_options=quick_compilation())(*arguments)


def _first_that_is_not_finite(
    problem: Problem, x0: Float[Array, "nx"], states: Float[Array, "T+1 nx"], controls: Float[Array, "T m"]
) -> str:
    """A message about the first term of a problem that is infinite or NaN at the guess, or has such derivatives.

    **Arguments:** `states`, which a simulation may have made.
    """
    if not (np.all(np.isfinite(states[0])) and np.all(np.isfinite(controls)) and np.all(np.isfinite(x0))):
        return "x0 and the guess must be finite; they have infinities or NaN."
    for what, values_of, remedy in (("", _values, _REMEDY), ("derivative of the ", _derivatives, _SLOPES)):
        for name, stage, value in _all(problem, states, controls, values_of):
            if not np.all(np.isfinite(value)):
                return f"The {what}{name} is not finite at the guess, {stage}. {remedy}"
    if not np.all(np.isfinite(states)):
        return "x0 and the guess must be finite; they have infinities or NaN."
    return "The cost or a constraint is not finite at the guess. Start from another guess, or scale the costs."


def _all(problem: Problem, states: Array, controls: Array, values_of: Callable) -> Any:
    """Names, stages, and what there is of the dynamics and of each term."""
    parts, ends = (*problem.costs, *problem.constraints), (*problem.end_costs, *problem.end_constraints)

    def at_stage(phase: int, here: Stage) -> tuple:
        own = stage_parts(problem, phase, here.x.dtype)
        of_dynamics = values_of(lambda stage: stage.dynamics.step(stage.x, stage.u, stage.t), here)
        return of_dynamics, *(values_of(part.term, here) for part in (*own.costs, *own.constraints))

    of_dynamics, *found = over_stages(problem, at_stage, states[:-1], controls)
    for t in range(problem.steps):
        yield "dynamics", f"at stage {t}", np.asarray(of_dynamics[t])
        for part, value in zip(parts, found, strict=True):
            if part.counts_at(t):
                yield _name(part), f"at stage {t}", np.asarray(value[t])
    last = end_stage(problem, states)
    for part in ends:
        yield _name(part), "at the end", np.asarray(values_of(part.term, last))


def _values(function: Callable, stage: Stage) -> Array:
    return jnp.asarray(function(stage))


def _derivatives(function: Callable, stage: Stage) -> Array:
    return by_displacements(jax.jacfwd, lambda stage: _values(function, stage), stage)


def _name(part: Any) -> str:
    return f"{type(part).__name__} of {part.term!r}"
