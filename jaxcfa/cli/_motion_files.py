"""Motions in files."""

from pathlib import Path

from rich.console import Console

from ..io import save_trajectory
from ..model import Model
from ..simulation import Trajectory
from ..viz import animate
from ._progress import working
from ._view import shapes_of

_SUFFIXES = (".gif", ".mp4", ".npz")


def check_out(out: Path | None) -> None:
    """`ValueError` for a file of another kind than motions can be written to."""
    if out is not None and out.suffix.lower() not in _SUFFIXES:
        raise ValueError(f"--out must end with {', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}, got {out.name}.")


def write_motion(console: Console, file: Path, model: Model, trajectory: Trajectory, out: Path | None) -> None:
    """Writes a motion, if to any file, and says where it is."""
    if out is None:
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix.lower() == ".npz":
        save_trajectory(out, trajectory)
    else:
        visuals = shapes_of(console, file, model)
        dt = float(trajectory.t[1] - trajectory.t[0])
        with working(console, f"Writing {out.name}"):
            animate(model, trajectory.q, dt, out, visuals)
    console.print(f"Motion: {out}", soft_wrap=True)
