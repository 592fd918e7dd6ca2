"""Inverse dynamics by the recursive Newton-Euler algorithm."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._arguments import as_arrays
from .._motion import Poses, accelerations, bias_wrenches, motions, world_inertias
from .._types import BodyForcesLike, ConfigurationLike, Velocity, VelocityLike
from ..model import Model
from ..spatial import shift_force
from ..structured._tree_sweep import sweep_inward


def inverse_dynamics(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    qdd: VelocityLike,
    f_ext: BodyForcesLike | None = None,
) -> Velocity:
    """Joint torques and forces that give the acceleration `qdd`: `tau = M(q) qdd + bias(q, v)`.

    Recursive Newton-Euler algorithm (Luh, Walker & Paul 1980; Featherstone, RBDA, table 5.1) in world axes.

    **Arguments:** `q` (nq,); `v` (nv,) [rad/s, m/s]; `qdd` (nv,) [rad/s^2, m/s^2]; `f_ext` (nb, 6): external wrench
    `[moment; force]` on each body, world axes, at the body's origin [N m, N].

    **Returns:** `tau` (nv,) [N m, N]. Armature is included, `passive_forces` are not.

    **Raises:** `ValueError` for a wrong shape.
    """
    return _inverse_dynamics(model, *as_arrays(model, q=q, v=v, qdd=qdd, f_ext=f_ext))


def bias_forces(
    model: Model, q: ConfigurationLike, v: VelocityLike, f_ext: BodyForcesLike | None = None
) -> Velocity:
    """Coriolis, centrifugal, gravity and (negative) external forces: `inverse_dynamics` at zero acceleration.

    **Arguments:** as for `inverse_dynamics`. **Returns:** (nv,) [N m, N].
    """
    q, v, f_ext = as_arrays(model, q=q, v=v, f_ext=f_ext)
    return _inverse_dynamics(model, q, v, jnp.zeros_like(v), f_ext)


@jax.jit
def _inverse_dynamics(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    qdd: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
) -> Velocity:
    where, motion = motions(model, q, v)
    inertia = world_inertias(model, where.pose)
    # A world that accelerates upwards replaces gravity.
    base = jnp.concatenate([jnp.zeros(3, q.dtype), -model.gravity.astype(q.dtype)])
    acceleration = accelerations(model, where, motion, qdd, base)
    wrench = inertia.mv(acceleration) + bias_wrenches(inertia, motion, f_ext)
    return where.subspace.transpose_mv(link_wrenches(model, where, wrench)) + model.armature * qdd


def link_wrenches(model: Model, where: Poses, wrench: Float[Array, "nb 6"]) -> Float[Array, "nb 6"]:
    """Wrenches that the joints transmit, from the ones that move the bodies: sums over subtrees, inward."""

    def step(children: Array, x: tuple[Array, Array]):
        own, offset = x
        total = own + children
        return shift_force(total, offset), total

    zero = jnp.zeros(6, wrench.dtype)
    (totals,) = sweep_inward(model.topology.schedule, step, zero, [(wrench, where.offset)])
    return totals
