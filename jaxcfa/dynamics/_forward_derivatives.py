"""Derivatives of forward dynamics with respect to configuration, velocity and torque, as matrices."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model import Model
from ..model._arguments import as_arrays
from ..motion import BodyMotions, body_motions, schedule_for
from ..numerics import product
from ..structured import AbstractSchedule
from ..typing import BodyForcesLike, ConfigurationLike, Velocity, VelocityLike
from ._forward import default_method
from ._inverse_derivatives import derivatives_of_arrays
from ._method import AbstractForwardDynamics, AbstractMassSolver
from ._run import solve_and_factor


class ForwardDerivatives(NamedTuple):
    """Jacobians of forward dynamics, rows accelerations: `dq` in the tangent space, `dv`, `dtau`."""

    dq: Float[Array, "nv nv"]
    dv: Float[Array, "nv nv"]
    dtau: Float[Array, "nv nv"]


def forward_dynamics_derivatives(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    tau: VelocityLike,
    f_ext: BodyForcesLike | None = None,
    method: AbstractForwardDynamics | None = None,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> ForwardDerivatives:
    """All first derivatives of `forward_dynamics`, in closed form: `dqdd = -M^-1 dID` at the accelerations found.

    (Carpentier & Mansard, "Analytical derivatives of rigid body dynamics algorithms", RSS 2018.) For gradients of a few
    numbers `jax.grad` of `forward_dynamics` is cheaper, which needs one column of all this.

    **Arguments:** as for `forward_dynamics`; `schedule` and `motions` as for
    `inverse_dynamics_derivatives`.

    **Returns:** `dq` (nv, nv), in the tangent space as in `inverse_dynamics_derivatives`, `dv` (nv, nv), and `dtau`,
    the inverse of the mass matrix.

    **Raises:** as `forward_dynamics`.
    """
    return accelerations_and_derivatives(model, q, v, tau, f_ext, method, schedule, motions)[1]


def accelerations_and_derivatives(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    tau: VelocityLike,
    f_ext: BodyForcesLike | None = None,
    method: AbstractForwardDynamics | None = None,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> tuple[Velocity, ForwardDerivatives]:
    """The accelerations too, which are found on the way."""
    method = default_method(model) if method is None else method
    q, v, tau, loads = as_arrays(model, q=q, v=v, tau=tau, f_ext=f_ext)
    schedule = schedule_for(model, schedule, motions, q, v)
    motions = body_motions(model, q, v, schedule) if motions is None else motions
    qdd, solver = solve_and_factor(method, model, q, v, tau, loads, motions)
    known = None if f_ext is None else loads
    return qdd, _forward_derivatives(model, solver, q, v, qdd, known, schedule, motions)


@jax.jit
def _forward_derivatives(
    model: Model,
    solver: AbstractMassSolver,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    qdd: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"] | None,
    schedule: AbstractSchedule,
    motions: BodyMotions,
) -> ForwardDerivatives:
    needed = derivatives_of_arrays(model, q, v, qdd, f_ext, schedule, motions)
    inverse = _inverse(solver, needed.dqdd, model)
    both = -product(inverse, jnp.concatenate([needed.dq, needed.dv], axis=1))
    return ForwardDerivatives(both[:, : model.nv], both[:, model.nv :], inverse)


@jax.custom_jvp
def _inverse(solver: AbstractMassSolver, matrix: Float[Array, "nv nv"], model: Model) -> Float[Array, "nv nv"]:
    """The inverse of the mass matrix, by the solver; its derivatives by those of the matrix."""
    return solver.inverse(model, matrix.dtype)


@_inverse.defjvp
def _inverse_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    inverse = _inverse(*primals)
    _, matrix_dot, _ = tangents
    return inverse, -product(product(inverse, matrix_dot), inverse)
