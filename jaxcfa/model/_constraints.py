"""Loop closures and couplings. A model carries those that its file declares; the tree dynamics does not apply them."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import dot, matmul, matvec, transpose
from ..spatial import Transform, rotation_log


class AbstractConstraint(eqx.Module):
    """A relation between the bodies or joints of a model: a residual that has to vanish."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Name in the file, or empty."""


class AbstractFrameConstraint(AbstractConstraint):
    """A relation between the poses of two bodies. Bodies are numbers, -1 for the world.

    A new one is a subclass with a `residual`, from which all its derivatives follow, and static fields `body1`, `body2`
    and `name`, the last with a default. Its other fields are points (3,), rotations (3, 3), transforms or numbers.
    """

    body1: eqx.AbstractVar[int]
    body2: eqx.AbstractVar[int]

    @abc.abstractmethod
    def residual(self, body1: Transform, body2: Transform) -> Float[Array, "k"]:
        """The residual [m, rad], zero where the constraint holds, from the bodies' poses in the world; twice
        differentiable there.

        Multipliers act along its derivatives, so they are forces and moments on body 2 if it grows with its motion.
        """


class AbstractPointConstraint(AbstractFrameConstraint):
    """A relation of where `point2` of body 2 is from `point1` of body 1 (body axes, metres)."""

    point1: eqx.AbstractVar[Float[Array, "*batch 3"]]
    point2: eqx.AbstractVar[Float[Array, "*batch 3"]]

    @abc.abstractmethod
    def relation(self, separation: Float[Array, "3"]) -> Float[Array, "k"]:
        """The residual, from the vector between the points, world axes [m]."""

    def residual(self, body1: Transform, body2: Transform) -> Float[Array, "k"]:
        return self.relation(body2.apply(self.point2) - body1.apply(self.point1))


class AbstractPoseConstraint(AbstractFrameConstraint):
    """A relation of how `frame2`, in body 2, is placed in `frame1`, in body 1."""

    frame1: eqx.AbstractVar[Transform]
    frame2: eqx.AbstractVar[Transform]

    @abc.abstractmethod
    def relation(self, rotation: Float[Array, "3 3"], translation: Float[Array, "3"]) -> Float[Array, "k"]:
        """The residual, from rotation and origin of frame 2 in frame 1 [m]."""

    def residual(self, body1: Transform, body2: Transform) -> Float[Array, "k"]:
        frame1, frame2 = body1 @ self.frame1, body2 @ self.frame2
        inverse = transpose(frame1.rotation)
        return self.relation(matmul(inverse, frame2.rotation), matvec(inverse, frame2.translation - frame1.translation))


class JointCoupling(AbstractConstraint):
    """`q[joint] = polynomial(q[reference])`, for joints of one degree of freedom (URDF mimic, MJCF `equality/joint`),
    by themselves or in a composite joint.

    With `x = q[reference] - reference_offset` and `y = q[joint] - joint_offset`, `y = sum_k coefficients[k] x^k`.
    `reference` -1 fixes the joint at the constant term.

    **Fields:** `joint`, `reference`: joint numbers; -1 is a joint that rests at zero. `coefficients` (k,), constant
    term first. `joint_coordinate`, `reference_coordinate`: which coordinate of the velocity of a composite joint it is.
    """

    joint: int = eqx.field(static=True)
    reference: int = eqx.field(static=True)
    coefficients: Float[Array, "*batch k"]
    joint_offset: Float[Array, "*batch"]
    reference_offset: Float[Array, "*batch"]
    name: str = eqx.field(static=True, default="")
    joint_coordinate: int = eqx.field(static=True, default=0)
    reference_coordinate: int = eqx.field(static=True, default=0)

    def residual(self, joint: Float[Array, ""], reference: Float[Array, ""]) -> Float[Array, ""]:
        """The residual [rad, m], zero where the coupling holds, from the joints' positions; the multiplier is the
        torque on `joint`."""
        x = reference - self.reference_offset
        value = jnp.zeros_like(x)
        for power in reversed(range(self.coefficients.shape[-1])):
            value = value * x + self.coefficients[..., power]
        return joint - self.joint_offset - value


class Connect(AbstractPointConstraint):
    """Two points coincide: `point1` of `body1` and `point2` of `body2` (body axes, metres).

    Multipliers: the force on body 2 at the point, in world axes [N].
    """

    body1: int = eqx.field(static=True)
    body2: int = eqx.field(static=True)
    point1: Float[Array, "*batch 3"]
    point2: Float[Array, "*batch 3"]
    name: str = eqx.field(static=True, default="")

    def relation(self, separation: Float[Array, "3"]) -> Float[Array, "3"]:
        return separation


class Distance(AbstractPointConstraint):
    """Two points have a distance: a massless rod between `point1` of `body1` and `point2` of `body2`.

    Multiplier: the force with which the rod pushes the points apart [N]. Where the points coincide the rod has no
    direction: a configuration that is far from closed should not start there.

    **Fields:** points in body axes [m]; `length` > 0 [m].
    """

    body1: int = eqx.field(static=True)
    body2: int = eqx.field(static=True)
    point1: Float[Array, "*batch 3"]
    point2: Float[Array, "*batch 3"]
    length: Float[Array, "*batch"]
    name: str = eqx.field(static=True, default="")

    def relation(self, separation: Float[Array, "3"]) -> Float[Array, "1"]:
        # Unlike the distance it is smooth where the points coincide; both have the same slope at the length.
        return ((dot(separation, separation) - self.length**2) / (2 * self.length))[None]


class Weld(AbstractPoseConstraint):
    """Two frames coincide: `frame1` in `body1` and `frame2` in `body2`.

    Multipliers: moment and force on body 2 at the frames' origin, in the axes of frame 1 [N m, N].
    """

    body1: int = eqx.field(static=True)
    body2: int = eqx.field(static=True)
    frame1: Transform
    frame2: Transform
    name: str = eqx.field(static=True, default="")

    def relation(self, rotation: Float[Array, "3 3"], translation: Float[Array, "3"]) -> Float[Array, "6"]:
        return jnp.concatenate([rotation_log(rotation), translation])


class LoopJoint(AbstractPoseConstraint):
    """A joint that closes a loop: frame 2 moves in frame 1 along some axes and not along the others.

    Translations are those of the origin of frame 2 along the axes of frame 1. Rotations: with one axis free both frames
    keep that axis in common (revolute); with two, the first of them in frame 1 and the second in frame 2 stay
    perpendicular (universal); with three, any (spherical).

    Multipliers: moments, then forces on body 2 at the origin of frame 2, along the constrained directions [N m, N].

    **Fields:** `frame1` in `body1`, `frame2` in `body2`; `free`: whether rotations about x, y, z and translations along
    x, y, z are. `pitch`: with the rotation about z free, the translation along it follows with so many metres a
    radian, up to whole turns (a screw); else `None`.
    """

    body1: int = eqx.field(static=True)
    body2: int = eqx.field(static=True)
    frame1: Transform
    frame2: Transform
    free: tuple[bool, bool, bool, bool, bool, bool] = eqx.field(static=True)
    pitch: Float[Array, "*batch"] | None = None
    name: str = eqx.field(static=True, default="")

    def __check_init__(self):
        if len(self.free) != 6 or not all(isinstance(x, bool) for x in self.free):
            raise ValueError(
                "free must say for rotations about x, y, z and translations along x, y, z whether they are free: "
                f"6 booleans, got {self.free!r}."
            )
        if all(self.free):
            raise ValueError("A loop joint with all axes free constrains nothing; leave it out.")
        if self.pitch is not None and self.free != (False, False, True, False, False, False):
            raise ValueError(
                f"A screw (pitch given) must have the rotation about z free and no other, got {self.free}."
            )

    def relation(self, rotation: Float[Array, "3 3"], translation: Float[Array, "3"]) -> Float[Array, "k"]:
        free = [axis for axis in range(3) if self.free[axis]]
        fixed = [axis for axis in range(3) if not self.free[axis]]
        if not free:
            angles = rotation_log(rotation)
        elif len(free) == 1:
            # Rows i of R[:, free]: the free axis of frame 2 in frame 1 has no component along the others. The signs
            # make it grow with rotations about the fixed axes.
            (axis,) = free
            sines = jnp.stack([_sign(i, axis) * rotation[3 - i - axis, axis] for i in fixed])
            # Twice the tangent of half the tilt: with sines alone opposite axes would count as the same.
            above = 1 + rotation[axis, axis]
            upright = above > 4 * jnp.finfo(rotation.dtype).eps
            angles = jnp.where(upright, 2 * sines / jnp.where(upright, above, 1), jnp.pi)
        elif len(free) == 2:
            (first, second), (axis,) = free, fixed
            angles = (_sign(axis, second) * rotation[first, second])[None]
        else:
            angles = jnp.zeros(0, rotation.dtype)
        if self.pitch is not None:
            sine, cosine = rotation[1, 0], rotation[0, 0]
            # At right angles to the axis there is no angle, nor a derivative.
            seen = sine**2 + cosine**2 > 0
            turned = self.pitch * jnp.arctan2(jnp.where(seen, sine, 0), jnp.where(seen, cosine, 1))
            turn = 2 * jnp.pi * self.pitch
            ahead = translation[2] - turned
            translation = translation.at[2].set(ahead - turn * jnp.round(ahead / jnp.where(turn == 0, 1, turn)))
        kept = [translation[axis] for axis in range(3) if not self.free[3 + axis]]
        return jnp.concatenate([angles, jnp.stack(kept)]) if kept else angles


def _sign(i: int, axis: int) -> float:
    """The sign with which a rotation about axis i moves `axis` along the third axis."""
    return 1.0 if (axis - i) % 3 == 1 else -1.0
