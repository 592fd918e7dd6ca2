"""Constraints between frames and joints given by name."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..joints import AbstractJoint, Cylindrical, Fixed, Helical, Planar, Prismatic, Revolute, Spherical, Universal
from ..model import Connect, Distance, JointCoupling, LoopJoint, Model, Weld
from ..model._arguments import as_array, check_instance, check_positive, is_concrete
from ..model._model import joint_part
from ..model._parts import parts_of_composites
from ..numerics._options import quoted
from ..spatial import Transform
from ..typing import NameOrNumber

# A frame or body, or a pose in one of these.
FrameOrBody = NameOrNumber | tuple[NameOrNumber, Transform]

_FREE = {
    Fixed: (False, False, False, False, False, False),
    Revolute: (False, False, True, False, False, False),
    Helical: (False, False, True, False, False, False),
    Prismatic: (False, False, False, False, False, True),
    Cylindrical: (False, False, True, False, False, True),
    Planar: (False, False, True, True, True, False),
    Spherical: (True, True, True, False, False, False),
    Universal: (True, True, False, False, False, False),
}


def weld(model: Model, frame1: FrameOrBody, frame2: FrameOrBody, name: str = "") -> Weld:
    """Two frames coincide.

    **Arguments:** `frame1`, `frame2`: names of frames or bodies, or numbers (`Model.frame_number`); or a pair of one of
    these and a pose in it, for example `(-1, frame_pose(model, q, "foot"))`.

    **Raises:** `ValueError` for unknown names, and for two frames of the same body.
    """
    (body1, pose1), (body2, pose2) = _places(model, frame1, frame2)
    return Weld(body1, body2, pose1, pose2, name)


def connect(model: Model, frame1: FrameOrBody, frame2: FrameOrBody, name: str = "") -> Connect:
    """The origins of two frames coincide: a ball joint. **Arguments** and **Raises** as for `weld`."""
    (body1, pose1), (body2, pose2) = _places(model, frame1, frame2)
    return Connect(body1, body2, pose1.translation, pose2.translation, name)


def distance(model: Model, frame1: FrameOrBody, frame2: FrameOrBody, length: ArrayLike, name: str = "") -> Distance:
    """The origins of two frames have a distance [m]. **Arguments** and **Raises** as for `weld`."""
    (body1, pose1), (body2, pose2) = _places(model, frame1, frame2)
    try:
        check_positive("length", length)
    except ValueError as error:
        raise ValueError(f"{error} Use connect for points that coincide.") from None
    return Distance(body1, body2, pose1.translation, pose2.translation, jnp.asarray(length, model.dtype), name)


def loop_joint(
    model: Model,
    frame1: FrameOrBody,
    frame2: FrameOrBody,
    joint: AbstractJoint | None = None,
    *,
    free: Sequence[bool] | None = None,
    name: str = "",
) -> LoopJoint:
    """Two frames related as by a joint, or along chosen axes only.

    **Arguments:** `frame1`, `frame2` as for `weld`. Either `joint`: `Revolute`, `Prismatic`, `Helical`, `Cylindrical`,
    `Planar`, `Spherical`, `Universal` (with perpendicular axes) or `Fixed`, its axes in frame 1 and through both
    origins; or `free`: 6 booleans, see `LoopJoint`.

    **Raises:** as `weld`, and for other joints.
    """
    (body1, pose1), (body2, pose2) = _places(model, frame1, frame2)
    if (joint is None) == (free is None):
        raise ValueError("Give either joint or free, to say how the frames can move.")
    if free is not None and np.shape(free) != (6,):
        raise ValueError(f"free must be 6 booleans, for rotations about and translations along x, y, z, got {free!r}.")
    if joint is None:
        return LoopJoint(body1, body2, pose1, pose2, tuple(map(bool, free)), name=name)  # type: ignore[arg-type]
    check_instance("joint", joint, AbstractJoint, "a joint such as Revolute((0, 0, 1))")
    if type(joint) not in _FREE:
        names = ", ".join(kind.__name__ for kind in _FREE)
        raise ValueError(f"A loop can be closed by a joint that is {names}; got {joint!r}. Use free=... for others.")
    axes = Transform(jnp.asarray(_axes(joint), model.dtype), jnp.zeros(3, model.dtype))
    pitch = jnp.asarray(joint.pitch, model.dtype) if isinstance(joint, Helical) else None
    return LoopJoint(body1, body2, pose1 @ axes, pose2 @ axes, _FREE[type(joint)], pitch, name)


def couple(
    model: Model,
    joint: NameOrNumber,
    reference: NameOrNumber | None,
    coefficients: ArrayLike | Sequence[ArrayLike],
    name: str = "",
) -> JointCoupling:
    """The position of a joint is a polynomial of another's: gears, mimicking fingers.

    **Arguments:** `joint`, `reference`: names or numbers of joints of one degree of freedom, or names of such in a
    composite joint; `None` fixes the joint. `coefficients`: constant term first; or that alone.

    **Raises:** `ValueError` for unknown names, other joints, a joint coupled with itself, and no coefficients.
    """
    first, second = joint_part(model, joint), None if reference is None else joint_part(model, reference)
    for part in (first, second):
        if part is not None and not part.q.stop - part.q.start == part.v.stop - part.v.start == 1:
            own = [x.name for x in parts_of_composites(model.joints, model.topology) if x.body == part.body]
            remedy = f"; of those in it, {quoted(own)}, give one." if own and part.place is None else "."
            raise ValueError(
                f"Only joints of one degree of freedom can be coupled, joint {part.name!r} has "
                f"{part.v.stop - part.v.start}{remedy}"
            )
    if first == second:
        raise ValueError(f"Joint {joint!r} cannot be coupled with itself.")
    values = jnp.atleast_1d(as_array("coefficients")(coefficients).astype(model.dtype))
    if values.ndim != 1 or not len(values) or (is_concrete(values) and not np.all(np.isfinite(values))):
        raise ValueError(f"coefficients must be one finite number or more, got {coefficients!r}.")
    zero = jnp.zeros((), model.dtype)
    starts = model.topology.v_starts
    return JointCoupling(
        joint=first.body,
        reference=-1 if second is None else second.body,
        coefficients=values,
        joint_offset=zero,
        reference_offset=zero,
        name=name,
        joint_coordinate=first.v.start - int(starts[first.body]),
        reference_coordinate=0 if second is None else second.v.start - int(starts[second.body]),
    )


def _places(model: Model, frame1: FrameOrBody, frame2: FrameOrBody) -> list[tuple[int, Transform]]:
    places = [_place(model, frame) for frame in (frame1, frame2)]
    if places[0][0] == places[1][0]:
        raise ValueError(f"{frame1!r} and {frame2!r} belong to the same body; a constraint between them is no loop.")
    return places


def _place(model: Model, frame: FrameOrBody) -> tuple[int, Transform]:
    if not isinstance(frame, tuple):
        return model.locate(frame)
    if len(frame) != 2 or not isinstance(frame[1], Transform):
        raise ValueError(f"A frame must be a name, a number, or a pair of such a one and a Transform, got {frame!r}.")
    body, placement = model.locate(frame[0])
    return body, placement @ frame[1]


def _axes(joint: AbstractJoint) -> Float[Array | np.ndarray, "3 3"]:
    """Axes for a frame in which the joint's axis is z; for a universal joint its axes are x and y."""
    # Known numbers by NumPy: inside of compiled functions, JAX would trace what is computed with them.
    known = is_concrete(joint)
    xp: Any = np if known else jnp

    def given(axis: Array | np.ndarray) -> Any:
        return np.asarray(axis, float) if known else axis

    if isinstance(joint, Universal):
        first, second = given(joint.axis1), given(joint.axis2)
        if known and abs(np.sum(first * second)) > 1e-9:
            raise ValueError(
                "The axes of a universal joint that closes a loop must be perpendicular, got "
                f"{first.tolist()} and {second.tolist()}."
            )
        return xp.stack([first, second, xp.cross(first, second)], axis=1)
    if isinstance(joint, (Fixed, Spherical)):
        return np.eye(3)
    axis = given(joint.normal if isinstance(joint, Planar) else joint.axis)  # type: ignore[attr-defined]
    axis = axis / xp.sqrt(xp.sum(axis**2))
    least = xp.arange(3) == xp.argmin(xp.abs(axis))
    first = xp.cross(least.astype(axis.dtype), axis)
    first = first / xp.sqrt(xp.sum(first**2))
    second, along = xp.cross(axis, first), xp.array_equal(axis, np.array([0.0, 0.0, 1.0]))
    # The frame itself, where its axis is z already.
    first, second = xp.where(along, second, first), xp.where(along, -first, second)
    return xp.stack([first, second, axis], axis=1)
