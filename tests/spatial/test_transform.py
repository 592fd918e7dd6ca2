"""Transforms from and to other descriptions of rotations, against scipy, and where formulas are singular."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from helpers import assert_close
from jaxcfa import Transform
from jaxcfa.spatial import rotation_exp

P = np.array([0.1, -2.0, 3.0])
HALF = np.pi / 2


def rotations() -> Rotation:
    """Random ones, the identity, half turns, and three with a pitch of a right angle or nearly so."""
    angles = [[0, 0, 0], [np.pi, 0, 0], [0, np.pi, 0], [0.3, HALF, 0.4], [0.3, -HALF, 0.4], [0.3, HALF - 1e-9, 1.0]]
    return Rotation.concatenate([Rotation.random(4, random_state=0), Rotation.from_euler("xyz", angles)])


def test_from_every_description():
    rotation = rotations()
    x, y, z, w = rotation.as_quat().T
    vector = rotation.as_rotvec()
    angle = np.linalg.norm(vector, axis=1)
    axis = np.where(angle[:, None] > 0, vector, [0, 0, 2.0])
    roll, pitch, yaw = Rotation.as_euler(rotation[:5], "xyz").T
    expected = np.tile(np.eye(4), (len(angle), 1, 1))
    expected[:, :3, :3], expected[:, :3, 3] = rotation.as_matrix(), P
    assert_close(Transform.from_quaternion(3 * np.stack([w, x, y, z], -1), P).as_matrix(), expected, 1e-14)
    assert_close(Transform.from_axis_angle(axis, angle, P).as_matrix(), expected, 1e-14)
    assert_close(Transform.from_rpy(roll, pitch, yaw, P).as_matrix(), expected[:5], 1e-14)
    assert_close(Transform.from_matrix(expected).as_matrix(), expected, 0)
    assert_close(Transform.from_translation(P).as_matrix(), Transform(jnp.eye(3), P).as_matrix(), 0)


@jax.jit
@jax.vmap
def again(pose):
    """The same transform by each description."""
    by_rpy = Transform(Transform.from_rpy(*pose.as_rpy()).rotation, pose.translation)
    by_quaternion = Transform.from_quaternion(pose.as_quaternion(), pose.translation)
    by_axis = Transform.from_axis_angle(*pose.as_axis_angle(), pose.translation)
    by_vector = Transform(Transform.exp(jnp.pad(pose.as_rotation_vector(), (0, 3))).rotation, pose.translation)
    return by_rpy, by_quaternion, by_axis, by_vector, Transform.exp(pose.log())


def test_there_and_back(dtype):
    poses = Transform.from_quaternion(np.roll(rotations().as_quat(), 1, axis=-1).astype(dtype), P.astype(dtype))
    for found in again(poses):
        assert found.rotation.dtype == found.translation.dtype == dtype
        assert_close(found, jax.tree.map(np.asarray, poses), 20 * float(jnp.finfo(dtype).eps))


def test_angles_are_those_of_urdf():
    (sr, sp, sy), (cr, cp, cy) = np.sin([0.1, 0.2, 0.3]), np.cos([0.1, 0.2, 0.3])
    x, y, z = ([[1, 0, 0], [0, cr, -sr], [0, sr, cr]], [[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]], np.eye(3))
    z[:2, :2] = [[cy, -sy], [sy, cy]]
    pose = Transform.from_rpy(0.1, 0.2, 0.3)
    assert_close(pose.rotation, z @ y @ x, 1e-15)
    assert_close(pose.as_rpy(), np.array([0.1, 0.2, 0.3]), 1e-15)
    assert not np.any(pose.translation)
    axis, angle = Transform.identity().as_axis_angle()
    assert axis.tolist() == [1, 0, 0]
    assert angle == 0


@jax.jit
@jax.vmap
def derivatives(vector, weights):
    """Of all descriptions along the way that the exponential goes, the last two being matrices; and in reverse."""

    def described(x):
        pose = Transform(rotation_exp(x), jnp.zeros(3))
        quaternion, rpy = pose.as_quaternion(), pose.as_rpy()
        again = Transform.from_quaternion(quaternion), Transform.from_rpy(*rpy)
        parts = quaternion, rpy, *pose.as_axis_angle(), *(x.rotation for x in again), pose.rotation
        return jnp.concatenate([jnp.ravel(y) for y in parts])

    return jax.jacfwd(described)(vector), jax.grad(lambda x: described(x) @ weights)(vector)


def test_derivatives_are_finite():
    vectors, weights = np.zeros((4, 3)), np.sin(np.arange(1, 1 + 4 * 38)).reshape(4, 38)
    vectors[1, 0], vectors[2, 1], vectors[3] = 1e-9, HALF, [0.3, -1.0, 2.0]
    forward, reverse = jax.device_get(derivatives(vectors, weights))
    assert np.all(np.isfinite(forward))
    assert_close(reverse, np.einsum("nij,ni->nj", forward, weights), 1e-9)
    # Those of the rotation by its quaternion are right everywhere; those by roll and yaw where they are defined.
    by_quaternion, by_rpy, exact = np.split(forward[:, -27:], 3, axis=1)
    assert_close(by_quaternion, exact, 1e-12)
    defined = [0, 1, 3]
    assert_close(by_rpy[defined], exact[defined], 1e-9)


def test_types_and_batches():
    assert Transform.from_quaternion([1, 0, 0, 0]).rotation.dtype == jnp.result_type(float)
    single = jnp.ones(3, jnp.float32)
    for pose in (Transform.from_translation(single), Transform.from_axis_angle(single, 0.3), Transform.exp([0.0] * 6)):
        assert pose.rotation.dtype == pose.translation.dtype
    assert Transform.from_axis_angle(single, 0.3).translation.dtype == jnp.float32
    assert Transform.from_rpy(0, 0, jnp.zeros(5), P).translation.shape == (5, 3)
    with jax.numpy_rank_promotion("raise"):
        for axis, angle in ((np.ones(3), np.ones(5)), (np.ones((5, 3)), 1.0)):
            turned = Transform.from_axis_angle(axis, angle)
            assert_close(turned.rotation, np.broadcast_to(turned.rotation[0], (5, 3, 3)), 0)
    assert Transform.from_translation(np.zeros((2, 5, 3))).rotation.shape == (2, 5, 3, 3)


def test_what_is_no_transform():
    scaled, mirrored, projective = np.diag([2.0, 2, 2, 1]), np.diag([1.0, 1, -1, 1]), np.eye(4) + 0.1 * np.eye(4, k=-3)
    calls = {
        "The quaternion must not be zero": lambda: Transform.from_quaternion([[1, 0, 0, 0], [0, 0, 0, 0]]),
        "The axis must not be zero": lambda: Transform.from_axis_angle(np.zeros(3), 1.0),
        r"quaternion must have shape \(..., 4\), got \(3,\)": lambda: Transform.from_quaternion([1, 0, 0]),
        r"matrix must have shape \(..., 4, 4\), got \(3, 4\)": lambda: Transform.from_matrix(np.zeros((3, 4))),
        r"got \(3, 3\)\. A rotation .* are Transform\(rotation, tr": lambda: Transform.from_matrix(np.eye(3)),
        r"rotation of a Transform must have shape \(..., 3, 3\), got \(4,\)": lambda: Transform([1, 0, 0, 0], P),
        r"rotation of a Transform must have shape \(..., 3, 3\), got \(3,\)": lambda: Transform(P, np.eye(3)),
        r"rotation .* got \(4, 4\)\. .* Transform\.from_quaternion": lambda: Transform(np.eye(4), P),
        r"translation of a Transform .* \(..., 3\), got \(3, 1\)": lambda: Transform(np.eye(3), P[:, None]),
        r"another Transform, got an array of shape \(3,\)\. .*pose\.apply": lambda: Transform.identity() @ P,
        r"another Transform, got an array of shape \(4, 4\)\. .*from_matrix": lambda: Transform.identity() @ np.eye(4),
        r"translation must have shape \(..., 3\), got \(\)": lambda: Transform.from_rpy(0, 0, 0, 1.0),
        r"point must have shape \(..., 3\), got \(4,\)\. Transforms are composed by @": lambda: (
            Transform.identity().apply(np.ones(4))
        ),
        r"point must have shape \(..., 3\), got \(\)": lambda: Transform.identity().apply(1.0),
        r"point must have shape \(..., 3\), got no array": lambda: Transform.identity().apply(Transform.identity()),
        r"Batch axes must be equal or one, got \(3,\) and \(4,\)\.": lambda: Transform.exp(np.zeros((3, 6))).apply(
            np.zeros((4, 3))
        ),
        "Batch axes must be equal or one": lambda: Transform.exp(np.zeros((3, 6))) @ Transform.exp(np.zeros((2, 6))),
        "3 x 3 block of the matrix must be a rotation": lambda: Transform.from_matrix([scaled, mirrored]),
        r"last row of the matrix must be \[0, 0, 0, 1\]": lambda: Transform.from_matrix(projective),
    }
    for message, call in calls.items():
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(ValueError, match="must be a rotation"):
        Transform.from_matrix(mirrored)


def test_shapes_are_seen_where_there_are_any():
    """Of arrays, traced ones too; trees of something else in their places are none of the constructor's business."""
    poses = Transform(jnp.tile(jnp.eye(3), (2, 1, 1)), jnp.ones((2, 3)))
    with pytest.raises(ValueError, match=r"translation .* got \(4,\)"):
        jax.eval_shape(lambda x: Transform(jnp.eye(3), x), jnp.ones(4))
    axes = Transform(0, None)
    moved = jax.vmap(lambda pose: pose.translation, in_axes=(axes,), out_axes=0)(Transform(poses.rotation, jnp.ones(3)))
    assert moved.shape == (2, 3)
    shapes = jax.eval_shape(lambda pose: pose, poses)
    assert Transform(shapes.rotation, shapes.translation) == shapes
    assert jax.tree.map(jnp.sum, poses).translation.shape == ()
    assert jax.tree.map(lambda _: None, poses).rotation is None
