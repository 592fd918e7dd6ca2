"""Rotations and poses in NumPy, in double precision whatever JAX's is."""

import numpy as np


def rotation_matrix(quaternion: np.ndarray) -> np.ndarray:
    """(3, 3), of a quaternion `[w, x, y, z]` of any length but zero."""
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2 * w * cross + 2 * cross @ cross


def pose_matrix(rotation: np.ndarray, translation: np.ndarray) -> np.ndarray:
    """(4, 4), of a pose."""
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = rotation, translation
    return matrix
