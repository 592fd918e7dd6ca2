"""Inequalities by a primal-dual interior point, equalities by proximal multipliers: linear-quadratic problems remain.

For `g + s = 0`, `s > 0` with multipliers z, Newton's method on `s z = mu` leaves after elimination of s and z terms in
the stages' own quadratic models (Nocedal & Wright, Numerical Optimization, 2006, chapter 19). Equalities `h = 0` become
`h = rho (y_new - y)`, whose multipliers converge at once if rho is small, and which tolerates redundant rows.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import product, transpose
from ..structured import AbstractStageSolver, Extremal, LinearQuadratic, LinearTerms, RiccatiFactors
from ..structured._linear_quadratic import Start
from ._local import LocalModel, Multipliers, Rows, StageModel, Values, linear_quadratic_of


class Point(NamedTuple):
    """States, controls, multipliers, and the `slack` s of the inequalities."""

    states: Float[Array, "T+1 nx"]
    controls: Float[Array, "T m"]
    multipliers: Multipliers
    slack: Rows


class Step(NamedTuple):
    """Displacements of all that is in a `Point`, the states' in tangent vectors, and the feedback `gains`."""

    states: Float[Array, "T+1 n"]
    controls: Float[Array, "T m"]
    multipliers: Multipliers
    slack: Rows
    gains: Float[Array, "T m n"]

    @staticmethod
    def unknown(point: Point, gains: Float[Array, "T m n"]) -> "Step":
        """NaN, in the shapes of a step from that point."""
        multipliers, slack = point.multipliers, point.slack
        shapes = multipliers.costates, point.controls, multipliers, slack, gains
        return Step(*jax.tree.map(lambda x: jnp.full_like(x, jnp.nan), shapes))


class Optimality(NamedTuple):
    """The largest violations of the optimality conditions.

    **Fields:** `stationarity`, the gradient of the Lagrangian relative to the multipliers where these are large;
    `violation` of gaps and constraints; `complementarity`, of slack and multipliers, against the barrier parameter.
    """

    stationarity: Float[Array, ""]
    violation: Float[Array, ""]
    complementarity: Float[Array, ""]


def newton_step(
    local: LocalModel,
    point: Point,
    barrier: Float[Array, ""],
    proximity: Float[Array, ""],
    regularization: Float[Array, ""],
    start: Start,
    solver: AbstractStageSolver,
) -> Step:
    """The solution of the linearised conditions; `proximity` is rho, and Hessians have the `regularization` added."""
    problem, terms = linear_quadratic(local, point, barrier, proximity, regularization, start)
    factored = problem.factor(solver)
    found = factored.solve(terms)
    gains = factored.factors.gains if isinstance(factored.factors, RiccatiFactors) else jnp.zeros_like(local.input.mT)
    return recovered(local, point, found, barrier, proximity, gains)


def linear_quadratic(
    local: LocalModel,
    point: Point,
    barrier: Float[Array, ""],
    proximity: Float[Array, ""],
    regularization: Float[Array, ""],
    start: Start,
) -> tuple[LinearQuadratic, LinearTerms]:
    """The problem that is left for the displacements, and its linear terms."""
    values = local.values
    weights, pushes = _barrier_terms(values, point, barrier)

    def condensed(model: StageModel, y, h, weight, push):
        rows = product(y + h / proximity, model.equalities) + product(push, model.inequalities)
        hessian = condensed_hessian(model, proximity, weight)
        return hessian + regularization * jnp.eye(len(rows), dtype=rows.dtype), model.gradient + rows

    y, h = point.multipliers.equalities, values.equalities
    hessians, gradients = jax.vmap(condensed)(local.stages, y.stages, h.stages, weights.stages, pushes.stages)
    end_hessian, end_gradient = condensed(local.end, y.end, h.end, weights.end, pushes.end)
    return linear_quadratic_of(local, (hessians, end_hessian), (gradients, end_gradient), start)


def condensed_hessian(model: StageModel, proximity: Float[Array, ""], weight: Float[Array, "i"]) -> Float[Array, "z z"]:
    """The Hessian with what is left of the constraints once their multipliers and slack are eliminated."""
    hessian = model.hessian + product(transpose(model.equalities), model.equalities) / proximity
    return hessian + product(transpose(model.inequalities), weight[:, None] * model.inequalities)


def rows_along(local: LocalModel, found: Extremal) -> tuple[Rows, Rows]:
    """How equalities and inequalities change along displacements, to first order."""
    z = jnp.concatenate([found.states[:-1], found.controls], axis=-1)

    def along(stages: Array, end: Array) -> Rows:
        return Rows(jnp.einsum("tkz,tz->tk", stages, z, precision="highest"), product(end, found.states[-1]))

    stages, end = local.stages, local.end
    return along(stages.equalities, end.equalities), along(stages.inequalities, end.inequalities)


def recovered(
    local: LocalModel,
    point: Point,
    found: Extremal,
    barrier: Float[Array, ""],
    proximity: Float[Array, ""],
    gains: Float[Array, "T m n"],
) -> Step:
    """The displacements of slack and multipliers that belong to those of states and controls."""
    values, multipliers = local.values, point.multipliers
    dh, dg = rows_along(local, found)
    equalities = _map(lambda h, dh: (h + dh) / proximity, values.equalities, dh)
    slack = _map(lambda g, s, dg: -(g + s) - dg, values.inequalities, point.slack, dg)
    inequalities = _map(lambda z, s, ds: barrier / s - z - z / s * ds, multipliers.inequalities, point.slack, slack)
    costates = found.costates - multipliers.costates
    return Step(found.states, found.controls, Multipliers(costates, equalities, inequalities), slack, gains)


def optimality(local: LocalModel, point: Point, barrier: Float[Array, ""], start: Start) -> Optimality:
    """How far a point is from satisfying the optimality conditions."""
    values, (lam, y, z) = local.values, point.multipliers
    n = local.transition.shape[-1]
    stages, end = slopes_of_lagrangian(local, point.multipliers)
    states, controls, end = stages[:, :n] - lam[:-1], stages[:, n:], end - lam[-1]
    if start == "free":
        states = states.at[0].add(lam[0])
    if start == "periodic":
        end = end + lam[0]
    products = _map(lambda s, z: s * z - barrier, point.slack, z)
    dual = largest(lam, *y, *z)
    return Optimality(
        largest(states, controls, end) / jnp.maximum(1, dual / 100),
        violation(values, point.slack),
        largest(*products) / jnp.maximum(1, dual / 100),
    )


def slopes_of_lagrangian(local: LocalModel, multipliers: Multipliers) -> tuple[Float[Array, "T z"], Float[Array, "n"]]:
    """The gradients of the Lagrangian by (x, u) of every stage and x of the end, but for the states' own costates."""
    lam, y, z = multipliers
    rows = _transposed(local.stages.equalities, y.stages) + _transposed(local.stages.inequalities, z.stages)
    reached = jnp.concatenate([local.transition, local.input], axis=-1)
    stages = local.stages.gradient + rows + _transposed(reached, lam[1:])
    end = local.end.gradient + product(y.end, local.end.equalities) + product(z.end, local.end.inequalities)
    return stages, end


def fraction_to_boundary(x: Rows, dx: Rows, fraction: Float[Array, ""]) -> Float[Array, ""]:
    """The longest step up to 1 that leaves `1 - fraction` of every positive number."""

    def longest(x: Array, dx: Array) -> Array:
        return jnp.min(jnp.where(dx < 0, -fraction * x / jnp.where(dx < 0, dx, 1), 1), initial=1.0)

    return jnp.minimum(longest(x.stages, dx.stages), longest(x.end, dx.end))


def violation(values: Values, slack: Rows) -> Float[Array, ""]:
    """The largest violation of gaps and constraints."""
    return largest(values.gaps, values.start, *values.equalities, *_map(jnp.add, values.inequalities, slack))


def infeasibility(values: Values, slack: Rows) -> Float[Array, ""]:
    """The norm of all violations."""
    primal = _map(jnp.add, values.inequalities, slack)
    return _norm(values.gaps, values.start, *values.equalities, *primal)


def remaining(step: Step, proximity: Float[Array, ""]) -> Float[Array, ""]:
    """What is left of `infeasibility` after a whole step of the linearised problem: the equalities yield a little."""
    return proximity * _norm(*step.multipliers.equalities)


def barrier_function(values: Values, slack: Rows, barrier: Float[Array, ""]) -> Float[Array, ""]:
    """The cost with what keeps the slack positive."""
    return values.cost - barrier * _total(jnp.log, *slack)


def slope(local: LocalModel, point: Point, step: Step, barrier: Float[Array, ""]) -> Float[Array, ""]:
    """The derivative of `barrier_function` along a step."""
    z = jnp.concatenate([step.states[:-1], step.controls], axis=-1)
    along = jnp.sum(local.stages.gradient * z) + jnp.sum(local.end.gradient * step.states[-1])
    return along - barrier * _total(lambda x: x, *_map(jnp.divide, step.slack, point.slack))


def _barrier_terms(values: Values, point: Point, barrier: Float[Array, ""]) -> tuple[Rows, Rows]:
    """Weights `z / s` of the rows, and the multipliers that they push with."""
    weights = _map(jnp.divide, point.multipliers.inequalities, point.slack)
    pushes = _map(lambda weight, s, g: barrier / s + weight * (g + s), weights, point.slack, values.inequalities)
    return weights, pushes


def _map(function, *rows: Rows) -> Rows:
    return Rows(function(*(x.stages for x in rows)), function(*(x.end for x in rows)))


def _transposed(jacobians: Float[Array, "T k z"], x: Float[Array, "T k"]) -> Float[Array, "T z"]:
    return jnp.einsum("tkz,tk->tz", jacobians, x, precision="highest")


def largest(*arrays: Array) -> Float[Array, ""]:
    """The largest absolute value."""
    return jnp.max(jnp.concatenate([jnp.abs(x).reshape(-1) for x in arrays]), initial=0)


def _total(function, *arrays: Array) -> Float[Array, ""]:
    return jnp.sum(function(jnp.concatenate([x.reshape(-1) for x in arrays])))


def _norm(*arrays: Array) -> Float[Array, ""]:
    return jnp.sqrt(_total(jnp.square, *arrays))
