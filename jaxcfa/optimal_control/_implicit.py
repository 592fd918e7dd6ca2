"""Derivatives of solutions, by the implicit function theorem.

The optimality conditions hold at the solution whatever the problem's parameters are. Their linearisation, with the
exact Hessian of the Lagrangian, is one more linear-quadratic problem, of which the derivative is the solution; bounds
enter as they do in the interior point at its last barrier parameter, which smooths what is not differentiable there.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import add, jvp_of_perturbed, product, with_rule
from ..structured._starts import where
from ._barrier_updates import steepness
from ._interior_point import Point, condensed_hessian, rows_along
from ._local import (
    Multipliers,
    Rows,
    StageModel,
    evaluate,
    gap,
    linear_quadratic_of,
    model_of,
    over_stages,
    start_gap,
    with_curvature,
)
from ._problem import Problem

_USUAL = 1e2  # gradient of the cost


class Change(NamedTuple):
    """Displacements of a point, the states' in tangent vectors, and of the cost."""

    states: Float[Array, "T+1 n"]
    controls: Float[Array, "T m"]
    multipliers: Multipliers
    slack: Rows
    cost: Float[Array, ""]


class _Conditions(NamedTuple):
    """The optimality conditions: gradients of the Lagrangian, and what the constraints leave."""

    states: Float[Array, "T+1 n"]
    controls: Float[Array, "T m"]
    gaps: Float[Array, "T n"]
    start: Float[Array, "n"]
    equalities: Rows
    inequalities: Rows
    lagrangian: Float[Array, ""]


def attached(problem: Problem, x0: Float[Array, "nx"], point: Point) -> Change:
    """Zero, with the derivatives, of any order and in both modes, of a solution by all that is in `problem` and x0."""
    arrays, static = eqx.partition((problem, x0), eqx.is_inexact_array)

    def nothing(arrays: Any, point: Point) -> Change:
        # Computed from the point: zeros that are not of a batch, with derivatives that are, are more than vmap can do.
        _, controls, multipliers, slack = jax.tree.map(lambda x: x - x, point)
        cost = point.states[0, 0] - point.states[0, 0]
        states = jnp.full((len(point.states), problem.dynamics.tangent_size), cost)
        return Change(states, controls, multipliers, slack, cost)

    def rule(primals: tuple, tangents: tuple) -> tuple[Change, Change]:
        arrays, point = primals
        here = zero(arrays, point)
        # The solution again as a function of the arrays, so that the rule can be differentiated.
        return here, _sensitivity(static, arrays, tangents[0], moved(eqx.combine(arrays, static)[0], point, here))

    zero = with_rule(nothing, rule)
    return zero(arrays, jax.lax.stop_gradient(point))


def moved(problem: Problem, point: Point, change: Change) -> Point:
    """A point displaced."""
    rest = add(point[1:], change[1:4])
    return Point(jax.vmap(problem.dynamics.plus)(point.states, change.states), *rest)


def _sensitivity(static: Any, arrays: Any, tangents: Any, point: Point) -> Change:
    """How a solution changes with the problem's arrays, by those alone whose tangents are not known to be zero."""

    def conditions(arrays: Any) -> _Conditions:
        problem, x0 = eqx.combine(arrays, static)
        return _conditions(problem, x0, point)

    _, rate = jvp_of_perturbed(conditions, (arrays,), (tangents,))
    problem, x0 = eqx.combine(arrays, static)
    motion = point.states, point.controls
    local = with_curvature(problem, model_of(problem, x0, *motion), *motion, point.multipliers)
    proximity = jnp.asarray(jnp.finfo(x0.dtype).eps ** 0.5, x0.dtype) / jax.lax.stop_gradient(steepness(local, _USUAL))
    weights = jax.tree.map(lambda z, s: z / s, point.multipliers.inequalities, point.slack)

    def condensed(model: StageModel, h: Array, g: Array, weight: Array) -> tuple[Array, Array]:
        gradient = product(h / proximity, model.equalities) + product(weight * g, model.inequalities)
        return condensed_hessian(model, proximity, weight), gradient

    h, g = rate.equalities, rate.inequalities
    hessians, gradients = jax.vmap(condensed)(local.stages, h.stages, g.stages, weights.stages)
    end_hessian, end_gradient = condensed(local.end, h.end, g.end, weights.end)
    changes = local.values._replace(gaps=rate.gaps, start=rate.start)
    slopes = jnp.concatenate([rate.states[:-1], rate.controls], axis=-1) + gradients, rate.states[-1] + end_gradient
    lq, terms = linear_quadratic_of(local._replace(values=changes), (hessians, end_hessian), slopes, problem.start)
    found = lq.solve(terms)
    equalities, inequalities = add((h, g), rows_along(local, found.states, found.controls))
    multipliers = Multipliers(
        found.costates,
        jax.tree.map(lambda x: x / proximity, equalities),
        jax.tree.map(jnp.multiply, weights, inequalities),
    )
    slack = jax.tree.map(jnp.negative, inequalities)
    return Change(found.states, found.controls, multipliers, slack, rate.lagrangian)


def _conditions(problem: Problem, x0: Float[Array, "nx"], point: Point) -> _Conditions:
    lam, y, z = point.multipliers

    def lagrangian(dx: Array, du: Array):
        states, controls = jax.vmap(problem.dynamics.plus)(point.states, dx), point.controls + du
        # As in the models of the stages: in tangent vectors at the states that are not displaced.
        gaps = over_stages(problem, lambda _, *stage: gap(*stage), states[:-1], controls, point.states[1:]) - dx[1:]
        before = start_gap(problem, x0, states.at[0].set(point.states[0]))
        values = evaluate(problem, x0, states, controls, gaps)._replace(start=before - dx[0])
        pairs = [
            (lam[1:], values.gaps),
            *zip(y, values.equalities, strict=True),
            *zip(z, values.inequalities, strict=True),
        ]
        pairs.append((lam[0], where(~problem.start_masks.free, values.start)))
        return values.cost + sum(jnp.sum(a * b) for a, b in pairs), values

    zeros = jnp.zeros((len(point.states), problem.dynamics.tangent_size), x0.dtype), jnp.zeros_like(point.controls)
    (value, values), (states, controls) = jax.value_and_grad(lagrangian, (0, 1), has_aux=True)(*zeros)
    return _Conditions(states, controls, values.gaps, values.start, values.equalities, values.inequalities, value)
