"""Impacts: instantaneous changes of velocity by constraints."""

from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from ..compilation import jit_of_one_state
from ..model import AbstractConstraint, Model
from ..model._arguments import check_positive
from ..motion import motions_at
from ..numerics import all_finite, product
from ..one_function import as_one_function
from ..structured import AbstractSchedule
from ..typing import ConfigurationLike, VelocityLike
from ._checks import prepared
from ._delassus import LEAST_NORM, AbstractConstraintSolver
from ._relations import Constraints, constraint_wrenches
from ._status import ConstraintStatus, combined, exceeds, explain, status_tolerance
from ._system import Plan, assemble, felt, geometry, make_plan, solve_implicitly


class Impact(eqx.Module):
    """Velocities after an impact, and its impulses.

    **Fields:** `v` (nv,) afterwards; `multipliers` (k,), impulses of all constraints in order [N m s, N s]; `wrenches`
    (nc, 2, 6): impulses `[moment; force]` on `body1` and `body2` of each, world axes, at the bodies' origins;
    `status`: flags of `ConstraintStatus`, of which `OPEN` and `MOVING` are not looked at.
    """

    v: Float[Array, "nv"]
    multipliers: Float[Array, "k"]
    wrenches: Float[Array, "nc 2 6"]
    status: Int[Array, ""]


def impulse(
    model: Model,
    constraints: AbstractConstraint | Sequence[AbstractConstraint],
    q: ConfigurationLike,
    v: VelocityLike,
    restitution: ArrayLike = 0.0,
    solver: AbstractConstraintSolver = LEAST_NORM,
    schedule: AbstractSchedule | None = None,
) -> Impact:
    """What happens when constraints begin to hold at the velocity `v`: a latch closes, a foot lands, a hand grasps.

    `M (v_after - v) = J^T lambda` and `J v_after = -restitution J v`: only the impulses of the constraints change
    momentum. Give all constraints that hold afterwards; those that hold already transmit impulses as well.

    **Arguments:** `q` (nq,), `v` (nv,) before; `restitution`: 0 for an inelastic impact, 1 for an elastic one, which
    keeps the kinetic energy; `solver` and `schedule` as for `constrained_forward_dynamics`.

    **Raises:** as `constrained_forward_dynamics`, and for a negative `restitution`.
    """
    model, constraints, (q, v) = prepared(model, constraints, q=q, v=v)
    check_positive("restitution", restitution, or_zero=True)
    plan = make_plan(model, solver, schedule)
    result = _impulse(plan, constraints, model, q, v, jnp.asarray(restitution, v.dtype))
    explain(result.status, result.v, model, constraints, [q, v])
    return result


@partial(jit_of_one_state, jit=eqx.filter_jit)
@partial(as_one_function, derivatives=False)
def _impulse(
    plan: Plan,
    constraints: Constraints,
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    restitution: Float[Array, ""],
) -> Impact:
    motions = motions_at(model, q, v, plan.schedule)
    where = geometry(model, constraints, motions)
    system = assemble(model, plan, motions, where)
    demanded = -(1 + restitution) * product(where.jacobian, v)
    change, multipliers = solve_implicitly(model, motions, system, where, jnp.zeros_like(v), demanded)
    multipliers = felt(multipliers, where.jacobian, system)
    wrenches = constraint_wrenches(constraints, where.slopes, multipliers)
    left = product(where.jacobian, change) - demanded
    fast = jnp.sum(where.size * (jnp.abs(v) + jnp.abs(change))[None], axis=1)
    status = combined(
        {
            ConstraintStatus.SINGULAR: system.delassus.is_singular,
            ConstraintStatus.UNSATISFIED: exceeds(left, status_tolerance(v.dtype) * (where.reach + fast)),
            ConstraintStatus.NOT_FINITE: ~all_finite((change, multipliers, wrenches)),
        }
    )
    return Impact(v + change, multipliers, wrenches, status)
