"""The `jaxcfa` command, as a user runs it."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import jaxcfa
from jaxcfa.cli._app import app

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


def run(*arguments) -> str:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(x) for x in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_info(cart):
    output = run("info", cart)
    for part in ("slide", "hinge", "pole", "2 moving bodies", "total moving mass 2.5 kg", "0.01", "push", "top"):
        assert part in output


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "no_such_file.urdf"], "no_such_file.urdf"),
        (["demo", "--precision", "16"], "32 or 64"),
        (["demo", "--robot", "no_such_file.xml"], "no_such_file.xml"),
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
