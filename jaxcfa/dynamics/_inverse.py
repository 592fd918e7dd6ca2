"""Inverse dynamics by the recursive Newton-Euler algorithm."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..compilation import jit_of_one_state
from ..model import Model, join_bodies, split_bodies
from ..model._arguments import as_arrays
from ..motion import (
    BodyMotions,
    Link,
    accelerations,
    drifts,
    joint_torques,
    motions_at,
    of_motions,
    resting_world,
    schedule_for,
    total_forces,
)
from ..numerics import add, is_perturbed, jvp_of_perturbed
from ..one_function import as_one_function
from ..spatial import Force, Motion
from ..structured import AbstractSchedule
from ..typing import BodyForces, BodyForcesLike, ConfigurationLike, Velocity, VelocityLike
from ._inverse_tangent import Direction, InverseMotion, inverse_dynamics_tangent


def inverse_dynamics(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    qdd: VelocityLike,
    f_ext: BodyForcesLike | None = None,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> Velocity:
    """Joint torques and forces that give the acceleration `qdd`: `tau = M(q) qdd + bias(q, v)`.

    Recursive Newton-Euler algorithm (Luh, Walker & Paul 1980; Featherstone, RBDA, table 5.1) in world axes.

    **Arguments:** `q` (nq,); `v` (nv,) [rad/s, m/s]; `qdd` (nv,) [rad/s^2, m/s^2]; `f_ext` (nb, 6): external wrench
    `[moment; force]` on each body, world axes, at the body's origin [N m, N]. `schedule`: `Sequential()`, or one that
    is parallel along the mechanism such as `Doubling()`; see `default_schedule`. `motions`: `body_motions` of the same
    q and v, if they are known already.

    **Returns:** `tau` (nv,) [N m, N]. Armature is included, `passive_forces` are not.

    **Raises:** `ValueError` for a wrong shape.
    """
    q, v, qdd, f_ext = as_arrays(model, q=q, v=v, qdd=qdd, f_ext=f_ext)
    return _inverse_dynamics(model, q, v, qdd, f_ext, schedule_for(model, schedule, motions, q, v), motions)


rnea = inverse_dynamics


def bias_forces(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    f_ext: BodyForcesLike | None = None,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> Velocity:
    """Coriolis, centrifugal, gravity and (negative) external forces: `inverse_dynamics` at zero acceleration.

    **Arguments:** as for `inverse_dynamics`. **Returns:** (nv,) [N m, N].
    """
    q, v, f_ext = as_arrays(model, q=q, v=v, f_ext=f_ext)
    schedule = schedule_for(model, schedule, motions, q, v)
    return _inverse_dynamics(model, q, v, jnp.zeros_like(v), f_ext, schedule, motions)


@jit_of_one_state
@as_one_function
def _inverse_dynamics(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    qdd: Float[Array, "nv"],
    f_ext: BodyForces,
    schedule: AbstractSchedule,
    motions: BodyMotions | None,
) -> Velocity:
    return inverse_dynamics_of_motions(model, motions_at(model, q, v, schedule, motions, by_rules=True), qdd, f_ext)


def gravity_forces(
    model: Model, q: ConfigurationLike, schedule: AbstractSchedule | None = None, motions: BodyMotions | None = None
) -> Velocity:
    """Joint torques and forces that hold the mechanism still against gravity: `bias_forces` at rest.

    The gradient of `potential_energy` in the tangent space.

    **Arguments:** `q` (nq,); `schedule` as for `inverse_dynamics`; `motions`: `body_motions` of the same q, if they are
    known already.

    **Returns:** (nv,) [N m, N]. **Raises:** `ValueError` for a wrong shape.
    """
    return _gravity_forces(model, motions, schedule, q=q)


@of_motions
def _gravity_forces(model: Model, motions: BodyMotions) -> Velocity:
    world = resting_world(model, motions.q.dtype)
    return joint_torques(motions, total_forces(motions, [link.inertia @ world for link in motions.links]))


def inverse_dynamics_of_motions(
    model: Model, motions: BodyMotions, qdd: Float[Array, "nv"], f_ext: BodyForces
) -> Velocity:
    """`inverse_dynamics` without checks of its arguments."""
    return _torques_and_wrenches(model, motions, qdd, f_ext)[0]


def bias_of_motions(model: Model, motions: BodyMotions, f_ext: BodyForces) -> Velocity:
    """`bias_forces` by the recursions as they stand, of which the motions have one already."""
    base = resting_world(model, f_ext.dtype)
    external = [Force.of(f) for f in split_bodies(motions.topology, f_ext)]
    own = [
        newton(link, drift + base, f) for link, drift, f in zip(motions.links, drifts(motions), external, strict=True)
    ]
    return joint_torques(motions, total_forces(motions, own))


def mass_product_of_motions(model: Model, motions: BodyMotions, x: Float[Array, "nv"]) -> Velocity:
    """`M x`: the torques that accelerations x take from rest without gravity."""
    unloaded = jnp.zeros((model.nb, 6), x.dtype)
    return inverse_dynamics_of_motions(without_gravity(model), motions.at_rest(), x, unloaded)


def without_gravity(model: Model) -> Model:
    """The same model where nothing weighs."""
    return eqx.tree_at(lambda m: m.gravity, model, replace_fn=jnp.zeros_like)


def joint_wrenches_of_motions(
    model: Model, motions: BodyMotions, qdd: Float[Array, "nv"], f_ext: BodyForces
) -> BodyForces:
    """Wrenches that joints apply to their bodies, world axes, at the bodies' origins."""
    return _torques_and_wrenches(model, motions, qdd, f_ext)[1]


@jax.custom_jvp
def _torques_and_wrenches(model: Model, motions: BodyMotions, qdd: Array, f_ext: Array) -> tuple[Velocity, BodyForces]:
    return newton_euler(model, motions, qdd, f_ext)


def newton_euler(model: Model, motions: BodyMotions, qdd: Array, f_ext: Array) -> tuple[Velocity, BodyForces]:
    """Torques (nv,) and wrenches (nb, 6) by the recursions as they stand, which JAX can differentiate too."""
    _, totals = accelerations_and_forces(model, motions, qdd, f_ext)
    return _outputs(model, motions, qdd, totals)


def _torques_and_wrenches_jvp(primals: tuple, tangents: tuple) -> tuple[tuple, tuple]:
    """In closed form with respect to the state; by differentiating the recursions with respect to the model.

    The motions only save work: what depends on q and v does so through their q and v.
    """
    model, motions, qdd, f_ext = primals
    model_dot, motions_dot, qdd_dot, f_ext_dot = tangents
    accelerations, totals = accelerations_and_forces(*primals)
    where = InverseMotion.of(motions, accelerations, totals)
    along = Direction(motions_dot.q, motions_dot.v, qdd_dot, f_ext_dot)
    outputs = _outputs(model, motions, qdd, totals)
    outputs_dot = jax.tree.map(jnp.zeros_like, outputs)
    if is_perturbed(along):
        outputs_dot = inverse_dynamics_tangent(model, motions, qdd, where, along)
    if is_perturbed(model_dot):

        def of_model(model: Model) -> tuple[Array, Array]:
            again = motions_at(model, motions.q, motions.v, motions.schedule)
            return newton_euler(model, again, qdd, f_ext)

        _, by_model = jvp_of_perturbed(of_model, (model,), (model_dot,))
        outputs_dot = add(outputs_dot, by_model)
    return outputs, outputs_dot


_torques_and_wrenches.defjvp(_torques_and_wrenches_jvp, symbolic_zeros=True)


def _outputs(model: Model, motions: BodyMotions, qdd: Array, totals: list[Force]) -> tuple[Velocity, BodyForces]:
    wrenches = join_bodies(motions.topology, [total.array() for total in totals])
    return joint_torques(motions, totals) + model.armature * qdd, wrenches


def accelerations_and_forces(
    model: Model, motions: BodyMotions, qdd: Array, f_ext: Array
) -> tuple[list[Motion], list[Force]]:
    """Accelerations of all bodies, in a world that accelerates against gravity, and the wrenches on all joints."""
    moved = accelerations(motions, qdd, resting_world(model, qdd.dtype))
    external = [Force.of(f) for f in split_bodies(motions.topology, f_ext)]
    own = [newton(*x) for x in zip(motions.links, moved, external, strict=True)]
    return moved, total_forces(motions, own)


def newton(link: Link, acceleration: Motion, external: Force) -> Force:
    """`F = I A + p`: what moves a body by itself, where `p = [w x (J w); w x (w x h)] - external`."""
    return link.inertia @ acceleration + link.inertia.gyroscopic(link.velocity.angular) - external
