"""Surfaces with few faces, for pictures."""

import functools
from typing import NamedTuple

import numpy as np

from ._shapes import AbstractShape, Triangles, face_normals, without_slivers


class Surface(NamedTuple):
    """A surface for shading.

    **Fields:** `vertices` (n, 3) [m]; `faces` (m, 3); `normals` (m, 3), unit vectors, smoothed over neighbours;
    `is_closed`: whether faces that look away are hidden by others.
    """

    vertices: np.ndarray
    faces: np.ndarray
    normals: np.ndarray
    is_closed: bool


@functools.lru_cache(maxsize=1024)
def surface(shape: AbstractShape, cell: float) -> Surface:
    """The surface of a shape, without details that are smaller than `cell` [m] and without edges beyond three of it."""
    vertices, faces = triangles = _finer(_coarser(shape.triangles(), cell), 3 * cell)
    if not len(faces):
        return Surface(vertices, faces, np.zeros((0, 3)), True)
    flat = face_normals(triangles)
    volume = np.sum(flat * (vertices[faces[:, 0]] - vertices.mean(axis=0))) / 6
    # What encloses next to nothing has no inside.
    is_closed = bool(volume > 0.02 * np.prod(np.ptp(vertices, axis=0)))
    return Surface(vertices, faces, _smoothed(vertices, faces, flat), is_closed)


def cell_for(shape: AbstractShape, faces: float) -> float:
    """A size of cells [m] with which `surface` makes about so many faces of a shape at most."""
    area = 0.5 * float(np.sum(np.linalg.norm(face_normals(shape.triangles()), axis=1)))
    # Triangles that are cut in two have an eighth to a quarter of the square of their longest edge.
    return float(np.sqrt(8 * area / faces)) / 3


def _coarser(triangles: Triangles, cell: float) -> Triangles:
    """One vertex for each cell of a grid: the mean of those in it."""
    vertices, faces = triangles
    if len(faces) < 200:
        return triangles
    _, number = np.unique(np.floor(vertices / cell).astype(np.int64), axis=0, return_inverse=True)
    number = number.reshape(-1)
    count = np.bincount(number)
    means = np.stack([np.bincount(number, vertices[:, k]) / count for k in range(3)], axis=1)
    merged = number[faces]
    a, b, c = merged.T
    merged = np.unique(merged[(a != b) & (b != c) & (c != a)], axis=0)
    return without_slivers(Triangles(means, merged)) if len(merged) else triangles


def _finer(triangles: Triangles, longest: float) -> Triangles:
    """Faces cut in two at their longest edge until none is longer; large faces cannot be sorted by distance."""
    vertices, faces = triangles
    for _ in range(12):
        corners = vertices[faces]
        lengths = np.linalg.norm(corners - np.roll(corners, -1, axis=1), axis=2)
        cut = lengths.max(axis=1, initial=0) > longest
        if not cut.any():
            break
        turned = (lengths[cut].argmax(axis=1)[:, None] + np.arange(3)) % 3
        a, b, c = np.take_along_axis(faces[cut], turned, axis=1).T
        middle = len(vertices) + np.arange(len(a))
        vertices = np.concatenate([vertices, (vertices[a] + vertices[b]) / 2])
        faces = np.concatenate([faces[~cut], np.stack([a, middle, c], 1), np.stack([middle, b, c], 1)])
    return Triangles(vertices, faces)


def _smoothed(vertices: np.ndarray, faces: np.ndarray, flat: np.ndarray) -> np.ndarray:
    """Normals of the faces, mixed with those of their neighbours unless there is an edge between."""
    at_vertices = np.zeros_like(vertices)
    for corner in range(3):
        for k in range(3):
            at_vertices[:, k] += np.bincount(faces[:, corner], flat[:, k], len(vertices))
    own = flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-300)
    around = at_vertices[faces].mean(axis=1)
    around /= np.maximum(np.linalg.norm(around, axis=1, keepdims=True), 1e-300)
    is_smooth = np.sum(own * around, axis=1, keepdims=True) > 0.8
    mixed = np.where(is_smooth, 0.25 * own + 0.75 * around, own)
    return mixed / np.maximum(np.linalg.norm(mixed, axis=1, keepdims=True), 1e-300)
