"""Spatial vectors and transforms against dense linear algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from helpers import assert_close
from jaxcfa import spatial
from jaxcfa.spatial import (
    Inertia,
    Transform,
    force_cross,
    motion_cross,
    motion_transform,
    pack,
    rotate,
    rotate_columns,
    shift_force,
    shift_motion,
)


@pytest.fixture
def pairs(key):
    """A batch of motion vectors and wrenches, (5, 6) each."""
    return jax.random.normal(key, (2, 5, 6))


@pytest.fixture
def pose():
    """A batch of five poses."""
    rng = np.random.default_rng(0)
    return Transform(jnp.asarray(Rotation.random(5, rng=rng).as_matrix()), jnp.asarray(rng.normal(size=(5, 3))))


def skew(x):
    return np.cross(np.eye(3), np.asarray(x)[..., None, :])


def power(motion, wrench):
    return np.sum(np.asarray(motion) * np.asarray(wrench), axis=-1)


def product(matrix, x):
    return np.einsum("...ij,...j->...i", np.asarray(matrix), np.asarray(x))


def cross_matrix(v):
    """`v x` of motion vectors as a matrix (Featherstone, RBDA Eq. 2.31)."""
    w, u = skew(v[..., :3]), skew(v[..., 3:])
    return np.block([[w, np.zeros_like(w)], [u, w]])


def test_parts(pairs):
    v, _ = pairs
    assert np.array_equal(pack(v[:, :3], v[:, 3:]), v)


def test_cross_products(pairs):
    v, f = pairs
    m = v[::-1]
    assert_close(motion_cross(v, m), product(cross_matrix(v), m), 1e-14)
    assert_close(force_cross(v, f), product(-np.swapaxes(cross_matrix(v), -1, -2), f), 1e-14)
    # Duality: the power of a wrench does not change in moving axes.
    assert_close(power(motion_cross(v, m), f) + power(m, force_cross(v, f)), np.zeros(5), 1e-13)
    assert_close(motion_cross(v, v), np.zeros((5, 6)), 1e-14)


def test_jacobi_identity(pairs):
    v, m = pairs
    n = m[::-1]
    left = motion_cross(v, motion_cross(m, n)) - motion_cross(m, motion_cross(v, n))
    assert_close(left, np.asarray(motion_cross(motion_cross(v, m), n)), 1e-13)


def test_shifts_keep_power_and_undo_each_other(pairs, pose):
    v, f = pairs
    r = pose.translation
    # The wrench moves from the displaced point back to the first.
    assert_close(power(shift_motion(v, r), f), power(v, shift_force(f, r)), 1e-13)
    assert_close(shift_motion(shift_motion(v, r), -r), np.asarray(v), 1e-14)
    assert_close(shift_force(shift_force(f, r), -r), np.asarray(f), 1e-14)
    assert_close(shift_motion(v, r)[:, 3:], np.asarray(v[:, 3:]) + np.cross(v[:, :3], r), 1e-14)


def test_rotations_keep_power(pairs, pose):
    v, f = pairs
    turned = rotate(pose.rotation, v)
    assert_close(power(turned, rotate(pose.rotation, f)), power(v, f), 1e-13)
    assert_close(turned[:, :3], product(pose.rotation, v[:, :3]), 1e-14)
    columns = jnp.stack([v, f], axis=-1)
    both = np.stack([turned, rotate(pose.rotation, f)], axis=-1)
    assert_close(rotate_columns(pose.rotation, columns), both, 1e-14)


def test_motion_transform(pairs, pose):
    """The Plücker matrix is a shift followed by a rotation, and commutes with the cross product."""
    v, m = pairs
    matrix = np.asarray(motion_transform(pose.rotation, pose.translation))
    into = jnp.swapaxes(pose.rotation, -1, -2)
    assert_close(product(matrix, v), np.asarray(rotate(into, shift_motion(v, pose.translation))), 1e-14)
    moved = motion_cross(jnp.asarray(product(matrix, v)), jnp.asarray(product(matrix, m)))
    assert_close(product(matrix, motion_cross(v, m)), np.asarray(moved), 1e-13)


def test_transforms_are_homogeneous_matrices(pose):
    other = pose[::-1]
    matrices = np.asarray(pose.as_matrix())
    assert_close((pose @ other).as_matrix(), matrices @ np.asarray(other.as_matrix()), 1e-14)
    assert_close(pose.inverse().as_matrix(), np.linalg.inv(matrices), 1e-14)
    assert_close((pose @ pose.inverse()).as_matrix(), np.broadcast_to(np.eye(4), (5, 4, 4)), 1e-14)
    points = np.random.default_rng(1).normal(size=(5, 3))
    homogeneous = product(matrices, np.append(points, np.ones((5, 1)), axis=1))
    assert_close(pose.apply(jnp.asarray(points)), homogeneous[:, :3], 1e-14)


def test_identity(dtype):
    identity = Transform.identity(dtype)
    assert identity.as_matrix().dtype == dtype
    assert np.array_equal(identity.as_matrix(), np.eye(4))


def test_one_pose_for_many_points(pose):
    points = jnp.asarray(np.random.default_rng(2).normal(size=(4, 1, 3)))
    expected = np.stack([[pose[i].apply(point[0]) for i in range(5)] for point in points])
    assert_close(pose.apply(points), expected, 1e-15)


def test_lists_and_integers_are_arrays():
    """Of every function, in the tests' own precision."""
    eye, axis = [[1, 0, 0], [0, 1, 0], [0, 0, 1]], (0, 0, 2)
    for x in (spatial.unit(axis), spatial.pack(axis, axis), spatial.rotate(eye, [1, 2, 3, 4, 5, 6])):
        assert x.dtype == float
    assert_close(spatial.axis_angle_to_matrix([0, 0, 1], 0), np.eye(3))
    assert_close(spatial.quaternion_to_matrix([1, 0, 0, 0]), np.eye(3))
    assert_close(spatial.rotation_log(eye), np.zeros(3))
    assert_close(Transform(eye, axis).apply([1, 0, 0]), np.array([1.0, 0.0, 2.0]))
    assert_close(Inertia.from_com(2, axis, eye).mv([0, 0, 0, 1, 0, 0]), np.array([0.0, 4.0, 0.0, 2.0, 0.0, 0.0]))
    with pytest.raises(ValueError, match="vector must be a number or an array of numbers, got"):
        spatial.rotation_exp([[1], [1, 2]])
    with pytest.raises(ValueError, match="translation must be a number or an array of numbers, got"):
        Transform(eye, ["x", "y", "z"])
