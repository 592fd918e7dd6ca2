"""Rigid transforms (poses)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..numerics import cross, dot, matmul, matvec, transpose
from ..numerics._options import any_numbers, common_floating_type
from ._numbers import of_numbers, of_sequence
from ._rotation import (
    axis_angle_to_matrix,
    is_small,
    matrix_to_axis_angle,
    matrix_to_quaternion,
    matrix_to_rpy,
    quaternion_to_matrix,
    rotation_exp,
    rotation_log,
    rpy_to_matrix,
    unit,
)

# How far a rotation that a user gives may be from orthogonal: digits of a printed matrix.
_ORTHOGONAL = 1e-3
_ARRAYS = (jax.Array, np.ndarray)
_SHAPES = {"rotation": (3, 3), "translation": (3,)}


class Transform(eqx.Module):
    """Pose of a frame B in a frame A: `x_A = rotation x_B + translation`. Leading axes are a batch.

    The methods `from_...` take numbers, sequences and arrays, and a translation of zero where none is given.

    **Fields:** `rotation` (columns are B's axes in A), `translation` (B's origin in A, metres).

    **Raises:** `ValueError` for arrays of other shapes.
    """

    rotation: Float[Array, "*batch 3 3"] = eqx.field(converter=of_sequence("rotation"))
    translation: Float[Array, "*batch 3"] = eqx.field(converter=of_sequence("translation"))

    def __check_init__(self):
        for name, shape in _SHAPES.items():
            value = getattr(self, name)
            # Anything else may stand for arrays, such as axes for jax.vmap.
            if isinstance(value, _ARRAYS) and value.shape[-len(shape) :] != shape:
                expected = ", ".join(map(str, ("...", *shape)))
                raise ValueError(
                    f"The {name} of a Transform must have shape ({expected}), got {value.shape}. Quaternions, angles "
                    "and matrices (4, 4) are for Transform.from_quaternion and the like."
                )

    @staticmethod
    def identity(dtype: jnp.dtype | None = None) -> "Transform":
        """The pose of a frame in itself."""
        return Transform(jnp.eye(3, dtype=dtype), jnp.zeros(3, dtype))

    @staticmethod
    def from_translation(translation: ArrayLike) -> "Transform":
        """A translation (..., 3) [m] without rotation."""
        (point,) = _floating(translation=(translation, 3))
        return Transform(jnp.broadcast_to(jnp.eye(3, dtype=point.dtype), (*point.shape, 3)), point)

    @staticmethod
    def from_matrix(matrix: ArrayLike) -> "Transform":
        """From homogeneous 4 x 4 matrices (..., 4, 4).

        **Raises:** `ValueError` for another shape, and for what is known to be no rigid transform.
        """
        (array,) = _floating(matrix=(matrix, None))
        if array.shape[-2:] != (4, 4):
            raise ValueError(
                f"matrix must have shape (..., 4, 4), got {array.shape}. A rotation (..., 3, 3) and a translation are "
                "Transform(rotation, translation)."
            )
        if not isinstance(array, jax.core.Tracer):
            _check_rigid(np.asarray(array))
        return Transform(array[..., :3, :3], array[..., :3, 3])

    @staticmethod
    def from_quaternion(quaternion: ArrayLike, translation: ArrayLike | None = None) -> "Transform":
        """From quaternions (..., 4) `[w, x, y, z]` of any length but zero.

        **Raises:** `ValueError` for another shape, and for a quaternion known to be zero.
        """
        q, point = _floating(quaternion=(quaternion, 4), translation=(translation, 3))
        _check_length("quaternion", q, "The identity is [1, 0, 0, 0].")
        return _posed(quaternion_to_matrix(q), point)

    @staticmethod
    def from_rpy(
        roll: ArrayLike, pitch: ArrayLike, yaw: ArrayLike, translation: ArrayLike | None = None
    ) -> "Transform":
        """From turns about the fixed axes x, y, z in turn [rad], as in URDF: `Rz(yaw) Ry(pitch) Rx(roll)`."""
        each = _floating(roll=(roll, None), pitch=(pitch, None), yaw=(yaw, None))
        angles = jnp.stack(jnp.broadcast_arrays(*each), axis=-1)
        rpy, point = _floating(angles=(angles, 3), translation=(translation, 3))
        return _posed(rpy_to_matrix(rpy), point)

    @staticmethod
    def from_axis_angle(axis: ArrayLike, angle: ArrayLike, translation: ArrayLike | None = None) -> "Transform":
        """From turns by `angle` (...) [rad] about `axis` (..., 3) of any length but zero.

        **Raises:** `ValueError` for another shape, and for an axis known to be zero.
        """
        direction, turn, point = _floating(axis=(axis, 3), angle=(angle, None), translation=(translation, 3))
        _check_length("axis", direction, "Give its direction, e.g. [0, 0, 1].")
        direction, turn = _with_equal_axes((direction, 1), (turn, 0))
        return _posed(axis_angle_to_matrix(unit(direction), turn), point)

    @staticmethod
    def exp(screw: ArrayLike) -> "Transform":
        """The transform by screws (..., 6) `[rotation; translation]` at unit velocity for unit time."""
        (array,) = _floating(screw=(screw, 6))
        return Transform(*_along_screw(array))

    def __matmul__(self, other: "Transform") -> "Transform":
        """Composition: pose of C in A from the poses of B in A and of C in B.

        **Raises:** `ValueError` for what is no transform.
        """
        _check_transform(other)
        rotations = _with_equal_axes((self.rotation, 2), (other.rotation, 2))
        return Transform(matmul(*rotations), self.apply(other.translation))

    @of_numbers
    def apply(self, point: Float[Array, "*#batch 3"]) -> Float[Array, "*#batch 3"]:
        """Coordinates in A of a point given in B.

        **Raises:** `ValueError` for another shape, for batch axes that do not fit, and for a transform.
        """
        shape = getattr(point, "shape", None)
        if shape is None or shape[-1:] != (3,):
            given = "no array" if shape is None else shape
            raise ValueError(f"point must have shape (..., 3), got {given}. Transforms are composed by @.")
        rotation, translation, point = _with_equal_axes((self.rotation, 2), (self.translation, 1), (point, 1))
        return matvec(rotation, point) + translation

    def inverse(self) -> "Transform":
        """Pose of A in B."""
        rotation = transpose(self.rotation)
        return Transform(rotation, -matvec(rotation, self.translation))

    def as_matrix(self) -> Float[Array, "*batch 4 4"]:
        """Homogeneous 4 x 4 matrix."""
        top = jnp.concatenate([self.rotation, self.translation[..., None]], axis=-1)
        bottom = jnp.broadcast_to(jnp.array([0, 0, 0, 1], top.dtype), (*top.shape[:-2], 1, 4))
        return jnp.concatenate([top, bottom], axis=-2)

    def as_quaternion(self) -> Float[Array, "*batch 4"]:
        """The rotation as unit quaternion `[w, x, y, z]`, its largest component positive."""
        return matrix_to_quaternion(self.rotation)

    def as_rpy(self) -> Float[Array, "*batch 3"]:
        """The rotation as `[roll, pitch, yaw]` of `from_rpy` [rad], with the pitch from -pi/2 to pi/2.

        At both ends roll and yaw are not defined singly: the roll is zero there, and derivatives grow without bound
        towards them.
        """
        return matrix_to_rpy(self.rotation)

    def as_axis_angle(self) -> tuple[Float[Array, "*batch 3"], Float[Array, "*batch"]]:
        """The rotation as unit axis and angle from 0 to pi; where the angle is zero, the axis is `[1, 0, 0]`.

        There derivatives are zero; those of `as_rotation_vector` are true everywhere below pi.
        """
        return matrix_to_axis_angle(self.rotation)

    def as_rotation_vector(self) -> Float[Array, "*batch 3"]:
        """The rotation as axis times angle, which is at most pi; smooth at the identity."""
        return rotation_log(self.rotation)

    def log(self) -> Float[Array, "*batch 6"]:
        """The screw `[rotation; translation]` whose `exp` is this; the rotation's length is at most pi."""
        return _screw_of(self.rotation, self.translation)

    def __getitem__(self, index) -> "Transform":
        """Select from the batch axes."""
        return Transform(self.rotation[index], self.translation[index])


def _screw_of(rotation: Float[Array, "*batch 3 3"], translation: Float[Array, "*batch 3"]) -> Float[Array, "*batch 6"]:
    """The screw `[rotation; translation]` whose exponential is the transform; the rotation's length is at most pi.

    `V^-1 p = p - w x p / 2 + c w x (w x p)` with `c = (1 - (t/2) cot(t/2)) / t^2` (Murray, Li & Sastry, A Mathematical
    Introduction to Robotic Manipulation, 1994, sec. 2.3); smooth at the identity.
    """
    w, p = rotation_log(rotation), translation
    square = dot(w, w)
    small = is_small(square)
    # The double `where` keeps the quotient finite; the series is exact to rounding where it is used.
    half = 0.5 * jnp.sqrt(jnp.where(small, 1.0, square))
    closed = (1 - half * jnp.cos(half) / jnp.sin(half)) / jnp.where(small, 1.0, square)
    series = 1 / 12 + square * (1 / 720 + square * (1 / 30240 + square / 1209600))
    c = jnp.where(small, series, closed)[..., None]
    turned = cross(w, p)
    return jnp.concatenate([w, p - 0.5 * turned + c * cross(w, turned)], axis=-1)


def _along_screw(screw: Float[Array, "*batch 6"]) -> tuple[Float[Array, "*batch 3 3"], Float[Array, "*batch 3"]]:
    """The transform by the screw `[rotation; translation]` at unit velocity for unit time; smooth at zero.

    `V p = p + a w x p + b w x (w x p)` with `a = (1 - cos t) / t^2`, `b = (t - sin t) / t^3`.
    """
    w, p = screw[..., :3], screw[..., 3:]
    square = dot(w, w)
    small = is_small(square)
    angle = jnp.sqrt(jnp.where(small, 1.0, square))
    safe = jnp.where(small, 1.0, square)
    a = jnp.where(small, 1 / 2 - square * (1 / 24 - square * (1 / 720 - square / 40320)), (1 - jnp.cos(angle)) / safe)
    closed = (angle - jnp.sin(angle)) / (safe * angle)
    b = jnp.where(small, 1 / 6 - square * (1 / 120 - square * (1 / 5040 - square / 362880)), closed)
    turned = cross(w, p)
    return rotation_exp(w), p + a[..., None] * turned + b[..., None] * cross(w, turned)


def _floating(**arguments: tuple[ArrayLike | None, int | None]) -> list[Array]:
    """Arrays of one floating-point type from values, whose last axis has the given length; no translation is zero."""
    arrays = []
    for name, (value, size) in arguments.items():
        none = value is None and name == "translation"
        array = jnp.zeros((3,), jnp.int8) if none else any_numbers(name, value)
        if size is not None and array.shape[-1:] != (size,):
            raise ValueError(f"{name} must have shape (..., {size}), got {array.shape}.")
        arrays.append(array)
    dtype = common_floating_type(*arrays)
    return [x.astype(dtype) for x in arrays]


def _with_equal_axes(*arrays: tuple[Array, int]) -> list[Array]:
    """Arrays, each with so many axes of its own, with the same number of batch axes before these."""
    shapes = [x.shape[: x.ndim - own] for x, own in arrays]
    try:
        batch = len(jnp.broadcast_shapes(*shapes))
    except ValueError as error:
        raise ValueError(
            f"Batch axes must be equal or one, got {' and '.join(map(str, dict.fromkeys(shapes)))}."
        ) from error
    return [lax.broadcast_to_rank(x, batch + own) for x, own in arrays]


def _posed(rotation: Float[Array, "*#batch 3 3"], translation: Float[Array, "*#batch 3"]) -> Transform:
    """The transform with the batch axes of both."""
    batch = jnp.broadcast_shapes(rotation.shape[:-2], translation.shape[:-1])
    return Transform(jnp.broadcast_to(rotation, (*batch, 3, 3)), jnp.broadcast_to(translation, (*batch, 3)))


def _check_transform(value: Any) -> None:
    """Raises `ValueError` for what no transform is composed with."""
    if not isinstance(value, Transform):
        what = f"an array of shape {value.shape}" if isinstance(value, _ARRAYS) else f"{value!r:.200}"
        raise ValueError(
            f"A Transform is composed with another Transform, got {what}. Points are for pose.apply(point); of a "
            "matrix (4, 4) it is Transform.from_matrix(matrix)."
        )


def _check_length(name: str, vectors: Array, remedy: str) -> None:
    if not isinstance(vectors, jax.core.Tracer) and not np.all(np.any(np.asarray(vectors), axis=-1)):
        raise ValueError(f"The {name} must not be zero. {remedy}")


def are_rotations(rotation: np.ndarray) -> bool:
    """Whether matrices (..., 3, 3) are rotations, about."""
    square = np.swapaxes(rotation, -1, -2) @ rotation
    return bool(np.all(np.abs(square - np.eye(3)) < _ORTHOGONAL) and np.all(np.linalg.det(rotation) > 0))


def _check_rigid(matrix: np.ndarray) -> None:
    if not are_rotations(matrix[..., :3, :3]):
        raise ValueError("The upper left 3 x 3 block of the matrix must be a rotation.")
    if not np.all(np.abs(matrix[..., 3, :] - [0, 0, 0, 1]) < _ORTHOGONAL):
        raise ValueError("The last row of the matrix must be [0, 0, 0, 1].")
