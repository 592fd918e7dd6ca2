"""Animated pictures."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..model import Model
from ..model._arguments import is_concrete
from ._extra import extra
from ._picture import AZIMUTH, ELEVATION, Scene, View, new_figure
from ._poses import Poses, as_configurations
from ._shapes import Visual

_DOTS_PER_INCH = 100
FRAMES_PER_SECOND = 25.0
LONGEST = 5000  # pictures in a GIF, which are all in memory until it is written


def animate(
    model: Model,
    qs,
    dt: float,
    file: str | os.PathLike,
    visuals: Sequence[Visual] | None = None,
    *,
    frames_per_second: float = FRAMES_PER_SECOND,
    size: tuple[float, float] = (4.8, 4.8),
    azimuth: float = AZIMUTH,
    elevation: float = ELEVATION,
) -> None:
    """Write a motion as an animated GIF, in real time and without end; as MP4 where ffmpeg is installed.

    The camera rests, but follows a robot that goes further than some lengths of its own.

    **Arguments:** `qs` (n, nq): configurations, `dt` [s] apart. `file`: ends with `.gif` or `.mp4`. `size` [inches, of
    100 dots]. The others as of `draw`.

    **Raises:** as `draw`, and `ValueError` for a `dt` that is not positive, an unknown suffix, more than 5000 pictures
    in a `.gif`, and `.mp4` without ffmpeg, or where that fails.
    """
    q = as_configurations(model, qs, "qs")
    frames = frame_numbers(len(q), dt, frames_per_second)
    path = Path(file)
    pictures = writer(path, frames_per_second)
    if path.suffix.lower() == ".gif" and len(frames) > LONGEST:
        raise ValueError(f"{path.name}: a GIF holds {LONGEST} pictures at most, not {len(frames)}. Write an .mp4.")
    scene = Scene(model, visuals)
    poses = scene.poses(q[frames])
    views = _views(scene, poses, azimuth, elevation)
    figure = new_figure(size, dpi=_DOTS_PER_INCH)
    axes = figure.add_axes((0, 0, 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with pictures.saving(figure, str(path), _DOTS_PER_INCH):
            for i, view in enumerate(views):
                axes.clear()
                scene.draw(axes, Poses(poses.rotation[i : i + 1], poses.translation[i : i + 1]), view, ground=True)
                pictures.grab_frame()
    except (subprocess.CalledProcessError, BrokenPipeError) as error:
        raise ValueError(f"{path.name}: ffmpeg could not write it ({error}). Write a .gif.") from None


def frame_numbers(n: int, dt: float, frames_per_second: float) -> np.ndarray:
    """Which of n instants, `dt` [s] apart, are nearest to those of the pictures."""
    if not (is_concrete(dt) and np.ndim(dt) == 0 and np.isfinite(dt) and dt > 0):
        raise ValueError(f"dt must be a positive number of seconds, got {dt!r}.")
    count = max(1, int(np.floor((n - 1) * float(dt) * frames_per_second)) + 1)
    return np.minimum(np.round(np.arange(count) / (frames_per_second * float(dt))).astype(int), n - 1)


def writer(path: Path, frames_per_second: float = FRAMES_PER_SECOND) -> Any:
    """Matplotlib's writer of such files; `ValueError` where there is none."""
    animation = extra("matplotlib.animation")
    match path.suffix.lower():
        case ".gif":
            return animation.PillowWriter(fps=frames_per_second)
        case ".mp4":
            if not animation.FFMpegWriter.isAvailable():
                raise ValueError(f"{path.name}: MP4 needs the program ffmpeg, which is not installed. Write a .gif.")
            return animation.FFMpegWriter(fps=frames_per_second)
    raise ValueError(f"{path.name}: an animation is a .gif or an .mp4 file.")


def _views(scene: Scene, poses: Poses, azimuth: float, elevation: float) -> list[View]:
    whole = scene.view(poses, azimuth, elevation)
    if whole.camera.radius <= 2.0 * scene.size:
        return [whole] * len(poses.rotation)
    radius = 0.75 * scene.size
    centers = poses.translation.mean(axis=1)
    return [
        View(whole.camera._replace(center=center, radius=radius), whole.ground, np.zeros(2), radius)
        for center in centers
    ]
