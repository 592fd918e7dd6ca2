"""Derivatives along directions, and those of accelerations in closed form."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..configuration import integrate
from ..dynamics._forward_derivatives import accelerations_and_derivatives
from ..motion import BodyMotions
from ..numerics import product
from ..typing import Velocity
from ._equation_of_motion import EquationOfMotion

# Accelerations (nv,), and their derivatives by states (nv, 2 nv) and by torques (nv, nv).
_Accelerations = tuple[Velocity, Float[Array, "nv 2*nv"], Float[Array, "nv nv"]]


def columns(
    function: Callable[..., PyTree[Array]], point: tuple[Array, ...], directions: tuple[Array, ...]
) -> tuple[PyTree[Array], PyTree[Array]]:
    """The value, and the derivative along each column of the directions."""
    return jax.vmap(lambda *x: jax.jvp(function, point, x), in_axes=1, out_axes=(None, 1))(*directions)


def jacobian(function: Callable[..., PyTree[Array]], *point: Float[Array, "_"]) -> tuple[PyTree[Array], PyTree[Array]]:
    """The value, and the derivative by all arguments, which are vectors, side by side."""
    ends = [sum(x.size for x in point[: i + 1]) for i in range(len(point))]
    units = jnp.eye(ends[-1], dtype=point[0].dtype)
    return columns(function, point, tuple(jnp.split(units, ends[:-1])))


def acceleration_by_state(
    equation: EquationOfMotion,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
    implicit: tuple[Float[Array, ""], int] | None = None,
    motions: BodyMotions | None = None,
) -> _Accelerations:
    """Accelerations without constraints, with their derivatives by `[displacement; v]` and by tau.

    They are `acceleration` or, of an `implicit` step with its length and rounds of friction, `acceleration_of_step`:
    `qdd = (M + armature)^-1 (forces - bias)`, where forces and armature depend on the state joint by joint, so that
    `(M + armature) dqdd = dforces - darmature qdd - dID`.
    """
    still = jnp.zeros_like(v)

    def loads(q: Array, v: Array, reached: Array) -> tuple[Array, Array | None]:
        if implicit is None:
            return equation.forces(q, v, tau), None
        return equation.forces_of_step(q, v, tau, implicit[0], reached)

    first = _of_loads(equation, loads, q, v, f_ext, motions, still)
    if implicit is None or not equation.has_rounds(implicit[1]):
        return first
    dt, (qdd, by_state, by_tau) = implicit[0], first
    faster = jnp.eye(len(v), 2 * len(v), len(v), dtype=v.dtype)
    slopes = faster + dt * by_state, dt * by_tau
    return _of_loads(equation, loads, q, v, f_ext, motions, v + dt * qdd, slopes)


def _of_loads(
    equation: EquationOfMotion,
    loads: Callable[..., tuple[Array, Array | None]],
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
    motions: BodyMotions | None,
    reached: Float[Array, "nv"],
    slopes_of_reached: tuple[Float[Array, "nv 2*nv"], Float[Array, "nv nv"]] | None = None,
) -> _Accelerations:
    """The same for forces and armature that depend on the state, and on velocities that depend on it and on tau."""
    model, still = equation.model, jnp.zeros_like(v)

    def load(dq: Array, dv: Array, faster: Array | float = 0.0) -> Array:
        forces, armature = loads(integrate(model, q, dq), v + dv, reached + faster)
        return forces if armature is None else forces - armature * qdd

    forces, armature = loads(q, v, reached)
    qdd, derivatives = accelerations_and_derivatives(
        equation.heavier(armature), q, v, forces, f_ext, equation.method, None, motions
    )
    by_state, by_tau = jnp.concatenate([derivatives.dq, derivatives.dv], axis=1), derivatives.dtau
    if equation.has_passive_forces or equation.stops is not None:
        _, slopes = jacobian(load, still, still, *[still] * (slopes_of_reached is not None))
        of_state, of_reached = jnp.split(product(by_tau, slopes), [2 * len(v)], axis=1)
        by_state = by_state + of_state
        if slopes_of_reached is not None:
            more_by_state, more_by_tau = (product(of_reached, slope) for slope in slopes_of_reached)
            by_state, by_tau = by_state + more_by_state, by_tau + more_by_tau
    return qdd, by_state, by_tau
