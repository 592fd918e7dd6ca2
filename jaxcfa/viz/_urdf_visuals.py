"""Shapes in a URDF file."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..io._report import Report
from ..io._source import Element
from ..io._urdf_check import quaternion_rotation
from ..spatial._host import pose_matrix
from ._files import Directories, find_file
from ._mesh_files import read_mesh
from ._shapes import AbstractShape, Box, Capsule, Color, Cylinder, Sphere, Visual, inertia_box


class _File(NamedTuple):
    """What all shapes of a file share.

    **Fields:** `path` of the file; `materials`: colours by name; `collisions`: whether the shapes are to collide, for
    which meshes are whole, and nothing stands for one that is missing.
    """

    path: Path | None
    package_dirs: Directories
    report: Report
    materials: dict[str, Color]
    collisions: bool


def urdf_visuals(
    root: Element, path: Path | None, package_dirs: Directories, report: Report, collisions: bool = False
) -> list[Visual]:
    """What the links show, or what they collide with: for `collisions`, or if none shows anything.

    **Arguments:** `root`: the element `<robot>`; `path`: where it was read from.
    """
    file = _File(path, package_dirs, report, _materials(root, report), collisions)
    return (not collisions and _of_kind(root, "visual", file)) or _of_kind(root, "collision", file)


def _materials(root: Element, report: Report) -> dict[str, Color]:
    """Some files define materials inside of a link, and use them by name elsewhere. Those without a name stay alone."""
    colors = [(x.get("name"), _rgba(x, report)) for x in root.iter("material")]
    return {name: color for name, color in colors if name and color is not None}


def _of_kind(root: Element, kind: str, file: _File) -> list[Visual]:
    return [
        visual
        for link in root.iterfind("link")
        for element in link.iterfind(kind)
        for visual in _visuals(link, element, file)
    ]


def _visuals(link: Element, element: Element, file: _File) -> list[Visual]:
    name = link.get("name")
    geometry = element.find("geometry")
    shape = None if geometry is None else next((child for child in geometry if isinstance(child.tag, str)), None)
    if shape is None:
        return []
    try:
        placement, color = _origin(element), _color(element, file.materials)
        if shape.tag != "mesh":
            return [Visual(_primitive(shape), name, placement, color)]
        address = shape.get("filename") or ""
        path = find_file(address, file.path, file.package_dirs)
        if path is None:
            return _without_mesh(link, shape, file)
        x, y, z = _numbers(shape, "scale", (1, 1, 1)).tolist()
        parts = read_mesh(path, (x, y, z), by_color=not file.collisions)
        return [Visual(mesh, name, placement, own or color) for mesh, own in parts]
    except ValueError as error:
        if shape.tag != "mesh":
            file.report.add("shape that cannot be read; it is left out", f"<{shape.tag}> of link {name!r}: {error}")
            return []
        return _without_mesh(link, shape, file, error)


def _without_mesh(link: Element, shape: Element, file: _File, error: ValueError | None = None) -> list[Visual]:
    """What stands for a mesh that is missing, or that cannot be read because of an error."""
    instead = "it is left out" if file.collisions else "a box with the link's inertia stands for it"
    problem = f"mesh that cannot be read; {instead}"
    if error is None:
        where = "package_dirs of load_visuals, or --package-dir of the command, says where packages are"
        problem = f"mesh that is missing; {instead} ({where})"
    reason = "" if error is None else f": {error}"
    file.report.add(problem, f"{shape.get('filename') or ''!r} of link {link.get('name')!r}{reason}")
    return [] if file.collisions else [_inertia_box(link)]


def _primitive(element: Element) -> AbstractShape:
    match element.tag:
        case "box":
            x, y, z = map(float, _numbers(element, "size", None))
            return Box((x, y, z))
        case "sphere":
            return Sphere(float(_numbers(element, "radius", None)[0]))
        case "cylinder" | "capsule":
            radius, length = (float(_numbers(element, key, None)[0]) for key in ("radius", "length"))
            return Cylinder(radius, length) if element.tag == "cylinder" else Capsule(radius, length)
    raise ValueError("URDF has no such shape.")


def _inertia_box(link: Element) -> Visual:
    """A box with the inertia that the link has in the file, which is not in the model if it is merged into another."""
    name, inertial = link.get("name"), link.find("inertial")
    mass = None if inertial is None else inertial.find("mass")
    inertia = None if inertial is None else inertial.find("inertia")
    if mass is None or inertia is None:
        return inertia_box(name, 0.0, np.zeros(3), np.zeros((3, 3)))
    xx, xy, xz, yy, yz, zz = (_numbers(inertia, key, (0,))[0] for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"))
    origin = _origin(inertial)
    rotation = origin[:3, :3]
    about_com = rotation @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ rotation.T
    return inertia_box(name, float(_numbers(mass, "value", (0,))[0]), origin[:3, 3], about_com)


def _origin(element: Element) -> np.ndarray:
    """(4, 4): the pose in `<origin>`, the identity where there is none."""
    origin = element.find("origin")
    if origin is None:
        return np.eye(4)
    if origin.get("quat_xyzw") is not None:
        return pose_matrix(quaternion_rotation(origin), _numbers(origin, "xyz", (0, 0, 0)))
    (sr, sp, sy), (cr, cp, cy) = (f(_numbers(origin, "rpy", (0, 0, 0))) for f in (np.sin, np.cos))
    yaw, pitch = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]]), np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    roll = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    return pose_matrix(yaw @ pitch @ roll, _numbers(origin, "xyz", (0, 0, 0)))


def _color(element: Element, materials: dict[str, Color]) -> Color | None:
    material = element.find("material")
    return None if material is None else _rgba(material) or materials.get(material.get("name") or "")


def _rgba(material: Element, report: Report | None = None) -> Color | None:
    color = material.find("color")
    if color is None or not color.get("rgba"):
        return None
    try:
        red, green, blue, alpha = np.clip(_numbers(color, "rgba", (0.5, 0.5, 0.5, 1)), 0, 1).tolist()
    except ValueError as error:
        if report is not None:
            report.add("colour that cannot be read; it is left out", f"material {material.get('name')!r}: {error}")
        return None
    return red, green, blue, alpha


def _numbers(element: Element, key: str, default: tuple[float, ...] | None) -> np.ndarray:
    text = element.get(key)
    if text is None:
        if default is None:
            raise ValueError(f"there is no {key!r}.")
        return np.array(default, dtype=float)
    values = np.array(text.split(), dtype=float)
    if not len(values) or not np.all(np.isfinite(values)) or (default is not None and len(values) != len(default)):
        wanted = "finite numbers" if default is None else f"{len(default)} finite numbers"
        raise ValueError(f"{key}={text!r} must be {wanted}")
    return values
