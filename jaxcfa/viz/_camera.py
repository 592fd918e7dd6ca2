"""From points in the world to points in a picture."""

from typing import NamedTuple

import numpy as np


class Camera(NamedTuple):
    """A camera that looks at a point, with z upward in the picture.

    **Fields:** `center` (3,): the point looked at [m]; `radius`: of the ball around it that fills the picture [m];
    `axes` (3, 3): right, up and toward the camera, as rows.
    """

    center: np.ndarray
    radius: float
    axes: np.ndarray

    def project(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points (..., 3) in the picture, (..., 2) [m] as at the centre, and how near they are, (...)."""
        seen = (points - self.center) @ self.axes.T
        distance = 5 * self.radius
        return seen[..., :2] * (distance / np.maximum(distance - seen[..., 2:], 0.2 * distance)), seen[..., 2]


def camera(points: np.ndarray, azimuth: float, elevation: float, least: float) -> Camera:
    """A camera that sees all the points (n, 3).

    **Arguments:** `azimuth`, about z from x, and `elevation`, upward: where the camera is [degrees]. `least`: the
    smallest radius [m].
    """
    lower, upper = points.min(axis=0), points.max(axis=0)
    a, e = np.deg2rad([azimuth, elevation])
    toward = np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
    right = np.array([-np.sin(a), np.cos(a), 0.0])
    center = (lower + upper) / 2
    radius = max(least, float(np.linalg.norm(points - center, axis=1).max()))
    return Camera(center, radius, np.stack([right, np.cross(toward, right), toward]))
