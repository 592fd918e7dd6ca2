"""The derivative of one step."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .._arguments import as_arrays
from .._types import BodyForcesLike, ConfigurationLike, VelocityLike
from ..configuration import displacement, integrate
from ..dynamics import AbstractForwardDynamics
from ..model import Model
from ._checks import check_integrator, checked_dt
from ._equation_of_motion import EquationOfMotion, equation_of_motion
from ._integrators import AbstractIntegrator
from ._step import SEMI_IMPLICIT_EULER


class Linearization(NamedTuple):
    """Matrices of `dx' = A dx + B dtau`: `A` (2 nv, 2 nv), `B` (2 nv, nv), with `dx = [displacement; dv]`."""

    A: Float[Array, "2*nv 2*nv"]
    B: Float[Array, "2*nv nv"]


def linearize(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    tau: VelocityLike,
    dt: ArrayLike,
    integrator: AbstractIntegrator = SEMI_IMPLICIT_EULER,
    f_ext: BodyForcesLike | None = None,
    method: AbstractForwardDynamics | None = None,
    *,
    passive_forces: bool = True,
    friction_velocity: float = 1e-3,
) -> Linearization:
    """How the state after `step` depends on the state before it and on the torques, in tangent coordinates.

    Configurations are `integrate(model, q, dq)` before the step and `integrate(model, q', dq')` after it, where q' is
    the configuration that `step` gives: quaternions count three times, and A is square. With `dx = [dq; dv]`:
    `dx' = A dx + B dtau`.

    **Arguments:** as for `step`.

    **Returns:** the pair `A` (2 nv, 2 nv), `B` (2 nv, nv).

    **Raises:** `ValueError` as `step` does.
    """
    check_integrator(integrator)
    q, v, tau, f_ext = as_arrays(model, q=q, v=v, tau=tau, f_ext=f_ext)
    equation = equation_of_motion(model, method, passive_forces, friction_velocity)
    return Linearization(*_linearize(integrator, equation, q, v, tau, f_ext, checked_dt(dt, q.dtype)))


@eqx.filter_jit
def _linearize(
    integrator: AbstractIntegrator,
    equation: EquationOfMotion,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
    dt: Float[Array, ""],
) -> tuple[Float[Array, "n n"], Float[Array, "n nv"]]:
    model = equation.model
    q_next, _ = integrator.step(equation, q, v, tau, f_ext, dt)

    def displaced(x: Float[Array, "k"]) -> Float[Array, "n"]:
        dq, dv, dtau = jnp.split(x, 3)
        q_new, v_new = integrator.step(equation, integrate(model, q, dq), v + dv, tau + dtau, f_ext, dt)
        return jnp.concatenate([displacement(model, q_next, q_new), v_new])

    jacobian = jax.jacfwd(displaced)(jnp.zeros(3 * model.nv, v.dtype))
    return jacobian[:, : 2 * model.nv], jacobian[:, 2 * model.nv :]
