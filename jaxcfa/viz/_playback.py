"""Motions played in real time."""

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..model import Model
from ..numerics._options import positive_number
from ._poses import as_configurations

_PICTURES_PER_SECOND = 30


class Playback:
    """A motion with its controls: play and pause, speed, time.

    **Arguments:** `gui`: viser's; `t` (n,) [s], ascending; `show`: called with the number of the instant to be shown,
    by a thread of its own; `loop`: whether the motion begins anew at its end. An error of `show` ends the motion.
    """

    def __init__(self, gui: Any, t: np.ndarray, show: Callable[[int], None], loop: bool):
        self._t, self._show = t - t[0], show
        self._time = 0.0
        self._playing, self._closed = threading.Event(), threading.Event()
        self._showing = threading.RLock()
        self._folder = gui.add_folder("Motion", order=-1)
        end = max(float(self._t[-1]), 1e-3)
        with self._folder:
            self._button = gui.add_button("Pause")
            self._slider = gui.add_slider("time [s]", 0.0, end, min(1e-3, end), 0.0)
            self._speed = gui.add_slider("speed", 0.05, 4.0, 0.05, 1.0)
            self._loop = gui.add_checkbox("loop", loop)
        self._button.on_click(lambda _: self.pause() if self.is_playing else self.play())
        self._slider.on_update(self._seek)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.play()
        self._thread.start()

    @property
    def is_playing(self) -> bool:
        """Whether time goes on."""
        return self._playing.is_set() and not self._closed.is_set()

    def play(self) -> None:
        """Go on; from the start if the end was reached."""
        if self._time >= self._t[-1]:
            self._time = 0.0
        self._set_label("Pause")
        self._playing.set()

    def pause(self) -> None:
        """Stop where it is, once the picture that is being made is shown."""
        self._playing.clear()
        with self._showing:
            self._set_label("Play")

    def join(self) -> None:
        """Wait for the end of a motion that is not repeated."""
        while self.is_playing and not self._closed.wait(0.02):
            pass

    def close(self) -> None:
        """End the thread and remove the controls."""
        self._closed.set()
        self._playing.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5.0)

    def _set_label(self, text: str) -> None:
        if not self._closed.is_set():
            self._button.label = text

    def _seek(self, event: Any) -> None:
        if event.client is not None and not self._closed.is_set():  # moved by a user, not from here
            self._time = float(self._slider.value)
            self._show(instant_at(self._t, self._time))

    def _run(self) -> None:
        try:
            self._play_on()
        finally:
            self._closed.set()
            self._folder.remove()

    def _play_on(self) -> None:
        before = time.perf_counter()
        while not self._closed.is_set():
            if not self._playing.wait(timeout=0.1):
                before = time.perf_counter()
                continue
            now = time.perf_counter()
            with self._showing:
                if self.is_playing:
                    self._advance(float(self._speed.value) * (now - before))
            before = now
            self._closed.wait(max(0.0, 1 / _PICTURES_PER_SECOND - (time.perf_counter() - now)))

    def _advance(self, duration: float) -> None:
        end = float(self._t[-1])
        self._time += duration
        if self._time >= end:
            self._time = self._time % end if self._loop.value and end > 0 else end
        self._show(instant_at(self._t, self._time))
        if not self._closed.is_set():
            self._slider.value = self._time
        if self._time >= end:  # only when the last picture is shown: `join` waits for this
            self.pause()


def instant_at(t: np.ndarray, time: float) -> int:
    """The last of ascending times (n,) that is not later [s]."""
    return int(np.clip(np.searchsorted(t, time + 1e-9, side="right") - 1, 0, len(t) - 1))


def as_motion(model: Model, motion: Any, dt: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Times (n,) [s] and configurations (n, k, nq) of k robots, of a trajectory or of configurations `dt` apart.

    **Arguments:** `motion`: has `t` and `q` (a batch too: `q` (k, n, nq)), or is an array (n, nq) or (k, n, nq).

    **Raises:** `ValueError` for wrong shapes, what is not finite, and a `dt` that is missing, not positive or not
    needed.
    """
    t, q = getattr(motion, "t", None), getattr(motion, "q", motion)
    q = np.asarray(q)
    if q.ndim not in (2, 3) or q.shape[-1] != model.nq or 0 in q.shape[:-1]:
        raise ValueError(
            f"A motion is a trajectory, or configurations of shape (n, nq) with nq = {model.nq} or (batch, n, nq), "
            f"got {q.shape}."
        )
    batch = q if q.ndim == 3 else q[None]
    checked = as_configurations(model, batch.reshape(-1, model.nq), "a motion").reshape(batch.shape)
    if t is not None and dt is not None:
        raise ValueError(f"dt is for configurations without times; this motion has times of its own, got dt={dt!r}.")
    if t is not None:
        times, n = np.asarray(t, dtype=float), batch.shape[1]
        if times.shape not in ((n,), batch.shape[:2]):
            raise ValueError(f"The times t of a motion must have shape (n,) = ({n},), as many as q, got {times.shape}.")
        return times.reshape(-1, n)[0], checked.swapaxes(0, 1)
    if dt is None:
        raise ValueError("Configurations without times need their distance dt [s], a positive number; got None.")
    return positive_number("dt", dt) * np.arange(batch.shape[1]), checked.swapaxes(0, 1)
