"""Passive joint forces: springs, viscous damping and dry friction."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..joints import AbstractJoint
from ..model import Model, map_joints
from ..model._arguments import as_arrays, is_concrete, positive_number
from ..typing import ConfigurationLike, Velocity, VelocityLike


def passive_forces(
    model: Model, q: ConfigurationLike, v: VelocityLike, friction_velocity: ArrayLike = 1e-3
) -> Velocity:
    """Springs, damping and friction of the joints, to be added to `tau`:

    `- stiffness * difference(spring_reference, q) - damping * v - friction_loss * tanh(v / friction_velocity)`

    No dynamics function adds them by itself. Dry friction is smoothed: a joint creeps below `friction_velocity`.

    **Arguments:** `q` (nq,), `v` (nv,); `friction_velocity` [rad/s, m/s], positive.

    **Returns:** (nv,) [N m, N]. **Raises:** `ValueError` for a wrong shape, or a `friction_velocity` that is not
    positive.
    """
    q, v = as_arrays(model, q=q, v=v)
    return _passive_forces(model, q, v, as_friction_velocity(friction_velocity, v.dtype))


def as_friction_velocity(value: ArrayLike, dtype: Any) -> Float[Array, ""]:
    """A `friction_velocity` as an array, positive if that can be seen."""
    if is_concrete(value):
        positive_number("friction_velocity", value)
    if np.shape(value) != ():
        raise ValueError(f"friction_velocity must be one number, got shape {np.shape(value)}. Batch with jax.vmap.")
    return jnp.asarray(value, dtype)


@jax.jit
def _passive_forces(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], friction_velocity: Float[Array, ""]
) -> Velocity:
    return springs_and_damping(model, q, v) - model.friction_loss * jnp.tanh(v / friction_velocity)


@jax.jit
def springs_and_damping(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Velocity:
    """Passive forces without dry friction."""
    return -(model.stiffness * _stretches(model, q) + model.damping * v)


def elastic_energy(model: Model, q: ConfigurationLike) -> Float[Array, ""]:
    """Energy of the joints' springs [J], `stiffness * difference(spring_reference, q)^2 / 2` in all.

    Minus its gradient in the tangent space are the torques of springs in `passive_forces`, where the springs of one
    spherical joint are equally stiff.

    **Arguments:** `q` (nq,). **Raises:** `ValueError` for a wrong shape.
    """
    (q,) = as_arrays(model, q=q)
    return _elastic_energy(model, q)


@jax.jit
def _elastic_energy(model: Model, q: Float[Array, "nq"]) -> Float[Array, ""]:
    return 0.5 * jnp.sum(model.stiffness * _stretches(model, q) ** 2)


def _stretches(model: Model, q: Float[Array, "nq"]) -> Float[Array, "nv"]:
    """The displacements of all joints from their references."""
    reference = model.spring_reference.astype(q.dtype)
    return map_joints(model, _stretch, ("q", reference), ("q", q), ("v", model.stiffness), out="v")


def _stretch(
    joint: AbstractJoint, reference: Float[Array, "nq"], q: Float[Array, "nq"], stiffness: Float[Array, "nv"]
) -> Float[Array, "nv"]:
    """The displacement of a joint from its reference; from the neutral one if that is none and no spring needs it."""
    neutral = joint.neutral().astype(q.dtype)
    known = jnp.all(jnp.isfinite(joint.difference(lax.stop_gradient(reference), neutral)))
    return joint.difference(jnp.where(known | jnp.any(stiffness != 0), reference, neutral), q)
