"""Inverse dynamics by the recursive Newton-Euler algorithm."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._arguments import as_arrays
from .._defaults import choose_schedule
from .._motion import BodyMotion, bias_wrench, fictitious_acceleration, split_bodies, sweep_motions
from .._motion_scan import scan_accelerations, scan_motions, scan_wrenches
from .._perturbed import instantiate, is_perturbed, jvp_of_perturbed
from .._types import BodyForcesLike, ConfigurationLike, Velocity, VelocityLike
from ..model import Model, MotionSubspace, pad_dofs, split_dofs
from ..spatial import Inertia, shift_force
from ..structured import AbstractSchedule, Sequential
from ..structured._scan import SEQUENTIAL
from ..structured._tree_sweep import sweep_inward
from ._inverse_tangent import Direction, InverseMotion, inverse_dynamics_tangent


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
    return _torques_and_wrenches(model, q, v, qdd, f_ext, schedule)[0]


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
    return _torques_and_wrenches(model, q, v, qdd, f_ext, schedule)[1]


@jax.custom_jvp
def _torques_and_wrenches(
    model: Model, q: Array, v: Array, qdd: Array, f_ext: Array, schedule: AbstractSchedule
) -> tuple[Velocity, Float[Array, "nb 6"]]:
    return newton_euler(model, q, v, qdd, f_ext, schedule)


def newton_euler(
    model: Model, q: Array, v: Array, qdd: Array, f_ext: Array, schedule: AbstractSchedule
) -> tuple[Velocity, Float[Array, "nb 6"]]:
    """Torques (nv,) and wrenches (nb, 6) by the recursions as they stand, which JAX can differentiate too."""
    return _outputs(model, qdd, _motion(model, q, v, qdd, f_ext, schedule))


def _torques_and_wrenches_jvp(primals: tuple, tangents: tuple) -> tuple[tuple, tuple]:
    """In closed form with respect to the state; by differentiating the recursions with respect to the model."""
    model, q, v, qdd, f_ext, schedule = primals
    model_dot, *motion_dot, f_ext_dot, _ = tangents
    where = _motion(*primals)
    q_dot, v_dot, qdd_dot = map(instantiate, motion_dot)
    along = Direction(q_dot, v_dot, qdd_dot, f_ext_dot if is_perturbed(f_ext_dot) else None)
    outputs_dot = inverse_dynamics_tangent(model, q, v, qdd, where, along, schedule)
    if is_perturbed(model_dot):
        _, by_model = jvp_of_perturbed(lambda m: newton_euler(m, q, v, qdd, f_ext, schedule), (model,), (model_dot,))
        outputs_dot = jax.tree.map(jnp.add, outputs_dot, by_model)
    return _outputs(model, qdd, where), outputs_dot


_torques_and_wrenches.defjvp(_torques_and_wrenches_jvp, symbolic_zeros=True)


def _outputs(model: Model, qdd: Array, where: InverseMotion) -> tuple[Velocity, Float[Array, "nb 6"]]:
    return where.subspace.transpose_mv(where.total) + model.armature * qdd, where.total


def _motion(model: Model, q: Array, v: Array, qdd: Array, f_ext: Array, schedule: AbstractSchedule) -> InverseMotion:
    """How all bodies move, and the wrenches that this takes."""
    if isinstance(schedule, Sequential):
        return _by_sweeps(model, q, v, qdd, f_ext)
    motion = scan_motions(model, q, v, schedule)
    base = fictitious_acceleration(model).astype(q.dtype)
    acceleration = scan_accelerations(model, motion, pad_dofs(model, qdd), base, schedule)
    inertia = model.spatial_inertia.rotated(motion.rotation)
    wrench = inertia.mv(acceleration) + bias_wrench(inertia, motion.angular, f_ext)
    total = scan_wrenches(model, motion.offset, wrench, schedule)
    blocks = tuple(split_bodies(model, motion.subspace))
    subspace = MotionSubspace(tuple(b[..., : s.d] for b, s in zip(blocks, model.topology.segments, strict=True)), model)
    return InverseMotion(motion.rotation, motion.offset, subspace, motion.angular, acceleration, total)


def _by_sweeps(model: Model, q: Array, v: Array, qdd: Array, f_ext: Array) -> InverseMotion:
    def outward(parent: Array, motion: BodyMotion, qdd: Array, inertia: Inertia, f_ext: Array):
        acceleration = motion.acceleration(parent, qdd)
        inertia = inertia.rotated(motion.rotation)
        wrench = inertia.mv(acceleration) + bias_wrench(inertia, motion.angular, f_ext)
        return acceleration, (motion, acceleration, wrench)

    def inward(children: Array, x: tuple[Array, Array]):
        offset, wrench = x
        total = wrench + children
        return shift_force(total, offset), total

    bodies = split_bodies(model, model.spatial_inertia), split_bodies(model, f_ext)
    base = fictitious_acceleration(model).astype(q.dtype)
    links = sweep_motions(model, q, v, outward, base, split_dofs(model, qdd), *bodies)
    wrenches = [(motion.offset, wrench) for motion, _, wrench in links]
    total = sweep_inward(model.topology.schedule, inward, jnp.zeros_like(base), wrenches)
    subspace = MotionSubspace(tuple(motion.subspace for motion, *_ in links), model)
    rest = [(m.rotation, m.offset, m.angular, a, t) for (m, a, _), t in zip(links, total, strict=True)]
    rotation, offset, angular, acceleration, total = jax.tree.map(lambda *x: jnp.concatenate(x), *rest)
    return InverseMotion(rotation, offset, subspace, angular, acceleration, total)
