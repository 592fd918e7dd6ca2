"""Inverse dynamics of mechanisms with closed loops."""

from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from ..compilation import jit_of_one_state
from ..defaults import choose_schedule
from ..dynamics._inverse import inverse_dynamics_of_motions
from ..model import AbstractConstraint, Model
from ..model._arguments import driven_coordinates
from ..motion import motions_at
from ..numerics import product
from ..one_function import as_one_function
from ..structured import AbstractSchedule
from ..typing import BodyForcesLike, ConfigurationLike, NameOrNumber, VelocityLike
from ._checks import prepared
from ._relations import Constraints, constraint_wrenches
from ._system import geometry


class ConstrainedTorques(eqx.Module):
    """Torques that move a mechanism with constraints.

    **Fields:** `tau` (nv,), zero where there is no actuator; `multipliers` (k,) and `wrenches` (nc, 2, 6) of the
    constraints, as in `ConstrainedSolution`; `residual`: the largest torque that is missing where there is no actuator,
    and NaN if any torque is.
    """

    tau: Float[Array, "nv"]
    multipliers: Float[Array, "k"]
    wrenches: Float[Array, "nc 2 6"]
    residual: Float[Array, ""]


def constrained_inverse_dynamics(
    model: Model,
    constraints: AbstractConstraint | Sequence[AbstractConstraint],
    q: ConfigurationLike,
    v: VelocityLike,
    qdd: VelocityLike,
    f_ext: BodyForcesLike | None = None,
    actuated: Sequence[NameOrNumber] | bool | None = None,
    schedule: AbstractSchedule | None = None,
) -> ConstrainedTorques:
    """Joint torques and constraint forces that give the acceleration `qdd`: `M qdd + bias = tau + J^T lambda`.

    Where actuators work against one another through the loops, there are many: then the torques of least norm, and for
    these the multipliers of least norm.

    **Arguments:** `q`, `v`, `qdd`, `f_ext` as for `inverse_dynamics`; `qdd` should satisfy the constraints. `actuated`:
    names or numbers of the joints that can have torques, `False` for all; by default all but free joints, as in
    `step`. `schedule` as for `mass_operator`.

    **Returns:** a `ConstrainedTorques`; its `residual` shows whether the actuators can do it. Derivatives are
    those where the constraints stay as redundant as they are.

    **Raises:** `ValueError` for wrong shapes, unknown joints, and constraints of other models.
    """
    model, constraints, arguments = prepared(model, constraints, q=q, v=v, qdd=qdd, f_ext=f_ext)
    driven = np.isin(np.arange(model.nv), driven_coordinates(model, actuated))
    return _torques(choose_schedule(model, schedule), constraints, model, jnp.asarray(driven), *arguments)


@partial(jit_of_one_state, jit=eqx.filter_jit)
@partial(as_one_function, derivatives=False)
def _torques(
    schedule: AbstractSchedule,
    constraints: Constraints,
    model: Model,
    driven: Bool[Array, "nv"],
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    qdd: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
) -> ConstrainedTorques:
    motions = motions_at(model, q, v, schedule)
    where = geometry(model, constraints, motions)
    needed = inverse_dynamics_of_motions(model, motions, qdd, f_ext)
    forces = where.jacobian.T
    # Multipliers for joints without actuators; what these leave open makes the torques small.
    free, held = jnp.where(driven[:, None], 0, forces), jnp.where(driven[:, None], forces, 0)
    size = jnp.linalg.norm(lax.stop_gradient(forces))
    inverse = _pseudo_inverse(free, size)
    first = product(inverse, jnp.where(driven, 0, needed))
    left = held - product(held, product(inverse, free))
    multipliers = first + product(_pseudo_inverse(left, size), needed - product(held, first))
    tau = needed - product(forces, multipliers)
    # Times zero, so that NaN stays NaN.
    missing = jnp.max(jnp.where(driven, 0 * tau, jnp.abs(tau)), initial=0)
    wrenches = constraint_wrenches(constraints, where.slopes, multipliers)
    return ConstrainedTorques(jnp.where(driven, tau, 0), multipliers, wrenches, missing)


def _pseudo_inverse(matrix: Float[Array, "m k"], size: Float[Array, ""]) -> Float[Array, "k m"]:
    """Singular values that are rounding of something of this size count as zero."""
    tolerance = 100 * max(*matrix.shape, 1) * float(jnp.finfo(matrix.dtype).eps)
    own = jnp.linalg.norm(lax.stop_gradient(matrix))
    return _pinv(matrix, tolerance * size / jnp.where(own > 0, own, 1))


@jax.custom_jvp
def _pinv(matrix: Float[Array, "m k"], rtol: Float[Array, ""]) -> Float[Array, "k m"]:
    """`jnp.linalg.pinv`, whose own rule for derivatives allows no tolerance that is traced."""
    return jnp.linalg.pinv(matrix, rtol=rtol)


@_pinv.defjvp
def _rate_of_pinv(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    """While the rank stays as it is (Golub & Pereyra, The differentiation of pseudo-inverses, 1973)."""
    (a, rtol), (da, _) = primals, tangents
    p = _pinv(a, rtol)
    left = product(p, product(p.T, da.T - product(product(da.T, a), p)))
    right = product(da.T - product(p, product(a, da.T)), product(p.T, p))
    return p, left + right - product(p, product(da, p))
