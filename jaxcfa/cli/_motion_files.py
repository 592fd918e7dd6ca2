"""Motions in files."""

from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape

from ..contacts import AbstractContacts
from ..io import save_trajectory
from ..model import Model
from ..simulation import Trajectory
from ..viz import Viewer, animate
from ..viz._animation import frame_count, writer
from ..viz._files import Directories, check_directories
from ..viz._ground import plane_in
from ._progress import working
from ._view import shapes_of

_SUFFIXES = (".gif", ".html", ".mp4", ".npz")


class Output(NamedTuple):
    """The file that a motion is written to, if any, and where packages with meshes are."""

    path: Path | None
    package_dirs: Directories = ()


def check_out(output: Output, seconds: float) -> None:
    """Checks that a motion of this duration can be written to the file, before spending time on finding it.

    **Raises:** `ValueError` for another kind of file, for `.mp4` without ffmpeg, and a `.gif` that is too long;
    `OSError` for a folder that cannot be written to, and one of packages that is not there.
    """
    check_directories(output.package_dirs)
    out = output.path
    if out is None:
        return
    if out.suffix not in _SUFFIXES:
        raise ValueError(f"--out must end with {', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}, got {out.name}.")
    if out.suffix in (".gif", ".mp4"):
        writer(out)
        frame_count(out, seconds)
    check_writable(out)


def check_writable(out: Path) -> None:
    """Checks that the file can be written; makes its folder.

    **Raises:** `ValueError` for a folder; `OSError` for what cannot be made or written to.
    """
    if out.is_dir():
        raise ValueError(f"--out must be a file, but {out} is a folder.")
    existed = out.exists()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.open("ab").close()
    except OSError as error:
        raise type(error)(f"--out: {out} cannot be written ({error.strerror}).") from error
    if not existed:
        out.unlink()


def write_motion(
    console: Console,
    file: Path,
    model: Model,
    trajectory: Trajectory,
    output: Output,
    contacts: AbstractContacts | None = None,
) -> None:
    """Writes a motion, if to any file, and says where it is.

    Pages show the grounds of `contacts`, pictures the plane among them, if there is one, beside the shapes of the file.
    """
    out = output.path
    if out is None:
        return
    if out.suffix == ".npz":
        save_trajectory(out, trajectory)
    else:
        visuals = shapes_of(console, file, model, output.package_dirs)
        with working(console, f"Writing {out.name}"):
            if out.suffix == ".html":
                with Viewer(model, visuals) as viewer:
                    viewer.save(out, trajectory, contacts=contacts)
            else:
                dt = float(trajectory.t[1] - trajectory.t[0])
                ground = contacts is None or plane_in(contacts.grounds) or False
                animate(model, trajectory.q, dt, out, visuals, ground=ground)
    console.print(f"Motion: {escape(str(out))}", soft_wrap=True)
