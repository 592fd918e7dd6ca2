"""The equations of motion of a mechanism with constraints, and their linear solution.

M qdd - J^T lambda = tau - C,    J qdd + (dJ/dt) v = 0
"""

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..defaults import choose_schedule
from ..dynamics._inverse import mass_product_of_motions
from ..dynamics._mass_operator import MassOperator, may_scan, operator_of_motions
from ..model import Model
from ..motion import BodyMotions
from ..numerics import linear_solution, product
from ..one_function import as_one_function
from ..structured import AbstractSchedule
from ._delassus import AbstractConstraintSolver, AbstractDelassus, check_solver
from ._relations import Bodies, Constraints, Slopes, jacobian_of_constraints


class Plan(eqx.Module):
    """How the equations are solved.

    **Fields:** `solver` for the multipliers; `schedule` of sweeps over the bodies; `by_scan`: whether the factors of
    the mass matrix are found by one, too.
    """

    solver: AbstractConstraintSolver
    schedule: AbstractSchedule
    by_scan: bool = eqx.field(static=True)


def make_plan(model: Model, solver: AbstractConstraintSolver, schedule: AbstractSchedule | None) -> Plan:
    """**Raises:** `ValueError` for what is no solver or schedule, and for bodies that move no inertia."""
    check_solver(solver)
    schedule = choose_schedule(model, schedule)
    return Plan(solver, schedule, may_scan(model, schedule))


class System(eqx.Module):
    """The equations in a state, factored, with the root R of the mass matrix `M = R R^T`.

    **Fields:** `mass` matrix; `jacobian` J; `half` `R^-1 J^T`; `delassus` `J M^-1 J^T`; `scale`, its diagonal if no
    directions were perpendicular.
    """

    mass: MassOperator
    jacobian: Float[Array, "k nv"]
    half: Float[Array, "nv k"]
    delassus: AbstractDelassus
    scale: Float[Array, "k"]

    def mobility(self, x: Float[Array, "k *m"]) -> Float[Array, "nv *m"]:
        """`M^-1 J^T x`."""
        return self.mass.inv_sqrt_transpose_mv(product(self.half, x))

    def solve(
        self, torque: Float[Array, "nv"], acceleration: Float[Array, "k"]
    ) -> tuple[Float[Array, "nv"], Float[Array, "k"]]:
        """`M x - J^T lambda = torque, J x = acceleration`, the latter with one step of refinement."""

        def improve(_, found: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
            _, rooted, multipliers, missing = found
            more = self.delassus.solve(missing)
            rooted = rooted + product(self.half, more)
            x = self.mass.inv_sqrt_transpose_mv(rooted)
            return x, rooted, multipliers + more, acceleration - product(self.jacobian, x)

        free = self.mass.inv_sqrt_mv(torque)
        start = jnp.zeros_like(free), free, jnp.zeros_like(acceleration), acceleration - product(self.half.T, free)
        x, _, multipliers, _ = lax.fori_loop(0, 2, improve, start)
        return x, multipliers


class Geometry(eqx.Module):
    """Poses and motions of all bodies, as far as constraints depend on them.

    **Fields:** the `bodies` at zero joint accelerations; the constraints' `slopes` and `jacobian`, and the `size` of
    its elements if no directions were perpendicular; `reach` of each row, see `jacobian_of_constraints`.
    """

    bodies: Bodies
    slopes: Slopes
    jacobian: Float[Array, "k nv"]
    size: Float[Array, "k nv"]
    reach: Float[Array, "k"]


def geometry(model: Model, constraints: Constraints, motions: BodyMotions) -> Geometry:
    """The geometry in a state."""
    bodies = Bodies.of(motions)
    return Geometry(bodies, *jacobian_of_constraints(model, constraints, bodies, motions.q))


def assemble(model: Model, plan: Plan, motions: BodyMotions, where: Geometry) -> System:
    """The equations, factored."""
    mass = operator_of_motions(model, motions, plan.by_scan)
    # What is not more than rounding of perpendicular directions would become a constraint in its own right.
    rounding = 32 * float(jnp.finfo(where.jacobian.dtype).eps) * where.size
    jacobian = jnp.where(jnp.abs(where.jacobian) > rounding, where.jacobian, 0)
    half = mass.inv_sqrt_mv(jacobian.T)
    compliance = jnp.sum(where.size**2 / mass.factors.pivots()[None], axis=1)
    # One for constraints of what cannot move.
    scale = jnp.where(compliance > 0, compliance, 1)
    return System(mass, jacobian, half, plan.solver.factor(product(half.T, half), scale), scale)


def solve_implicitly(
    model: Model,
    motions: BodyMotions,
    system: System,
    where: Geometry,
    torque: Float[Array, "nv"],
    acceleration: Float[Array, "k"],
) -> tuple[Float[Array, "nv"], Float[Array, "k"]]:
    """`system.solve` with the derivatives of the solution of its equations, but for internal forces."""

    n = len(torque)

    # One vector: JAX does not transpose solutions whose right-hand side is known to be zero in part.
    def matrix(x: Array) -> Array:
        torques = mass_product_of_motions(model, motions, x[:n]) + product(where.jacobian.T, x[n:])
        return jnp.concatenate([torques, product(where.jacobian, x[:n])])

    @as_one_function
    def solve(system: System, b: Array) -> Array:
        x, multipliers = system.solve(b[:n], b[n:])
        return jnp.concatenate([x, -multipliers])

    x = linear_solution(matrix, jnp.concatenate([torque, acceleration]), solve, system)
    return x[:n], -x[n:]


def felt(multipliers: Float[Array, "k"], jacobian: Float[Array, "k nv"], system: System) -> Float[Array, "k"]:
    """What motions feel of multipliers, the nearest `J x`, without internal forces n; with derivatives by J, too.

    `n + J x = multipliers` and `J^T n = 0`, where x is not unique, but n is. Multipliers of least norm are all felt.
    """
    k = len(multipliers)

    def matrix(x: Array) -> Array:
        return jnp.concatenate([x[:k] + product(jacobian, x[k:]), product(jacobian.T, x[:k])])

    @as_one_function
    def solve(system: System, b: Array) -> Array:
        driven = system.delassus.solve(product(system.half.T, system.mass.inv_sqrt_mv(b[k:])))
        x = system.mobility(system.delassus.solve(b[:k] - driven))
        return jnp.concatenate([system.delassus.internal(b[:k]) + driven, x])

    x = linear_solution(matrix, jnp.pad(multipliers, (0, jacobian.shape[1])), solve, system)
    return multipliers - x[:k]
