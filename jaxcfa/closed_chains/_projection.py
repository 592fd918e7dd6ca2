"""Configurations and velocities that satisfy constraints."""

from collections.abc import Callable, Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ..compilation import jit_of_one_state
from ..configuration import displacement, integrate
from ..model import AbstractConstraint, Model
from ..model._arguments import is_concrete, positive_integer, positive_number
from ..motion import BodyMotions, motions_at
from ..numerics import choose, jvp_of_perturbed, product, with_rule
from ..one_function import as_one_function
from ..structured import AbstractSchedule
from ..typing import Configuration, ConfigurationLike, Velocity, VelocityLike
from ._checks import prepared, row_labels
from ._delassus import LEAST_NORM, AbstractConstraintSolver, Direct
from ._relations import Constraints, residuals_of_constraints, row_starts
from ._status import ConstraintStatus, explain
from ._system import Geometry, Plan, assemble, geometry, make_plan, solve_implicitly

_START, _SMALLEST, _LARGEST = 1e-3, 1e-12, 1e6  # of the damping, relative to Delassus' matrix


class ProjectedConfiguration(eqx.Module):
    """A configuration in which loops are closed.

    **Fields:** `q` (nq,); `residual` (k,) of the constraints there; `closed`: whether that is within the tolerance,
    and q finite; `iterations` it took.
    """

    q: Float[Array, "nq"]
    residual: Float[Array, "k"]
    closed: Bool[Array, ""]
    iterations: Int[Array, ""]


def project_configuration(
    model: Model,
    constraints: AbstractConstraint | Sequence[AbstractConstraint],
    q: ConfigurationLike,
    tolerance: float | None = None,
    max_iterations: int = 100,
    schedule: AbstractSchedule | None = None,
) -> ProjectedConfiguration:
    """A configuration near `q` in which all loops are closed.

    Levenberg-Marquardt steps along the manifold of configurations, each the smallest in the metric of the mass matrix:
    `dq = -M^-1 J^T (J M^-1 J^T + nu)^-1 phi`. Joints that should not move can be held by
    `couple(model, joint, None, ...)`.

    **Arguments:** `constraints`, one or several, such as `model.constraints`; `q` (nq,), the start; `tolerance` of
    every residual [m, rad]: by default `10 eps^(3/4)`, 2e-11 in float64, for angles, and for lengths that times a
    length of the mechanism; `max_iterations`: the largest number of steps; `schedule` as for `mass_operator`.

    **Returns:** a `ProjectedConfiguration`. Derivatives with respect to the model and the constraints are those of the
    manifold, of any order, and those with respect to `q` of the projection onto its tangent space.

    **Raises:** `ValueError` if a loop cannot be closed from here (traced: see `closed`), and as
    `constrained_forward_dynamics`.
    """
    model, constraints, (q,) = prepared(model, constraints, q=q)
    max_iterations = positive_integer("max_iterations", max_iterations)
    if tolerance is not None and is_concrete(tolerance):
        positive_number("tolerance", tolerance)
    plan = make_plan(model, LEAST_NORM, schedule)
    found = _project(plan, constraints, model, q, tolerance, jnp.asarray(max_iterations))
    explain(ConstraintStatus.OK, found.q, model, constraints, [q])
    if is_concrete(found) and not bool(found.closed):
        worst = int(jnp.argmax(jnp.abs(found.residual)))
        label = row_labels(model, constraints)[worst]
        raise ValueError(
            f"The loops cannot be closed from this configuration: after {int(found.iterations)} iterations "
            f"{label} is still off by {float(abs(found.residual[worst])):.3g} (m or rad). "
            "Start nearer to a closed configuration, or see whether the constraints contradict one another."
        )
    return found


def project_velocity(
    model: Model,
    constraints: AbstractConstraint | Sequence[AbstractConstraint],
    q: ConfigurationLike,
    v: VelocityLike,
    schedule: AbstractSchedule | None = None,
) -> Velocity:
    """The velocity (nv,) nearest to `v`, in the metric of the mass matrix, that satisfies all constraints.

    It is what an inelastic `impulse` of the constraints leaves.

    **Arguments:** `constraints`, one or several, such as `model.constraints`; `q` (nq,), with the loops closed; `v`
    (nv,) [rad/s, m/s]; `schedule` as for `mass_operator`.

    **Raises:** as `constrained_forward_dynamics`.
    """
    model, constraints, (q, v) = prepared(model, constraints, q=q, v=v)
    projected = _project_velocity(make_plan(model, LEAST_NORM, schedule), constraints, model, q, v)
    explain(ConstraintStatus.OK, projected, model, constraints, [q, v])
    return projected


@partial(jit_of_one_state, jit=eqx.filter_jit)
@partial(as_one_function, derivatives=False)
def _project_velocity(
    plan: Plan, constraints: Constraints, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]
) -> Velocity:
    where, motions, _ = _at_rest(plan, constraints, model, q)
    return v + _closest(plan, model, motions, where)(-product(where.jacobian, v))


def project_step(
    model: Model,
    constraints: Constraints,
    start: Float[Array, "nq"],
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    dt: Float[Array, ""],
    solver: AbstractConstraintSolver,
    iterations: int,
) -> tuple[Configuration, Velocity]:
    """The state `q`, `v` after a step from the closed configuration `start`, moved to where the loops are closed."""
    model, constraints, (start, q, v) = prepared(model, constraints, q0=start, q=q, v=v)
    plan = make_plan(model, solver, None)

    def stage(state: tuple[Array, Array], is_first: Array) -> tuple[tuple[Array, Array], None]:
        origin, motions, _ = _at_rest(plan, constraints, model, jnp.where(is_first, start, state[0]))
        closing = jax.vmap(_closest(plan, model, motions, origin))

        def improve(_, state: tuple[Array, Array]) -> tuple[Array, Array]:
            q, v = state
            where, _, residual = _at_rest(plan, constraints, model, q)
            change, tangent = closing(-jnp.stack([residual, product(where.jacobian, v)]))
            return integrate(model, q, change), v + jnp.where(is_first, change / dt, tangent)

        return lax.fori_loop(0, iterations, improve, state), None

    # First along the constraint forces at the start, with the velocity they give, as in SHAKE: without that the energy
    # of Euler's method grows without bound. A loop, so that the program has all this once.
    state, _ = lax.scan(stage, (q, v), jnp.array([True, False]))
    return state


def _closest(
    plan: Plan, model: Model, motions: BodyMotions, where: Geometry
) -> Callable[[Float[Array, "k"]], Velocity]:
    """The function that gives the least x with `J x = demanded`, in the metric of the mass matrix."""
    system, still = assemble(model, plan, motions, where), jnp.zeros(model.nv, where.jacobian.dtype)
    return lambda demanded: solve_implicitly(model, motions, system, where, still, demanded)[0]


@partial(jit_of_one_state, jit=eqx.filter_jit)
def _project(
    plan: Plan,
    constraints: Constraints,
    model: Model,
    q: Float[Array, "nq"],
    tolerance: float | None,
    most: Int[Array, ""],
) -> ProjectedConfiguration:
    constants = lax.stop_gradient((constraints, model, q))
    found = _search(plan, *constants, tolerance, most)
    q_found, closed = _refined(plan, constants[1], tolerance, found)
    q = _projected(plan, constraints, model, q, q_found, closed)
    return ProjectedConfiguration(q, found.residual, closed, found.iterations)


def _as_found(
    plan: Plan,
    constraints: Constraints,
    model: Model,
    start: Float[Array, "nq"],
    found: Float[Array, "nq"],
    closed: Bool[Array, ""],
) -> Configuration:
    """The configuration `found` from this start, with the derivatives of the manifold."""
    return found


def _rate_of_projected(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    """The least displacement that keeps residuals as they are, beside the start's, in the metric of the mass matrix.

    All of it is taken at the differentiable result, so that it can be differentiated again.
    """
    q = _projected(*primals)
    plan, constraints, model, start, _, closed = primals
    _, *parameters_dot, start_dot, _, _ = tangents
    _, opened = jvp_of_perturbed(
        lambda constraints, model: _at_rest(plan, constraints, model, q)[2], (constraints, model), tuple(parameters_dot)
    )
    _, nearby = jvp_of_perturbed(lambda x: displacement(model, start, x), (start,), (start_dot,))
    where, motions, _ = _at_rest(plan, constraints, model, q)
    step = nearby - _closest(plan, model, motions, where)(product(where.jacobian, nearby) + opened)
    _, q_dot = jax.jvp(lambda x: integrate(model, q, x), (jnp.zeros_like(step),), (jnp.where(closed, step, 0),))
    return q, q_dot


_projected = with_rule(_as_found, _rate_of_projected)


class _Search(eqx.Module):
    """The best configuration so far, with all that a step from there needs."""

    q: Float[Array, "nq"]
    residual: Float[Array, "k"]
    delassus: Float[Array, "k k"]
    mobility: Float[Array, "nv k"]
    scale: Float[Array, "k"]
    reach: Float[Array, "k"]
    damping: Float[Array, ""]
    iterations: Int[Array, ""]


def _search(
    plan: Plan,
    constraints: Constraints,
    model: Model,
    q: Float[Array, "nq"],
    tolerance: float | None,
    most: Int[Array, ""],
) -> _Search:
    """Damped steps until all residuals are within the tolerance, or no step makes them smaller."""

    k, dtype = int(row_starts(constraints)[-1]), q.dtype

    def unfinished(best: _Search) -> Array:
        is_open = jnp.any(jnp.abs(best.residual) > _allowed(tolerance, best.reach))
        return is_open & (best.damping < _LARGEST) & (best.iterations <= most)

    @as_one_function
    def improve(plan: Plan, constraints: Constraints, model: Model, best: _Search) -> _Search:
        damped = best.delassus + best.damping * jnp.diag(best.scale)
        step = -product(best.mobility, Direct().factor(damped, best.scale).solve(best.residual))
        tried = integrate(model, best.q, jnp.where(best.iterations == 0, 0, step))
        where, motions, residual = _at_rest(plan, constraints, model, tried)
        system = assemble(model, Plan(Direct(), plan.schedule, plan.by_scan), motions, where)
        found = _Search(
            tried,
            residual,
            system.delassus.matrix,
            system.mobility(jnp.eye(k, dtype=dtype)),
            system.scale,
            where.reach,
            jnp.maximum(best.damping / 10, _SMALLEST),
            best.iterations,
        )
        # In a measure without units, the same for both.
        better = jnp.sum(residual**2 / best.scale) < jnp.sum(best.residual**2 / best.scale)
        chosen = choose(better, found, best)
        damping = jnp.where(better, found.damping, jnp.maximum(best.damping, 1e-6) * 10)
        return eqx.tree_at(lambda s: (s.damping, s.iterations), chosen, (damping, best.iterations + 1))

    nothing = _Search(
        q,
        jnp.full(k, jnp.inf, dtype),
        jnp.zeros((k, k), dtype),
        jnp.zeros((model.nv, k), dtype),
        jnp.ones(k, dtype),
        jnp.ones(k, dtype),
        jnp.asarray(10 * _START, dtype),
        jnp.zeros((), int),
    )
    # The first iteration only looks at the start.
    found = lax.while_loop(unfinished, lambda best: improve(plan, constraints, model, best), nothing)
    return eqx.tree_at(lambda s: s.iterations, found, found.iterations - 1)


@as_one_function
def _refined(
    plan: Plan, model: Model, tolerance: float | None, found: _Search
) -> tuple[Configuration, Bool[Array, ""]]:
    """The configuration after one more step, for the digits that the tolerance leaves, and whether the residual before
    was within the tolerance."""
    closed = jnp.all(jnp.abs(found.residual) <= _allowed(tolerance, found.reach))
    step = -product(found.mobility, plan.solver.factor(found.delassus, found.scale).solve(found.residual))
    q = integrate(model, found.q, jnp.where(closed, step, 0))
    # Not so where the mass matrix is singular, though loops may be closed there.
    return q, closed & jnp.all(jnp.isfinite(q))


def _allowed(tolerance: float | None, reach: Float[Array, "k"]) -> Float[Array, "k"]:
    if tolerance is None:
        return 10 * float(jnp.finfo(reach.dtype).eps) ** 0.75 * reach
    return jnp.full_like(reach, tolerance)


def _at_rest(
    plan: Plan, constraints: Constraints, model: Model, q: Float[Array, "nq"]
) -> tuple[Geometry, BodyMotions, Float[Array, "k"]]:
    """The geometry, its motions, and by how much the loops are open."""
    still = jnp.zeros(model.nv, q.dtype)
    motions = motions_at(model, q, still, plan.schedule)
    where = geometry(model, constraints, motions)
    return where, motions, residuals_of_constraints(model, constraints, where.bodies.places, q)
