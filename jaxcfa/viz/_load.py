"""Shapes from files of either format."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..io._mjcf_compile import ASSETS_OF_URDF, check_assets
from ..io._report import Report
from ..io._source import (
    Element,
    FileOrCompiled,
    Source,
    is_of_mujoco,
    is_text,
    parse_xml,
    read_source,
    root_tag,
    unknown_root,
)
from ..model import WORLD, Model
from ..model._arguments import check_model
from ..numerics._options import check_flag, check_instance
from ._default_visuals import default_visuals
from ._files import Directories, check_directories
from ._mjcf_visuals import mjcf_collisions, mjcf_visuals
from ._shapes import Collisions, Plane, Visual
from ._urdf_visuals import urdf_visuals

Found = TypeVar("Found")
Visuals = Sequence[Visual] | str | os.PathLike | Any | None  # Any: a mujoco.MjModel or mujoco.MjSpec


def load_visuals(
    path_or_text: FileOrCompiled,
    model: Model,
    *,
    package_dirs: Directories = (),
    collisions: bool = False,
    assets: Mapping[str, bytes] | None = None,
) -> list[Visual]:
    """The shapes that a URDF or MJCF file gives a robot: what is to be seen, or what collides where there is nothing.

    Those of `default_visuals(model)` are added where nothing that moves has any. Meshes are read by trimesh (STL, DAE,
    OBJ, GLB, ...), never from a network; one that is missing or cannot be read is replaced by a box with the body's
    inertia, and one warning names all of these. `package://` is looked for in `package_dirs`, the folders above the
    file, `ROS_PACKAGE_PATH` and `AMENT_PREFIX_PATH`.

    **Arguments:**

    - `path_or_text`: path of a file, or its content; or a `mujoco.MjModel` or `mujoco.MjSpec`.
    - `model`: the model that `load_model` makes of it, with fixed or floating base.
    - `package_dirs`: folders of packages, or folders that hold packages.
    - `collisions`: whether to take what collides, and nothing else: elements `<collision>` of URDF, geoms of MJCF by
      `contype`, `conaffinity` and pairs. Nothing then stands for meshes that are missing, nor for shapes where a file
      has none.
    - `assets`: contents of the files that MJCF text names, by these names, as of `load_model`.

    **Raises:** `FileNotFoundError` for a wrong path, also among `package_dirs`; `ValueError` for a file that is
    malformed or of another robot, and for `assets` of anything but MJCF text; `ImportError` without the packages that
    read files.
    """
    check_flag("collisions", collisions)
    if collisions:
        return load_collisions(path_or_text, model, package_dirs, assets).shapes
    found = _load(path_or_text, model, package_dirs, assets, urdf_visuals, mjcf_visuals, list)
    moving = any(x.carrier is not None and model.locate(x.carrier)[0] != WORLD for x in found)
    return found if moving else [*found, *default_visuals(model)]


def load_collisions(
    path_or_text: FileOrCompiled,
    model: Model,
    package_dirs: Directories = (),
    assets: Mapping[str, bytes] | None = None,
) -> Collisions:
    """What collides in a file, and with what: MJCF says that itself, and links of a URDF file are one robot.

    **Raises:** what `load_visuals` does.
    """

    def of_urdf(root: Element, path: Path | None, package_dirs: Directories, report: Report) -> Collisions:
        shapes = urdf_visuals(root, path, package_dirs, report, collisions=True)
        n = len(shapes)
        return Collisions(shapes, _apart(model, shapes), np.ones((n, n)), np.zeros(n, int))

    return _load(path_or_text, model, package_dirs, assets, of_urdf, mjcf_collisions, lambda found: found.shapes)


def _load(
    path_or_text: FileOrCompiled,
    model: Model,
    package_dirs: Directories,
    assets: Mapping[str, bytes] | None,
    of_urdf: Callable[[Element, Path | None, Directories, Report], Found],
    of_mjcf: Callable[[FileOrCompiled, Source, Report, Mapping[str, bytes] | None], Found],
    shapes: Callable[[Found], list[Visual]],
) -> Found:
    """What a file of either format gives a robot that has the bodies which carry it."""
    check_model(model)
    check_directories(package_dirs)
    check_assets(assets, path_or_text)
    source = read_source(path_or_text)
    report = Report(source.name)
    try:
        tag = root_tag(source.data)
        if tag == "robot" and assets is not None:
            raise ValueError(ASSETS_OF_URDF)
        if tag == "robot":
            file = None if is_text(path_or_text) else Path(os.fsdecode(path_or_text))
            found = of_urdf(parse_xml(source.data), file, package_dirs, report)
        elif tag == "mujoco":
            found = of_mjcf(path_or_text, source, report, assets)
        else:
            raise unknown_root(tag)
        for visual in shapes(found):
            if visual.carrier is not None:
                model.locate(visual.carrier)
    except ValueError as error:
        raise ValueError(f"{source.name}: {error}") from error
    report.warn()
    return found


def _apart(model: Model, shapes: Sequence[Visual]) -> np.ndarray:
    """(n, n): whether shapes are on two bodies that no joint connects."""
    bodies = np.array([WORLD if x.carrier is None else model.locate(x.carrier)[0] for x in shapes], int)
    parents = np.append(model.topology.parents, WORLD - 1)[bodies]
    next_to = (bodies[:, None] == parents) | (bodies[:, None] == bodies)
    return ~(next_to | next_to.T)


def drawn_visuals(model: Model, visuals: Visuals, package_dirs: Directories = ()) -> list[Visual]:
    """What is drawn of shapes that are given, or those of a file, or, for `None`, `default_visuals(model)`: all but
    planes without end."""
    check_model(model)
    if visuals is None:
        visuals = default_visuals(model)
    elif isinstance(visuals, str | os.PathLike) or is_of_mujoco(visuals):
        visuals = load_visuals(visuals, model, package_dirs=package_dirs)
    check_instance(
        "visuals", visuals, Iterable, "a list of Visual, the path of a robot file, a mujoco.MjModel, or None"
    )
    chosen = list(visuals)
    for visual in chosen:
        check_instance("Each of visuals", visual, Visual, "a Visual, such as Visual(Box((1, 1, 1)), 'name of a body')")
    return [x for x in chosen if not (isinstance(x.shape, Plane) and x.shape.size is None)]
