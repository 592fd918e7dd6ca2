"""The `jaxcfa` command, as a user runs it."""

import itertools
import subprocess
import sys
import warnings
from importlib import resources

import numpy as np
import pytest
from typer.testing import CliRunner

import jaxcfa
from jaxcfa.cli._app import app
from jaxcfa.viz import Viewer
from robots import urdf_path, urdf_paths

ARM = str(resources.files("jaxcfa") / "data" / "arm7.urdf")
MJCF = """<mujoco><worldbody>
  <body name="cart"><joint name="slide" type="slide" axis="1 0 0" damping="0.3" range="-1 2" limited="true"/>
    <geom size=".1" mass="2"/>
    <body name="pole" pos="0 0 .2"><joint name="hinge" axis="0 1 0" armature="0.01"/>
      <geom type="capsule" fromto="0 0 0 0 0 1" size=".03" mass="0.5"/><site name="top" pos="0 0 1"/></body>
  </body></worldbody>
  <actuator><motor name="push" joint="slide" gear="3"/></actuator></mujoco>"""


@pytest.fixture
def cart(tmp_path):
    path = tmp_path / "cart.xml"
    path.write_text(MJCF)
    return path


def run(*arguments, columns: int = 200) -> str:
    result = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, [str(x) for x in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_info(cart):
    output = run("info", cart)
    for part in ("slide", "hinge", "pole", "2 moving bodies", "total moving mass 2.5 kg", "0.01", "push", "top"):
        assert part in output


@pytest.mark.skipif(not urdf_paths(), reason="the package example-robot-data is not installed")
def test_info_on_a_narrow_terminal_breaks_neither_names_nor_numbers():
    path = urdf_path("talos_full_v2.urdf")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = jaxcfa.load_model(path)
    lines = run("info", path, columns=80).splitlines()
    assert max(map(len, lines)) <= 80
    names = {*model.joint_names, *model.body_names}
    assert max(map(len, names)) > 25
    rows = [line.split() for line in itertools.takewhile(lambda line: not line.startswith("Frames"), lines)]
    # Every table has as many lines as there are bodies, each with a name, and two lines above them.
    tables = [list(rows) for full, rows in itertools.groupby(rows, key=bool) if full][1:]
    assert len(tables) > 2
    for _, _, *table in tables:
        assert [int(row[0]) for row in table] == list(range(model.nb))
        assert all(row[1] in names for row in table)
    text = "\n".join(lines)
    for title in (
        "type",
        "lower",
        "upper",
        "velocity",
        "effort",
        "damping",
        "friction",
        "parent",
        "principal inertias",
    ):
        assert title in text


def test_info_shows_warnings(tmp_path):
    path = tmp_path / "doubtful.urdf"
    link = '<link name="{}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="5" ixy="0" ixz="0" iyz="0"/>'
    path.write_text(
        f'<robot name="r">{link.format("a")}</inertial></link>{link.format("b")}</inertial></link>'
        '<joint name="j" type="continuous"><parent link="a"/><child link="b"/></joint></robot>'
    )
    assert "triangle inequality" in " ".join(run("info", path).split())


def test_demo(cart, tmp_path):
    plot = tmp_path / "somewhere" / "plot.png"
    output = run("demo", "--robot", cart, "--batch", 8, "--duration", 0.05, "--output", plot)
    error = float(output.split("largest relative error")[1].split()[0])
    assert error < 1e-12
    assert "compile (s)" in output
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_simulate(cart, tmp_path):
    out = tmp_path / "somewhere" / "motion.npz"
    output = run("simulate", cart, "--seconds", 0.1, "--dt", 0.002, "--seed", 3, "--limits", "--out", out)
    assert "energy" in output
    with np.load(out) as motion:
        assert motion["joint_names"].tolist() == ["slide", "hinge"]
        assert [motion[name].shape for name in ("t", "q", "v", "tau")] == [(51,), (51, 2), (51, 2), (50, 2)]
        t, q, v = motion["t"], motion["q"], motion["v"]
    assert t[-1] == pytest.approx(0.1)
    assert np.all(v[0] == 0)
    assert np.all(v[-1] != 0)
    model = jaxcfa.load_model(cart)
    expected = jaxcfa.rollout(model, q[0], v[0], np.zeros((50, 2)), 0.002, limits=True)
    np.testing.assert_allclose(q, expected.q, rtol=1e-6, atol=1e-6)


def test_simulate_as_a_picture_and_in_the_browser(cart, tmp_path, monkeypatch):
    out = tmp_path / "motion.gif"
    shown = []

    def wait(viewer):
        shown.append((viewer.url, viewer.robot.model.nq, viewer._playback is not None))

    monkeypatch.setattr(Viewer, "wait", wait)
    monkeypatch.setattr(Viewer, "open", lambda viewer: shown.append("opened"))
    output = run("simulate", cart, "--seconds", 0.04, "--out", out, "--view", "--port", 8500)
    assert out.read_bytes().startswith(b"GIF")
    opened, (url, nq, is_played) = shown
    assert (opened, nq, is_played) == ("opened", 2, True)
    assert url in output


def test_view(cart, monkeypatch):
    shown = []
    monkeypatch.setattr(Viewer, "wait", lambda viewer: shown.append(viewer.robot.model.body_names))
    monkeypatch.setattr(Viewer, "open", lambda viewer: shown.append("opened"))
    assert "http://127.0.0.1:" in run("view", cart, "--no-browser")
    assert shown == [("cart", "pole")]


def test_missing_extra_is_named(cart, monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    result = CliRunner().invoke(app, ["view", str(cart)])
    assert result.exit_code == 1
    assert "pip install 'jaxcfa[viz]'" in result.output
    assert "Traceback" not in result.output


def test_completion_of_the_shell_is_offered():
    assert "--install-completion" in run("--help")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "no_such_file.urdf"], "no_such_file.urdf"),
        (["demo", "--precision", "16"], "32 or 64"),
        (["demo", "--robot", "no_such_file.xml"], "no_such_file.xml"),
        (["view", "no_such_file.urdf"], "no_such_file.urdf"),
        (["simulate", "no_such_file.urdf"], "no_such_file.urdf"),
        (["simulate", ARM, "--out", "motion.foo"], ".gif"),
        (["simulate", ARM, "--dt", "-1"], "--dt"),
    ],
)
def test_errors_are_explained(arguments, message):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert message in result.output
    assert "Traceback" not in result.output


def test_entry_point():
    code = "from jaxcfa.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == jaxcfa.__version__
