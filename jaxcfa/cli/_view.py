"""`jaxcfa view`: a robot in the browser."""

import warnings
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from ..model import Model
from ..simulation import Trajectory
from ..viz import Viewer, Visual, default_visuals, load_visuals
from ._progress import working


def run_view(
    console: Console,
    file: Path,
    model: Model,
    *,
    port: int,
    browser: bool,
    trajectory: Trajectory | None = None,
) -> None:
    """Shows a robot, or plays a motion of it, until the user interrupts."""
    with Viewer(model, shapes_of(console, file, model), port=port) as viewer:
        if trajectory is not None:
            viewer.play(trajectory)
        console.print(f"{escape(file.name)} is shown at {viewer.url}; Ctrl-C ends it.", soft_wrap=True)
        if browser:
            viewer.open()
        viewer.wait()


def shapes_of(console: Console, file: Path, model: Model) -> list[Visual]:
    """The shapes in a robot file, after a warning about those that are missing; limbs for a saved model."""
    if file.suffix == ".npz":
        return default_visuals(model)
    with working(console, f"Reading the shapes of {file.name}"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        visuals = load_visuals(file, model)
    for warning in caught:
        console.print(f"[yellow]Warning:[/] {escape(str(warning.message))}", highlight=False)
    return visuals
