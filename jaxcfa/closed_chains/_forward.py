"""Forward dynamics of mechanisms with closed loops."""

from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..compilation import jit_of_one_state
from ..dynamics import Loads
from ..dynamics._inverse import bias_of_motions
from ..model import AbstractConstraint, Model
from ..motion import BodyMotions, motions_at
from ..numerics import all_finite, is_perturbed, jvp_of_perturbed, no_tangent, product
from ..one_function import as_one_function
from ..structured import AbstractSchedule
from ..typing import BodyForcesLike, ConfigurationLike, VelocityLike
from ._checks import prepared
from ._delassus import LEAST_NORM, AbstractConstraintSolver
from ._rates import missing_rate, without_armature
from ._relations import Constraints, Motion, constraint_wrenches, motion_of_constraints
from ._stabilization import Baumgarte, check_feedback, stabilising
from ._status import ConstraintStatus, combined, exceeds, explain, status_tolerance
from ._system import Geometry, Plan, System, assemble, felt, geometry, make_plan, solve_implicitly


class ConstrainedSolution(eqx.Module):
    """Accelerations and forces of a mechanism with constraints.

    **Fields:**

    - `qdd` (nv,) [rad/s^2, m/s^2].
    - `multipliers` (k,), those of all constraints in order: `M qdd + bias = tau + J^T multipliers`. Each constraint
      says what its own are.
    - `wrenches` (nc, 2, 6): what each constraint applies to its `body1` and `body2`, `[moment; force]` in world axes
      at the bodies' origins [N m, N], as external wrenches; zero for couplings of joints.
    - `joint_forces` (nv,): `J^T multipliers`, all of that as joint torques and forces.
    - `motion`: residuals of the constraints, with their rates and accelerations.
    - `residual`: the largest acceleration that violates a constraint (less what stabilisation demands).
    - `status`: flags of `ConstraintStatus`.
    """

    qdd: Float[Array, "nv"]
    multipliers: Float[Array, "k"]
    wrenches: Float[Array, "nc 2 6"]
    joint_forces: Float[Array, "nv"]
    motion: Motion
    residual: Float[Array, ""]
    status: Int[Array, ""]


def constrained_forward_dynamics(
    model: Model,
    constraints: AbstractConstraint | Sequence[AbstractConstraint],
    q: ConfigurationLike,
    v: VelocityLike,
    tau: VelocityLike,
    f_ext: BodyForcesLike | None = None,
    solver: AbstractConstraintSolver = LEAST_NORM,
    stabilization: Baumgarte | None = None,
    schedule: AbstractSchedule | None = None,
) -> ConstrainedSolution:
    """Joint accelerations of a mechanism with closed loops, and the forces that close them.

    The loops are cut; multipliers make the ends accelerate alike: `J M^-1 J^T lambda = -(J qdd_free + (dJ/dt) v)`, with
    the factors of the mass matrix, O(n k + k^3) for k rows (Rodriguez & Kreutz 1992, part II, for any constraints).

    **Arguments:** `constraints`: `model.constraints`, or made by `closed_chains.weld`, `connect`, `distance`,
    `loop_joint`, `couple`. `q`, `v`, `tau`, `f_ext` as for `forward_dynamics`; q and v should satisfy the constraints
    (see `project_configuration`, `project_velocity`), the result says if they do. `solver`: `LeastNorm()`, which serves
    redundant constraints and singular configurations as well, `Proximal()`, or `Direct()`. `stabilization`: against
    drift in simulations. `schedule`: as for `mass_operator`.

    **Returns:** a `ConstrainedSolution`. Its derivatives, in both modes, are those of the equations it solves.

    **Raises:** `ValueError` for wrong shapes, constraints of other models, bodies that move no inertia, and with
    `Direct()` for a singular matrix. Under `jit` and `vmap` what depends on traced values is in the status.
    """
    model, constraints, arguments = prepared(model, constraints, q=q, v=v, tau=tau, f_ext=f_ext)
    check_feedback(stabilization)
    plan = make_plan(model, solver, schedule)
    solution = _solution(plan, constraints, model, stabilization, *arguments)
    explain(solution.status, solution.qdd, model, constraints, arguments)
    return solution


@partial(jit_of_one_state, jit=eqx.filter_jit)
@partial(as_one_function, derivatives=False)
def _solution(
    plan: Plan,
    constraints: Constraints,
    model: Model,
    stabilization: Baumgarte | None,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
) -> ConstrainedSolution:
    where, system, outputs = _solved(plan, constraints, model, stabilization, q, v, tau, f_ext)
    return ConstrainedSolution(*(*outputs, _status(system, stabilization, where, outputs, v)))


def status_in_motion(
    model: Model,
    constraints: Constraints,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
    solver: AbstractConstraintSolver,
    stabilization: Baumgarte | None,
    drift: float,
) -> Int[Array, ""]:
    """Flags of `ConstraintStatus` in a state of a simulation; `drift` as for `_status`."""
    model, constraints, arguments = prepared(model, constraints, q=q, v=v, tau=tau, f_ext=f_ext)
    plan = make_plan(model, solver, None)
    where, system, outputs = _solved(plan, constraints, model, stabilization, *arguments)
    return _status(system, stabilization, where, outputs, v, drift)


def accelerations_and_responses(
    model: Model,
    constraints: Constraints,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    loads: Loads,
    solver: AbstractConstraintSolver,
    stabilization: Baumgarte | None,
    directions: Float[Array, "m nv"],
) -> tuple[Float[Array, "nv"], Float[Array, "m nv"]]:
    """The accelerations, and what torques in each direction change of them. Neither has derivatives here."""
    model, constraints, arguments = prepared(model, constraints, q=q, v=v, tau=loads.tau, f_ext=loads.f_ext)
    return _responses(make_plan(model, solver, None), constraints, model, stabilization, *arguments, directions)


@partial(as_one_function, derivatives=False)
def _responses(
    plan, constraints, model, stabilization, q, v, tau, f_ext, directions: Float[Array, "m nv"]
) -> tuple[Float[Array, "nv"], Float[Array, "m nv"]]:
    qdd, multipliers, _, system = _solve(plan, constraints, model, stabilization, q, v, Loads(tau, f_ext))
    return qdd, jax.vmap(lambda b: system.solve(b, jnp.zeros_like(multipliers))[0])(directions)


def _solved(plan, constraints, model, stabilization, q, v, tau, f_ext) -> tuple[Geometry, System, tuple]:
    """The geometry, the equations, and what a `ConstrainedSolution` holds besides its status."""
    qdd, multipliers, motions, system = _solve(plan, constraints, model, stabilization, q, v, Loads(tau, f_ext))
    motions = motions_at(model, q, v, plan.schedule, motions)
    where = geometry(model, constraints, motions)
    motion = motion_of_constraints(model, constraints, where.bodies, q, v, jnp.zeros_like(v))
    wrenches = constraint_wrenches(constraints, where.slopes, multipliers)
    moved = Motion(motion.residual, motion.rate, motion.acceleration + product(where.jacobian, qdd))
    wrong = jnp.max(jnp.abs(moved.acceleration + stabilising(stabilization, moved)), initial=0)
    return where, system, (qdd, multipliers, wrenches, product(where.jacobian.T, multipliers), moved, wrong)


@jax.custom_jvp
@as_one_function
def _solve(
    plan: Plan,
    constraints: Constraints,
    model: Model,
    stabilization: Baumgarte | None,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    loads: Loads,
) -> tuple[Float[Array, "nv"], Float[Array, "k"], BodyMotions, System]:
    """Accelerations and multipliers; motions and the equations that they solve, which have no derivatives here."""
    motions = motions_at(model, q, v, plan.schedule)
    where = geometry(model, constraints, motions)
    motion = motion_of_constraints(model, constraints, where.bodies, q, v, jnp.zeros_like(v))
    demanded = -motion.acceleration - stabilising(stabilization, motion)
    system = assemble(model, plan, motions, where)
    return *system.solve(loads.tau - bias_of_motions(model, motions, loads.f_ext), demanded), motions, system


def _solve_jvp(primals: tuple, tangents: tuple) -> tuple[tuple, tuple]:
    """Differentiates the equations of motion and the constraints at the solution found, instead of its algorithm."""
    qdd, multipliers, found, system = _solve(*primals)
    plan, constraints, model, _, q, v, _ = primals
    constraints_dot, model_dot, _, q_dot, _, _ = tangents[1:]
    # By the model it would compile longer as a function of its own.
    rate = missing_rate if is_perturbed(without_armature(model_dot)) else as_one_function(missing_rate)
    torque, violation = rate(plan.schedule, found, qdd, multipliers, primals[1:], tangents[1:])
    motions = motions_at(model, q, v, plan.schedule, found)
    where = geometry(model, constraints, motions)
    qdd_dot, multipliers_dot = solve_implicitly(model, motions, system, where, -torque, -violation)

    def of_least_norm(constraints: Constraints, model: Model, q: Array) -> Array:
        there = geometry(model, constraints, motions_at(model, q, v, plan.schedule, found))
        return felt(multipliers, there.jacobian, system)

    # The equations leave internal forces open.
    _, internal_dot = jvp_of_perturbed(of_least_norm, (constraints, model, q), (constraints_dot, model_dot, q_dot))
    multipliers_dot = felt(multipliers_dot, where.jacobian, system) + internal_dot
    return (qdd, multipliers, found, system), (qdd_dot, multipliers_dot, *no_tangent((found, system)))


_solve.defjvp(_solve_jvp, symbolic_zeros=True)


def _status(
    system: System,
    stabilization: Baumgarte | None,
    where: Geometry,
    outputs: tuple,
    v: Float[Array, "nv"],
    drift: float | None = None,
) -> Int[Array, ""]:
    """Flags. `drift`: how far open loops and their rates may be, relative to what they are compared with."""
    qdd, _, _, _, motion, _ = outputs
    demanded = stabilising(stabilization, motion)
    tolerance = status_tolerance(v.dtype)
    drift = tolerance if drift is None else drift
    fast, strong = (jnp.sum(where.size * jnp.abs(x)[None], axis=1) for x in (v, qdd))
    return combined(
        {
            ConstraintStatus.SINGULAR: system.delassus.is_singular,
            ConstraintStatus.UNSATISFIED: exceeds(
                motion.acceleration + demanded, tolerance * (where.reach + strong + jnp.abs(demanded))
            ),
            ConstraintStatus.OPEN: exceeds(motion.residual, drift * where.reach),
            ConstraintStatus.MOVING: exceeds(motion.rate, drift * (where.reach + fast)),
            ConstraintStatus.NOT_FINITE: ~all_finite(outputs),
        }
    )
