"""Animated pictures."""

import math
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from .._optional import optional_module
from ..contacts import FlatGround
from ..model import Model
from ..model._arguments import check_model
from ..numerics._options import positive_number
from ._load import Visuals
from ._picture import AZIMUTH, ELEVATION, Scene, View, new_figure
from ._playback import as_motion
from ._poses import Poses, as_configurations

_DOTS_PER_INCH = 100
FRAMES_PER_SECOND = 25.0
LONGEST = 5000  # pictures in a GIF, which are all in memory until it is written
_SHORTEST, _SLOWEST = 2, 65535  # hundredths of a second for a picture of a GIF: what programs show, what files hold


def animate(
    model: Model,
    motion,
    dt: float | None = None,
    file: str | os.PathLike | None = None,
    visuals: Visuals = None,
    *,
    frames_per_second: float = FRAMES_PER_SECOND,
    size: tuple[float, float] = (4.8, 4.8),
    azimuth: float = AZIMUTH,
    elevation: float = ELEVATION,
    ground: bool | FlatGround = True,
) -> None:
    """Write a motion as an animated GIF, in real time and without end; as MP4 where ffmpeg is installed.

    The camera rests, but follows a robot that goes further than some lengths of its own.

    **Arguments:** `motion`: a trajectory of `rollout`, or anything with `t` and `q`; or configurations (n, nq), `dt`
    apart [s]. `file`: ends with `.gif` or `.mp4`. `frames_per_second`: pictures of a GIF last whole hundredths of a
    second, so it gets the nearest possible rate, 50 at most. `size` [inches, of 100 dots]. The others as of `draw`.

    **Raises:** as `draw`, and `ValueError` for a batch of motions, a `dt` that is missing or not needed, a `dt`
    or `frames_per_second` that is not positive, no file, an unknown suffix, more than 5000 pictures in a `.gif`, and
    `.mp4` without ffmpeg, or where that fails.
    """
    check_model(model)
    if file is None:
        raise ValueError(
            "animate needs a file: animate(model, trajectory, file='motion.gif'), or, of configurations, "
            f"animate(model, q, dt, 'motion.gif'), got dt={dt!r:.200} and no file."
        )
    t, q = _one_motion(model, motion, dt)
    path = Path(file)
    rate = frame_rate(path, frames_per_second)
    pictures = writer(path, rate)
    count = frame_count(path, t[-1] - t[0], rate)
    frames = np.searchsorted((t[1:] + t[:-1]) / 2, t[0] + np.arange(count) / rate)  # the nearest instants
    scene = Scene(model, visuals)
    poses = scene.poses(q[frames])
    views = _views(scene, poses, azimuth, elevation, ground)
    figure = new_figure(size, dpi=_DOTS_PER_INCH)
    axes = figure.add_axes((0, 0, 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with pictures.saving(figure, str(path), _DOTS_PER_INCH):
            for i, view in enumerate(views):
                axes.clear()
                now = Poses(poses.rotation[i : i + 1], poses.translation[i : i + 1])
                scene.draw(axes, now, view, bool(ground))
                pictures.grab_frame()
    except (subprocess.CalledProcessError, BrokenPipeError) as error:
        raise ValueError(f"{path.name}: ffmpeg could not write it ({error}). Write a .gif.") from None


def _one_motion(model: Model, motion: Any, dt: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Times (n,) [s] and configurations (n, nq) of what `animate` is given."""
    if not hasattr(motion, "q"):
        q = as_configurations(model, motion, "motion, if it is no trajectory,")
        return positive_number("dt", dt) * np.arange(len(q)), q
    t, batch = as_motion(model, motion, dt)
    if batch.shape[1] > 1:
        raise ValueError(
            f"An animation is of one motion, got {batch.shape[1]}: take one, jax.tree.map(lambda x: x[0], motion), or "
            "let Viewer.play show all as ghosts."
        )
    return t, batch[:, 0]


def frame_rate(path: Path, frames_per_second: float) -> float:
    """How many pictures a second a file can have: that number, or the nearest with whole hundredths of a second."""
    rate = positive_number("frames_per_second", frames_per_second)
    if path.suffix.lower() != ".gif":
        return rate
    return 100 / round(min(max(100 / rate, _SHORTEST), _SLOWEST))


def frame_count(path: Path, seconds: float, rate: float = FRAMES_PER_SECOND) -> int:
    """How many pictures a motion takes at so many a second; `ValueError` for more than a GIF can hold."""
    # A little longer, so that rounding takes no picture from the end.
    count = math.floor((1 + 1e-6) * seconds * rate) + 1
    if path.suffix.lower() == ".gif" and count > LONGEST:
        raise ValueError(
            f"{path.name}: a GIF holds {LONGEST} pictures at most, but {seconds:g} s with {rate:g} a second are "
            f"{count}; write an .mp4, or a shorter motion."
        )
    return count


def writer(path: Path, rate: float = FRAMES_PER_SECOND) -> Any:
    """Matplotlib's writer of such files, for a rate of `frame_rate`; `ValueError` where there is none."""
    animation = optional_module("matplotlib.animation", "viz")
    match path.suffix.lower():
        case ".gif":
            # It cuts off what is below a millisecond: half of one more, so that none is lost by rounding.
            return animation.PillowWriter(fps=1000 / (round(1000 / rate) + 0.5))
        case ".mp4":
            if not animation.FFMpegWriter.isAvailable():
                raise ValueError(f"{path.name}: MP4 needs the program ffmpeg, which is not installed. Write a .gif.")
            return animation.FFMpegWriter(fps=rate)
    raise ValueError(f"{path.name}: an animation is a .gif or an .mp4 file. Viewer.save writes pages, .html.")


def _views(scene: Scene, poses: Poses, azimuth: float, elevation: float, ground: bool | FlatGround) -> list[View]:
    whole = scene.view(poses, azimuth, elevation, ground)
    if whole.camera.radius <= 2.0 * scene.size:
        return [whole] * len(poses.rotation)
    return [whole.around(center, scene.size) for center in scene.centers(poses)]
