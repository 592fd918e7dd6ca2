"""`jaxcfa simulate --hold`: joints that are held where they begin."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..joints._elements import elements
from ..model import Model, map_joints
from ..model._joint_groups import free_dofs
from ..viz._poses import body_poses

_GRAVITY = 9.81  # m/s^2
_SAG = 0.02  # [rad], how far a joint gives way under the whole weight, at the end of a lever as long as the robot
_DELAY = 0.05  # [s], damping over stiffness


def with_held_joints(model: Model, q: jax.Array) -> Model:
    """The model with springs and dampers, in the place of its own, that hold it in a configuration (nq,).

    All joints but those of free bases; where actuators drive joints, these. The stiffness is the weight times the
    length of the robot by an angle that is not seen, for joints that translate by that length. Integrators take damping
    at the end of a step, which makes springs as stiff as these stable, too.

    **Raises:** `ValueError` if there is no joint to hold.
    """
    held = ~free_dofs(model)
    driven = np.any(np.asarray(model.actuators.moment) != 0, axis=0)
    if driven.any():
        held &= driven
    if not held.any():
        raise ValueError("--hold: the robot has no joints that could be held, but bodies that move freely.")
    stiffness = jnp.where(held, _stiffness(model, q), model.stiffness)
    springs = jnp.where(_in_q(model, held), q, model.spring_reference)
    damping = jnp.where(held, _DELAY * stiffness, model.damping)
    fields = (stiffness.astype(model.dtype), damping.astype(model.dtype), springs.astype(model.dtype))
    return eqx.tree_at(lambda m: (m.stiffness, m.damping, m.spring_reference), model, fields)


def _stiffness(model: Model, q: jax.Array) -> Float[Array, "nv"]:
    """[N m/rad, N/m]."""
    weight, length = float(jnp.sum(model.mass)) * _GRAVITY, _size(model, q)

    def one(joint, q: Float[Array, "nq"]) -> Float[Array, "nv"]:
        squares = joint.motion_subspace(q) ** 2
        return length**2 * jnp.sum(squares[:3], axis=0) + jnp.sum(squares[3:], axis=0)

    return weight / (_SAG * length) * map_joints(model, one, ("q", q), out="v")


def _size(model: Model, q: jax.Array) -> float:
    """The longest way from the origin of a body to a centre of mass [m]."""
    poses = body_poses(model, np.asarray(q)[None])
    origins, rotation = poses.translation[0, :-1], poses.rotation[0, :-1]
    centers = origins + np.einsum("bij,bj->bi", rotation, np.asarray(model.com, float))
    return max(float(np.max(np.linalg.norm(centers[:, None] - origins[None], axis=2))), 1e-3)


def _in_q(model: Model, held: np.ndarray) -> np.ndarray:
    """(nq,): the coordinates of the joints of which a coordinate of the velocity (nv,) is held."""
    found = np.zeros(model.nq, bool)
    for joint, group in zip(model.joints, model.topology.groups, strict=True):
        for _, in_q, in_v in elements(joint):
            found[group.q_index[:, in_q]] = np.any(held[group.v_index[:, in_v]], axis=1, keepdims=True)
    return found
