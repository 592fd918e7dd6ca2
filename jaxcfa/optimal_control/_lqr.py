"""Feedback that keeps a system at an equilibrium."""

import dataclasses
import math
from functools import partial

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from ..compilation import jit_of_one_state
from ..model._arguments import as_array, is_concrete
from ..numerics import transpose
from ..structured import steady_riccati
from ..structured._products import matmul
from ._local import model_of
from ._problem import Problem
from ._states import as_state


class Regulator(eqx.Module):
    """The feedback `u + K dx` for displacements dx from an equilibrium.

    **Fields:** `gain` K (m, n); `stiffness` J (n, n), the Hessian of the cost to go; `residual` of Riccati's equation,
    relative to J, and at least one if cost to go never ends or displacements grow: small if the system is stabilised.
    """

    gain: Float[Array, "m n"]
    stiffness: Float[Array, "n n"]
    residual: Float[Array, ""]


def lqr(problem: Problem, x, u) -> Regulator:
    """The linear-quadratic regulator of infinite horizon at an equilibrium, by the stage costs of a problem.

    Dynamics and costs are those of the problem's first stage, also of costs `during` some stages; its end and its
    constraints do not count. The Riccati equation is solved by doubling the horizon (`structured.steady_riccati`). For
    finite horizons, and for motions, use the gains of `solve`.

    **Arguments:** `x` (nx,), of a robot also (q, v), and `u` (m,), where the system stays if nothing disturbs it.

    **Raises:** `ValueError` for wrong shapes, for robots under accelerations with joints that nothing drives, if x and
    u are no equilibrium, and if the costs there do not determine a stabilising feedback (where these can be looked at;
    else `residual` tells).
    """
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be a Problem(dynamics, steps, costs), got {problem!r:.200}.")
    dynamics = problem.phases[0].dynamics
    if not problem.has_given_duration:
        raise ValueError("lqr is feedback over time steps of a given length: leave step_lengths out.")
    if dynamics.defect_size:
        raise ValueError(
            f"{type(dynamics).__name__} leaves {dynamics.defect_size} equations of each step to the solver, such as "
            "those of joints that nothing drives, which lqr does not keep. Use RobotDynamics."
        )
    x = as_state(problem, x, "x")
    u = as_array("u")(u).astype(x.dtype)
    if u.shape != (problem.dynamics.control_size,):
        raise ValueError(f"u must have shape (m,) = ({problem.dynamics.control_size},), got {u.shape}.")
    found, moves = _regulator(problem, x, u)
    if is_concrete(found):
        if not moves <= max(1e3 * float(jnp.finfo(x.dtype).eps), 1e-5) * (1 + float(jnp.max(jnp.abs(x)))):
            raise ValueError(f"x and u must be an equilibrium, but in one step the system moves by {float(moves):.1e}.")
        if not found.residual <= float(jnp.finfo(x.dtype).eps) ** 0.4:
            raise ValueError(
                "No stabilising feedback: the controls do not reach what is unstable, or the costs do not see it. Give "
                "every coordinate and every control a cost."
            )
    return found


@partial(jit_of_one_state, jit=eqx.filter_jit)
def _regulator(problem: Problem, x: Float[Array, "nx"], u: Float[Array, "m"]) -> tuple[Regulator, Float[Array, ""]]:
    """The regulator, and by how much the system moves in one step."""
    costs = [dataclasses.replace(cost, during=None) for cost in problem.costs if cost.counts_at(0)]
    one = Problem(problem.phases[0].dynamics, 1, costs)
    local = model_of(one, x, jnp.stack([x, x]), u[None])
    n = local.transition.shape[-1]
    a, b, hessian = (y[0] for y in (local.transition, local.input, local.stages.hessian))
    cost, cross = hessian[:n, :n], hessian[n:, :n]
    stiffness, gain = steady_riccati(a, b, cost, hessian[n:, n:], cross)
    closed = a + matmul(b, gain)
    again = cost + matmul(transpose(cross), gain) + matmul(transpose(a), matmul(stiffness, closed))
    residual = jnp.max(jnp.abs(again - stiffness)) / _or_one(jnp.max(jnp.abs(stiffness)))
    residual = jnp.where(_ends(*lax.stop_gradient((closed, stiffness))), residual, jnp.maximum(residual, 1))
    return Regulator(gain, stiffness, residual), jnp.max(jnp.abs(local.values.gaps))


def _ends(closed: Float[Array, "n n"], stiffness: Float[Array, "n n"]) -> Bool[Array, ""]:
    """Whether the cost to go comes to an end under the feedback, from a displacement of each coordinate.

    What the controls do not reach may stay as it is for ever: the doubled horizon has a finite cost to go even then.
    """
    eps = float(jnp.finfo(closed.dtype).eps)
    # So many steps that rounding does not yet make eigenvalues of one much smaller.
    doublings = round(-0.75 * math.log2(eps))
    way = lax.fori_loop(0, doublings, lambda _, way: matmul(way, way), closed)
    left = jnp.diagonal(matmul(transpose(way), matmul(stiffness, way)))
    has_ended = jnp.all(left < 0.5 * _or_one(jnp.diagonal(stiffness)))
    return has_ended & (jnp.max(jnp.abs(way)) < eps**-0.5)


def _or_one(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    return jnp.where(x > 0, x, 1)
