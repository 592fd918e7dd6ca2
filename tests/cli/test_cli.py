"""The `jaxcfa` command, as a user runs it."""

import errno
import io
import itertools
import json
import os
import shutil
import subprocess
import sys
import warnings
from importlib import resources

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import jaxcfa
from jaxcfa.cli._app import _loaded, app
from jaxcfa.cli._cache import keep_programs
from jaxcfa.cli._command_line import command_line, own_command
from jaxcfa.cli._motion_problem import end_at, motion_problem
from jaxcfa.cli._optimise import with_held
from jaxcfa.cli._progress import working
from jaxcfa.cli._reach import Target, mover
from jaxcfa.closed_chains import Projection, constrained_forward_dynamics, project_velocity
from jaxcfa.optimal_control import RobotDynamics, Stage, Velocity
from jaxcfa.simulation import Trajectory
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

# An arm in a vertical plane, and beside it a pendulum that is held when the arm moves.
REACHER = """<mujoco><worldbody>
  <body name="upper" pos="0 0 1"><joint name="shoulder" axis="0 1 0" range="-170 170" limited="true" damping="0.1"/>
    <geom type="capsule" fromto="0 0 0 0 0 -.5" size=".03" mass="1"/>
    <body name="lower" pos="0 0 -.5"><joint name="elbow" axis="0 1 0" range="0 150" limited="true"/>
      <geom type="capsule" fromto="0 0 0 0 0 -.4" size=".03" mass="0.5"/><site name="hand" pos="0 0 -.4"/></body>
  </body>
  <body name="pendulum"><joint name="swing" axis="1 0 0"/><geom pos="0 .1 -.3" size=".05" mass="0.2"/></body>
  </worldbody><actuator><motor name="m1" joint="shoulder" ctrllimited="true" ctrlrange="-12 12"/>
  <motor name="m2" joint="elbow" gear="2" ctrllimited="true" ctrlrange="-2 2"/></actuator></mujoco>"""

# A four-bar linkage on a base that floats, beside it a pendulum.
LINKAGE = """<mujoco><worldbody><body name="base" pos="0 0 1"><freejoint name="root"/><geom size=".1" mass="5"/>
  <body name="crank" pos="-.15 0 .05"><joint name="crank" axis="0 1 0" damping=".05"/>
    <geom type="capsule" fromto="0 0 0 0 0 .2" size=".01" mass=".3"/>
    <body name="coupler" pos="0 0 .2"><joint name="coupler" axis="1e-7 1 0"/>
      <geom type="capsule" fromto="0 0 0 .3 0 .05" size=".01" mass=".3"/><site name="tip" pos=".3 0 .15"/></body></body>
  <body name="rocker" pos=".15 0 .05"><joint name="rocker" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 .25" size=".01" mass=".3"/></body>
  <body name="pendulum" pos="0 .1 0"><joint name="swing" axis="1 0 0"/>
    <geom pos="0 .1 -.3" size=".05" mass="0.2"/></body>
  </body></worldbody><equality><connect body1="coupler" body2="rocker" anchor=".3 0 .05"/></equality></mujoco>"""


@pytest.fixture
def reacher(tmp_path):
    path = tmp_path / "reacher.xml"
    path.write_text(REACHER)
    return path


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


def test_actuators_on_a_narrow_terminal(cart):
    lines = run("info", cart, columns=80).splitlines()
    assert max(map(len, lines)) <= 80
    (row,) = [line.split() for line in lines if "push" in line]
    assert row == ["0", "push", "slide", "3", "1"]


@pytest.fixture
def doubtful(tmp_path):
    path = tmp_path / "doubtful.urdf"
    link = '<link name="{}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="5" ixy="0" ixz="0" iyz="0"/>'
    path.write_text(
        f'<robot name="r">{link.format("a")}</inertial></link>{link.format("b")}</inertial></link>'
        '<joint name="j" type="continuous"><parent link="a"/><child link="b"/></joint></robot>'
    )
    return path


def test_info_shows_warnings(doubtful):
    assert "triangle inequality" in " ".join(run("info", doubtful).split())


def test_info_shows_limits_of_zero(tmp_path):
    builder = jaxcfa.ModelBuilder()
    for name in ("a", "b"):
        builder.add_body(
            name, joint=jaxcfa.joints.Revolute((0, 0, 1)), mass=1.0, effort_limit=0.0, lower=0.0, upper=0.0
        )
    jaxcfa.save_model(tmp_path / "still.npz", builder.build())
    output = " ".join(run("info", tmp_path / "still.npz").split())
    assert "# joint type q, v lower upper effort" in output
    assert "0 a_joint Revolute 0 0 0 0" in output
    assert "Warning: Effort limit of zero (2 of 2 joints): a_joint, b_joint." in output
    (warning,) = described(tmp_path / "still.npz")["warnings"]
    assert "cannot be driven" in warning


def described(path) -> dict:
    """What `info --json` writes to standard output, with nothing that JSON does not know."""
    result = CliRunner().invoke(app, ["info", str(path), "--json"])
    assert result.exit_code == 0
    return json.loads(result.stdout, parse_constant=pytest.fail)


def test_nobody_may_read_on(cart, monkeypatch):
    """As after `jaxcfa info robot.xml --json | head -1`."""

    def broken(text: str) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("typer.echo", broken)
    result = CliRunner().invoke(app, ["info", str(cart), "--json"])
    assert (result.exit_code, result.output) == (1, "")


def test_info_for_other_programs(cart, doubtful):
    keyframes = '<keyframe><key name="aside" qpos="0.5 0" ctrl="2"/></keyframe>'
    cart.write_text(MJCF.replace("</mujoco>", f"{keyframes}</mujoco>"))
    facts = described(cart)
    counts = ["jaxcfa", "file", "nb", "nq", "nv", "mass", "gravity"]
    parts = ["joints", "bodies", "frames", "constraints", "actuators", "keyframes", "warnings"]
    assert list(facts) == counts + parts
    slide, hinge = facts["joints"]
    assert (slide["lower"], slide["upper"], hinge["lower"], slide["effort_limit"]) == ([-1], [2], [None], [None])
    assert (slide["type"], slide["parent"], slide["body"], hinge["parent"]) == ("Prismatic", None, "cart", "cart")
    assert (hinge["q"], hinge["armature"], facts["bodies"][0]["mass"]) == ([1, 2], [0.01], 2.0)
    (push,) = facts["actuators"]
    assert (push["joints"], push["moment"], push["force_upper"]) == (["slide"], [3, 0], None)
    assert [(frame["name"], frame["body"]) for frame in facts["frames"]] == [("top", "pole")]
    assert facts["keyframes"][-1] == {"name": "aside", "q": [0.5, 0], "v": [0, 0], "control": [2]}
    (warning,) = described(doubtful)["warnings"]
    assert "triangle inequality" in warning


def test_info_names_joints_that_share_their_body(tmp_path):
    path = tmp_path / "hip.xml"
    joints = '<joint name="roll"/><joint name="pitch" axis="0 1 0" damping="3"/><joint name="lift" type="slide"/>'
    path.write_text(
        f'<mujoco><worldbody><body>{joints}<geom size="1"/></body></worldbody>'
        '<actuator><motor name="m" joint="pitch"/></actuator></mujoco>'
    )
    lines = [line.split() for line in run("info", path).splitlines()]
    assert ["0", "pitch", "Revolute", "of", "roll+pitch+lift", "1", "3"] in lines
    assert ["0", "m", "pitch", "1", "1"] in lines
    facts = described(path)
    assert [(part["name"], part["q"], part["v"]) for part in facts["joints"][0]["parts"]] == [
        (name, [i, i + 1], [i, i + 1]) for i, name in enumerate(("roll", "pitch", "lift"))
    ]
    assert facts["actuators"][0]["joints"] == ["pitch"]


def test_demo(cart, tmp_path):
    """Names of files are shown as they are, and in quotes where they are to be typed."""
    cart = cart.rename(tmp_path / "the [red]cart.xml")
    plot = tmp_path / "somewhere" / "the [bold]plot.png"
    output = run("demo", cart, "--batch", 8, "--duration", 0.05, "--out", plot)
    error = float(output.split("largest relative error")[1].split()[0])
    assert error < 1e-12
    assert "compile or load (s)" in output
    assert "the [red]cart: 2 moving bodies" in output
    assert f"Plot: {plot}" in output
    assert f"Next: {command_line(*own_command(), 'view', str(cart))}" in output
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("platform", "quote"), [("linux", "'"), ("win32", '"')])
def test_suggested_commands_can_be_typed(doubtful, platform, quote, monkeypatch):
    path = doubtful.rename(doubtful.parent / "a robot.urdf")
    console = Console(file=io.StringIO(), width=500)
    _loaded(Console(file=io.StringIO()), path, True)  # what reads the file is imported on the real platform
    monkeypatch.setattr(shutil, "which", lambda name: name)  # which looks for Windows' libraries there
    monkeypatch.setattr(sys, "platform", platform)
    _loaded(console, path, True)
    assert f" info {quote}{path}{quote}" in console.file.getvalue()


def test_suggested_commands_can_run(monkeypatch):
    """As the command was started, where the shell does not find it."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "argv", ["/somewhere/jaxcfa/__main__.py", "demo"])
    assert "Usage" in subprocess.run([*own_command(), "--help"], check=True, capture_output=True, text=True).stdout
    monkeypatch.setattr(sys, "argv", ["bin/jaxcfa", "demo"])
    assert own_command() == ["bin/jaxcfa"]


def test_what_is_done_is_shown_as_it_is():
    console = Console(file=io.StringIO(), force_terminal=True)
    with working(console, "Reading a[/b].urdf"):
        pass
    assert "Reading a[/b].urdf" in console.file.getvalue()


def test_batches_of_models_are_refused(tmp_path):
    path = tmp_path / "batch.npz"
    jaxcfa.save_model(path, jax.tree.map(lambda x: jnp.stack([x, x]), jaxcfa.chain(3)))
    result = CliRunner().invoke(app, ["info", str(path)])
    assert result.exit_code == 1
    assert "takes single models, but masses in batch.npz have shape (2, 3)" in " ".join(result.output.split())


def test_simulate(cart, tmp_path):
    out = tmp_path / "somewhere" / "the [bold]motion.npz"
    output = run("simulate", cart, "--seconds", 0.1, "--dt", 0.002, "--seed", 3, "--limits", "--out", out)
    assert "energy" in output
    assert f"Motion: {out}" in output
    t, q, v, tau, _ = jaxcfa.load_trajectory(out)
    assert [x.shape for x in (t, q, v, tau)] == [(51,), (51, 2), (51, 2), (50, 2)]
    assert t[-1] == pytest.approx(0.1)
    assert np.all(v[0] == 0)
    assert np.all(v[-1] != 0)
    model = jaxcfa.load_model(cart)
    expected = jaxcfa.rollout(model, q[0], v[0], np.zeros((50, 2)), 0.002, limits=True)
    np.testing.assert_allclose(q, expected.q, rtol=1e-6, atol=1e-6)


def test_simulate_says_that_nothing_moves(tmp_path):
    """As the arm that balances upright, and where nothing pulls."""

    def said(*arguments):
        return " ".join(run("simulate", *arguments, "--seconds", 0.02, "--dt", 0.01).split())

    assert "nothing moved: the robot is in equilibrium there; try --seed 0." in said(ARM)
    assert "nothing moved" not in said(ARM, "--seed", 0)
    path = tmp_path / "weightless.xml"
    path.write_text(MJCF.replace("<mujoco>", '<mujoco><option gravity="0 0 0"/>'))
    assert "nothing moved: the file has no gravity." in said(path, "--seed", 0)


def test_simulate_counts_the_energy_of_springs(tmp_path):
    path = tmp_path / "spring.xml"
    path.write_text("""<mujoco><worldbody><body><geom size=".1" mass="1"/>
      <joint type="slide" axis="1 0 0" stiffness="40" springref="0.5"/><joint type="slide" axis="0 1 0"/>
      </body></worldbody></mujoco>""")
    output = run("simulate", path, "--seconds", 0.2, "--dt", 0.002)
    energies = [float(part.split()[0]) for part in output.split("energy")[1].split("then")]
    np.testing.assert_allclose(energies, [5.0, 5.0], rtol=0.01)


FOUR_BAR = """<mujoco><worldbody>
  <body name="crank"><joint name="j1" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 .2" size=".01" mass="0.2"/>
    <body name="rod" pos="0 0 .2"><joint name="j2" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 .4 0 .1" size=".01" mass="0.3"/></body></body>
  <body name="rocker" pos=".4 0 0"><joint name="j3" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 .3" size=".01" mass="0.2"/></body>
  </worldbody><equality><connect body1="rod" body2="rocker" anchor=".4 0 .1"/></equality>
  <keyframe><key name="aside" qpos="0.3 -0.2 0.2"/></keyframe></mujoco>"""


def test_simulate_holds_what_the_file_closes(tmp_path):
    """From where the file begins, and from a keyframe in which the loop is not quite closed."""
    path, out = tmp_path / "four_bar.xml", tmp_path / "motion.npz"
    path.write_text(FOUR_BAR)
    run("simulate", path, "--seconds", 0.2, "--dt", 0.005, "--start", "aside", "--out", out)
    model, q = jaxcfa.load_model(path), jaxcfa.load_trajectory(out).q
    poses = jax.vmap(lambda q: jaxcfa.forward_kinematics(model, q))(q)
    ends = [jaxcfa.spatial.Transform(poses.rotation[:, i], poses.translation[:, i]) for i in (1, 2)]
    apart = ends[0].apply(jnp.array([0.4, 0, 0.1])) - ends[1].apply(jnp.array([0.0, 0, 0.3]))
    assert np.max(np.abs(apart)) < 1e-3
    assert np.max(np.abs(q[-1] - q[0])) > 0.01
    assert np.max(np.abs(q[0] - np.array([0.3, -0.2, 0.2]))) < 0.2
    run("simulate", path, "--seconds", 0.02, "--dt", 0.01, "--no-constraints", "--out", out)
    np.testing.assert_allclose(jaxcfa.load_trajectory(out).q[0], 0)


def test_commands_begin_where_the_file_says(tmp_path):
    """Not in the configuration that MuJoCo makes up, and not at the end of a range without saying so."""
    path = tmp_path / "reacher.xml"
    path.write_text(
        REACHER.replace("</worldbody>", "</worldbody><keyframe><key name='home' qpos='.2 .3 0'/></keyframe>")
    )
    arguments = "--frame", "hand", "--target", -0.5, 0, 0.7
    assert "Start: the keyframe 'home'" in " ".join(run("ik", path, *arguments).split())
    path.write_text(REACHER.replace('range="0 150"', 'range="20 150"'))
    assert "Start: the middle of the joints' ranges" in " ".join(run("ik", path, *arguments).split())
    assert "moved into the joints' ranges" in " ".join(run("ik", path, *arguments, "--start", "qpos0").split())


@pytest.mark.parametrize(
    ("name", "seconds", "message"),
    [
        ("folder.gif", "1", "is a folder"),
        ("long.gif", "200", "a GIF holds 5000 pictures at most, but 200 s with 25 a second are 5001"),
        ("long.gif", "199.9996", "a GIF holds 5000 pictures at most"),  # in steps, 200 s
        ("m.NPZ", "1", "must end with"),
        ("file/m.npz", "1", "m.npz cannot be written"),
        ("m.npz", "0", "--seconds must be --dt 0.001, one step, or more, got 0."),
    ],
)
def test_outputs_that_cannot_be_written_are_refused_first(cart, tmp_path, name, seconds, message):
    (tmp_path / "folder.gif").mkdir()
    (tmp_path / "file").touch()
    result = CliRunner().invoke(app, ["simulate", str(cart), "--seconds", seconds, "--out", str(tmp_path / name)])
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())


def test_ik(reacher):
    output = run("ik", reacher, "--frame", "hand", "--target", -0.5, 0, 0.7)
    assert "Within reach" in output
    values = dict(line.split() for line in output.splitlines() if line.split()[0] in ("shoulder", "elbow", "swing"))
    model = jaxcfa.load_model(reacher, dtype="float64")
    q = jnp.array([float(values[name]) for name in model.joint_names])
    np.testing.assert_allclose(jaxcfa.frame_pose(model, q, "hand").translation, [-0.5, 0, 0.7], atol=1e-5)
    assert values["swing"] == "0.000000"


def test_ik_for_other_programs(reacher):
    """On standard output is nothing else, and the exit code says whether the target was reached."""
    for position, reached in ((("-0.5", "0", "0.7"), True), (("0", "0", "3"), False)):
        command = ["ik", str(reacher), "--frame", "hand", "--target", *position, "--json"]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == (0 if reached else 1)
        found = json.loads(result.stdout, parse_constant=pytest.fail)
        assert found["reached"] is reached
        model = jaxcfa.load_model(reacher, dtype="float64")
        assert found["names"] == list(model.joint_names)
        hand = jaxcfa.frame_pose(model, jnp.array(found["q"]), "hand").translation
        missed = np.linalg.norm(hand - np.array(list(map(float, position))))
        assert found["distance"] == pytest.approx(missed, abs=1e-9)
        assert (missed < 1e-5) == reached
        assert (found["angle"], found["rpy"], found["frame"]) == (None, None, "hand")


@pytest.mark.parametrize("command", ["ik", "optimise"])
def test_what_is_out_of_reach(reacher, command):
    result = CliRunner().invoke(app, [command, str(reacher), "--frame", "hand", "--target", "0", "0", "3"])
    assert result.exit_code == 1
    assert "Out of reach" in result.output
    assert "misses it by 1.11 m" in " ".join(result.output.split())


def test_what_no_actuator_drives_has_no_torque():
    """Of two hinges of a body one has a motor."""
    hinges = '<joint name="a" axis="0 1 0"/><joint name="b" axis="1 0 0"/><geom size=".1" mass="1"/>'
    motors = '<actuator><motor joint="a" ctrlrange="-3 3" ctrllimited="true"/></actuator>'
    model = jaxcfa.load_model(f"<mujoco><worldbody><body>{hinges}</body></worldbody>{motors}</mujoco>")
    problem, driven = motion_problem(model, [Velocity()], 1.0, 4)
    np.testing.assert_array_equal(driven, [0, 1])
    stage = Stage(problem.phases[0].dynamics, jnp.zeros(4), jnp.array([1.0, 0.5]), jnp.asarray(1))
    equality = problem.constraints[-1]
    np.testing.assert_allclose(equality.rows(stage), [0.5])
    np.testing.assert_allclose(problem.constraints[-2].rows(stage), [-3.0 - 1.0, 1.0 - 3.0])


def test_forces_that_a_file_gives_are_equalities():
    """A fan that blows with 2 N or more on a joint that bears no more; if it bears less, that is refused."""
    slides = "".join(
        f'<joint name="{name}" type="slide" axis="{axis}"/>' for name, axis in (("a", "1 0 0"), ("b", "0 1 0"))
    )
    motors = '<actuator><motor joint="a" forcerange="2 5" forcelimited="true"/><motor joint="b"/></actuator>'
    text = f'<mujoco><worldbody><body>{slides}<geom size=".1" mass="1"/></body></worldbody>{motors}</mujoco>'
    model = jaxcfa.with_joint(jaxcfa.load_model(text, dtype="float64"), "a+b", effort_limit=[2.0, 9.0])
    problem, _ = motion_problem(model, [Velocity()], 1.0, 4)
    stage = Stage(problem.phases[0].dynamics, jnp.zeros(4), jnp.array([2.5, 1.0]), jnp.asarray(1))
    np.testing.assert_allclose(problem.constraints[-1].rows(stage), [0.5])
    weak = jaxcfa.with_joint(model, "a+b", effort_limit=[1.0, 9.0])
    with pytest.raises(ValueError, match=r"The actuators of 'a\+b' give from \[ *2.* to \[ *5.*effort of \[1"):
        motion_problem(weak, [Velocity()], 1.0, 4)


def test_what_has_no_moving_body_is_told_how_it_could_move(tmp_path):
    path, text = tmp_path / "stone.npz", '<robot name="stone"><link name="stone"/></robot>'
    jaxcfa.save_model(path, jaxcfa.load_model(text))
    for command in ("simulate", "demo"):
        result = CliRunner().invoke(app, [command, str(path)])
        assert result.exit_code == 1
        assert "A saved model keeps its base" in " ".join(result.output.split())
    path.with_suffix(".urdf").write_text(text)
    assert "Try --floating-base" in CliRunner().invoke(app, ["simulate", str(path.with_suffix(".urdf"))]).output


@pytest.mark.slow
def test_optimise(reacher, tmp_path, monkeypatch):
    """The motion comes to its target at rest, within the limits of all joints, and is what the torques make; the base,
    which floats, and what does not move the target are held."""
    torso = '<worldbody><body name="torso"><freejoint name="root"/><geom size=".1" mass="5"/>'
    reacher.write_text(REACHER.replace("<worldbody>", torso).replace("</worldbody>", "</body></worldbody>"))
    played = []
    monkeypatch.setattr(Viewer, "wait", lambda viewer: played.append(viewer._playback is not None))
    out = tmp_path / "somewhere" / "motion.npz"
    arguments = ["--seconds", 1, "--steps", 20, "--out", out, "--view", "--no-browser", "--port", 8600]
    output = run("optimize", reacher, "--frame", "hand", "--target", -0.5, 0, 0.7, *arguments)
    for part in ("Held: root, swing", "Within reach", "Solved", "final distance", str(out)):
        assert part in output
    assert played == [True]
    model = jaxcfa.load_model(reacher, dtype="float64")
    t, q, v, tau, _ = jaxcfa.load_trajectory(out)
    np.testing.assert_allclose(jaxcfa.frame_pose(model, q[-1], "hand").translation, [-0.5, 0, 0.7], atol=1e-6)
    np.testing.assert_allclose(v[jnp.array([0, -1])], 0, atol=1e-6)
    assert np.all(q >= model.limits.lower - 1e-6)
    assert np.all(q <= model.limits.upper + 1e-6)
    assert np.all(np.abs(tau[:, 6:8]) <= np.array([12, 4]) + 1e-6)
    np.testing.assert_allclose(q[:, :7], q[:1, :7].repeat(len(q), axis=0))
    again = jaxcfa.rollout(model, q[0], v[0], tau, 0.05, friction_velocity=0.1)
    np.testing.assert_allclose(again.q, q, atol=1e-6)
    np.testing.assert_allclose(again.t, t)


@pytest.mark.slow
def test_what_moves_a_frame_of_a_linkage(tmp_path):
    """The joints of its loop move together; the torques of the whole robot hold the base and all else."""
    path = tmp_path / "linkage.xml"
    path.write_text(LINKAGE)
    model = jaxcfa.load_model(path, dtype="float64")
    target = Target("tip", (0.27, 0.0, 1.37), None)
    start = model.keyframe("qpos0")
    part = mover(model, target, start, base=False)
    assert part.model.joint_names == ("crank", "coupler", "rocker")
    assert part.held == ["root", "swing"]
    assert mover(model, target, start).held == ["swing"]
    with pytest.raises(ValueError, match="part of the base, which is held"):
        mover(model, target._replace(frame="base"), start, base=False)
    assert [len(term.rows) for term in end_at(part.model, start[part.columns[0]])] == [1, 1]
    dt, u = 1e-4, jnp.array([0.4])
    dynamics = RobotDynamics(
        part.model, dt, actuated=["crank"], constraints=part.model.constraints, stabilization=Projection()
    )
    x = jnp.concatenate([start[part.columns[0]], jnp.array([0.5, -0.5, 0.4])])
    x = jnp.concatenate([x[:3], project_velocity(part.model, part.model.constraints, x[:3], x[3:])])
    states = jnp.stack([x, jax.jit(lambda x: dynamics.step(x, u, 0))(x)])
    tau = jnp.zeros((1, 3)).at[0, 0].set(u[0])
    found = Trajectory(jnp.array([0, dt]), states[:, :3], states[:, 3:], tau, jnp.zeros((), jnp.int32))
    motion = with_held(model, part, found, start)
    q, v, tau = motion.q[0], motion.v[0], motion.tau[0]
    held = constrained_forward_dynamics(model, model.constraints, q, v, tau + jaxcfa.passive_forces(model, q, v))
    np.testing.assert_allclose(held.qdd, (motion.v[1] - v) / dt, atol=1e-2)
    assert np.max(np.abs(held.qdd)) > 10


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


def test_simulate_as_a_page(cart, tmp_path, monkeypatch):
    """With the contacts that hold it, if there are any."""
    saved = []
    monkeypatch.setattr(Viewer, "save", lambda _, *arguments, **options: saved.append((arguments, options)))
    run("simulate", cart, "--seconds", 0.04, "--out", tmp_path / "motion.html")
    ball = tmp_path / "ball.xml"
    ball.write_text('<mujoco><worldbody><body name="b"><freejoint/><geom size="0.1"/></body></worldbody></mujoco>')
    run("simulate", ball, "--seconds", 0.04, "--ground", "--out", tmp_path / "motion.html")
    (arguments, options), (_, with_ground) = saved
    assert arguments[0] == tmp_path / "motion.html"
    assert arguments[1].q.shape[1] == 2
    assert options["contacts"] is None
    assert with_ground["contacts"].parts[0].frames == ("b",)


def test_pictures_show_the_ground_where_it_is(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("jaxcfa.cli._motion_files.animate", lambda *_, ground: drawn.append(ground))
    ball, block = tmp_path / "ball.xml", '<geom type="box" size="1 1 .1"/>'
    for floor in (block + '<geom type="plane" size="0 0 1" pos="0 0 -.5" euler="10 0 0"/>', block):
        ball.write_text(f"""<mujoco><worldbody>{floor}<body name="b" pos="0 0 .2"><freejoint/><geom size="0.1"/></body>
            </worldbody></mujoco>""")
        run("simulate", ball, "--seconds", 0.002, "--ground", "--out", tmp_path / "motion.gif")
    plane, none = drawn
    assert none is False
    np.testing.assert_allclose(plane.point, [0, 0, -0.5], atol=1e-12)
    np.testing.assert_allclose(plane.normal, [0, -np.sin(np.radians(10)), np.cos(np.radians(10))], atol=1e-12)


def test_view(cart, monkeypatch):
    shown = []
    monkeypatch.setattr(Viewer, "wait", lambda viewer: shown.append(viewer.robot.model.body_names))
    monkeypatch.setattr(Viewer, "open", lambda viewer: shown.append("opened"))
    assert "http://127.0.0.1:" in run("view", cart, "--no-browser")
    assert "http://localhost:" in run("view", cart, "--no-browser", "--host", "0.0.0.0", "--start", "qpos0")
    assert shown == [("cart", "pole")] * 2
    result = CliRunner().invoke(app, ["view", str(cart), "--no-browser", "--host", "no.such.name.invalid"])
    assert result.exit_code == 1
    assert "must be an address of this machine" in " ".join(result.output.split())


def test_missing_extra_is_named(cart, monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    result = CliRunner().invoke(app, ["view", str(cart)])
    assert result.exit_code == 1
    assert "pip install -e '.[viz]' in a clone" in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_completion_of_the_shell_is_offered():
    assert "--install-completion" in run("--help")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "no_such_file.urdf"], "no_such_file.urdf"),
        (["info", "https://foo/bar.urdf"], "'https://foo/bar.urdf' is an address"),
        (["demo", "--precision", "16"], "32 or 64"),
        (["demo", "--robot", "no_such_file.xml"], "no_such_file.xml"),
        (["view", "no_such_file.urdf"], "no_such_file.urdf"),
        (["simulate", "no_such_file.urdf"], "no_such_file.urdf"),
        (["simulate", ARM, "--out", "motion.foo"], ".gif"),
        (["demo", ARM, "--out", "plot.foo"], "got plot.foo"),
        (["simulate", ARM, "--dt", "-1"], "--dt"),
        (["simulate", ARM, "--dt", "1e-9"], "steps; take a longer"),
        (["ik", ARM, "--frame", "tol", "--target", "0", "0", "1"], "did you mean 'tool'?"),
        (["ik", ARM, "--frame", "base", "--target", "0", "0", "1"], "fixed to the world"),
        (["ik", ARM, "--frame", "tool", "--target", "0", "0", "nan"], "--target must be finite"),
        (["ik", ARM, "--frame", "tool", "--target", "0", "0", "1", "--rpy", "0", "90", "0"], "in radians"),
        (["ik", ARM, "--frame", "tool", "--target", "0", "0", "1", "--start", "home"], "No keyframe named 'home'"),
        (["optimise", "no_such_file.urdf", "--frame", "tool", "--target", "0", "0", "1"], "no_such_file.urdf"),
        (["optimise", ARM, "--frame", "tool", "--target", "0", "0", "1", "--out", "motion.foo"], ".gif"),
    ],
)
def test_errors_are_explained(arguments, message):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert message in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        *(
            (command, ["--package-dir", "nowhere"], "no folder 'nowhere'")
            for command in ("demo", "simulate", "optimise")
        ),
        *((command, ["--view", "--host", "no.such.name.invalid"], "host must") for command in ("simulate", "optimise")),
    ],
)
def test_what_only_the_end_needs_is_checked_before(command, options, message, tmp_path):
    out = {"demo": "motion.png"}.get(command, "motion.gif")
    target = ["--frame", "tool", "--target", "0", "0", "1"] if command == "optimise" else []
    result = CliRunner().invoke(app, [command, ARM, *target, "--out", str(tmp_path / out), *options])
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())
    assert not any(word in result.output for word in ("Simulated", "Start:", "dynamics"))


@pytest.mark.parametrize("arguments", [["ik", ARM], ["info"], ["optimise", ARM, "--frame", "tool", "--target", "1"]])
def test_wrong_command_lines(arguments):
    assert CliRunner().invoke(app, arguments).exit_code == 2


@pytest.mark.parametrize("command", [[], ["info"], ["demo"], ["view"], ["simulate"], ["ik"], ["optimise"]])
def test_exit_codes_are_documented(command):
    assert "Exit codes: 0 if" in run(*command, "--help")


@pytest.fixture
def settings_of_jax():
    """JAX's settings for kept programs are put back."""
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs", "jax_enable_compilation_cache")
    before = {name: jax.config.values[name] for name in names}
    jax.config.update(names[0], None)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="these have their caches elsewhere")
def test_programs_are_kept_where_they_can_be(tmp_path, monkeypatch, settings_of_jax):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    jax.config.update("jax_enable_compilation_cache", False)
    assert keep_programs() is None
    jax.config.update("jax_enable_compilation_cache", True)
    (tmp_path / "caches").write_text("a file, so that no folder can be made there")
    assert keep_programs() is None
    assert jax.config.values["jax_compilation_cache_dir"] is None
    (tmp_path / "caches").unlink()
    folder = keep_programs()
    assert folder.parent == tmp_path / "caches" / "jaxcfa"
    assert folder.is_dir()
    assert jax.config.values["jax_compilation_cache_dir"] == str(folder)
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))  # a user's own
    assert keep_programs() == tmp_path
    assert jax.config.values["jax_persistent_cache_min_compile_time_secs"] == 0.02
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "3")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 3.0)
    keep_programs()
    assert jax.config.values["jax_persistent_cache_min_compile_time_secs"] == 3.0


def test_entry_point():
    environment = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "0"}
    command = [sys.executable, "-m", "jaxcfa", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert result.stdout.strip() == jaxcfa.__version__
