"""Derivatives of forward dynamics with respect to configuration, velocity and torque, as matrices."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._arguments import as_arrays
from .._defaults import choose_schedule
from .._types import BodyForcesLike, ConfigurationLike, VelocityLike
from ..model import Model
from ..structured import AbstractSchedule
from ._forward import default_method
from ._inverse_derivatives import derivatives_of_arrays
from ._mass_operator import MassOperator, mass_operator
from ._method import AbstractForwardDynamics, solve_forward_dynamics


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
) -> ForwardDerivatives:
    """All first derivatives of `forward_dynamics`, in closed form: `dqdd = -M^-1 dID` at the accelerations found.

    (Carpentier & Mansard, "Analytical derivatives of rigid body dynamics algorithms", RSS 2018.) For gradients of a few
    numbers `jax.grad` of `forward_dynamics` is cheaper, which needs one column of all this.

    **Arguments:** as for `forward_dynamics`; `schedule` as for `mass_operator`.

    **Returns:** `dq` (nv, nv), in the tangent space as in `inverse_dynamics_derivatives`, `dv` (nv, nv), and `dtau`,
    the inverse of the mass matrix.

    **Raises:** as `forward_dynamics`.
    """
    qdd = solve_forward_dynamics(default_method(model) if method is None else method, model, q, v, tau, f_ext)
    schedule = choose_schedule(model, schedule)
    operator = mass_operator(model, q, schedule)
    arguments = as_arrays(model, q=q, v=v, qdd=qdd, f_ext=f_ext)
    return _forward_derivatives(model, operator, *arguments, schedule)


@jax.jit
def _forward_derivatives(
    model: Model,
    operator: MassOperator,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    qdd: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
    schedule: AbstractSchedule,
) -> ForwardDerivatives:
    needed = derivatives_of_arrays(model, q, v, qdd, f_ext, schedule)
    # One sweep, where solutions need two.
    half = operator.inv_sqrt_mv(jnp.eye(model.nv, dtype=operator.dtype))
    inverse = jnp.matmul(half.T, half)
    both = -jnp.matmul(inverse, jnp.concatenate([needed.dq, needed.dv], axis=1))
    return ForwardDerivatives(both[:, : model.nv], both[:, model.nv :], inverse)
