"""Rotations: matrices, unit quaternions `[w, x, y, z]` and rotation vectors, with finite derivatives everywhere."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import cross, dot, identity, outer, skew
from ..typing import Key
from ._numbers import of_numbers

Quaternion = Float[Array, "*batch 4"]
RotationMatrix = Float[Array, "*batch 3 3"]
RotationVector = Float[Array, "*batch 3"]


@of_numbers
def unit(x: Float[Array, "*batch k"]) -> Float[Array, "*batch k"]:
    """`x / |x|` along the last axis."""
    return x / jnp.sqrt(dot(x, x))[..., None]


@of_numbers
def axis_angle_to_matrix(axis: Float[Array, "*#batch 3"], angle: Float[Array, "*#batch"]) -> RotationMatrix:
    """Rotation by `angle` [rad] about the unit vector `axis` (Rodrigues' formula)."""
    s, c = jnp.sin(angle)[..., None, None], jnp.cos(angle)[..., None, None]
    return c * identity(3, c) + s * skew(axis) + (1 - c) * outer(axis, axis)


@of_numbers
def quaternion_multiply(p: Quaternion, q: Quaternion) -> Quaternion:
    """Hamilton product `p q`."""
    pw, pv, qw, qv = p[..., :1], p[..., 1:], q[..., :1], q[..., 1:]
    return jnp.concatenate([pw * qw - dot(pv, qv)[..., None], pw * qv + qw * pv + cross(pv, qv)], axis=-1)


@of_numbers
def quaternion_conjugate(q: Quaternion) -> Quaternion:
    """`[w, -x, -y, -z]`, the inverse of a unit quaternion."""
    return jnp.concatenate([q[..., :1], -q[..., 1:]], axis=-1)


@of_numbers
def quaternion_to_matrix(q: Quaternion) -> RotationMatrix:
    """Rotation matrix of `q / |q|`.

    The homogeneous formula is used, so that the length of `q` has no influence and derivatives have no component
    along `q`.
    """
    w, v = q[..., 0, None, None], q[..., 1:]
    vv = dot(v, v)[..., None, None]
    scale = 2 / (w * w + vv)
    eye = identity(3, vv)
    return eye + scale * (outer(v, v) - vv * eye + w * skew(v))


@of_numbers
def matrix_to_quaternion(matrix: RotationMatrix) -> Quaternion:
    """Unit quaternion of a rotation matrix, with the largest component positive (Shepperd's method)."""
    m = matrix
    xx, yy, zz = m[..., 0, 0], m[..., 1, 1], m[..., 2, 2]
    a, b, c = m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]
    d, e, f = m[..., 1, 0] + m[..., 0, 1], m[..., 0, 2] + m[..., 2, 0], m[..., 2, 1] + m[..., 1, 2]
    # Row k is 4 q_k q: any row with q_k != 0 gives q, the one with the largest q_k gives it best.
    rows = jnp.stack(
        [
            jnp.stack([1 + xx + yy + zz, a, b, c], axis=-1),
            jnp.stack([a, 1 + xx - yy - zz, d, e], axis=-1),
            jnp.stack([b, d, 1 - xx + yy - zz, f], axis=-1),
            jnp.stack([c, e, f, 1 - xx - yy + zz], axis=-1),
        ],
        axis=-2,
    )
    # Chosen one by one: at indices that differ within a batch, derivatives would be assignments.
    row, square = rows[..., 0, :], rows[..., 0, 0]
    for k in range(1, 4):
        larger = rows[..., k, k] > square
        row = jnp.where(larger[..., None], rows[..., k, :], row)
        square = jnp.maximum(square, rows[..., k, k])
    return unit(row)


def is_small(x: Float[Array, "*batch"]) -> Array:
    """Where the first four terms of a series in `x` are exact to rounding, and `sqrt(x)` is best avoided."""
    return x < jnp.finfo(x.dtype).eps ** 0.25


@of_numbers
def quaternion_exp(vector: RotationVector) -> Quaternion:
    """Unit quaternion of the rotation by `|vector|` about `vector`; smooth at zero."""
    half = 0.5 * vector
    x = dot(half, half)
    small = is_small(x)
    # The double `where` keeps sqrt away from zero, where its derivative is infinite.
    angle = jnp.sqrt(jnp.where(small, 1.0, x))
    sinc = jnp.where(small, 1 - x / 6 * (1 - x / 20 * (1 - x / 42)), jnp.sin(angle) / angle)
    cos = jnp.where(small, 1 - x / 2 * (1 - x / 12 * (1 - x / 30)), jnp.cos(angle))
    return jnp.concatenate([cos[..., None], sinc[..., None] * half], axis=-1)


@of_numbers
def quaternion_log(q: Quaternion) -> RotationVector:
    """Rotation vector, of length at most pi, of the unit quaternion `q`; `q` and `-q` give the same. Smooth at 1."""
    q = jnp.where(q[..., :1] < 0, -q, q)
    w, v = q[..., 0], q[..., 1:]
    square = dot(v, v)
    small = is_small(square)
    length = jnp.sqrt(jnp.where(small, 1.0, square))
    # angle / |v| = 2 atan(t) / |v| with t = |v| / w; near zero the series of atan(t) / t, and w is close to one.
    w_safe = jnp.where(small, w, 1.0)
    x = square / (w_safe * w_safe)
    series = 2 / w_safe * (1 - x * (1 / 3 - x * (1 / 5 - x / 7)))
    ratio = jnp.where(small, series, 2 * jnp.arctan2(length, w) / length)
    return ratio[..., None] * v


@of_numbers
def quaternion_velocity(q: Quaternion, rate: Quaternion) -> RotationVector:
    """Angular velocity, in the axes of the body, of a quaternion that changes at a rate: the same for any length."""
    w, v, w_dot, v_dot = q[..., :1], q[..., 1:], rate[..., :1], rate[..., 1:]
    return 2 * (w * v_dot - w_dot * v - cross(v, v_dot)) / dot(q, q)[..., None]


@of_numbers
def rotation_exp(vector: RotationVector) -> RotationMatrix:
    """Rotation matrix of the rotation by `|vector|` about `vector`; smooth at zero."""
    return quaternion_to_matrix(quaternion_exp(vector))


@of_numbers
def rotation_log(matrix: RotationMatrix) -> RotationVector:
    """Rotation vector, of length at most pi, of a rotation matrix."""
    return quaternion_log(matrix_to_quaternion(matrix))


@of_numbers
def matrix_to_axis_angle(matrix: RotationMatrix) -> tuple[Float[Array, "*batch 3"], Float[Array, "*batch"]]:
    """Unit axis, and angle from 0 to pi, of a rotation matrix.

    The identity has no axis; `[1, 0, 0]` stands for it, with derivatives of zero.
    """
    vector = rotation_log(matrix)
    square = dot(vector, vector)
    none = square < jnp.finfo(square.dtype).tiny
    angle = jnp.sqrt(jnp.where(none, 1.0, square))
    axis = jnp.where(none[..., None], jnp.eye(3, dtype=vector.dtype)[0], vector / angle[..., None])
    return axis, jnp.where(none, 0.0, angle)


@of_numbers
def rpy_to_matrix(rpy: Float[Array, "*batch 3"]) -> RotationMatrix:
    """Rotation by the angles `[roll, pitch, yaw]` about the fixed axes x, y, z: `Rz(yaw) Ry(pitch) Rx(roll)`."""
    (sr, sp, sy), (cr, cp, cy) = (jnp.moveaxis(f(rpy), -1, 0) for f in (jnp.sin, jnp.cos))
    rows = (
        (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
        (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
        (-sp, cp * sr, cp * cr),
    )
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


@of_numbers
def matrix_to_rpy(matrix: RotationMatrix) -> Float[Array, "*batch 3"]:
    """Angles `[roll, pitch, yaw]` of `rpy_to_matrix`, with the pitch from -pi/2 to pi/2.

    Where the pitch is one of these, only the sum or the difference of roll and yaw is defined. The roll is zero there,
    by value and derivative, and the angles still give the same matrix; near there derivatives are as large as the
    distance is small.
    """
    m = matrix
    sine, cosine = m[..., 2, 1], m[..., 2, 2]
    singular = sine * sine + cosine * cosine < jnp.finfo(m.dtype).eps ** 2
    roll = jnp.arctan2(jnp.where(singular, 0.0, sine), jnp.where(singular, 1.0, cosine))
    # Yaw and pitch are those of `R Rx(-roll)`, two of whose columns are of length one everywhere.
    s, c = jnp.sin(roll), jnp.cos(roll)
    pitch = jnp.arctan2(-m[..., 2, 0], s * sine + c * cosine)
    yaw = jnp.arctan2(s * m[..., 0, 2] - c * m[..., 0, 1], c * m[..., 1, 1] - s * m[..., 1, 2])
    return jnp.stack([roll, pitch, yaw], axis=-1)


def random_quaternion(key: Key, dtype: jnp.dtype) -> Float[Array, "4"]:
    """Uniformly distributed unit quaternion."""
    return unit(jax.random.normal(key, (4,), dtype))
