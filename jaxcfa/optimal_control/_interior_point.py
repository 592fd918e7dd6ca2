"""Inequalities by a primal-dual interior point, equalities by proximal multipliers: linear-quadratic problems remain.

Inequalities are elastic: `g + s - e = 0` with slack s and excess e, both positive, and a price for the excess (an
exact penalty: Nocedal & Wright, Numerical Optimization, 2006, chapter 17; Gould, Orban & Toint, An interior-point
l1-penalty method for nonlinear optimization, 2003). For given g both have a closed form, so that every point is an
interior one, and no step is too long for the bounds. Newton's method on `s z = mu` and `e (price - z) = mu` leaves
terms in the stages' own quadratic models. Equalities `h = 0` become `h = rho (y_new - y)`, whose multipliers converge
at once if rho is small, and which tolerates redundant rows.
"""

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..numerics import product, transpose
from ..one_function import as_one_function
from ..structured import (
    AbstractStageSolver,
    Extremal,
    FactoredLinearQuadratic,
    LinearQuadratic,
    LinearTerms,
    Riccati,
    RiccatiFactors,
    Sequential,
)
from ..structured._riccati import RICCATI
from ..structured._starts import Start, StartMasks, where
from ._local import LocalModel, Multipliers, Rows, StageModel, Values, linear_quadratic_of

_NEAR = 1e10  # how much less than on the central path multipliers may be, and their distance from the price


class Barrier(NamedTuple):
    """What keeps inequalities: the barrier `parameter` mu, and the `price` of their violation."""

    parameter: Float[Array, ""]
    price: Float[Array, ""]

    def divided(self, g: Float[Array, "*k"]) -> tuple[Float[Array, "*k"], Float[Array, "*k"]]:
        """Slack and excess: the minimum of `price e - mu (log s + log e)` where `g + s = e`."""
        m = 2 * self.parameter / self.price
        size = jnp.abs(g)
        far = size + jnp.hypot(size, m)
        large, small = 0.5 * (m + far), 0.5 * (m + m * (m / far))
        return jnp.where(g <= 0, large, small), jnp.where(g <= 0, small, large)

    def slack(self, g: Float[Array, "*k"]) -> Float[Array, "*k"]:
        return self.divided(g)[0]

    def multipliers(self, g: Float[Array, "*k"]) -> Float[Array, "*k"]:
        """Multipliers of the central path: the slope of the minimum."""
        return self.near(self.parameter / self.slack(g), g)

    def near(self, z: Float[Array, "*k"], g: Float[Array, "*k"]) -> Float[Array, "*k"]:
        """Multipliers, kept between zero and the price, and not too near to these."""
        slack, excess = self.divided(g)
        room = jnp.maximum(self.parameter / excess / _NEAR, 10 * jnp.finfo(g.dtype).eps * self.price)
        return jnp.minimum(jnp.maximum(z, self.parameter / slack / _NEAR), self.price - room)

    def pull(self, z: Float[Array, "*k"], g: Float[Array, "*k"]) -> tuple[Float[Array, "*k"], Float[Array, "*k"]]:
        """How the multipliers follow their rows, to first order: the rate, and the change where the rows stay."""
        slack, excess = self.divided(g)
        rate = 1 / (slack / z + excess / (self.price - z))
        return rate, rate * (g + self.parameter / z - self.parameter / (self.price - z))


class Point(NamedTuple):
    """States, controls, multipliers, and the `slack` s of the inequalities."""

    states: Float[Array, "T+1 nx"]
    controls: Float[Array, "T m"]
    multipliers: Multipliers
    slack: Rows


class Step(NamedTuple):
    """Displacements of states (in tangent vectors), controls and multipliers, the change of the `inequalities` along
    them to first order, and the feedback `gains`."""

    states: Float[Array, "T+1 n"]
    controls: Float[Array, "T m"]
    multipliers: Multipliers
    inequalities: Rows
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
    `equalities`, gaps too; `excess` of inequalities; `complementarity`, of slack or excess and multipliers, against the
    barrier parameter.
    """

    stationarity: Float[Array, ""]
    equalities: Float[Array, ""]
    excess: Float[Array, ""]
    complementarity: Float[Array, ""]

    @property
    def violation(self) -> Float[Array, ""]:
        """Violation of all constraints."""
        return jnp.maximum(self.equalities, self.excess)


@partial(as_one_function, derivatives=False, alike=False)
def newton_step(
    local: LocalModel,
    point: Point,
    barrier: Barrier,
    proximity: Float[Array, ""],
    regularization: Float[Array, ""],
    start: Start,
    solver: AbstractStageSolver,
) -> Step:
    """The solution of the linearised conditions; `proximity` is rho, and Hessians have the `regularization` added."""
    problem, terms = linear_quadratic(local, point, barrier, proximity, regularization, start)
    factored = problem.factor(solver)
    # The next iteration mends what rounding leaves, where that is little.
    exact = isinstance(solver, Riccati) and isinstance(solver.schedule, Sequential)
    found = factored.solve(terms, refined=not exact)
    return recovered(local, point, found, barrier, proximity, _gains(factored))


def _gains(factored: FactoredLinearQuadratic) -> Float[Array, "T m n"]:
    """Gains of the optimal feedback, by a Riccati recursion where the factors have none."""
    factors = factored.factors
    if not isinstance(factors, RiccatiFactors):
        factors = RICCATI.factor(lax.stop_gradient(factored.problem).stages())
    return factors.gains


def linear_quadratic(
    local: LocalModel,
    point: Point,
    barrier: Barrier,
    proximity: Float[Array, ""],
    regularization: Float[Array, ""],
    start: Start,
) -> tuple[LinearQuadratic, LinearTerms]:
    """The problem that is left for the displacements, and its linear terms."""
    values = local.values
    g, z = values.inequalities, point.multipliers.inequalities
    weights = jax.tree.map(lambda z, g: barrier.pull(z, g)[0], z, g)
    pushes = jax.tree.map(lambda z, g: z + barrier.pull(z, g)[1], z, g)

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


def rows_along(local: LocalModel, states: Float[Array, "T+1 n"], controls: Float[Array, "T m"]) -> tuple[Rows, Rows]:
    """How equalities and inequalities change along displacements, to first order."""
    z = jnp.concatenate([states[:-1], controls], axis=-1)

    def along(stages: Array, end: Array) -> Rows:
        return Rows(jnp.einsum("tkz,tz->tk", stages, z, precision="highest"), product(end, states[-1]))

    stages, end = local.stages, local.end
    return along(stages.equalities, end.equalities), along(stages.inequalities, end.inequalities)


def recovered(
    local: LocalModel,
    point: Point,
    found: Extremal,
    barrier: Barrier,
    proximity: Float[Array, ""],
    gains: Float[Array, "T m n"],
) -> Step:
    """The displacements of multipliers that belong to those of states and controls."""
    values, multipliers = local.values, point.multipliers
    dh, dg = rows_along(local, found.states, found.controls)
    equalities = jax.tree.map(lambda h, dh: (h + dh) / proximity, values.equalities, dh)

    def followed(z: Array, g: Array, dg: Array) -> Array:
        rate, change = barrier.pull(z, g)
        return change + rate * dg

    inequalities = jax.tree.map(followed, multipliers.inequalities, values.inequalities, dg)
    costates = found.costates - multipliers.costates
    return Step(found.states, found.controls, Multipliers(costates, equalities, inequalities), dg, gains)


def optimality(local: LocalModel, point: Point, barrier: Barrier, start: Start) -> Optimality:
    """How far a point is from satisfying the optimality conditions."""
    values, (lam, y, z) = local.values, point.multipliers

    def products(z: Array, g: Array) -> Array:
        slack, excess = barrier.divided(g)
        return jnp.stack([slack * z, excess * (barrier.price - z)]) - barrier.parameter

    scale = jnp.maximum(1, largest(lam, *y, *z) / 100)
    return Optimality(
        largest(*_slopes(local, point.multipliers, start)) / scale,
        largest(values.gaps, values.start, *values.equalities),
        excess(values),
        largest(*jax.tree.map(products, z, values.inequalities)) / scale,
    )


def distance_to_feasible(
    local: LocalModel, multipliers: Multipliers, start: Start, extent: Float[Array, ""], effort: Float[Array, ""]
) -> Float[Array, ""]:
    """A lower bound for the size of every displacement that satisfies all constraints to first order: the largest of
    its entries, of states relative to `extent` and of controls relative to `effort`.

    For values c and Jacobians J of the constraints and any multipliers m, positive for inequalities, such a
    displacement dz has `m . c + (J^T m) . dz <= 0`. Where there is none, multipliers grow in a direction in which
    `J^T m` vanishes, and with them this bound (Farkas' lemma). It is negative, or NaN, where they show nothing.
    """
    values, (lam, y, z) = local.values, multipliers
    rows = values.start, values.gaps, *values.equalities, *values.inequalities
    violated = sum(jnp.sum(m * c) for m, c in zip((lam[0], lam[1:], *y, *z), rows, strict=True))
    states, controls, end = (jnp.sum(jnp.abs(x)) for x in _slopes(_without_costs(local), multipliers, start))
    return violated / (extent * (states + end) + effort * controls)


def _without_costs(local: LocalModel) -> LocalModel:
    stages, end = (x._replace(gradient=jnp.zeros_like(x.gradient)) for x in (local.stages, local.end))
    return local._replace(stages=stages, end=end)


def _slopes(
    local: LocalModel, multipliers: Multipliers, start: Start
) -> tuple[Float[Array, "T n"], Float[Array, "T m"], Float[Array, "n"]]:
    """The gradient of the Lagrangian by all states but the last, the controls, and the last state."""
    n, lam = local.transition.shape[-1], multipliers.costates
    stages, end = slopes_of_lagrangian(local, multipliers)
    states, controls, end = stages[:, :n] - lam[:-1], stages[:, n:], end - lam[-1]
    free, periodic = StartMasks.of(start, n)
    if free.any():
        states = states.at[0].add(where(free, lam[0]))
    if periodic.any():
        end = end + where(periodic, lam[0])
    return states, controls, end


def slopes_of_lagrangian(local: LocalModel, multipliers: Multipliers) -> tuple[Float[Array, "T z"], Float[Array, "n"]]:
    """The gradients of the Lagrangian by (x, u) of every stage and x of the end, but for the states' own costates."""
    lam, y, z = multipliers
    rows = _transposed(local.stages.equalities, y.stages) + _transposed(local.stages.inequalities, z.stages)
    reached = (_transposed(x, lam[1:]) for x in (local.transition, local.input))
    stages = local.stages.gradient + rows + jnp.concatenate([*reached], axis=-1)
    end = local.end.gradient + product(y.end, local.end.equalities) + product(z.end, local.end.inequalities)
    return stages, end


def fraction_to_boundary(x: Rows, dx: Rows, fraction: Float[Array, ""]) -> Float[Array, ""]:
    """The longest step up to 1 that leaves `1 - fraction` of every positive number."""

    def longest(x: Array, dx: Array) -> Array:
        return jnp.min(jnp.where(dx < 0, -fraction * x / jnp.where(dx < 0, dx, 1), 1), initial=1.0)

    return jnp.minimum(longest(x.stages, dx.stages), longest(x.end, dx.end))


def violation(values: Values) -> Float[Array, ""]:
    """The largest violation of gaps and constraints."""
    return largest(values.gaps, values.start, *values.equalities, excess(values))


def excess(values: Values) -> Float[Array, ""]:
    """The largest violation of inequalities."""
    return jnp.max(_flat(values.inequalities), initial=0)


def infeasibility(values: Values, share: Float[Array, ""]) -> Float[Array, ""]:
    """The norm of gaps, times their `share`, and equalities; the excess of inequalities has its price."""
    return norm(share * values.gaps, share * values.start, *values.equalities)


def gap_norm(values: Values) -> Float[Array, ""]:
    """The norm of gaps, also that at the start."""
    return norm(values.gaps, values.start)


def remaining(step: Step, proximity: Float[Array, ""]) -> Float[Array, ""]:
    """What is left of `infeasibility` after a whole step of the linearised problem: the equalities yield a little."""
    return proximity * norm(*step.multipliers.equalities)


def bound_terms(values: Values, barrier: Barrier) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """What inequalities add to the cost: `-sum(log s + log e)`, for mu, and `sum(e)`, for the price."""
    g = _flat(values.inequalities)
    slack, excess = barrier.divided(g)
    # Without what far bounds have in common: e tends to mu / price.
    return -jnp.sum(jnp.log(slack) + jnp.log(excess * barrier.price / barrier.parameter)), jnp.sum(excess)


def slope(local: LocalModel, step: Step, barrier: Barrier) -> Float[Array, ""]:
    """The derivative of the cost and of what inequalities add to it along a step."""
    z = jnp.concatenate([step.states[:-1], step.controls], axis=-1)
    along = jnp.sum(local.stages.gradient * z) + jnp.sum(local.end.gradient * step.states[-1])
    pulls = jax.tree.map(lambda g, dg: dg / barrier.slack(g), local.values.inequalities, step.inequalities)
    return along + barrier.parameter * jnp.sum(_flat(pulls))


def _transposed(jacobians: Float[Array, "T k z"], x: Float[Array, "T k"]) -> Float[Array, "T z"]:
    return jnp.einsum("tkz,tk->tz", jacobians, x, precision="highest")


def largest(*arrays: Array) -> Float[Array, ""]:
    """The largest absolute value."""
    return jnp.max(_flat(map(jnp.abs, arrays)), initial=0)


def norm(*arrays: Array) -> Float[Array, ""]:
    return jnp.sqrt(jnp.sum(jnp.square(_flat(arrays))))


def _flat(arrays: Iterable[Array]) -> Float[Array, "_"]:
    return jnp.concatenate([x.reshape(-1) for x in arrays])
