"""Configurations and velocities that satisfy constraints."""

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from .._arguments import as_arrays, is_concrete
from .._types import ConfigurationLike, Velocity, VelocityLike
from ..configuration import displacement, integrate
from ..model import AbstractConstraint, Model
from ..structured import AbstractSchedule
from ._delassus import LEAST_NORM, AbstractConstraintSolver, AbstractDelassus, Direct
from ._relations import Constraints, check_constraints, motion_of_constraints, row_labels
from ._system import Geometry, Plan, assemble, geometry, make_plan, solve_implicitly

_START, _SMALLEST, _LARGEST = 1e-3, 1e-12, 1e6  # of the damping, relative to Delassus' matrix


class ProjectedConfiguration(eqx.Module):
    """A configuration in which loops are closed.

    **Fields:** `q` (nq,); `residual` (k,) of the constraints there; `closed`: whether that is within the tolerance;
    `iterations` it took.
    """

    q: Float[Array, "nq"]
    residual: Float[Array, "k"]
    closed: Bool[Array, ""]
    iterations: Int[Array, ""]


def project_configuration(
    model: Model,
    constraints: AbstractConstraint | tuple[AbstractConstraint, ...] | list[AbstractConstraint],
    q: ConfigurationLike,
    tolerance: float | None = None,
    max_iterations: int = 100,
    schedule: AbstractSchedule | None = None,
) -> ProjectedConfiguration:
    """A configuration near `q` in which all loops are closed.

    Levenberg-Marquardt steps along the manifold of configurations, each the smallest in the metric of the mass matrix:
    `dq = -M^-1 J^T (J M^-1 J^T + nu)^-1 phi`. Joints that should not move can be held by
    `couple(model, joint, None, ...)`.

    **Arguments:** `q` (nq,), the start; `tolerance` of every residual [m, rad]: by default `10 eps^(3/4)`, 2e-11 in
    float64.

    **Returns:** a `ProjectedConfiguration`. Derivatives with respect to the model and the constraints are those of the
    manifold, and those with respect to `q` of the projection onto its tangent space.

    **Raises:** `ValueError` if a loop cannot be closed from here (traced: see `closed`), and as
    `constrained_forward_dynamics`.
    """
    constraints = check_constraints(model, constraints)
    (q,) = as_arrays(model, q=q)
    if max_iterations < 1:
        raise ValueError(f"max_iterations must be one or more, got {max_iterations}.")
    if tolerance is None:
        tolerance = 10 * float(jnp.finfo(q.dtype).eps) ** 0.75
    plan = make_plan(model, LEAST_NORM, schedule)
    found = _project(plan, constraints, model, q, jnp.asarray(tolerance, q.dtype), jnp.asarray(max_iterations))
    if is_concrete(found) and not bool(found.closed):
        worst = int(jnp.argmax(jnp.abs(found.residual)))
        raise ValueError(
            f"The loops cannot be closed from this configuration: after {int(found.iterations)} iterations "
            f"{row_labels(constraints)[worst]} is still off by {float(abs(found.residual[worst])):.3g} (m or rad). "
            "Start nearer to a closed configuration, or see whether the constraints contradict one another."
        )
    return found


def project_velocity(
    model: Model,
    constraints: AbstractConstraint | tuple[AbstractConstraint, ...] | list[AbstractConstraint],
    q: ConfigurationLike,
    v: VelocityLike,
    schedule: AbstractSchedule | None = None,
) -> Velocity:
    """The velocity (nv,) nearest to `v`, in the metric of the mass matrix, with which all constraints move along.

    It is what an inelastic `impulse` of the constraints leaves.

    **Raises:** as `constrained_forward_dynamics`.
    """
    constraints = check_constraints(model, constraints)
    q, v = as_arrays(model, q=q, v=v)
    return _project_velocity(make_plan(model, LEAST_NORM, schedule), constraints, model, q, v)


@eqx.filter_jit
def _project_velocity(
    plan: Plan, constraints: Constraints, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]
) -> Velocity:
    where = geometry(model, constraints, plan.schedule, q, v)
    change, _ = solve_implicitly(
        model, plan, assemble(model, plan, where), where, jnp.zeros_like(v), -where.jacobian @ v
    )
    return v + change


@eqx.filter_jit
def _project(
    plan: Plan,
    constraints: Constraints,
    model: Model,
    q: Float[Array, "nq"],
    tolerance: Float[Array, ""],
    most: Int[Array, ""],
) -> ProjectedConfiguration:
    found, iterations = lax.stop_gradient(_search(plan, constraints, model, q, tolerance, most))
    # One more step, which carries the derivatives: of the residual at a fixed point, and along the tangent space.
    where, residual = _open(plan, constraints, model, found)
    system = lax.stop_gradient(assemble(model, plan, where))
    closed = jnp.all(jnp.abs(residual) <= tolerance)
    nearby = displacement(model, lax.stop_gradient(q), q)
    step = nearby - system.mobility @ system.delassus.solve(system.jacobian @ nearby + residual)
    found = integrate(model, found, jnp.where(closed, step, 0))
    return ProjectedConfiguration(found, _open(plan, constraints, model, found)[1], closed, iterations)


def _search(
    plan: Plan,
    constraints: Constraints,
    model: Model,
    q: Float[Array, "nq"],
    tolerance: Float[Array, ""],
    most: Int[Array, ""],
) -> tuple[Float[Array, "nq"], Int[Array, ""]]:
    """Damped steps until all residuals are within the tolerance, or no step makes them smaller."""

    def unfinished(state: tuple[Array, ...]) -> Array:
        _, residual, damping, iteration = state
        return jnp.any(jnp.abs(residual) > tolerance) & (damping < _LARGEST) & (iteration < most)

    def improve(state: tuple[Array, ...]) -> tuple[Array, ...]:
        q, residual, damping, iteration = state
        where, _ = _open(plan, constraints, model, q)
        system = assemble(model, Plan(_Damped(damping), plan.schedule, plan.by_scan), where)
        tried = integrate(model, q, -system.mobility @ system.delassus.solve(residual))
        reached = _open(plan, constraints, model, tried)[1]
        better = jnp.sum(reached**2 / system.scale) < jnp.sum(residual**2 / system.scale)
        damping = jnp.where(better, jnp.maximum(damping / 10, _SMALLEST), jnp.maximum(damping, 1e-6) * 10)
        return jnp.where(better, tried, q), jnp.where(better, reached, residual), damping, iteration + 1

    residual = _open(plan, constraints, model, q)[1]
    start = q, residual, jnp.asarray(_START, q.dtype), jnp.zeros((), int)
    q, _, _, iterations = lax.while_loop(unfinished, improve, start)
    return q, iterations


def _open(
    plan: Plan, constraints: Constraints, model: Model, q: Float[Array, "nq"]
) -> tuple[Geometry, Float[Array, "k"]]:
    """The geometry at rest, and by how much the loops are open."""
    still = jnp.zeros(model.nv, q.dtype)
    where = geometry(model, constraints, plan.schedule, q, still)
    return where, motion_of_constraints(model, constraints, where.bodies, q, still, still).residual


class _Damped(AbstractConstraintSolver):
    """`(A + damping * scale)^-1`."""

    damping: Float[Array, ""]

    def factor(self, matrix: Float[Array, "k k"], scale: Float[Array, "k"]) -> AbstractDelassus:
        return Direct().factor(matrix + self.damping * jnp.diag(scale), scale)
