"""The viewer, without a browser: what it sends, its sliders and its motions."""

import contextlib
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from importlib import resources
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from viser.transforms import SO3

import jaxcfa
from jaxcfa import ground_contacts
from jaxcfa.contacts import Box as Step, FlatGround, Rough
from jaxcfa.joints import Composite, Free, Prismatic, Revolute, Spherical
from jaxcfa.model._joint_groups import coordinate_names
from jaxcfa.simulation import Trajectory
from jaxcfa.viz import Box, Plane, Sphere, Viewer, Visual
from jaxcfa.viz._playback import as_motion, instant_at
from jaxcfa.viz._sliders import _shown, controls, value_of
from jaxcfa.viz._viewer import _url

ARM = Path(str(resources.files("jaxcfa"))) / "data" / "arm7.urdf"


@pytest.fixture(scope="module")
def model():
    """Joints of all kinds that sliders treat in different ways."""
    builder = jaxcfa.ModelBuilder()
    body = {"mass": 1.0, "com": (0.02, 0.0, 0.1), "inertia": (0.02, 0.03, 0.01)}
    builder.add_body("trunk", joint=Free(), **body)
    builder.add_body("arm", "trunk", Revolute((0, 0, 1)), (0.5, 0, 0), lower=-1.0, upper=2.0, **body)
    builder.add_body("slide", "arm", Prismatic((1, 0, 0)), (0.5, 0, 0), **body)
    builder.add_body("ball", "slide", Spherical(), (0.5, 0, 0), **body)
    builder.add_frame("tip", "ball", (0.3, 0, 0))
    return builder.build()


@pytest.fixture
def viewer(model):
    with Viewer(model) as viewer:
        yield viewer


def slider(viewer, label):
    return next(handle for control, handle in viewer._sliders._sliders if control.label == label)


def placements(viewer) -> np.ndarray:
    meshes = viewer.robot._meshes.values()
    return np.concatenate([np.hstack([mesh.batched_positions, mesh.batched_wxyzs]) for mesh in meshes])


def test_sliders_have_the_ranges_of_the_joints(model):
    ranges = {control.label: (control.lower, control.upper) for control in controls(model)}
    assert len(ranges) == model.nv
    assert ranges["arm_joint"] == (-1.0, 2.0)
    assert ranges["ball_joint pitch"] == (-1.57, 1.57)
    assert sum(bounds == (-1.0, 1.0) for bounds in ranges.values()) == 4  # the base's position, and the slide


@pytest.mark.parametrize("place", [1.3, -0.7004, 1000.0])
def test_joints_that_are_fixed_by_their_limits_have_sliders(place):
    builder = jaxcfa.ModelBuilder()
    builder.add_body("slide", joint=Prismatic((1, 0, 0)), lower=place, upper=place, mass=1.0)
    model = builder.build(dtype=jnp.float32)
    (control,) = controls(model)
    for q in (jaxcfa.neutral(model), jnp.array([place])):
        assert control.lower <= _shown(control, q) <= control.upper


@pytest.mark.parametrize(("lower", "upper", "step"), [(0.0, 8e-4, 1e-6), (0.02, 0.0201, 1e-6), (-0.2, 0.0, 1e-3)])
def test_sliders_of_short_joints_have_small_steps(lower, upper, step):
    builder = jaxcfa.ModelBuilder()
    builder.add_body("slide", joint=Prismatic((1, 0, 0)), lower=lower, upper=upper, mass=1.0)
    with Viewer(builder.build(dtype=jnp.float32)) as viewer:
        ((control, handle),) = viewer._sliders._sliders
        assert (control.lower, control.upper, handle.step) == (lower, upper, step)
        handle.value = round(lower + 12 * step, 9)
        np.testing.assert_allclose(viewer.robot.q, lower + 12 * step)
        viewer.show(viewer.robot.q)
        assert handle.value == round(lower + 12 * step, 9)


def test_sliders_and_curves_of_joints_in_series_have_their_names():
    builder = jaxcfa.ModelBuilder()
    parts = Composite([Prismatic((1, 0, 0)), Spherical(), Revolute((0, 0, 1))])
    builder.add_body("arm", joint=parts, joint_name="reach+ball+turn", mass=1.0)
    model = builder.build()
    labels = [control.label for control in controls(model)]
    assert labels == ["reach", "ball roll", "ball pitch", "ball yaw", "turn"]
    assert coordinate_names(model, "v") == ["reach", "ball[0]", "ball[1]", "ball[2]", "turn"]


def test_sliders_move_the_robot(viewer, model):
    q = np.asarray(jaxcfa.neutral(model))
    for control, handle in viewer._sliders._sliders:
        before = placements(viewer)
        handle.value = 0.7
        index = slice(control.start, control.start + (1 if control.angle is None else 4))
        assert not np.array_equal(viewer.robot.q[0, index], q[index])
        assert not np.allclose(before, placements(viewer))
        assert value_of(control, viewer.robot.q[0]) == pytest.approx(0.7, abs=1e-6)
    viewer._sliders._reset(model)
    np.testing.assert_array_equal(viewer.robot.q[0], q)
    assert slider(viewer, "slide_joint").value == 0


def test_show_places_shapes_where_kinematics_says(model):
    visuals = [Visual(Box((0.1, 0.1, 0.1)), "tip"), Visual(Box((0.1, 0.1, 0.1)), "arm"), Visual(Sphere(0.1))]
    q = np.asarray(
        jax.vmap(lambda key: jaxcfa.random_configuration(model, key))(jax.random.split(jax.random.key(1), 3))
    )
    with Viewer(model, visuals) as viewer:
        viewer.show(q)
        boxes, ball = viewer.robot._meshes.values()
        places = jax.vmap(
            lambda q: jnp.stack([jaxcfa.frame_pose(model, q, name).translation for name in ("tip", "arm")])
        )(q)
        np.testing.assert_allclose(boxes.batched_positions, places.reshape(-1, 3), atol=1e-6)
        np.testing.assert_array_equal(ball.batched_positions, np.zeros((3, 3)))
        assert boxes.batched_opacities.tolist() == [1, 1, 0.25, 0.25, 0.25, 0.25]
        viewer.show(q[1])
        np.testing.assert_allclose(next(iter(viewer.robot._meshes.values())).batched_positions, places[1], atol=1e-6)


def test_overlays_follow(viewer, model):
    q = np.asarray(jaxcfa.random_configuration(model, jax.random.key(2)))
    wrenches = np.zeros((model.nb, 6))
    wrenches[1] = [0, 0, 2.0, 1.0, 0, 0]
    viewer.robot.show_frames(["tip", 0])
    viewer.robot.show_center_of_mass()
    viewer.robot.show_wrenches(wrenches, scale=0.5)
    viewer.add_trail("tip")
    viewer.show(q)
    poses = [jaxcfa.frame_pose(model, q, frame).translation for frame in ("tip", 0, 1)]
    axes, center, arrows, trail = (overlay._handle for overlay in viewer.robot._overlays.values())
    np.testing.assert_allclose(axes.batched_positions, poses[:2], atol=1e-6)
    np.testing.assert_allclose(center.position, jaxcfa.dynamics.center_of_mass(model, q), atol=1e-6)
    force, moment = np.diff(arrows.points, axis=1)[:, 0]
    np.testing.assert_allclose(arrows.points[:, 0], [poses[2], poses[2]], atol=1e-6)
    np.testing.assert_allclose([force, moment], [[0.5, 0, 0], [0, 0, 1]], atol=1e-6)
    np.testing.assert_allclose(trail.points[-1, 1], poses[0], atol=1e-6)
    assert len(trail.points) == 2
    viewer.robot.show_frames("tip")
    np.testing.assert_allclose(viewer.robot._overlays["axes"]._handle.batched_positions, poses[:1], atol=1e-6)
    viewer.robot.show_frames([])
    viewer.robot.show_center_of_mass(False)
    viewer.robot.show_wrenches(None)
    assert len(viewer.robot._overlays) == 1
    viewer.robot.visible = False
    assert not any(mesh.visible for mesh in viewer.robot._meshes.values())


def test_several_robots(viewer):
    other = jaxcfa.chain(3)
    robot = viewer.add_robot("other", other, base=(0, 1, 0), opacity=0.5)
    robot.show(np.full(3, 0.3))
    assert robot.q.tolist() == [[0.3] * 3]
    with pytest.raises(ValueError, match="has a robot named 'other'"):
        viewer.add_robot("other", other)
    for opacity in (5.0, np.nan, -0.1):
        with pytest.raises(ValueError, match="opacity must be"):
            viewer.add_robot("solid", other, opacity=opacity)
    robot.remove()
    viewer.add_robot("other", other).remove()


def test_motions_are_played_to_their_end(viewer, model):
    qs = line(model, 11)
    viewer.play(qs, 0.02, loop=False)
    viewer._playback.join()
    np.testing.assert_array_equal(viewer.robot.q[0], qs[-1])
    viewer._playback.play()  # from the start
    assert viewer._playback.is_playing
    viewer.play(np.stack([qs, qs[::-1]]), 0.02)  # a batch, without end
    deadline = time.monotonic() + 5
    while viewer._playback._time > 0.1 or viewer._playback._time == 0:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    slider(viewer, "slide_joint").value = 0.5
    assert not viewer._playback.is_playing  # whoever moves a slider takes over, from where the motion is
    (first,), (second,) = viewer.robot.q[:, model.q_slice("slide_joint")]
    assert first == 0.5 != second
    playback = viewer._playback
    expected = qs[instant_at(playback._t, playback._time)].copy()
    expected[model.q_slice("slide_joint")] = 0.5
    np.testing.assert_allclose(viewer.robot.q[0], expected, atol=2e-3)
    viewer._playback.play()  # and the motion can go on
    while viewer.robot.q[0, model.q_slice("slide_joint")] == 0.5:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def line(model, n: int) -> np.ndarray:
    """Configurations (n, nq) on the way from the neutral one."""
    q0 = jaxcfa.neutral(model)
    return np.asarray(jax.vmap(lambda s: jaxcfa.integrate(model, q0, s * jnp.ones(model.nv)))(jnp.linspace(0, 1, n)))


def test_trails_begin_anew_whenever_a_motion_goes_back(viewer, model):
    viewer.add_trail("tip")
    viewer.play(line(model, 11), 10.0)
    playback, (trail,) = viewer._playback, viewer.robot._overlays.values()
    playback.pause()
    for instant in (3, 5, 8):
        playback._show(instant)
    assert len(trail._points) > 3
    playback._show(2)  # of a motion that is repeated, the first picture may be a later one
    assert len(trail._points) == 1
    playback._show(4)
    assert len(trail._points) == 2


def test_overlays_are_not_changed_while_a_picture_is_made(viewer):
    called = threading.Thread(target=viewer.robot.show_frames, args=(["tip"],))
    with viewer._lock:
        called.start()
        called.join(0.2)
        assert not viewer.robot._overlays
    called.join()
    assert viewer.robot._overlays


def test_an_error_ends_a_motion_and_whoever_waits_for_it(viewer, model, monkeypatch):
    raised = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    viewer.play(line(model, 11), 1.0, loop=False)
    playback = viewer._playback
    monkeypatch.setattr(viewer.robot, "show", lambda q: 1 / 0)
    waiting = threading.Thread(target=playback.join, daemon=True)
    waiting.start()
    waiting.join(5.0)
    assert not waiting.is_alive()
    assert not playback.is_playing
    playback._thread.join()
    assert [x.exc_type for x in raised] == [ZeroDivisionError]
    playback.pause()  # does no harm
    monkeypatch.undo()
    viewer.play(line(model, 2), 0.01, loop=False)
    viewer._playback.join()


def test_of_two_motions_that_begin_at_once_one_is_played(viewer, model, monkeypatch):
    stop, others = viewer.stop, []

    def stop_while_another_begins():
        monkeypatch.undo()
        stop()
        viewer.play(line(model, 11), 1.0)
        others.append(viewer._playback)

    monkeypatch.setattr(viewer, "stop", stop_while_another_begins)
    viewer.play(line(model, 11), 1.0)
    (other,) = others
    assert viewer._playback is not other
    assert not other._thread.is_alive()


def test_robots_without_moving_bodies_are_shown():
    builder = jaxcfa.ModelBuilder()
    builder.add_body("table")
    with Viewer(builder.build(), [Visual(Box((1, 1, 0.1)), None)], port=8700) as viewer:
        assert viewer.robot.q.shape == (1, 0)


def test_floors_do_not_say_how_large_a_robot_is(model):
    small, large = ([Visual(Sphere(0.1), "arm"), *floor] for floor in ([], [Visual(Plane((40.0, 40.0)), None)]))
    sizes = []
    for visuals in (small, large):
        with Viewer(model, visuals, port=8710) as viewer:
            sizes.append(viewer.robot._size)
    assert sizes[0] == sizes[1]


def test_motions_from_trajectories(model):
    trajectory = jaxcfa.simulation.Trajectory(
        jnp.arange(3.0), jnp.tile(jaxcfa.neutral(model), (3, 1)), jnp.zeros((3, model.nv)), None, None
    )
    t, q = as_motion(model, trajectory, None)
    assert (t.tolist(), q.shape) == ([0, 1, 2], (3, 1, model.nq))
    batch = jax.tree.map(lambda x: jnp.stack([x, x]), trajectory)
    t, q = as_motion(model, batch, None)
    assert (t.tolist(), q.shape) == ([0, 1, 2], (3, 2, model.nq))
    for times in (jnp.arange(6.0), jnp.arange(2.0)):  # of which some could be taken
        with pytest.raises(ValueError, match=r"times t of a motion must have shape \(n,\) = \(3,\)"):
            as_motion(model, trajectory._replace(t=times), None)


def test_address_and_end(model):
    with Viewer(model, port=8123) as first, Viewer(model, port=8123) as second:
        assert first.url != second.url
        assert first.url.startswith("http://127.0.0.1:")
        assert second.url in second._repr_html_()
        with urllib.request.urlopen(first.url) as page:
            assert b"<html" in page.read()
        address = first._server.get_host(), first._server.get_port()
    second.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=1)
    first.wait()  # returns


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8080"),
        ("0.0.0.0", "http://localhost:8080"),
        ("::", "http://localhost:8080"),
        ("::1", "http://[::1]:8080"),
    ],
)
def test_addresses_of_pages(host, url):
    assert _url(host, 8080) == url


def test_ports_that_cannot_be_listened_on(model):
    """For which viser would wait for ever."""
    for port in (80800, -1):
        with pytest.raises(ValueError, match=f"port must be .*, got {port}"):
            Viewer(model, port=port)
    with socket.socket() as other:
        with contextlib.suppress(OSError):  # taken already
            other.bind(("127.0.0.1", 65535))
            other.listen()
        with pytest.raises(ValueError, match="No port from 65535 to 65535 is free: give a lower one"):
            Viewer(model, port=65535)


def test_nothing_is_printed(model, capfd):
    Viewer(model).close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda viewer, q: viewer.show(q[1:]), r"\(nq,\)"),
        (lambda viewer, q: viewer.show(q * 0), "quaternion"),
        (lambda viewer, q: viewer.show(q + np.inf), "finite"),
        (lambda viewer, q: viewer.play(q, 0.1), "shape"),
        (lambda viewer, q: viewer.play(np.stack([q, q])), "dt"),
        (lambda viewer, q: viewer.play(np.stack([q, q]), -1.0), "dt"),
        (lambda viewer, q: viewer.add_trail("tp"), "did you mean 'tip'"),
        (lambda viewer, q: viewer.robot.show_frames(["nobody"]), "nobody"),
        (lambda viewer, q: viewer.robot.show_wrenches(np.zeros((2, 6))), "wrenches"),
        (lambda viewer, q: Viewer(viewer.robot.model, [Visual(Sphere(1.0), "nobody")]), "nobody"),
        (lambda viewer, q: Viewer(viewer.robot.model, ARM), "base"),
    ],
)
def test_errors(viewer, model, call, message):
    with pytest.raises(ValueError, match=message):
        call(viewer, np.asarray(jaxcfa.neutral(model)))


def test_missing_package_is_named(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(ImportError, match=r"viser: pip install -e '\.\[viz\]' in a clone"):
        Viewer(model)


def test_programs_that_end_while_a_motion_is_played_say_nothing():
    program = """import jaxcfa, time
from jaxcfa.viz import Viewer
viewer = Viewer(jaxcfa.chain(1))
viewer.play([[0.0], [1.0]], dt=1.0)
time.sleep(0.2)"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_contacts_are_shown_on_their_ground(viewer, model, slope):
    """Arrows where forces are, of what the motion says at that time, and the ground where it is."""
    point = [0.0, 0.0, -0.2]
    contacts = ground_contacts(model, "trunk", radius=0.1, ground=FlatGround([-slope, 0.0, 1.0], point))
    q = np.tile(np.asarray(jaxcfa.neutral(model)), (3, 1))
    q[:, 2] = [1.0, -0.15, 1.0]
    motion = Trajectory(np.arange(3.0), q, np.zeros((3, model.nv)), np.zeros((2, model.nv)), np.array(0))
    viewer.play(motion, contacts=contacts)
    viewer._playback.pause()
    viewer._playback._show(1)
    arrows = viewer.robot._overlays["contacts"]._handle
    state = jaxcfa.contact_state(model, contacts, q[1], motion.v[1])
    np.testing.assert_allclose(arrows.points[:, 0], state.position, atol=1e-6)
    length = 12 * viewer.robot._size / (float(np.sum(model.mass)) * 9.81)
    np.testing.assert_allclose(arrows.points[:, 1] - arrows.points[:, 0], length * state.force, rtol=1e-5, atol=1e-6)
    grid = viewer._server.scene.get_handle_by_name("/ground")
    normal = np.array([-slope, 0, 1]) / np.hypot(slope, 1)
    np.testing.assert_allclose(SO3(grid.wxyz).apply(np.array([0.0, 0, 1])), normal, atol=1e-6)
    assert abs(normal @ (grid.position - point)) < 2e-3 * viewer._size
    np.testing.assert_allclose(viewer._server.initial_camera.look_at[2], q[0, 2], atol=0.5)
    viewer._playback._show(2)
    assert len(arrows.points) == 0
    viewer.stop()
    assert "contacts" not in viewer.robot._overlays


def test_a_ground_of_any_shape_is_a_surface(viewer, model):
    contacts = ground_contacts(model, "trunk", ground=lambda p: 2 * (p[2] - 0.1 * jnp.sin(3 * p[0])))
    viewer.play(line(model, 3), 1.0, contacts=contacts)
    vertices = viewer._server.scene.get_handle_by_name("/ground").vertices
    np.testing.assert_allclose(vertices[:, 2], 0.1 * np.sin(3 * vertices[:, 0]), atol=1e-5)
    assert np.all(np.ptp(vertices[:, :2], axis=0) > 2)
    with pytest.raises(ValueError, match="no surface of it is seen"):
        viewer.play(line(model, 3), 1.0, contacts=ground_contacts(model, "trunk", ground=lambda p: p[0] - 1))
    with pytest.raises(ValueError, match=r"contacts of jaxcfa\.contact_state"):
        viewer.robot.show_contacts(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="contacts must be those of ground_contacts"):
        viewer.play(line(model, 3), 1.0, contacts=FlatGround())


def test_all_grounds_are_shown(viewer, model):
    """Planes are grids, each once, and all that is no plane is one surface; the next motion has its own."""
    wall, step = FlatGround([1.0, 0.0, 0.0], [-0.5, 0.0, 0.0]), Step([0.2, 0.2, 0.2], [0.4, 0.0, 0.0])
    on = [ground_contacts(model, "trunk", ground=x) for x in (wall, None, Rough(FlatGround(), 0.5), step)]
    for parts, normals in ((on[:3], [wall.normal, [0, 0, 1]]), (on[1:2], [[0, 0, 1]]), (on, [wall.normal, [0, 0, 1]])):
        viewer.play(line(model, 3), 1.0, contacts=sum(parts))
        found = [viewer._server.scene.get_handle_by_name(f"/ground{i}") for i in ("", 1, 2, 3)]
        surfaces, grids = ([x for x in found if x and hasattr(x, "vertices") == is_mesh] for is_mesh in (True, False))
        np.testing.assert_allclose([SO3(x.wxyz).apply(np.array([0.0, 0, 1])) for x in grids], normals, atol=1e-6)
        assert len(surfaces) == (parts is on)
    heights = surfaces[0].vertices[np.unique(surfaces[0].faces), 2]
    np.testing.assert_allclose([heights.min(), heights.max()], [0.0, 0.2], atol=1e-4)


def test_errors_of_saving(tmp_path):
    model = jaxcfa.chain(2)
    with Viewer(model) as viewer:
        with pytest.raises(ValueError, match=r"a.gif: a page is an .html file.*viz.animate"):
            viewer.save(tmp_path / "a.gif", np.zeros((3, 2)), 0.1)
        with pytest.raises(ValueError, match="frames_per_second must be positive"):
            viewer.save(tmp_path / "a.html", np.zeros((3, 2)), 0.1, frames_per_second=0)
        with pytest.raises(ValueError, match="need their distance dt"):
            viewer.save(tmp_path / "a.html", np.zeros((3, 2)))
        motion = jaxcfa.simulation.rollout(model, jnp.zeros(2), jnp.zeros(2), jnp.zeros((3, 2)), 0.1)
        with pytest.raises(ValueError, match=r"this motion has times of its own, got dt=0\.2"):
            viewer.save(tmp_path / "a.html", motion, 0.2)
        with pytest.raises(ValueError, match="dt must be positive and finite, one known number, got 'fast'"):
            viewer.save(tmp_path / "a.html", np.zeros((3, 2)), "fast")
        assert not list(tmp_path.iterdir())


def test_instants_of_a_page(monkeypatch, tmp_path):
    """So many a second, from the first to the last, and each for as long; what is recorded ends in any case."""
    shown, model = [], jaxcfa.chain(2)
    qs = np.arange(11)[:, None] * np.ones(2)
    with Viewer(model) as viewer:
        monkeypatch.setattr(viewer.robot, "show", lambda q: shown.append(float(q[0, 0])))
        viewer.save(tmp_path / "a.html", qs, 0.1, frames_per_second=4)
        assert shown[1:] == [0, 2, 5, 7, 10]
        monkeypatch.setattr(viewer.robot, "show", lambda q: shown.index(q[0, 0]))
        with pytest.raises(ValueError, match="not in list"):
            viewer.save(tmp_path / "b.html", qs, 0.1)
        assert not viewer._server._websock_server._record_handles
        assert not (tmp_path / "b.html").exists()


def test_closed_viewers_show_nothing(model, tmp_path):
    viewer = Viewer(model)
    q = np.asarray(viewer.robot.q)
    viewer.play(q, 0.1)
    viewer.close()
    for call in (
        lambda: viewer.robot.show(q),
        lambda: viewer.show(q),
        lambda: viewer.play(q, 0.1),
        lambda: viewer.save(tmp_path / "new" / "page.html", q, 0.1),
        lambda: viewer.add_trail(0),
        lambda: viewer.add_robot("other", model),
    ):
        with pytest.raises(ValueError, match=r"viewer is closed.*make a new one"):
            call()
    assert not (tmp_path / "new").exists()
    viewer.stop()
    viewer.close()
