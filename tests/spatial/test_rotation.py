"""Rotations against scipy, and their derivatives where a formula divides zero by zero."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from scipy.spatial.transform import Rotation

from helpers import assert_close
from jaxcfa.spatial import (
    axis_angle_to_matrix,
    matrix_to_quaternion,
    quaternion_conjugate,
    quaternion_exp,
    quaternion_log,
    quaternion_multiply,
    quaternion_to_matrix,
    random_quaternion,
    rotation_exp,
    rotation_log,
    unit,
)

# The series near zero end at angles of 0.022 in double and 0.27 in single precision.
ANGLES = np.array([0.0, 1e-12, 1e-8, 1e-5, 1e-3, 0.02, 0.023, 0.1, 0.26, 0.28, 1.0, 2.0, 3.0, np.pi - 1e-3])
AT_PI = np.array([np.pi - 1e-5, np.pi - 1e-7, np.pi])


def skew(x):
    return np.cross(np.eye(3), x)


def quaternions(rotation: Rotation):
    return np.roll(rotation.as_quat(), 1, axis=-1)


class Maps(NamedTuple):
    """The exponential maps of a vector, and the vector again by three logarithms."""

    matrix: Array
    quaternion: Array
    logarithms: tuple[Array, Array, Array]


def maps(x) -> Maps:
    matrix, quaternion = rotation_exp(x), quaternion_exp(x)
    return Maps(matrix, quaternion, (rotation_log(matrix), quaternion_log(quaternion), quaternion_log(-quaternion)))


def series(x, d) -> tuple[Maps, Maps, Maps]:
    """Values, first and second derivatives along the line x + t d."""

    def first(t):
        return jax.jvp(lambda t: maps(x + t * d), (t,), (jnp.ones_like(t),))

    zero = jnp.zeros((), x.dtype)
    (value, slope), (_, curvature) = jax.jvp(first, (zero,), (jnp.ones_like(zero),))
    return value, slope, curvature


def transposed(x) -> Array:
    """Reverse derivative of the sum of everything."""
    return jax.grad(lambda x: sum(jnp.sum(leaf) for leaf in jax.tree.leaves(maps(x))))(x)


class Samples(NamedTuple):
    """Vectors, directions, and the results of `series` and `transposed` for them; two for each angle."""

    x: np.ndarray
    d: np.ndarray
    value: Maps
    slope: Maps
    curvature: Maps
    transposed: np.ndarray


@functools.cache
def all_samples(dtype: str) -> Samples:
    """Everything in one program, for most of the time goes into compiling."""
    axes = np.array([[0.0, 0.0, 1.0], [1.0, -2.0, 0.5]])
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    x = jnp.asarray((np.append(ANGLES, AT_PI)[:, None, None] * axes).reshape(-1, 3), dtype)
    d = jax.random.normal(jax.random.key(0), x.shape, x.dtype)
    run = jax.jit(jax.vmap(lambda x, d: (*series(x, d), transposed(x))))
    return Samples(*jax.tree.map(np.array, (x, d, *run(x, d))))


def samples(dtype, near_pi: bool = False) -> Samples:
    """Those for `ANGLES`, or for `AT_PI`."""
    rows = slice(2 * len(ANGLES), None) if near_pi else slice(2 * len(ANGLES))
    return jax.tree.map(lambda y: y[rows], all_samples(str(dtype)))


def eps(dtype) -> float:
    return float(jnp.finfo(dtype).eps)


@pytest.mark.parametrize("near_pi", [False, True])
def test_exponential(near_pi, dtype):
    s = samples(dtype, near_pi)
    expected = Rotation.from_rotvec(np.asarray(s.x, float))
    assert s.value.matrix.dtype == s.value.quaternion.dtype == dtype
    assert_close(s.value.matrix, expected.as_matrix(), 8 * eps(dtype))
    sign = np.sign(np.sum(quaternions(expected) * s.value.quaternion, axis=-1, keepdims=True))
    assert_close(s.value.quaternion, sign * quaternions(expected), 8 * eps(dtype))


def test_logarithm_inverts_exponential(dtype):
    """To relative precision, however small the angle."""
    s = samples(dtype)
    for again in s.value.logarithms:
        assert again.dtype == dtype
        error = np.linalg.norm(again - s.x, axis=-1)
        assert np.all(error <= 50 * eps(dtype) * np.linalg.norm(s.x, axis=-1))


def test_logarithm_at_half_a_turn(dtype):
    """Both signs of the axis are right, but the length never exceeds pi; derivatives are finite."""
    s = samples(dtype, near_pi=True)
    for logarithm in s.value.logarithms:
        assert np.all(np.linalg.norm(logarithm, axis=-1) <= np.pi * (1 + 4 * eps(dtype)))
        again = Rotation.from_rotvec(np.asarray(logarithm, float)).as_matrix()
        assert_close(s.value.matrix, again, 20 * eps(dtype))
    assert all(np.all(np.isfinite(y)) for y in jax.tree.leaves((s.slope, s.transposed)))


def right_jacobian(x):
    """`d exp([x]) = exp([x]) [J dx]`, as a series where the angle is small."""
    angle, k = np.linalg.norm(x), skew(x)
    if angle < 1e-2:
        return np.eye(3) - k / 2 + k @ k / 6 - k @ k @ k / 24
    return np.eye(3) - (1 - np.cos(angle)) / angle**2 * k + (angle - np.sin(angle)) / angle**3 * k @ k


def test_derivative_of_the_exponential(dtype):
    s = samples(dtype)
    for slope, x, d in zip(s.slope.matrix, *np.asarray((s.x, s.d), float), strict=True):
        expected = Rotation.from_rotvec(x).as_matrix() @ skew(right_jacobian(x) @ d)
        assert_close(slope, expected, 100 * eps(dtype))


def test_second_derivative_of_the_exponential_at_zero(dtype):
    s = samples(dtype)
    for i in (0, 1):
        generator = skew(np.asarray(s.d[i], float))
        assert_close(s.curvature.matrix[i], generator @ generator, 10 * eps(dtype))


def test_derivatives_of_the_logarithms(dtype):
    """After the exponential they are those of the identity, on both sides of every case distinction."""
    s = samples(dtype)
    for slope, curvature in zip(s.slope.logarithms, s.curvature.logarithms, strict=True):
        assert_close(slope, s.d, 2e3 * eps(dtype))
        assert_close(curvature, np.zeros(s.d.shape), 1e5 * eps(dtype))


def test_reverse_mode(dtype):
    s = samples(dtype)
    total = sum(leaf.reshape(len(s.x), -1).sum(axis=1) for leaf in jax.tree.leaves(s.slope))
    assert_close(np.sum(s.transposed * s.d, axis=1), total, 2e3 * eps(dtype))


@pytest.mark.parametrize("largest", range(4))
@pytest.mark.parametrize("others", [0.0, 1e-9, 0.3])
def test_matrix_to_quaternion(largest, others, dtype):
    """Each of the four cases, also where the other components vanish."""
    quaternion = np.array([others, -others, others, -others])
    quaternion[largest] = 1.0
    quaternion = jnp.asarray(quaternion / np.linalg.norm(quaternion), dtype)
    again = matrix_to_quaternion(quaternion_to_matrix(quaternion))
    assert again.dtype == dtype
    assert_close(again, np.asarray(quaternion), 4 * eps(dtype))


def test_matrix_to_quaternion_of_random_rotations():
    rotations = Rotation.random(200, rng=0)
    expected = quaternions(rotations)
    largest = np.take_along_axis(expected, np.argmax(np.abs(expected), axis=1)[:, None], axis=1)
    assert_close(matrix_to_quaternion(jnp.asarray(rotations.as_matrix())), expected * np.sign(largest), 1e-14)


def test_length_of_a_quaternion_does_not_matter(key, dtype):
    q = jax.random.normal(key, (4,), dtype)
    expected = Rotation.from_quat(np.roll(np.asarray(q, float), -1)).as_matrix()
    for scale in (1e-3, 1.0, 1e3):
        assert_close(quaternion_to_matrix(scale * q), expected, 8 * eps(dtype))
    _, along = jax.jvp(quaternion_to_matrix, (q,), (q,))
    assert_close(along, np.zeros((3, 3)), 8 * eps(dtype))


def test_quaternion_products(key):
    p, q = jax.random.normal(key, (2, 5, 4))
    p, q = unit(p), unit(q)
    assert_close(jnp.linalg.norm(p, axis=-1), np.ones(5), 1e-15)
    product = quaternion_multiply(p, q)
    assert_close(quaternion_to_matrix(product), np.asarray(quaternion_to_matrix(p) @ quaternion_to_matrix(q)), 1e-14)
    assert_close(quaternion_multiply(product, quaternion_conjugate(q)), np.asarray(p), 1e-14)


def test_axis_and_angle(dtype):
    axis, angle = (
        unit(jnp.array([[0.0, 0.0, 1.0], [1.0, -2.0, 0.5], [-0.3, 0.1, -2.0]], dtype)),
        jnp.array([0.0, -2.5, 7.0], dtype),
    )
    expected = Rotation.from_rotvec(np.asarray(axis, float) * np.asarray(angle, float)[:, None]).as_matrix()
    assert_close(axis_angle_to_matrix(axis, angle), expected, 8 * eps(dtype))


def test_random_quaternions_are_uniform(key, dtype):
    q = np.asarray(jax.vmap(lambda k: random_quaternion(k, dtype))(jax.random.split(key, 4096)))
    assert q.dtype == dtype
    assert_close(np.linalg.norm(q, axis=1), np.ones(4096), 4 * eps(dtype))
    # Moments of the uniform distribution on the sphere, to five standard deviations.
    assert_close(q.mean(axis=0), np.zeros(4), 5 * 0.5 / 64)
    assert_close(q.T @ q / 4096, np.eye(4) / 4, 5 * 0.25 / 64)
