"""The equations of motion of a mechanism with constraints, and their linear solution.

M qdd - J^T lambda = tau - C,    J qdd + (dJ/dt) v = 0
"""

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from .._arguments import is_concrete
from .._defaults import choose_schedule
from .._linear_solution import linear_solution
from .._precise import product
from .._small import matvec, transpose
from ..dynamics._articulated_joints import Links, eliminate_by_scan, eliminate_by_sweep, links
from ..dynamics._factors import Factors, drift_wrenches, mass_product
from ..dynamics._mass_operator import MassOperator
from ..dynamics._suitability import joints_without_inertia, refuse_massless_subtrees
from ..model import Model, join_bodies, unpad_dofs
from ..motion import BodyMotions, drifts, fictitious_acceleration
from ..structured import AbstractSchedule, Sequential
from ._delassus import AbstractConstraintSolver, AbstractDelassus, check_solver
from ._relations import Bodies, Constraints, jacobian_of_constraints


class Plan(eqx.Module):
    """How to solve.

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
    by_scan = False
    if is_concrete(model):
        refuse_massless_subtrees(model)
        by_scan = not isinstance(schedule, Sequential) and not joints_without_inertia(model)
    return Plan(solver, schedule, by_scan)


class System(eqx.Module):
    """The equations in a state, factored, with the root R of the mass matrix `M = R R^T`.

    **Fields:** `factors` of the mass matrix; `jacobian` J; `half` `R^-1 J^T`; `delassus` `J M^-1 J^T`; `scale`, its
    diagonal if no directions were perpendicular.
    """

    factors: Factors
    jacobian: Float[Array, "k nv"]
    half: Float[Array, "nv k"]
    delassus: AbstractDelassus
    scale: Float[Array, "k"]

    def mobility(self, x: Float[Array, "k *m"]) -> Float[Array, "nv *m"]:
        """`M^-1 J^T x`."""
        return MassOperator(self.factors).inv_sqrt_transpose_mv(product(self.half, x))

    def solve(
        self, torque: Float[Array, "nv"], acceleration: Float[Array, "k"]
    ) -> tuple[Float[Array, "nv"], Float[Array, "k"]]:
        """`M x - J^T lambda = torque, J x = acceleration`, with one step of refinement."""
        operator = MassOperator(self.factors)

        def improve(_, found: tuple[Array, Array]) -> tuple[Array, Array]:
            x, multipliers = found
            left = torque - operator.mv(x) + product(self.jacobian.T, multipliers)
            free = operator.inv_sqrt_mv(left)
            more = self.delassus.solve(acceleration - product(self.jacobian, x) - product(self.half.T, free))
            return x + operator.inv_sqrt_transpose_mv(free + product(self.half, more)), multipliers + more

        start = jnp.zeros_like(torque), jnp.zeros_like(acceleration)
        return lax.fori_loop(0, 2, improve, start)


class Geometry(eqx.Module):
    """Where all bodies are and how they move: what of a state is differentiated.

    **Fields:** `links`, the `bodies` at zero joint accelerations, the constraints' `jacobian`, and the `size` of its
    elements if no directions were perpendicular; `reach` of each row, see `jacobian_of_constraints`.
    """

    links: Links
    bodies: Bodies
    jacobian: Float[Array, "k nv"]
    size: Float[Array, "k nv"]
    reach: Float[Array, "k"]


def geometry(model: Model, constraints: Constraints, motions: BodyMotions) -> Geometry:
    """The geometry in a state."""
    accelerations = join_bodies(model.topology, [drift.array() for drift in drifts(motions)])
    bodies = Bodies(motions.poses, motions.origins, motions.velocities, accelerations, motions.subspace_columns)
    return Geometry(links(model, motions), bodies, *jacobian_of_constraints(model, constraints, bodies, motions.q))


def bias_torques(
    model: Model, schedule: AbstractSchedule, where: Geometry, f_ext: Float[Array, "nb 6"]
) -> Float[Array, "nv"]:
    """`bias_forces` from the geometry."""
    drift = where.bodies.acceleration + fictitious_acceleration(model).astype(f_ext.dtype)
    total = drift_wrenches(model, schedule, where.links, drift, f_ext)
    return unpad_dofs(model.topology, matvec(transpose(where.links.motion.subspace), total))


def assemble(model: Model, plan: Plan, where: Geometry) -> System:
    """The equations, factored."""
    joints = eliminate_by_scan(where.links, plan.schedule) if plan.by_scan else eliminate_by_sweep(where.links)
    factors = Factors(model, plan.schedule, where.links, joints)
    # What is not more than rounding of perpendicular directions would become a constraint in its own right.
    rounding = 32 * float(jnp.finfo(where.jacobian.dtype).eps) * where.size
    jacobian = jnp.where(jnp.abs(where.jacobian) > rounding, where.jacobian, 0)
    half = MassOperator(factors).inv_sqrt_mv(jacobian.T)
    scale = _compliance(factors, where.size)
    delassus = plan.solver.factor(product(half.T, half), scale)
    return System(factors, jacobian, half, delassus, scale)


def solve_implicitly(
    model: Model,
    plan: Plan,
    system: System,
    where: Geometry,
    torque: Float[Array, "nv"],
    acceleration: Float[Array, "k"],
) -> tuple[Float[Array, "nv"], Float[Array, "k"]]:
    """`system.solve` with the derivatives of the solution of its equations, but for internal forces."""

    n = len(torque)

    # One vector: JAX does not transpose solutions whose right-hand side is known to be zero in part.
    def matrix(x: Array) -> Array:
        torques = mass_product(model, plan.schedule, where.links, x[:n]) + product(where.jacobian.T, x[n:])
        return jnp.concatenate([torques, product(where.jacobian, x[:n])])

    def solve(system: System, b: Array) -> Array:
        x, multipliers = system.solve(b[:n], b[n:])
        return jnp.concatenate([x, -multipliers])

    x = linear_solution(matrix, jnp.concatenate([torque, acceleration]), solve, system)
    return x[:n], -x[n:]


def _compliance(factors: Factors, size: Float[Array, "k nv"]) -> Float[Array, "k"]:
    """The diagonal of Delassus' matrix if no directions were perpendicular; one for constraints of what cannot move."""
    pivots = unpad_dofs(factors.model.topology, factors.joints.pivot.pivots)
    compliance = jnp.sum(size**2 / pivots, axis=1)
    return jnp.where(compliance > 0, compliance, 1)
