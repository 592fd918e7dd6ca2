"""Inverse kinematics for users."""

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, SupportsIndex

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from ..closed_chains._checks import prepared
from ..compilation import jit_of_one_state
from ..model import AbstractConstraint, Model
from ..model._arguments import check_positive, is_concrete, positive_integer, require_single
from ..model._ranges import ends_of_ranges, middle
from ..numerics import without_derivatives
from ..numerics._options import check_flag
from ..optimal_control import Cost, Problem as OptimalControl, RobotInverseDynamics, SmoothCost, SolveStatus
from ..optimal_control._closures import hoisted
from ..optimal_control._costs_and_bounds import check_weight
from ..optimal_control._problem import Parts
from ..optimal_control._terms import Term
from ..typing import ConfigurationLike
from ._derivatives import attached
from ._rows import Problem, hard_rows
from ._search import search


class Solution(eqx.Module):
    """What inverse kinematics found.

    **Fields:** `q` (nq,): if the targets are not reached, that of the least weighted sum of squares; `residual` (k,) of
    the targets, unweighted, and of the loops [rad, m]; `error`, the largest of it; `status` (`SolveStatus`);
    `iterations`; `starts`, how many were tried; `settled`: whether preferences, or else the sum of squares of targets
    that are not reached, could not be made less.
    """

    q: Float[Array, "nq"]
    residual: Float[Array, "k"]
    error: Float[Array, ""]
    status: Int[Array, ""]
    iterations: Int[Array, ""]
    starts: Int[Array, ""]
    settled: Bool[Array, ""]

    @property
    def reached(self) -> Bool[Array, ""]:
        """Whether all targets are reached."""
        return self.status == SolveStatus.SOLVED


def solve(
    model: Model,
    targets: Cost | Term | Sequence[Cost | Term],
    q0: ConfigurationLike | None = None,
    *,
    preferences: Cost | Term | Sequence[Cost | Term] = (),
    constraints: AbstractConstraint | Sequence[AbstractConstraint] = (),
    limits: bool = True,
    tolerance: ArrayLike | None = None,
    starts: SupportsIndex = 20,
    max_iterations: SupportsIndex = 300,
) -> Solution:
    """A configuration in which the residuals of all targets vanish, within the ranges of the joints.

    Levenberg-Marquardt steps, whose damping falls with the square of the error (Sugihara 2011), with coordinates held
    at the ends of their ranges; where no step helps, the next start is tried, from an even coverage of the ranges. Free
    joints begin where `q0` has them each time. Limits more than four turns or a kilometre away hold, but count as none
    where starts are chosen: starts cover half a turn, or a metre, both ways.

    **Arguments:**

    - `targets`: terms such as `FramePose("hand", target)`, or any function of a stage, of which `stage.q`,
      `stage.model` and `stage.motions` count; a `Cost` gives a term its weight, without `during`.
    - `q0` (nq,): where to begin; the middle of the ranges if not given.
    - `preferences`: terms such as `Posture(q)`, made as small as the targets allow; only the ratios of their weights
      matter.
    - `constraints` that close loops, such as `model.constraints`.
    - `limits`: whether joints stay within `model.limits`.
    - `tolerance` of every residual [rad, m]: 1e-8 in float64, 1e-5 in float32, by default.
    - `starts`, `max_iterations`: the largest numbers of both; preferences are minimised in as many iterations again.

    **Returns:** a `Solution`, whose `status` says whether the targets are reached, and if not, whether no step from any
    start led nearer (`INFEASIBLE`) or the iterations were used up before (`ITERATIONS`). Where `settled` is false
    targets may be reached, but preferences are not least. Derivatives with respect to
    targets, model and constraints are those of the targets' solution; where that leaves joints open, they move as
    preferences say, or as little as possible, and those at an end of their range stay there if the others can follow
    alone. There are none with respect to `q0`. Second derivatives are right where the solution is the only one nearby.

    **Raises:** `ValueError` for wrong shapes, terms and numbers, for weights that are negative or not finite, and for
    residuals of the targets that are finite nowhere: configurations in which they are not only count as farther away.
    Where that cannot be seen, because it is traced, the status is `NOT_FINITE`. Targets that are not reached, and
    preferences that are not least, warn, unless traced.
    """
    starts, max_iterations = positive_integer("starts", starts), positive_integer("max_iterations", max_iterations)
    require_single(model)
    start = middle(model) if q0 is None else q0
    problem, q = as_problem(model, targets, preferences, constraints, limits, q0=start)
    least = max(1e-8, 100 * float(jnp.finfo(q.dtype).eps)) if tolerance is None else tolerance
    check_positive("tolerance", least)
    found = _solve(problem, q, jnp.asarray(least, q.dtype), jnp.asarray(starts), jnp.asarray(max_iterations))
    if is_concrete(found):
        _explain(found)
    return found


def as_problem(
    model: Model, targets: Any, preferences: Any, constraints: Any, limits: bool, **configuration: ConfigurationLike
) -> tuple[Problem, Float[Array, "nq"]]:
    """What `solve` is given, checked, as a problem and where it begins."""
    check_flag("limits", limits)
    model, loops, (q,) = prepared(model, _as_tuple(constraints), **configuration)
    targets, preferences = _as_costs("targets", targets), _as_costs("preferences", preferences)
    if not targets and not loops:
        raise ValueError("There are no targets: give one or more, such as FramePose(frame, target).")
    dynamics = RobotInverseDynamics(model, 1.0)
    parts = hoisted(OptimalControl(dynamics, 1, end_costs=[*targets, *preferences]), q.dtype).end_costs
    ends = ends_of_ranges(model) if limits else (-jnp.inf, jnp.inf)
    problem = Problem(
        dynamics,
        Parts(parts[: len(targets)], ()),
        Parts(_balanced(parts[len(targets) :]), ()),
        loops,
        *(jnp.broadcast_to(jnp.asarray(end, q.dtype), q.shape) for end in ends),
    )
    return problem, q


@partial(jit_of_one_state, jit=eqx.filter_jit)
def _solve(problem: Problem, q: Array, tolerance: Array, starts: Array, max_iterations: Array) -> Solution:
    arguments = problem, problem.clipped(q), tolerance, starts, max_iterations
    found = without_derivatives(search(*without_derivatives(arguments)))
    chosen = attached(problem, found.chosen, found.preferred, found.has_reached)
    hard = jnp.where(problem.has_weights, hard_rows(problem, chosen), jnp.nan)
    error = jnp.max(jnp.abs(hard), initial=0)
    missed = jnp.where(found.ran_out | ~found.settled, SolveStatus.ITERATIONS, SolveStatus.INFEASIBLE)
    status = jnp.where(error <= tolerance, SolveStatus.SOLVED, missed)
    status = jnp.where(jnp.isfinite(error), status, SolveStatus.NOT_FINITE)
    tried = jnp.minimum(found.start + 1, starts)
    return Solution(chosen, hard, error, status, found.iterations, tried, found.settled)


def _as_tuple(constraints: Any) -> Any:
    return tuple(constraints) if isinstance(constraints, Sequence) else constraints


def _as_costs(name: str, terms: Any) -> tuple[Cost, ...]:
    given = tuple(terms) if isinstance(terms, tuple | list) else (terms,)
    for term in given:
        if isinstance(term, SmoothCost) or not (isinstance(term, Cost) or callable(term)):
            raise ValueError(
                f"{name} must be terms such as FramePose(frame, target), functions of a stage that return (k,) "
                f"residuals, or Costs of these, got {term!r}."
            )
        if isinstance(term, Cost) and term.during is not None:
            raise ValueError(
                f"{name} of inverse kinematics count in one configuration, which has no stages: omit "
                f"during={term.during} of {term.term!r}."
            )
    costs = tuple(term if isinstance(term, Cost) else Cost(term) for term in given)
    for cost in costs:
        check_weight(cost)  # which may have been replaced
    return costs


def _balanced(preferences: tuple[Cost | SmoothCost, ...]) -> tuple[Cost, ...]:
    """The weights scaled so that the largest is one."""
    costs = [cost for cost in preferences if isinstance(cost, Cost)]
    if not costs:
        return ()
    # Of negative ones, too, which stay so to be seen.
    largest = jnp.abs(jnp.max(jnp.stack([jnp.max(cost.weight) for cost in costs])))
    scale = jnp.where(largest > 0, 1 / jnp.where(largest > 0, largest, 1), 0)
    return tuple(eqx.tree_at(lambda c: c.weight, cost, cost.weight * scale) for cost in costs)


def _explain(found: Solution) -> None:
    if found.status == SolveStatus.NOT_FINITE:
        raise ValueError(
            "The residuals of the targets are not finite: look for infinities, NaN and roots of negative numbers in "
            f"targets, weights and q0. They are {found.residual.tolist()}."
        )
    if found.status != SolveStatus.SOLVED:
        advice = {
            SolveStatus.INFEASIBLE: "They may be out of reach or contradict one another; else allow more starts or "
            "begin nearer.",
            SolveStatus.ITERATIONS: "The iterations were used up: raise max_iterations, or begin nearer.",
        }
        warnings.warn(
            f"The targets were not reached from {int(found.starts)} starts: the largest residual is "
            f"{float(found.error):.3g} (rad or m). {advice[SolveStatus(int(found.status))]}",
            stacklevel=3,
        )
    elif not found.settled:
        warnings.warn(
            f"The targets are reached, but preferences are not least after {int(found.iterations)} iterations: raise "
            "max_iterations, or begin nearer.",
            stacklevel=3,
        )
