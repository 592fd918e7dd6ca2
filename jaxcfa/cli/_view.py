"""`jaxcfa view`: a robot in the browser."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import jax
import numpy as np
from rich.console import Console
from rich.markup import escape

from .._optional import optional_module
from ..contacts import AbstractContacts
from ..io._source import is_archive
from ..model import Model
from ..simulation import Trajectory
from ..viz import Viewer, Visual, default_visuals, load_visuals
from ..viz._files import Directories
from ..viz._load import load_collisions
from ..viz._shapes import Collisions
from ..viz._viewer import check_address
from ._progress import quietly, warn

Shapes = TypeVar("Shapes")


class Page(NamedTuple):
    """Where the viewer listens, and whether the browser is opened."""

    host: str
    port: int
    browser: bool

    def checked(self) -> "Page":
        """The same; `ValueError` for an address that cannot be listened on, `ImportError` without viser."""
        optional_module("viser", "viz")
        check_address(self.host, self.port)
        return self


def run_view(
    console: Console,
    file: Path,
    model: Model,
    *,
    page: Page,
    package_dirs: Directories = (),
    motion: Trajectory | jax.Array,
    contacts: AbstractContacts | None = None,
) -> None:
    """Shows a robot in a configuration, or plays a motion of it, until the user interrupts."""
    visuals = shapes_of(console, file, model, package_dirs)
    with Viewer(model, visuals, port=page.port, host=page.host) as viewer:
        if isinstance(motion, Trajectory):
            viewer.play(motion, contacts=contacts)
        else:
            viewer.show(motion)
        console.print(f"{escape(file.name)} is shown at {escape(viewer.url)}; Ctrl-C ends it.", soft_wrap=True)
        if page.browser:
            viewer.open()
        viewer.wait()


def shapes_of(console: Console, file: Path, model: Model, package_dirs: Directories = ()) -> list[Visual]:
    """The shapes in a robot file, after a warning about those that are missing; limbs for a saved model."""
    if is_archive(file):
        return default_visuals(model)
    return _read(console, file, lambda: load_visuals(file, model, package_dirs=package_dirs))


def collisions_of(console: Console, file: Path, model: Model, package_dirs: Directories = ()) -> Collisions:
    """The shapes that collide in a robot file, after a warning about those that are missing; none for a saved model."""
    if is_archive(file):
        return Collisions([], np.zeros((0, 0), bool), np.zeros((0, 0)), np.zeros(0, int))
    return _read(console, file, lambda: load_collisions(file, model, package_dirs))


def _read(console: Console, file: Path, read: Callable[[], Shapes]) -> Shapes:
    with quietly(console, f"Reading the shapes of {file.name}") as caught:
        shapes = read()
    for warning in caught:
        warn(console, str(warning.message))
    return shapes
