"""Shapes from files of either format."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..io._mjcf_compile import is_text
from ..io._report import Report
from ..io._source import FileOrCompiled, is_of_mujoco, parse_xml, read_source, root_tag, unknown_root
from ..model import Model
from ..model._arguments import check_model
from ..numerics._options import check_flag, check_instance
from ._default_visuals import default_visuals
from ._files import Directories
from ._mjcf_visuals import mjcf_visuals
from ._shapes import Plane, Visual
from ._urdf_visuals import urdf_visuals

Visuals = Sequence[Visual] | str | os.PathLike | Any | None  # Any: a mujoco.MjModel or mujoco.MjSpec


def load_visuals(
    path_or_text: FileOrCompiled, model: Model, *, package_dirs: Directories = (), collisions: bool = False
) -> list[Visual]:
    """The shapes that a URDF or MJCF file gives a robot: what is to be seen, or what collides where there is nothing.

    A file without any gets `default_visuals(model)`. Meshes are read by trimesh (STL, DAE, OBJ, GLB, ...), never from a
    network; one that is missing or cannot be read is replaced by a box with the body's inertia, and one warning names
    all of these. `package://` is looked for in `package_dirs`, the folders above the file, `ROS_PACKAGE_PATH` and
    `AMENT_PREFIX_PATH`.

    **Arguments:**

    - `path_or_text`: path of a file, or its content; or a `mujoco.MjModel` or `mujoco.MjSpec`.
    - `model`: the model that `load_model` makes of it, with fixed or floating base.
    - `package_dirs`: folders of packages, or folders that hold packages.
    - `collisions`: whether to take what collides, and nothing else: elements `<collision>` of URDF, geoms of MJCF by
      `contype`, `conaffinity` and pairs. Nothing then stands for meshes that are missing, nor for shapes where a file
      has none.

    **Raises:** `FileNotFoundError` for a wrong path, also among `package_dirs`; `ValueError` for a file that is
    malformed or of another robot; `ImportError` without the packages that read files.
    """
    check_model(model)
    check_flag("collisions", collisions)
    if isinstance(package_dirs, str | bytes | os.PathLike):
        raise ValueError(f"package_dirs must be a list of folders, such as [{package_dirs!r}], got {package_dirs!r}.")
    for folder in package_dirs:
        if not Path(folder).is_dir():
            raise FileNotFoundError(f"There is no folder {os.fspath(folder)!r}, which is among package_dirs.")
    source = read_source(path_or_text)
    report = Report(source.name)
    try:
        tag = root_tag(source.data)
        if tag == "robot":
            file = None if is_text(path_or_text) else Path(os.fsdecode(path_or_text))
            found = urdf_visuals(parse_xml(source.data), file, package_dirs, report, collisions)
        elif tag == "mujoco":
            found = mjcf_visuals(path_or_text, source, report, collisions)
        else:
            raise unknown_root(tag)
        for visual in found:
            if visual.carrier is not None:
                model.locate(visual.carrier)
    except ValueError as error:
        raise ValueError(f"{source.name}: {error}") from error
    report.warn()
    return found if found or collisions else default_visuals(model)


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
