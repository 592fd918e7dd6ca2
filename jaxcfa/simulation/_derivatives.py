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
    dt: Float[Array, ""] | None = None,
    motions: BodyMotions | None = None,
) -> tuple[Velocity, Float[Array, "nv 2*nv"], Float[Array, "nv nv"]]:
    """Accelerations without constraints, with their derivatives by `[displacement; v]` and by tau.

    They are `acceleration_of_step` with a `dt`, and else `acceleration`:
    `qdd = (M + armature)^-1 (forces - bias)`, where forces and armature depend on the state joint by joint, so that
    `(M + armature) dqdd = dforces - darmature qdd - dID`.
    """
    model, still = equation.model, jnp.zeros_like(v)

    def loads(dq: Array, dv: Array) -> tuple[Array, Array | None]:
        state = integrate(model, q, dq), v + dv
        return (equation.forces(*state, tau), None) if dt is None else equation.forces_of_step(*state, tau, dt)

    def load(dq: Array, dv: Array) -> Array:
        forces, armature = loads(dq, dv)
        return forces if armature is None else forces - armature * qdd

    forces, armature = loads(still, still)
    qdd, found = accelerations_and_derivatives(
        equation.heavier(armature), q, v, forces, f_ext, equation.method, None, motions
    )
    by_state = jnp.concatenate([found.dq, found.dv], axis=1)
    if equation.has_passive_forces or equation.stops is not None:
        by_state = by_state + product(found.dtau, jacobian(load, still, still)[1])
    return qdd, by_state, found.dtau
