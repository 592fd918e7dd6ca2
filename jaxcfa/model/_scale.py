"""Geometrically similar models."""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..joints import (
    AbstractJoint,
    Anchored,
    Composite,
    Cylindrical,
    Fixed,
    Free,
    Helical,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    Universal,
)
from ..numerics._options import known_numbers
from ..spatial import Transform
from ._carried import Carried
from ._constraints import AbstractConstraint, Connect, Distance, JointCoupling, LoopJoint, Weld
from ._given import is_concrete
from ._joint_groups import elementary_joints
from ._model import Model, require_single
from ._ranges import coupled_coordinates

# Which coordinates of a joint are lengths, in q and in v alike.
_TRANSLATIONS: dict[type, tuple[int, ...]] = {
    Prismatic: (0,),
    Cylindrical: (1,),
    Planar: (0, 1),
    Free: (0, 1, 2),
    **dict.fromkeys((Fixed, Revolute, Helical, Universal, Spherical), ()),
}


def scale(model: Model, length: ArrayLike = 1.0, density: ArrayLike = 1.0) -> Model:
    """A geometrically similar robot: `length` times as large, of a material `density` times as dense.

    - Times `length`: placements of joints and frames, centres of mass, anchors and pitches of joints, points, frames
      and rods of constraints. The same holds for ranges, spring references and keyframe coordinates (positions and
      velocities) of joints that translate, and couplings follow. Angles stay.
    - Masses times `density length^3`, inertias times `density length^5`.
    - Unchanged: gravity, and what does not follow from geometry: armature, damping, friction, stiffness, limits of
      velocity and effort, and actuators. (Position servos of joints that translate then need other control ranges.)

    Configurations with translations scaled like that are similar too: only the translations of poses change, by that
    factor. The mass matrix of rotations, without armature, is that of the model times `density length^5`.

    **Arguments:** `length`, `density`: positive numbers, which may be traced, as leaves of the model may be.

    **Raises:** `ValueError` for numbers that are not positive, a batch of models, and joints and constraints of types
    of their own, of which only joints that say `only_turns` are known to hold no lengths.
    """
    require_single(model, "scale")
    factors = [_factor(name, value, model.dtype) for name, value in (("length", length), ("density", density))]
    return _scaled(model, *factors)


def _factor(name: str, value: Any, dtype) -> Float[Array, ""]:
    if np.shape(value) != ():
        raise ValueError(f"{name} must be one number, got shape {np.shape(value)}.")
    if is_concrete(value) and not 0 < float(known_numbers(name, value)) < math.inf:
        raise ValueError(f"{name} must be a positive number, got {value}.")
    return jnp.asarray(value, dtype)


@jax.jit
def _scaled(model: Model, length: Float[Array, ""], density: Float[Array, ""]) -> Model:
    is_length = _lengths(model)
    q, v = (jnp.where(mask, length, 1) for mask in is_length)
    keyframes = model.keyframes
    lower, upper = (_scaled_end(end, q) for end in (model.limits.lower, model.limits.upper))
    return dataclasses.replace(
        model,
        joints=tuple(_scaled_joint(joint, length) for joint in model.joints),
        placement=_scaled_pose(model.placement, length),
        mass=model.mass * density * length**3,
        com=model.com * length,
        inertia=model.inertia * density * length**5,
        spring_reference=model.spring_reference * q,
        limits=dataclasses.replace(model.limits, lower=lower, upper=upper),
        frame_placement=_scaled_pose(model.frame_placement, length),
        constraints=tuple(_scaled_constraint(x, model, is_length[0], length) for x in model.constraints),
        keyframes=dataclasses.replace(keyframes, q=keyframes.q * q[None], v=keyframes.v * v[None]),
    )


def _lengths(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Masks of q and v: which coordinates are lengths."""
    q, v = np.zeros(model.nq, bool), np.zeros(model.nv, bool)
    for element, of_q, of_v in elementary_joints(model):
        lengths = list(_translations(element))
        q[of_q[:, lengths]] = True
        v[of_v[:, lengths]] = True
    return q, v


def _translations(joint: AbstractJoint) -> tuple[int, ...]:
    """Which coordinates of a joint are lengths, the same in q and in v."""
    if type(joint) in _TRANSLATIONS:
        return _TRANSLATIONS[type(joint)]
    if joint.only_turns:
        return ()
    raise ValueError(
        f"scale does not know which parameters and coordinates of a {type(joint).__name__} joint are lengths. Make it "
        "of the package's joints (Composite, Anchored), say only_turns if it has none, or lock it before."
    )


def _scaled_joint(joint: AbstractJoint, length: Float[Array, ""]) -> AbstractJoint:
    if isinstance(joint, Anchored):
        inner = _scaled_joint(joint.joint, length)
        return eqx.tree_at(lambda x: (x.joint, x.anchor), joint, (inner, joint.anchor * length))
    if isinstance(joint, Composite):
        return Composite(tuple(_scaled_joint(part, length) for part in joint.joints))
    return eqx.tree_at(lambda x: x.pitch, joint, joint.pitch * length) if isinstance(joint, Helical) else joint


def _scaled_pose(pose: Transform, length: Float[Array, ""]) -> Transform:
    return Transform(pose.rotation, pose.translation * length)


def _scaled_end(end: Float[Array, "nq"], factor: Float[Array, "nq"]) -> Float[Array, "nq"]:
    """Ends of ranges; infinite ones have no derivatives instead of NaN."""
    finite = jnp.isfinite(end)
    return jnp.where(finite, jnp.where(finite, end, 0) * factor, end)


def _scaled_constraint(
    constraint: AbstractConstraint, model: Model, is_length: np.ndarray, length: Float[Array, ""]
) -> AbstractConstraint:
    def changed(**fields: Any) -> AbstractConstraint:
        return dataclasses.replace(constraint, **fields)

    match constraint:
        case JointCoupling():
            y, x = (
                length if coordinate >= 0 and is_length[coordinate] else jnp.ones_like(length)
                for coordinate in coupled_coordinates(model, constraint)
            )
            powers = jnp.stack([x**k for k in range(constraint.coefficients.shape[-1])])
            return changed(
                coefficients=constraint.coefficients * y / powers,
                joint_offset=constraint.joint_offset * y,
                reference_offset=constraint.reference_offset * x,
            )
        case Connect():
            return changed(point1=constraint.point1 * length, point2=constraint.point2 * length)
        case Distance():
            points = {name: getattr(constraint, name) * length for name in ("point1", "point2", "length")}
            return changed(**points)
        case Weld() | LoopJoint():
            frames = {name: _scaled_pose(getattr(constraint, name), length) for name in ("frame1", "frame2")}
            pitch = getattr(constraint, "pitch", None)
            return changed(**frames) if pitch is None else changed(**frames, pitch=pitch * length)
    own = constraint.constraint if isinstance(constraint, Carried) else constraint
    raise ValueError(
        f"scale does not know which fields of {type(own).__name__} are lengths; take it out of the model's "
        "constraints, and put a scaled one back."
    )
