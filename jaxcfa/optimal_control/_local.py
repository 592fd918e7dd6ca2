"""A problem near a motion: values, and the linear and quadratic model of every stage."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr
from jaxtyping import Array, Float

from ..compilation import jit_of_one_state
from ..numerics import product, transpose
from ..one_function import as_one_function
from ..structured import LinearQuadratic, LinearTerms
from ..structured._products import matvec
from ..structured._starts import Start, where
from ._dynamics import AbstractDynamics
from ._problem import Parts, Problem, end_parts, stage_parts
from ._stage import Stage

Hessian = Literal["secant", "gauss_newton", "exact"]


class Rows(NamedTuple):
    """Something for every row of the constraints: of all `stages` (T, k), and of the `end` (k,)."""

    stages: Float[Array, "T k"]
    end: Float[Array, "k_end"]


class Values(NamedTuple):
    """**Fields:** `cost`; `gaps` `f(x_t, u_t) - x_{t+1}` (T, n), in tangent vectors; `start` (n,): what is missing at
    the start; rows of `equalities` and `inequalities`."""

    cost: Float[Array, ""]
    gaps: Float[Array, "T n"]
    start: Float[Array, "n"]
    equalities: Rows
    inequalities: Rows


class StageModel(NamedTuple):
    """The derivatives at one stage by displacements of z = (x, u), or by those of x at the end."""

    gradient: Float[Array, "z"]
    hessian: Float[Array, "z z"]
    equalities: Float[Array, "e z"]
    inequalities: Float[Array, "i z"]


class LocalModel(NamedTuple):
    """**Fields:** `values`; `transition` A and `input` B of the dynamics; models of the `stages` (T) and the `end`."""

    values: Values
    transition: Float[Array, "T n n"]
    input: Float[Array, "T n m"]
    stages: StageModel
    end: StageModel


class Multipliers(NamedTuple):
    """Of the dynamics (T + 1, n), of which the first belongs to the start, and of the rows of the constraints."""

    costates: Float[Array, "T+1 n"]
    equalities: Rows
    inequalities: Rows


@partial(jit_of_one_state, jit=eqx.filter_jit)
def no_multipliers(problem: Problem, x0: Float[Array, "nx"]) -> Multipliers:
    """Zeros, in the shapes of a problem's multipliers."""
    dynamics = problem.phases[0].dynamics

    def rows(parts: Parts, stage: Stage) -> tuple[Array, Array]:
        return parts.equalities(stage), parts.inequalities(stage)

    def at_stage(u: Array) -> tuple[Array, Array]:
        return rows(stage_parts(problem, 0, x0.dtype), Stage(dynamics, x0, u, jnp.zeros((), int)))

    of_stages = jax.eval_shape(at_stage, jax.ShapeDtypeStruct((dynamics.control_size,), x0.dtype))
    of_end = jax.eval_shape(lambda: rows(end_parts(problem), end_stage(problem, x0[None])))

    def zeros(*shape: int) -> Array:
        return jnp.zeros(shape, x0.dtype)

    kinds = (Rows(zeros(problem.steps, *a.shape), zeros(*b.shape)) for a, b in zip(of_stages, of_end, strict=True))
    return Multipliers(zeros(problem.steps + 1, problem.dynamics.tangent_size), *kinds)


def evaluate(
    problem: Problem,
    x0: Float[Array, "nx"],
    states: Float[Array, "T+1 nx"],
    controls: Float[Array, "T m"],
    gaps: Float[Array, "T n"] | None = None,
) -> Values:
    """Values of everything along a motion, whose `gaps` may be known."""

    def at_stage(phase: int, here: Stage, following):
        found = gap(here, following) if gaps is None else None
        return found, _values(stage_parts(problem, phase, here.x.dtype), here)

    found, of_stages = over_stages(problem, at_stage, states[:-1], controls, states[1:])
    of_end = _values(end_parts(problem), end_stage(problem, states))
    return _joined(found if gaps is None else gaps, start_gap(problem, x0, states), of_stages, of_end)


def gaps_of(problem: Problem, states: Float[Array, "T+1 nx"], controls: Float[Array, "T m"]) -> Float[Array, "T n"]:
    """The gaps between the stages of a motion."""
    return over_stages(problem, lambda _, here, following: gap(here, following), states[:-1], controls, states[1:])


def model_of(
    problem: Problem, x0: Float[Array, "nx"], states: Float[Array, "T+1 nx"], controls: Float[Array, "T m"]
) -> LocalModel:
    """The quadratic model of a problem about a motion.

    Its Hessians are those of the costs, of `Cost` by Gauss and Newton, of `SmoothCost` projected.
    """

    def at_stage(phase: int, here: Stage, following):
        after, a, b = here.dynamics.linearized_step_at(here)
        model, values = _model(stage_parts(problem, phase, here.x.dtype), here)
        return (here.dynamics.minus(after, following), values), a, b, model

    (gaps, of_stages), a, b, stages = over_stages(problem, at_stage, states[:-1], controls, states[1:])
    end, of_end = _model(end_parts(problem), end_stage(problem, states))
    return LocalModel(_joined(gaps, start_gap(problem, x0, states), of_stages, of_end), a, b, stages, end)


def with_curvature(
    problem: Problem,
    local: LocalModel,
    states: Float[Array, "T+1 nx"],
    controls: Float[Array, "T m"],
    multipliers: Multipliers,
) -> LocalModel:
    """The model with the Hessians of the Lagrangian, which may be indefinite."""
    last, (costates, equalities, inequalities) = end_parts(problem), multipliers

    def at_stage(phase: int, here: Stage, following, costate, *rows):
        parts = stage_parts(problem, phase, here.x.dtype)

        def lagrangian(stage: Stage) -> Array:
            return _lagrangian(parts, stage, *rows) + _inner(costate, gap(stage, following))

        return by_displacements(jax.hessian, lagrangian, here)

    rows = costates[1:], equalities.stages, inequalities.stages
    stages = over_stages(problem, at_stage, states[:-1], controls, states[1:], *rows)

    def lagrangian_of_end(stage: Stage) -> Array:
        return _lagrangian(last, stage, equalities.end, inequalities.end)

    end = by_displacements(jax.hessian, lagrangian_of_end, end_stage(problem, states))
    return local._replace(stages=local.stages._replace(hessian=stages), end=local.end._replace(hessian=end))


def unknown_model(multipliers: Multipliers, m: int) -> LocalModel:
    """Zeros, in the shapes of a model of a problem with such multipliers, and with controls of m dimensions."""
    costates, *rows = jax.tree.map(jnp.zeros_like, multipliers)
    (_, n), dtype = costates.shape, costates.dtype

    def stage(size: int, counts: list[int], *axes: int) -> StageModel:
        shapes = (size,), (size, size), *((count, size) for count in counts)
        return StageModel(*(jnp.zeros((*axes, *shape), dtype) for shape in shapes))

    steps = len(costates) - 1
    return LocalModel(
        Values(jnp.zeros((), dtype), costates[1:], costates[0], *rows),
        jnp.zeros((steps, n, n), dtype),
        jnp.zeros((steps, n, m), dtype),
        stage(n + m, [x.stages.shape[1] for x in rows], steps),
        stage(n, [x.end.shape[0] for x in rows]),
    )


def linear_quadratic_of(
    local: LocalModel,
    hessians: tuple[Float[Array, "T z z"], Float[Array, "n n"]],
    gradients: tuple[Float[Array, "T z"], Float[Array, "n"]],
    start: Start = "given",
) -> tuple[LinearQuadratic, LinearTerms]:
    """The problem for displacements with these Hessians and gradients, of the stages and of the end, and its terms.

    Gaps and what is missing at the start are those of `local.values`.
    """
    n, (stages, end), (slopes, end_slope) = local.transition.shape[-1], hessians, gradients
    state_cost = jnp.concatenate([stages[:, :n, :n], end[None]])
    problem = LinearQuadratic(
        local.transition, local.input, state_cost, stages[:, n:, n:], stages[:, n:, :n], start=start
    )
    return problem, problem.terms(
        offsets=local.values.gaps,
        state_gradients=jnp.concatenate([slopes[:, :n], end_slope[None]]),
        control_gradients=slopes[:, n:],
        start=local.values.start,
    )


def end_stage(problem: Problem, states: Float[Array, "T+1 nx"]) -> Stage:
    """The end of a motion, as the terms of a problem see it."""
    return Stage(problem.dynamics, states[-1], None, jnp.asarray(problem.steps))


def _joined(gaps: Float[Array, "T n"], start: Float[Array, "n"], of_stages: tuple, of_end: tuple) -> Values:
    """Values from costs, equalities and inequalities of all stages and of the end."""
    (costs, equalities, inequalities), (end_cost, end_equalities, end_inequalities) = of_stages, of_end
    rows = Rows(equalities, end_equalities), Rows(inequalities, end_inequalities)
    return Values(jnp.sum(costs) + end_cost, gaps, start, *rows)


def gap(here: Stage, following: Float[Array, "nx"]) -> Float[Array, "n"]:
    """The displacement from the state that follows to the one that the dynamics reach."""
    return here.dynamics.minus(here.dynamics.step(here.x, here.u, here.t), following)


def start_gap(problem: Problem, x0: Float[Array, "nx"], states: Float[Array, "T+1 nx"]) -> Float[Array, "n"]:
    """The displacement of the first state that is missing to where it has to be."""
    free, periodic = problem.start_masks
    to_given, to_last = (problem.dynamics.minus(x, states[0]) for x in (x0, states[-1]))
    return where(~free, where(periodic, to_last, to_given))


def over_stages(problem: Problem, function: Callable, states: Array, controls: Array, *others):
    """`function(phase, stage, ...)` at all stages at once, and the results of all in one.

    It is called once for each phase, with its number.
    """
    found, first, arrays = [], 0, (states, controls, jnp.arange(problem.steps), *others)
    for number, phase in enumerate(problem.phases):
        own = jax.tree.map(lambda x, first=first, phase=phase: x[first : first + phase.steps], arrays)

        @partial(as_one_function, derivatives=False)
        def at_stage(dynamics: AbstractDynamics, x, u, t, *rest, number=number):
            return function(number, Stage(dynamics, x, u, t), *rest)

        found.append(jax.vmap(partial(at_stage, phase.dynamics))(*own))
        first += phase.steps
    return found[0] if len(found) == 1 else jax.tree.map(lambda *x: jnp.concatenate(x), *found)


def projected(hessian: Float[Array, "z z"]) -> Float[Array, "z z"]:
    """The nearest positive semidefinite matrix."""
    values, vectors = jnp.linalg.eigh(hessian)
    return product(vectors * jnp.maximum(values, 0)[None], vectors.T)


def _values(parts: Parts, stage: Stage) -> tuple[Array, Array, Array]:
    return parts.cost(stage), parts.equalities(stage), parts.inequalities(stage)


def _lagrangian(parts: Parts, stage: Stage, equalities: Array, inequalities: Array) -> Float[Array, ""]:
    rows = _inner(equalities, parts.equalities(stage)) + _inner(inequalities, parts.inequalities(stage))
    return parts.cost(stage) + rows


def by_displacements(derivative: Callable, function: Callable[[Stage], Array], here: Stage) -> Array:
    """A derivative, such as `jax.hessian`, of a function of a stage by displacements z of it."""
    sizes = _sizes(here)
    splits = np.cumsum(sizes)[:-1].tolist()
    zero = jnp.zeros(sum(sizes), here.x.dtype)
    return derivative(lambda dz: function(here.displaced(*jnp.split(dz, splits))))(zero)


def _sizes(here: Stage) -> tuple[int, ...]:
    """Of the parts of z by which a stage is displaced."""
    dynamics = here.dynamics
    return dynamics.tangent_blocks if here.is_end else (*dynamics.tangent_blocks, dynamics.control_size)


def _model(parts: Parts, here: Stage) -> tuple[StageModel, tuple[Array, Array, Array]]:
    """The model of one stage, and its values.

    Rows are differentiated by one part of z after the other: what does not depend on a part is a zero known while
    tracing, and costs nothing.
    """
    zeros = [jnp.zeros(size, here.x.dtype) for size in _sizes(here)]
    values = _values(parts, here)

    def rows(*dz: Array):
        stage = here.displaced(*dz, first_order=True)
        return [x for x, _ in parts.each_weighted(stage)], parts.equalities(stage), parts.inequalities(stage)

    by_part = [jax.jacfwd(rows, i)(*zeros) for i in range(len(zeros))]
    jacobians, equalities, inequalities = zip(*by_part, strict=True)
    gradient, hessian = _gauss_newton(parts.each_weighted(here), jacobians, _dependence(rows, zeros), zeros)
    if parts.has_smooth_costs:
        slopes = jax.grad(lambda dz: parts.smooth(here.displaced(*dz)))(zeros)
        gradient = gradient + jnp.concatenate(slopes)
        hessian = hessian + projected(by_displacements(jax.hessian, parts.smooth, here))
    joined = (jnp.concatenate(x, axis=-1) for x in (equalities, inequalities))
    return StageModel(gradient, hessian, *joined), values


def _dependence(rows: Callable, zeros: Sequence[Array]) -> list[list[bool]]:
    """The parts of z on which the residuals of each cost depend."""
    program = jax.make_jaxpr(rows)(*zeros).jaxpr
    number = len(program.outvars) - 2
    return [dce_jaxpr(program, [i == k for k in range(len(program.outvars))])[1] for i in range(number)]


def _gauss_newton(
    costs: Sequence[tuple[Array, Array]],
    jacobians: Sequence[Sequence[Array]],
    depends: Sequence[Sequence[bool]],
    zeros: Sequence[Float[Array, "_"]],
) -> tuple[Float[Array, "z"], Float[Array, "z z"]]:
    """Gradient and Hessian of residuals and their weights, block by block: of most, costs know nothing.

    `jacobians`: by each part of z, those of each cost; `zeros`: these parts.
    """
    gradient = list(zeros)
    blocks = [[jnp.zeros((len(x), len(y)), x.dtype) for y in zeros] for x in zeros]
    for k, (residual, weight) in enumerate(costs):
        own = [i for i, counts in enumerate(depends[k]) if counts]
        for i in own:
            weighted = transpose(weight[:, None] * jacobians[i][k])
            gradient[i] = gradient[i] + matvec(weighted, residual)
            for j in own:
                if j <= i:
                    blocks[i][j] = blocks[i][j] + product(weighted, jacobians[j][k])
    for i, row in enumerate(blocks):
        for j in range(i):
            blocks[j][i] = transpose(row[j])
    return jnp.concatenate(gradient), jnp.concatenate([jnp.concatenate(row, axis=1) for row in blocks])


def _inner(a: Array, b: Array) -> Float[Array, ""]:
    """Without a product of matrices, whose precision accelerators lower."""
    return jnp.sum(a * b)
