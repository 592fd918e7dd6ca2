"""Derivatives of forward dynamics with respect to configuration, velocity and torque, as matrices."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..compilation import jit_of_one_state
from ..model import Model
from ..model._arguments import as_arrays
from ..motion import BodyMotions, motions_at, schedule_for
from ..numerics import product
from ..one_function import as_one_function
from ..structured import AbstractSchedule
from ..typing import BodyForcesLike, ConfigurationLike, Velocity, VelocityLike
from ._forward import default_method
from ._inverse_derivatives import derivatives_of_motions
from ._method import AbstractForwardDynamics, AbstractMassSolver, Loads, accelerations_and_solver
from ._run import explained


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
    numbers `jax.grad` of `forward_dynamics` is cheaper.

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

    def both(*arguments):
        return _accelerations_and_derivatives(*arguments, schedule, f_ext is not None)

    return explained(both, method, model, q, v, tau, loads, motions)


@partial(jit_of_one_state, jit=partial(jax.jit, static_argnames="loaded"))
@partial(as_one_function, derivatives=False)
def _accelerations_and_derivatives(
    method: AbstractForwardDynamics,
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
    motions: BodyMotions | None,
    schedule: AbstractSchedule,
    loaded: bool,
) -> tuple[Velocity, ForwardDerivatives]:
    motions = motions_at(model, q, v, schedule, motions)
    by_method = motions_at(model, q, v, method.motion_schedule(), motions, by_rules=True)
    qdd, solver = accelerations_and_solver(method, model, by_method, Loads(tau, f_ext))
    needed = derivatives_of_motions(model, motions, qdd, f_ext if loaded else None)
    inverse = _inverse(solver, needed.dqdd, model)
    both = -product(inverse, jnp.concatenate([needed.dq, needed.dv], axis=1))
    return qdd, ForwardDerivatives(both[:, : model.nv], both[:, model.nv :], inverse)


@jax.custom_jvp
def _inverse(solver: AbstractMassSolver, matrix: Float[Array, "nv nv"], model: Model) -> Float[Array, "nv nv"]:
    """The inverse of the mass matrix, by the solver; its derivatives by those of the matrix."""
    return solver.inverse(model, matrix.dtype)


@_inverse.defjvp
def _inverse_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    inverse = _inverse(*primals)
    _, matrix_dot, _ = tangents
    return inverse, -product(product(inverse, matrix_dot), inverse)
