"""Spatial inertias against clouds of point masses and dense 6 x 6 matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from helpers import assert_close
from jaxcfa.spatial import Inertia, Transform, motion_transform, shift_force, shift_motion, steiner

ROTATION = jnp.asarray(Rotation.from_rotvec([0.3, -1.0, 0.7]).as_matrix())
R = jnp.array([0.4, -0.2, 0.9])


class Cloud:
    """Point masses, whose inertia is a plain sum."""

    def __init__(self, seed: int):
        rng = np.random.default_rng(seed)
        self.masses, self.points = rng.uniform(0.1, 1.0, 6), rng.normal(size=(6, 3))

    def matrix(self, rotation=np.eye(3), origin=np.zeros(3)):  # noqa: B008 (never written to)
        """6 x 6 inertia about `origin` in axes `rotation`: `sum m B^T B` where `B V` is a point's velocity."""
        total = np.zeros((6, 6))
        for m, point in zip(self.masses, (self.points - origin) @ rotation, strict=True):
            b = np.hstack([-np.cross(np.eye(3), point), np.eye(3)])
            total += m * b.T @ b
        return total

    def inertia(self, dtype=np.float64) -> Inertia:
        """From mass, centre and the rotational inertia about it."""
        mass = self.masses.sum()
        com = self.masses @ self.points / mass
        about_com = self.matrix(origin=com)[:3, :3]
        return Inertia.from_com(*(jnp.asarray(x, dtype) for x in (mass, com, about_com)))


@pytest.fixture
def x(key):
    return jax.random.normal(key, (6,))


def test_from_centre_of_mass(dtype):
    matrix = Cloud(0).inertia(dtype).as_matrix()
    assert matrix.dtype == dtype
    assert_close(matrix, Cloud(0).matrix(), 8 * float(jnp.finfo(dtype).eps))


def test_rotated_and_shifted():
    cloud = Cloud(1)
    inertia, rotation = cloud.inertia(), np.asarray(ROTATION)
    # In axes B, with `rotation` their columns, vectors are multiplied by its transpose.
    assert_close(inertia.rotated(ROTATION.T).as_matrix(), cloud.matrix(rotation), 1e-14)
    # The reference point moves by -r.
    assert_close(inertia.shifted(R).as_matrix(), cloud.matrix(origin=-np.asarray(R)), 1e-14)


def test_congruence_with_the_motion_transform():
    """From a child's frame to its parent's: `X^T I X`."""
    inertia = Cloud(2).inertia()
    x = np.asarray(motion_transform(ROTATION, R))
    expected = x.T @ np.asarray(inertia.as_matrix()) @ x
    assert_close(inertia.rotated(ROTATION).shifted(R).as_matrix(), expected, 1e-14)


def test_momentum_is_the_matrix_times_the_velocity(x):
    inertia = Cloud(3).inertia()
    assert_close(inertia.mv(x), np.asarray(inertia.as_matrix() @ x), 1e-14)


def test_shifts_keep_momentum_and_energy(x):
    inertia = Cloud(4).inertia()
    at_child = shift_motion(x, R)
    assert_close(inertia.shifted(R).mv(x), np.asarray(shift_force(inertia.mv(at_child), R)), 1e-14)
    assert_close(inertia.shifted(R).mv(x) @ x, np.asarray(inertia.mv(at_child) @ at_child), 1e-14)


def test_inertias_add():
    total = Cloud(5).inertia() + Cloud(6).inertia()
    assert_close(total.as_matrix(), Cloud(5).matrix() + Cloud(6).matrix(), 1e-14)


def test_massless_inertia():
    nothing = Inertia.from_com(jnp.array(0.0), R, jnp.zeros((3, 3)))
    assert not np.any(nothing.rotated(ROTATION).shifted(R).as_matrix())


def test_batches(x):
    inertias = jax.tree.map(lambda *parts: jnp.stack(parts), *(Cloud(seed).inertia() for seed in range(3)))
    poses = Transform(jnp.stack([ROTATION, ROTATION.T, jnp.eye(3)]), jnp.stack([R, -R, 0 * R]))
    moved = inertias.rotated(poses.rotation).shifted(poses.translation)
    for i in range(3):
        single = Cloud(i).inertia().rotated(poses[i].rotation).shifted(poses[i].translation)
        assert_close(moved.as_matrix()[i], np.asarray(single.as_matrix()), 1e-15)
        assert_close(moved.mv(x)[i], np.asarray(single.mv(x)), 1e-15)


def test_steiner(key):
    r, h = jax.random.normal(key, (2, 3))
    expected = -np.cross(np.eye(3), np.asarray(r)) @ np.cross(np.eye(3), np.asarray(h))
    assert_close(steiner(r, h), expected, 1e-14)
