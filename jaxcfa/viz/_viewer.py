"""The viewer in the browser."""

import atexit
import contextlib
import io
import math
import os
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np

from .._optional import optional_module
from ..contacts import AbstractContacts, AbstractSurface, FlatGround, Rough, Union, contact_state
from ..contacts._point_contacts import check_contacts
from ..model import Model
from ..numerics._options import positive_integer, positive_number
from ..typing import NameOrNumber
from ._animation import FRAMES_PER_SECOND
from ._files import Directories
from ._ground import floor_below, surface_of
from ._load import Visuals, drawn_visuals
from ._overlays import turned_to
from ._playback import Playback, as_motion, instant_at
from ._poses import as_configurations, body_poses
from ._robot import Robot
from ._sliders import Sliders

_LAST_PORT = 65535
_INSTANTS = 16  # of a motion, that say where the ground is to be


class Viewer:
    """A robot in the browser, with sliders for its joints (of the first, if several are shown), by viser.

    The page is at `url`, from this machine only unless `host` says otherwise; everything that the browser needs comes
    from this process. A viewer is also a context manager, and in notebooks it shows itself.

    **Fields:** `robot`: the first `Robot`, whose methods show axes, trails, wrenches and the centre of mass; `url`.

    **Arguments:**

    - `model`.
    - `visuals`: as from `load_visuals`, the path of a robot file, or a `mujoco.MjModel`; `default_visuals(model)` if
      absent.
    - `port`: where to listen, up to 65535; if taken, the next free one; 0 for any.
    - `host`: the address to listen at. "0.0.0.0" lets the whole network see and move what is shown.
    - `package_dirs`: folders of packages, as of `load_visuals`.

    **Raises:** `ValueError` for visuals on bodies that the model lacks, a host that is not this machine, and a port
    that is none or has no free one above; what `load_visuals` raises; `ImportError` without viser.
    """

    def __init__(
        self,
        model: Model,
        visuals: Visuals = None,
        *,
        port: int = 8080,
        host: str = "127.0.0.1",
        package_dirs: Directories = (),
    ):
        viser = optional_module("viser", "viz")
        check_address(host, port)
        visuals = drawn_visuals(model, visuals, package_dirs)
        with contextlib.redirect_stdout(io.StringIO()):  # viser says that it starts and stops
            self._server = viser.ViserServer(host=host, port=port, label="jaxcfa", verbose=False)
        self._lock = threading.RLock()
        self._playback: Playback | None = None
        self._closed, self._ended = threading.Event(), threading.Event()  # when closing begins, and has ended
        self._others: dict[str, Robot] = {}
        self.url = _url(host, self._server.get_port())
        atexit.register(self.close)  # before the server ends, to which a motion that is played would go on writing
        try:
            # Sharing would send the scene through a server of others.
            self._server.gui.configure_theme(show_logo=False, show_share_button=False)
            self.robot = Robot(self._server, self._lock, self._ended, "robot", model, visuals, (0, 0, 0), 1.0)
            self._set_scene()
            self._add_switches()
            self._sliders = Sliders(self._server.gui, model, self._slid)
        except BaseException:
            self.close()
            raise

    def show(self, q) -> None:
        """Move the robot to a configuration (nq,), or show several (n, nq): all but the first as ghosts.

        A motion that is being played stops.

        **Raises:** `ValueError` for a wrong shape, and what is not finite.
        """
        q = as_configurations(self.robot.model, q)
        self.stop()
        with self._lock:
            self.robot.show(q)
            self._sliders.set(q[0])

    def play(
        self, motion, dt: float | None = None, *, loop: bool = True, contacts: AbstractContacts | None = None
    ) -> None:
        """Play a motion in real time, with controls for pause, speed and time, and return at once.

        **Arguments:** `motion`: a trajectory of `rollout`, or of `jax.vmap(rollout)`, which is played as ghosts; or
        configurations (n, nq), or (batch, n, nq), `dt` apart [s]. `loop`: whether it begins anew at its end.
        `contacts`: those that the motion was made with, whose ground is shown, if there is one, and for a trajectory
        their forces (of the first of a batch): those of each state by itself, as of `contact_state`, of which the
        friction of what sticks is not that of the step.

        **Raises:** `ValueError` for a wrong shape, what is not finite, a `dt` that is missing, not positive or not
        needed, contacts that are not of this model, and a ground of which nothing can be seen from above.
        """
        t, show = self._begin(motion, dt, contacts)
        self._replace_playback(Playback(self._server.gui, t, show, loop))

    def save(
        self,
        file: str | os.PathLike,
        motion,
        dt: float | None = None,
        *,
        contacts: AbstractContacts | None = None,
        frames_per_second: float = FRAMES_PER_SECOND,
    ) -> None:
        """Write all that is shown, while a motion is played, as a page that any browser opens, without this process.

        The page plays it again and again, can be turned and zoomed, has controls of time but no sliders of joints, and
        needs no network: a file of a megabyte, and what meshes take, to be sent, or to be a part of another page. A
        motion that is being played here ends, and the robot stays where the one that is written does.

        **Arguments:** `file`: ends with `.html`. `motion`, `dt` and `contacts`: as of `play`; for a still picture, one
        configuration (1, nq), and any `dt`. `frames_per_second`: how many configurations the page holds.

        **Raises:** as `play`, and `ValueError` for another suffix and a number that is not positive.
        """
        path, rate = Path(file), positive_number("frames_per_second", frames_per_second)
        if path.suffix.lower() != ".html":
            raise ValueError(
                f"{path.name}: a page is an .html file. Animated pictures are written by jaxcfa.viz.animate."
            )
        t, show = self._begin(motion, dt, contacts)
        path.parent.mkdir(parents=True, exist_ok=True)
        page = self._server.get_scene_serializer()
        try:
            for number in range(math.ceil((t[-1] - t[0]) * rate - 1e-6) + 1):
                show(instant_at(t - t[0], number / rate))
                page.insert_sleep(1 / rate)
        finally:  # else the server would go on writing into it
            text = page.as_html()
            self.robot.show_contacts(None)
        path.write_text(text, encoding="utf-8")

    def _begin(
        self, motion: Any, dt: float | None, contacts: AbstractContacts | None
    ) -> tuple[np.ndarray, Callable[[int], None]]:
        """Shows the start of a motion. Its times (n,) [s], and what shows another of its instants; `play` raises."""
        t, q = as_motion(self.robot.model, motion, dt)
        if contacts is not None:
            check_contacts(self.robot.model, contacts)
        v = None if contacts is None else getattr(motion, "v", None)
        shown = len(t)

        def show(instant: int) -> None:
            nonlocal shown
            with self._lock:
                if instant < shown:  # the motion begins, or has gone back
                    self.robot.clear_trails()
                shown = instant
                self.robot.show(q[instant])
                if contacts is not None and v is not None:
                    velocity = np.reshape(v, (-1, len(t), self.robot.model.nv))[0, instant]
                    self.robot.show_contacts(contact_state(self.robot.model, contacts, q[instant][0], velocity))
                self._sliders.follow(q[instant][0])

        self.stop()
        if contacts is not None and contacts.grounds:
            self._show_grounds(contacts.grounds, q[:, 0])
        show(0)
        points = self.robot.extent()
        self._look_at((points.min(axis=0) + points.max(axis=0)) / 2)
        return t, show

    def stop(self) -> None:
        """End the motion that is being played, if any, where it is."""
        if self._playback is not None:
            self._replace_playback(None)
            self.robot.show_contacts(None)

    def add_robot(
        self,
        name: str,
        model: Model,
        visuals: Visuals = None,
        *,
        base: Sequence[float] = (0.0, 0.0, 0.0),
        opacity: float = 1.0,
    ) -> Robot:
        """Add another robot, which has no sliders; `Robot.show` moves it.

        **Arguments:** `name`: not that of a robot that is shown already. `visuals`: as of the viewer. `base` (3,):
        where its world is [m]. `opacity`: from 0 to 1.

        **Raises:** `ValueError` for a name that is taken, another opacity, and visuals on what the model has not; what
        `load_visuals` raises.
        """
        if name in self._others and not self._others[name].is_removed:
            raise ValueError(f"The viewer has a robot named {name!r}: give another name, or remove() that one first.")
        if not 0 <= positive_number("opacity", opacity, or_zero=True) <= 1:
            raise ValueError(f"opacity must be from 0 to 1, got {opacity!r}.")
        robot = Robot(self._server, self._lock, self._ended, f"robots/{name}", model, visuals, base, opacity)
        self._others[name] = robot
        return robot

    def add_trail(self, frame: NameOrNumber) -> None:
        """Draw the path of a frame or body of the robot from now on; see `Robot.add_trail`."""
        self.robot.add_trail(frame)

    def open(self) -> None:
        """Open the page in the browser."""
        import webbrowser

        webbrowser.open(self.url)

    def wait(self) -> None:
        """Wait until the viewer is closed, or the user interrupts (Ctrl-C), which closes it."""
        try:
            while not self._closed.wait(0.2):
                pass
        except KeyboardInterrupt:
            self.close()

    def close(self) -> None:
        """Stop everything; the page no longer works, and what shows something raises. Closing twice does no harm."""
        if not self._closed.is_set():
            self._closed.set()
            atexit.unregister(self.close)
            self.stop()
            with contextlib.redirect_stdout(io.StringIO()):
                self._server.stop()
            self._ended.set()  # not before, as until then a motion and sliders still move the robot

    def __enter__(self) -> "Viewer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Viewer({self.robot.model!r}, url={self.url!r})"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return f'<iframe src="{self.url}" width="100%" height="500" frameborder="0"></iframe>'

    def _replace_playback(self, playback: Playback | None) -> None:
        with self._lock:
            old, self._playback = self._playback, playback
        if old is not None:
            old.close()  # without the lock, which its thread may be waiting for

    def _slid(self, q: np.ndarray) -> None:
        # Without the lock, as above; the motion can be played on.
        playback = self._playback
        if playback is not None:
            playback.pause()
            self.robot.show_contacts(None)
        with self._lock:
            self.robot.show(np.concatenate([q[None], self.robot.q[1:]]))

    def _set_scene(self) -> None:
        """A ground, and a camera that sees the robot."""
        points = self.robot.extent()
        lower, upper = points.min(axis=0), points.max(axis=0)
        center, size = (lower + upper) / 2, float(np.linalg.norm(upper - lower)) or 1.0
        cell = 10.0 ** np.floor(np.log10(size)) / 5
        # Lamps alone: with the light of viser's surroundings colours are pale, and without a GPU pictures take long.
        self._server.scene.configure_environment_map(None)
        self._server.scene.add_light_ambient("/light", intensity=1.3)
        self._size, self._cell = size, cell
        self._ground: list[Any] = []
        self._add_grid(np.array([0.0, 0.0, floor_below(lower[2], size)]), np.array([0.0, 0.0, 1.0]), 3 * size)
        self._look_at(center)

    def _look_at(self, center: np.ndarray) -> None:
        """Where the camera of a page begins that is opened from now on."""
        # A little to the left of the middle, as the sliders are on the right.
        target = center + 0.15 * self._size * np.array([0.8, 0.6, 0.0])
        self._server.initial_camera.position = target + self._size * np.array([0.6, -0.8, 0.4])
        self._server.initial_camera.look_at = target

    def _add_grid(self, point: np.ndarray, normal: np.ndarray, width: float) -> None:
        """A grid on a plane, a little below it."""
        side = max(30, np.ceil(width / self._cell)) * self._cell
        shift = 1e-3 * self._size * normal
        grid = self._server.scene.add_grid(
            self._ground_name(),
            width=side,
            height=side,
            cell_size=self._cell,
            section_size=5 * self._cell,
            position=point - shift,
            wxyz=turned_to(normal),
            shadow_opacity=0.2,
        )
        self._ground.append(grid)

    def _ground_name(self) -> str:
        """Of one more part of the ground."""
        return f"/ground{len(self._ground) or ''}"

    def _show_grounds(self, grounds: Sequence[AbstractSurface], q: np.ndarray) -> None:
        """The ground of contacts, where configurations (n, nq) are: planes as grids, all others together."""
        instants = np.linspace(0, len(q) - 1, _INSTANTS).round().astype(int)
        places = body_poses(self.robot.model, q[instants]).translation[:, :-1].reshape(-1, 3)
        lower, upper = places.min(axis=0), places.max(axis=0)
        center, width = (lower + upper) / 2, float(np.max((upper - lower)[:2])) + 3 * self._size
        grounds = [x.surface if isinstance(x, Rough) else x for x in grounds]
        different = [x for i, x in enumerate(grounds) if not any(eqx.tree_equal(x, y) for y in grounds[:i])]
        planes = [x for x in different if isinstance(x, FlatGround)]
        surface = None
        if len(planes) < len(different):
            surface = surface_of(Union(different), np.append(center[:2], upper[2]), width / 2)
        while self._ground:
            self._ground.pop().remove()
        if surface is not None:
            style = {"color": (250, 250, 250), "flat_shading": True, "side": "double"}
            self._ground.append(self._server.scene.add_mesh_simple(self._ground_name(), *surface, **style))
        for plane in planes:
            normal, point = np.asarray(plane.normal, float), np.asarray(plane.point, float)
            normal = normal / np.linalg.norm(normal)
            self._add_grid(center - normal * (normal @ (center - point)), normal, width)

    def _add_switches(self) -> None:
        gui, robot = self._server.gui, self.robot
        with gui.add_folder("Show", expand_by_default=False):
            shapes = gui.add_checkbox("Shapes", True)
            axes = gui.add_checkbox("Axes of bodies", False)
            center = gui.add_checkbox("Centre of mass", False)

        def switched(_: Any) -> None:
            with self._lock:
                robot.visible = shapes.value
                robot.show_frames(range(robot.model.nb) if axes.value else [])
                robot.show_center_of_mass(center.value)

        for switch in (shapes, axes, center):
            switch.on_update(switched)


def _url(host: str, port: int) -> str:
    """The address of the page of a server that listens there."""
    if host in ("0.0.0.0", "::"):
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def check_address(host: str, port: int) -> None:
    """Raises `ValueError` for a host and port that cannot be listened on, for which viser would wait forever."""
    if positive_integer("port", port, or_zero=True) > _LAST_PORT:
        raise ValueError(f"port must be a number from 0 to {_LAST_PORT}, got {port}.")
    try:
        _listen(host, 0)
    except (OSError, UnicodeError) as error:
        raise ValueError(
            f"host must be an address of this machine, such as 127.0.0.1, got {host!r}: {error}."
        ) from None
    for number in range(port, _LAST_PORT + 1):
        with contextlib.suppress(OSError):
            _listen(host, number)
            return
    raise ValueError(f"No port from {port} to {_LAST_PORT} is free: give a lower one, such as 8080.")


def _listen(host: str, port: int) -> None:
    """Listens there for a moment. **Raises:** `OSError` where that cannot be."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as trial:
        if os.name == "posix":  # as servers do: elsewhere it would allow what is taken
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        trial.bind(address)
        trial.listen()
