"""Meshes from files, through trimesh."""

import functools
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .._optional import optional_module
from ._shapes import Color, Mesh


def read_mesh(
    path: Path, scale: tuple[float, float, float], by_color: bool = True
) -> tuple[tuple[Mesh, Color | None], ...]:
    """The surfaces in a file, one for each colour, and the colours as far as the file has them; or all as one.

    Lengths are in the unit that a DAE file says, else in metres, times `scale`. Textures become their mean colour.
    Formats are those of trimesh: STL, DAE, OBJ, GLB, PLY and others. The same file gives the same objects, which are
    then drawn together.

    **Raises:** `ValueError` if the file cannot be read.
    """
    return _parts(path, scale, by_color, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=256)
def _parts(
    path: Path, scale: tuple[float, float, float], by_color: bool, _time: int
) -> tuple[tuple[Mesh, Color | None], ...]:
    """The time of the last change is in the key, so that what changes is read again."""
    trimesh = optional_module("trimesh", "viz")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # between NumPy and the readers of some formats
            scene = trimesh.load_scene(path)
        surfaces: dict[Color | None, list[tuple[np.ndarray, np.ndarray]]] = {}
        for node in scene.graph.nodes_geometry:
            transform, name = scene.graph[node]
            geometry = scene.geometry[name]
            if len(getattr(geometry, "faces", ())):
                unit = _unit(trimesh, geometry) if path.suffix.lower() in (".dae", ".zae") else 1.0
                vertices = unit * (geometry.vertices @ transform[:3, :3].T + transform[:3, 3])
                faces = np.asarray(geometry.faces)
                faces = faces[:, ::-1] if np.prod(scale) < 0 else faces
                color = _color(trimesh, geometry.visual) if by_color else None
                surfaces.setdefault(color, []).append((vertices * scale, faces))
    except Exception as error:  # readers of so many formats raise everything
        raise ValueError(f"{path} cannot be read: {error}") from error
    if not surfaces:
        raise ValueError(f"{path} holds no surface.")
    return tuple((_joined(parts, path), color) for color, parts in surfaces.items())


def _joined(parts: list[tuple[np.ndarray, np.ndarray]], path: Path) -> Mesh:
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in parts)])
    faces = np.concatenate([faces + start for (_, faces), start in zip(parts, starts, strict=False)])
    return Mesh(np.concatenate([vertices for vertices, _ in parts]), faces, str(path))


def _unit(trimesh: ModuleType, geometry: Any) -> float:
    """What lengths of a geometry are in [m]: trimesh takes note of it and leaves them as they are."""
    return 1.0 if geometry.units is None else trimesh.units.unit_conversion(geometry.units, "meters")


def _color(trimesh: ModuleType, visual: Any) -> Color | None:
    material = getattr(visual, "material", None)
    if material is None:
        if visual.kind not in ("face", "vertex"):
            return None
        rgba = visual.main_color
    else:
        image = getattr(material, "image", None) or getattr(material, "baseColorTexture", None)
        if image is not None and np.array_equal(image, trimesh.visual.material.empty_material().image):
            return None  # it stands for a material that the file has not
        rgba = material.main_color if image is None else np.asarray(image.convert("RGB")).mean(axis=(0, 1))
    red, green, blue = np.asarray(rgba[:3], dtype=float) / 255
    # What files say about opacity is read in opposite ways by different programs.
    return float(red), float(green), float(blue), 1.0
