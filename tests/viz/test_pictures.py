"""Pictures, animations and curves, without a display."""

import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import jaxcfa
from jaxcfa.contacts import FlatGround
from jaxcfa.viz import (
    Box,
    HeightField,
    Mesh,
    Plane,
    Sphere,
    Visual,
    animate,
    draw,
    load_visuals,
    plot_trajectory,
    snapshot,
)
from jaxcfa.viz._animation import frame_count
from jaxcfa.viz._picture import Scene, _shadow
from jaxcfa.viz._surfaces import surface


@pytest.fixture(scope="module")
def tree():
    return jaxcfa.random_tree(5, jax.random.key(3))


def pixels(path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB"), dtype=float)


def test_snapshot_shows_the_robot_as_it_is_posed(tree, tmp_path):
    q = np.asarray(jaxcfa.neutral(tree))
    other = np.asarray(jaxcfa.random_configuration(tree, jax.random.key(0)))
    size = (2.0, 2.0)
    for name, x in (("a", q), ("b", q), ("other", other), ("several", np.stack([other, q]))):
        snapshot(tree, x, tmp_path / "new" / f"{name}.png", size=size)
    a, b, moved, several = (pixels(tmp_path / "new" / f"{name}.png") for name in ("a", "b", "other", "several"))
    assert a.shape == (300, 300, 3)
    colourful = np.ptp(a, axis=2) > 30  # the ground is grey
    assert colourful.mean() > 0.02
    assert np.array_equal(a, b)
    assert not np.array_equal(a, moved)
    assert not np.array_equal(a, several)


def test_colours_are_those_of_the_visuals(tree, tmp_path):
    visuals = [Visual(Sphere(0.5), None, color=(1.0, 0.0, 0.0, 1.0)), Visual(Plane())]
    snapshot(tree, jaxcfa.neutral(tree), tmp_path / "ball.png", visuals, size=(2.0, 2.0), ground=False)
    picture = pixels(tmp_path / "ball.png")
    ball = np.ptp(picture, axis=2) > 60
    assert 0.25 < ball.mean() < 0.8
    red, green, blue = picture[ball].mean(axis=0)
    assert red > 2 * max(green, blue)


URDF = """<robot name="r"><link name="base"><visual><geometry><box size="1 1 1"/></geometry>
  <material name="red"><color rgba="1 0 0 1"/></material></visual></link></robot>"""


def test_the_ground_of_contacts_is_drawn(tree):
    """Lines of the grid, and a shadow, where the plane is, which may slope."""
    scene = Scene(tree, None)
    poses = scene.poses(np.asarray(jaxcfa.neutral(tree))[None])
    normal, point = np.array([0.2, -0.1, 1.0]), np.array([0.3, 0.0, -2.0])
    view = scene.view(poses, -55.0, 18.0, FlatGround(3 * normal, point))
    places = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_allclose((np.hstack([places, view.height(places)]) - point) @ normal, 0, atol=1e-6)
    outline = _shadow(np.random.default_rng(1).normal(size=(20, 3)), view)
    np.testing.assert_allclose((outline - point) @ normal, 0, atol=1e-6)
    assert scene.view(poses, -55.0, 18.0, True).ground.tolist()[:2] == [0, 0]


def test_shapes_may_be_given_by_the_path_of_a_robot(tmp_path):
    path, q = tmp_path / "robot.urdf", np.zeros(0)
    path.write_text(URDF)
    model = jaxcfa.load_model(path)
    for name, visuals in (("a", load_visuals(path, model)), ("b", path), ("c", str(path))):
        snapshot(model, q, tmp_path / f"{name}.png", visuals, size=(1.0, 1.0))
    a, b, c = (pixels(tmp_path / f"{name}.png") for name in "abc")
    assert np.array_equal(a, b)
    assert np.array_equal(a, c)


def test_meshes_without_faces_are_not_seen(tree, tmp_path):
    """They are what files hold now and then."""
    nothing = Visual(Mesh([[0, 0, 0], [1, 0, 0]], np.zeros((0, 3))))
    for name, visuals in (("a", [Visual(Sphere(1.0))]), ("b", [Visual(Sphere(1.0)), nothing])):
        snapshot(tree, jaxcfa.neutral(tree), tmp_path / f"{name}.png", visuals, size=(1.0, 1.0), ground=False)
    assert np.array_equal(pixels(tmp_path / "a.png"), pixels(tmp_path / "b.png"))


def test_near_things_hide_far_ones(tree, tmp_path):
    """Seen from x, a red box in front of a green one that is as large."""
    placements = [np.eye(4), np.eye(4)]
    placements[0][0, 3] = 2.0
    colors = ((1.0, 0.0, 0.0, 1.0), (0.0, 1.0, 0.0, 1.0))
    visuals = [Visual(Box((0.5, 1, 1)), None, x, color) for x, color in zip(placements, colors, strict=True)]
    view = {"azimuth": 0.0, "elevation": 0.0, "ground": False, "size": (2.0, 2.0)}
    snapshot(tree, jaxcfa.neutral(tree), tmp_path / "boxes.png", visuals, **view)
    red, green, _ = pixels(tmp_path / "boxes.png")[120:180, 120:180].reshape(-1, 3).T
    assert np.all(red > green)


def test_a_landscape_is_as_coarse_as_pictures_can_show(tree):
    heights = np.random.default_rng(0).uniform(0, 0.5, (100, 100))
    landscape = Visual(HeightField(heights, (1e4, 1e4)))
    scene = Scene(tree, [Visual(Sphere(1.0), tree.body_names[0]), landscape])
    assert len(scene._surfaces[0].faces) > 500
    assert 10_000 < len(scene._surfaces[1].faces) < 60_000


def test_surfaces_of_pictures_have_few_faces():
    n = 200
    x, y = np.meshgrid(np.linspace(0, 1, n), np.linspace(0, 1, n))
    a = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).ravel()
    faces = np.concatenate([np.stack([a, a + 1, a + n + 1], 1), np.stack([a, a + n + 1, a + n], 1)])
    fine = Mesh(np.stack([x.ravel(), y.ravel(), 0 * x.ravel()], 1), faces)
    coarse = surface(fine, 0.05)
    assert len(coarse.faces) < 0.02 * len(faces)
    corners = coarse.vertices[coarse.faces]
    areas = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) / 2
    assert areas.sum() == pytest.approx(1, rel=0.15)
    assert not coarse.is_closed
    np.testing.assert_allclose(coarse.normals, np.broadcast_to([0, 0, 1], coarse.normals.shape), atol=1e-12)
    box = surface(Box((1.0, 1.0, 1.0)), 0.05)
    assert box.is_closed
    edges = box.vertices[box.faces] - box.vertices[np.roll(box.faces, 1, axis=1)]
    assert np.linalg.norm(edges, axis=2).max() <= 0.15


def test_animation_has_the_duration_of_the_motion(tree, tmp_path):
    qs = np.asarray(
        jax.vmap(lambda s: jaxcfa.integrate(tree, jaxcfa.neutral(tree), s * jnp.ones(tree.nv)))(jnp.linspace(0, 1, 41))
    )
    animate(tree, qs, 0.01, tmp_path / "motion.gif", frames_per_second=10, size=(1.0, 1.0))
    with Image.open(tmp_path / "motion.gif") as gif:
        assert (gif.n_frames, gif.size) == (5, (100, 100))
        assert gif.info["duration"] == 100
        first = np.asarray(gif.convert("RGB"))
        gif.seek(4)
        assert not np.array_equal(first, np.asarray(gif.convert("RGB")))


def test_animation_of_a_trajectory(tmp_path):
    """Which knows its times, also those that are not evenly apart; of a batch one is to be chosen."""
    model = jaxcfa.chain(1)
    motion = jaxcfa.rollout(model, [0.0], [30.0], jnp.zeros((4, 1)), 0.1)
    options = {"frames_per_second": 10, "size": (1.0, 1.0)}
    animate(model, motion, file=tmp_path / "motion.gif", **options)
    animate(model, motion.q, 0.1, tmp_path / "same.gif", **options)
    assert (tmp_path / "motion.gif").read_bytes() == (tmp_path / "same.gif").read_bytes()
    late = motion._replace(t=jnp.array([0.0, 0.1, 0.2, 0.3, 0.9]))
    animate(model, late, file=tmp_path / "late.gif", **options)
    with Image.open(tmp_path / "late.gif") as gif:
        assert sum(gif.seek(number) or gif.info["duration"] for number in range(gif.n_frames)) == 1000
    batch = motion._replace(q=jnp.stack([motion.q] * 2))
    with pytest.raises(ValueError, match=r"of one motion, got 2: take one, .*Viewer\.play"):
        animate(model, batch, file=tmp_path / "motion.gif")
    with pytest.raises(ValueError, match=r"animate needs a file: .*got dt='motion.gif'"):
        animate(model, motion, "motion.gif")


@pytest.mark.parametrize(("rate", "hundredths"), [(30, 3), (24, 4), (1000, 2)])
def test_animations_are_in_real_time_at_any_rate(rate, hundredths, tmp_path):
    """Pictures of a GIF last whole hundredths of a second, and 50 a second are as many as programs show."""
    model = jaxcfa.chain(1)
    qs = np.linspace(0, 3, 25)[:, None]
    animate(model, qs, 0.01, tmp_path / "motion.gif", frames_per_second=rate, size=(1.0, 1.0))
    with Image.open(tmp_path / "motion.gif") as gif:
        durations = []
        for number in range(gif.n_frames):
            gif.seek(number)
            durations.append(gif.info["duration"])
    assert durations == [10 * hundredths] * (1 + 24 // hundredths)


def test_longest_animations():
    assert frame_count(Path("long.gif"), 4999 * 0.04) == 5000
    with pytest.raises(ValueError, match=r"long\.gif: a GIF holds 5000 pictures at most, but 200 s .* are 5001"):
        frame_count(Path("long.gif"), 200.0)
    assert frame_count(Path("long.mp4"), 200.0) == 5001
    assert frame_count(Path("short.gif"), 0.29, 100.0) == 30  # though 0.29 * 100 < 29


FLOOR = Visual(Box((1.0, 1.0, 0.01)), None, color=(0.5, 0.5, 0.5, 1.0))


@pytest.mark.parametrize("visuals", [None, [Visual(Sphere(0.2), "body0"), FLOOR]])
def test_camera_follows_what_flies_away(visuals, tmp_path):
    model = jaxcfa.random_tree(1, jax.random.key(0), [jaxcfa.joints.Free])
    q = np.stack([np.asarray(jaxcfa.neutral(model))] * 2)
    q[1, :3] = 100.0
    animate(model, q, 0.1, tmp_path / "far.gif", visuals, frames_per_second=10, size=(1.0, 1.0))
    with Image.open(tmp_path / "far.gif") as gif:
        gif.seek(1)
        assert (np.ptp(np.asarray(gif.convert("RGB"), dtype=float), axis=2) > 30).mean() > 0.02


def test_plot_of_a_trajectory(tree, tmp_path):
    n = 4
    trajectory = SimpleNamespace(
        t=np.arange(n), q=np.zeros((n, tree.nq)), v=np.ones((n, tree.nv)), tau=np.ones((n - 1, tree.nv))
    )
    figure = plot_trajectory(tree, trajectory, tmp_path / "curves" / "motion.png")
    assert [len(axes.lines) for axes in figure.axes] == [tree.nq, tree.nv, tree.nv]
    names = {
        text.get_text().partition("[")[0]
        for axes in figure.axes
        if axes.get_legend()
        for text in axes.get_legend().get_texts()
    }
    assert names <= set(tree.joint_names)
    assert pixels(tmp_path / "curves" / "motion.png").std() > 1
    trajectory.tau = trajectory.tau[:, 1:]
    with pytest.raises(ValueError, match="The trajectory's tau must have shape"):
        plot_trajectory(tree, trajectory)
    trajectory.tau = None
    assert len(plot_trajectory(tree, trajectory).axes) == 2
    trajectory.q = trajectory.q[None]
    with pytest.raises(ValueError, match="one by one"):
        plot_trajectory(tree, trajectory)


@pytest.mark.parametrize("n", [1, 40])
def test_all_curves_have_names(n):
    """Of one joint, and of many in a legend that is no higher than the axes."""
    builder = jaxcfa.ModelBuilder()
    for k in range(n):
        builder.add_body(
            f"a_link{k}", None if k == 0 else f"a_link{k - 1}", jaxcfa.joints.Revolute((0, 0, 1)), mass=1.0
        )
    model = builder.build()
    figure = plot_trajectory(model, SimpleNamespace(t=np.arange(3), q=np.ones((3, n)), v=np.ones((3, n))))
    figure.canvas.draw()
    for axes in figure.axes:
        assert [text.get_text() for text in axes.get_legend().get_texts()] == list(model.joint_names)
        assert len({(line.get_color(), line.get_linestyle()) for line in axes.lines}) == n
        legend, picture = axes.get_legend().get_window_extent(), figure.bbox
        assert legend.height < 1.1 * axes.bbox.height
        assert legend.x1 <= picture.x1 + 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model, q: draw(None, model, q[:-1]), r"\(nq,\)"),
        (lambda model, q: draw(None, model, q[None, None]), r"\(nq,\)"),
        (lambda model, q: draw(None, model, q + np.nan), "finite"),
        (lambda model, q: draw(None, model, "no"), "array"),
        (lambda model, q: draw(None, q, q), "model must be a jaxcfa.Model"),
        (lambda model, q: animate(q, model, 0.1, "x.gif"), "model must be a jaxcfa.Model"),
        (lambda model, q: load_visuals("robot.urdf", q), "model must be a jaxcfa.Model"),
        (lambda model, q: plot_trajectory(q, q), "model must be a jaxcfa.Model"),
        (lambda model, q: plot_trajectory(model, q), "trajectory must have t, q and v"),
        (lambda model, q: draw(None, model, q, [Visual(Sphere(1.0), "nobody")]), "nobody"),
        (lambda model, q: draw(None, model, q, [Visual(Plane())]), "nothing to draw"),
        (lambda model, q: draw(None, model, q, [Sphere(1.0)]), "Each of visuals must be a Visual"),
        (lambda model, q: draw(None, model, q, Visual(Sphere(1.0))), "visuals must be a list of Visual, the path"),
        (lambda model, q: draw(None, model, q, ground=0.3), "ground must be True, False, or contacts.FlatGround"),
        (lambda model, q: draw(None, model, q, ground=FlatGround([1.0, 0, 0])), "upright cannot be drawn"),
        (lambda model, q: animate(model, q, 0.0, "x.gif"), "dt"),
        (lambda model, q: animate(model, q, file="x.gif"), "dt must be positive and finite, .* got None"),
        (lambda model, q: animate(model, (q, q[:-1]), 0.1, "x.gif"), "motion, if it is no trajectory, must be"),
        (lambda model, q: animate(model, q, 0.1, "x.foo"), r"x\.foo"),
        (lambda model, q: animate(model, q, 0.1, "x.gif", frames_per_second=0), "frames_per_second must be positive"),
        (lambda model, q: animate(model, q, 0.1, "x.gif", frames_per_second=np.nan), "frames_per_second .* nan"),
    ],
)
def test_errors(tree, call, message):
    with pytest.raises(ValueError, match=message):
        call(tree, np.asarray(jaxcfa.neutral(tree)))


def test_missing_package_is_named(tree, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"matplotlib: pip install -e '\.\[viz\]' in a clone"):
        snapshot(tree, jaxcfa.neutral(tree), tmp_path / "x.png")
