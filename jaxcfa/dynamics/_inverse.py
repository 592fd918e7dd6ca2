"""Inverse dynamics by the recursive Newton-Euler algorithm."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._arguments import as_arrays
from .._defaults import choose_schedule
from .._motion import BodyMotion, bias_wrench, fictitious_acceleration, split_bodies, sweep_motions
from .._motion_scan import scan_accelerations, scan_motions, scan_wrenches
from .._small import matvec, transpose
from .._types import BodyForcesLike, ConfigurationLike, Velocity, VelocityLike
from ..model import Model, join_dofs, pad_dofs, split_dofs, unpad_dofs
from ..spatial import Inertia, shift_force
from ..structured import AbstractSchedule, Sequential
from ..structured._scan import SEQUENTIAL
from ..structured._tree_sweep import sweep_inward


def inverse_dynamics(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    qdd: VelocityLike,
    f_ext: BodyForcesLike | None = None,
    schedule: AbstractSchedule | None = None,
) -> Velocity:
    """Joint torques and forces that give the acceleration `qdd`: `tau = M(q) qdd + bias(q, v)`.

    Recursive Newton-Euler algorithm (Luh, Walker & Paul 1980; Featherstone, RBDA, table 5.1) in world axes.

    **Arguments:** `q` (nq,); `v` (nv,) [rad/s, m/s]; `qdd` (nv,) [rad/s^2, m/s^2]; `f_ext` (nb, 6): external wrench
    `[moment; force]` on each body, world axes, at the body's origin [N m, N]. `schedule`: `Sequential()`, or one that
    is parallel along the mechanism such as `Doubling()`; see `default_schedule`.

    **Returns:** `tau` (nv,) [N m, N]. Armature is included, `passive_forces` are not.

    **Raises:** `ValueError` for a wrong shape.
    """
    arguments = as_arrays(model, q=q, v=v, qdd=qdd, f_ext=f_ext)
    return inverse_dynamics_of_arrays(model, *arguments, choose_schedule(model, schedule))


rnea = inverse_dynamics


def bias_forces(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    f_ext: BodyForcesLike | None = None,
    schedule: AbstractSchedule | None = None,
) -> Velocity:
    """Coriolis, centrifugal, gravity and (negative) external forces: `inverse_dynamics` at zero acceleration.

    **Arguments:** as for `inverse_dynamics`. **Returns:** (nv,) [N m, N].
    """
    q, v, f_ext = as_arrays(model, q=q, v=v, f_ext=f_ext)
    return inverse_dynamics_of_arrays(model, q, v, jnp.zeros_like(v), f_ext, choose_schedule(model, schedule))


@jax.jit
def inverse_dynamics_of_arrays(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    qdd: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
    schedule: AbstractSchedule = SEQUENTIAL,
) -> Velocity:
    """`inverse_dynamics` of arrays known to be right."""
    tau, _ = _by_sweeps_or_scans(model, q, v, qdd, f_ext, schedule)
    return tau + model.armature * qdd


@jax.jit
def joint_wrenches_of_arrays(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    qdd: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
    schedule: AbstractSchedule = SEQUENTIAL,
) -> Float[Array, "nb 6"]:
    """Wrenches that joints apply to their bodies, world axes, at the bodies' origins."""
    return _by_sweeps_or_scans(model, q, v, qdd, f_ext, schedule)[1]


def _by_sweeps_or_scans(model: Model, q: Array, v: Array, qdd: Array, f_ext: Array, schedule: AbstractSchedule):
    """Projections of the joints' wrenches on their motion (nv,), and the wrenches (nb, 6)."""
    if isinstance(schedule, Sequential):
        return _by_sweeps(model, q, v, qdd, f_ext)
    motion = scan_motions(model, q, v, schedule)
    base = fictitious_acceleration(model).astype(q.dtype)
    acceleration = scan_accelerations(model, motion, pad_dofs(model, qdd), base, schedule)
    inertia = model.spatial_inertia.rotated(motion.rotation)
    wrench = inertia.mv(acceleration) + bias_wrench(inertia, motion.angular, f_ext)
    total = scan_wrenches(model, motion.offset, wrench, schedule)
    return unpad_dofs(model, matvec(transpose(motion.subspace), total)), total


def _by_sweeps(model: Model, q: Array, v: Array, qdd: Array, f_ext: Array) -> tuple[Velocity, Float[Array, "nb 6"]]:
    def outward(parent: Array, motion: BodyMotion, qdd: Array, inertia: Inertia, f_ext: Array):
        acceleration = motion.acceleration(parent, qdd)
        inertia = inertia.rotated(motion.rotation)
        wrench = inertia.mv(acceleration) + bias_wrench(inertia, motion.angular, f_ext)
        return acceleration, (motion.offset, motion.subspace, wrench)

    def inward(children: Array, x: tuple[Array, Array, Array]):
        offset, subspace, wrench = x
        total = wrench + children
        return shift_force(total, offset), (matvec(transpose(subspace), total), total)

    bodies = split_bodies(model, model.spatial_inertia), split_bodies(model, f_ext)
    base = fictitious_acceleration(model).astype(q.dtype)
    links = sweep_motions(model, q, v, outward, base, split_dofs(model, qdd), *bodies)
    outputs = sweep_inward(model.topology.schedule, inward, jnp.zeros_like(base), links)
    return join_dofs(model, [tau for tau, _ in outputs]), jnp.concatenate([total for _, total in outputs])
