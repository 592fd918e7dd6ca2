"""Differential inverse kinematics."""

from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from ..closed_chains._relations import row_starts
from ..compilation import jit_of_one_state
from ..model import AbstractConstraint, Model
from ..model._arguments import check_positive, is_concrete, require_single
from ..numerics import product
from ..optimal_control import Cost
from ..optimal_control._terms import Term
from ..structured._box_quadratic import box_quadratic
from ..typing import ConfigurationLike, Velocity
from ._rows import Problem, rows_of
from ._search import to_ends
from ._solve import as_problem

_PASSES = 3  # over the multipliers of loops


def velocity(
    model: Model,
    targets: Cost | Term | Sequence[Cost | Term],
    q: ConfigurationLike,
    dt: ArrayLike,
    *,
    constraints: AbstractConstraint | Sequence[AbstractConstraint] = (),
    limits: bool = True,
    gain: ArrayLike | None = None,
    damping: ArrayLike = 1e-4,
) -> Velocity:
    """The velocity of the joints for the next `dt` that brings frames nearer to where they should be.

    It makes the weighted sum of squares of `residual + J dq` least, and `damping |dq|^2` with it, over displacements
    `dq = v dt` that keep joints within their ranges and limits of velocity: a quadratic function within bounds. So a
    controller, or a simulation of one, is

        v = ik.velocity(model, [ik.FramePose("hand", target), ik.Cost(ik.Posture(rest), 1e-4)], q, dt)
        q = jaxcfa.integrate(model, q, v, dt)

    **Arguments:**

    - `targets`: as for `solve`; what matters less is a target of less weight.
    - `q` (nq,); `dt` [s].
    - `constraints` that close loops, such as `model.constraints`; they come first.
    - `limits`: whether joints stay within `model.limits`, of velocity too.
    - `gain` [1/s]: residuals shall vanish at the rate `-gain residual`; by default `1 / dt`, within one step.
    - `damping` [1/rad^2, 1/m^2], for a target of weight one in metres: without it, velocities near singular
      configurations are as large as limits let them.

    **Returns:** (nv,) [rad/s, m/s]. Derivatives are those of what limits do not hold.

    **Raises:** `ValueError` for wrong shapes, terms and numbers, and for `dt`, `gain` and `damping` that are not
    positive; for velocities that are not finite, which are NaN if traced, as with weights that are negative.
    """
    require_single(model)
    problem, q = as_problem(model, targets, (), constraints, limits, q=q)
    gain = 1 / jnp.asarray(dt, q.dtype) if gain is None else gain
    given = {"dt": dt, "gain": gain, "damping": damping}
    for name, value in given.items():
        check_positive(name, value)
    found = _velocity(problem, q, limits, *(jnp.asarray(value, q.dtype) for value in given.values()))
    if is_concrete(found) and not np.all(np.isfinite(found)):
        raise ValueError(
            "The velocity is not finite: look for infinities, NaN and roots of negative numbers in q, targets and "
            f"weights. It is {found.tolist()}."
        )
    return found


@partial(jit_of_one_state, jit=eqx.filter_jit)
def _velocity(problem: Problem, q: Array, limits: bool, dt: Array, gain: Array, damping: Array) -> Velocity:
    rows, (lower, upper) = rows_of(problem, q), to_ends(problem, q)
    if limits:
        fastest = problem.model.limits.velocity.astype(q.dtype)
        limited = jnp.isfinite(fastest)
        farthest = jnp.where(limited, jnp.where(limited, fastest, 1) * dt, jnp.inf)
        lower, upper = jnp.maximum(lower, -farthest), jnp.minimum(upper, farthest)
    count = int(row_starts(problem.loops)[-1])
    first = len(rows.values) - count
    wanted = jnp.where(np.arange(len(rows.values)) < first, jnp.minimum(gain * dt, 1), 1) * rows.values
    jacobian, closing = rows.jacobian[:first], rows.jacobian[first:]
    eye = jnp.eye(len(lower), dtype=q.dtype)
    hessian = product(jacobian.T, jacobian) + damping * eye
    slope = jnp.where(problem.has_weights, product(wanted[:first], jacobian), jnp.nan)
    if not count:
        return box_quadratic(hessian, slope, lower, upper) / dt
    # Loops by multipliers (Hestenes 1969, Powell 1969): a price that digits allow, paid a few times.
    price = float(jnp.finfo(q.dtype).eps) ** -0.25
    hessian = hessian + price * product(closing.T, closing)
    multipliers, dq = jnp.zeros(count, q.dtype), jnp.zeros_like(lower)
    for _ in range(_PASSES):
        due = price * wanted[first:] + multipliers
        dq = box_quadratic(hessian, slope + product(due, closing), lower, upper)
        multipliers = due + price * product(closing, dq)
    return dq / dt
