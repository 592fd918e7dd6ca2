"""Robots that `jaxcfa simulate` puts on the ground."""

import io
import re
import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import jaxcfa
from jaxcfa.cli._app import app
from jaxcfa.cli._ground import Ground, on_ground
from jaxcfa.cli._hold import with_held_joints
from jaxcfa.cli._simulate import Settings, _start
from jaxcfa.io import ModelWarning
from jaxcfa.joints import Free, Prismatic, Revolute
from robots import urdf_path, urdf_paths

LEGS = "".join(
    f'<body name="leg{i}" pos="{x} {y} -.05"><joint name="knee{i}" axis="0 1 0" range="-90 90"/>'
    f'<geom type="capsule" fromto="0 0 0 0 0 -.3" size=".02" mass=".3" friction="0.8"/></body>'
    for i, (x, y) in enumerate([(0.3, 0.1), (0.3, -0.1), (-0.3, 0.1), (-0.3, -0.1)])
)
TABLE = f"""<mujoco><worldbody><geom type="plane" size="0 0 1" friction=".5"/>
  <body name="top" pos="0 0 .2"><freejoint name="root"/>
  <geom type="box" size=".3 .1 .02" mass="4"/>{LEGS}<site name="mark" pos="0 0 -.4"/></body></worldbody></mujoco>"""
WEIGHT = (4 + 4 * 0.3) * 9.81


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.xml"
    path.write_text(TABLE)
    return path


def placed(path, ground=None, q=None, **options):
    """The model, its contacts, where it begins, and what is said."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        model = jaxcfa.load_model(path, **options)
    console = Console(file=io.StringIO(), width=1000)
    q = jaxcfa.neutral(model) if q is None else q
    return model, *on_ground(console, path, model, q, ground or Ground(), ()), console.file.getvalue()


def gaps(model, contacts, q):
    return np.asarray(jaxcfa.contact_state(model, contacts, q, jnp.zeros(model.nv)).gap)


def test_what_is_tied_to_the_world_stays_there(tmp_path):
    """Half of its leg begins in the ground, out of which it is not lifted."""
    path = tmp_path / "tied.xml"
    path.write_text(TABLE.replace("</mujoco>", '<equality><weld body1="top"/></equality></mujoco>'))
    model, console = jaxcfa.load_model(path), Console(file=io.StringIO(), width=1000)
    settings = Settings(seconds=1.0, dt=0.01, keyframe=None, seed=None, limits=False, cut=False, ground=Ground())
    q, contacts = _start(console, path, model, settings, model.constraints, ())
    np.testing.assert_allclose(q[:3], [0, 0, 0.2], atol=1e-6)
    assert np.min(gaps(model, contacts, q)) < -0.1
    free, _ = _start(console, path, model, settings._replace(cut=True), (), ())
    np.testing.assert_allclose(free[2], 0.37, atol=1e-6)


@pytest.mark.compiled
def test_a_table_stands(table, tmp_path):
    """Its legs are held; what it says of lengths, energy and forces is true."""
    out = tmp_path / "motion.npz"
    arguments = ["simulate", table, "--ground", "--hold", "--seconds", 0.5, "--dt", 0.005, "--out", out]
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(x) for x in arguments])
    assert result.exit_code == 0, result.output
    said = result.output
    assert "Ground: plane of the file; 16 contacts, on top, leg0, leg1, leg2, leg3" in said
    assert "Lifted by 0.17 m, so that leg0 touches the ground" in said
    _, q, v, _, _ = jaxcfa.load_trajectory(out)
    assert q[0, 2] == pytest.approx(0.37)
    np.testing.assert_allclose(q[-1, 2], 0.37, atol=1e-3)
    assert np.max(np.abs(v[-1])) < 1e-3
    before, after, lost = map(
        float, re.search(r"energy (\S+) J, then (\S+) J; (\S+) J went into contacts", said).groups()
    )
    assert lost == pytest.approx(before - after, abs=2e-3)
    count, force, weight = map(
        float, re.search(r"In the end (\d+) of 16 .* with (\S+) N .*weight of (\S+) N;", said).groups()
    )
    assert count == 4
    assert force == pytest.approx(WEIGHT, rel=1e-3) == weight


def test_contacts_that_are_named(table):
    """Points of the shapes of bodies, with the friction of the file, and the origins of what has none."""
    model, contacts, q, _ = placed(table, Ground("leg1, mark"))
    assert contacts.frames == ("leg1", "leg1", "mark")
    np.testing.assert_allclose(contacts.points, [[0, 0, -0.3], [0, 0, 0], [0, 0, 0]], atol=1e-9)
    np.testing.assert_allclose(contacts.radius, [0.02, 0.02, 0])
    np.testing.assert_allclose(contacts.friction, [0.8, 0.8, 1.0])
    assert gaps(model, contacts, q).min() == pytest.approx(0, abs=1e-9)
    saved = table.with_suffix(".npz")
    jaxcfa.save_model(saved, model)
    assert placed(saved, Ground("mark"))[1].frames == ("mark",)


@pytest.mark.parametrize(("drop", "said"), [(0.5, "Lifted by 0.67 m"), (0.0, "Lowered by 0.63 m")])
def test_heights_at_the_start(table, drop, said):
    model = jaxcfa.load_model(table)
    q = jaxcfa.neutral(model).at[2].set(0.37 + 0.63 if drop == 0 else 0.2)
    model, contacts, q, text = placed(table, Ground(drop=drop), q)
    assert gaps(model, contacts, q).min() == pytest.approx(drop, abs=1e-9)
    assert said in text
    # What is above the ground stays there.
    q = q.at[2].add(0.3)
    *_, same, text = placed(table, Ground(), q)
    np.testing.assert_array_equal(same, q)
    assert "Lifted" not in text


@pytest.mark.parametrize(
    ("text", "ground", "message"),
    [
        (TABLE.replace('<freejoint name="root"/>', ""), Ground(), "leg0' 0.17 m deep, and the base is fixed"),
        (
            TABLE.replace('<freejoint name="root"/>', "").replace("0 0 .2", "0 0 2"),
            Ground(drop=1.0),
            "base of t.xml is fix",
        ),
        (TABLE.replace("<geom", '<geom contype="0" conaffinity="0"'), Ground(), "by --feet left_foot,right_foot"),
        (TABLE, Ground("leg8"), "did you mean 'leg"),
        (TABLE, Ground(drop=-0.1), "--drop must be finite and not negative"),
    ],
)
def test_errors(text, ground, message, tmp_path):
    path = tmp_path / "t.xml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        placed(path, ground)


POST = """<body name="post" pos="0 0 5"><geom size=".3"/>
  <body name="arm"><joint axis="0 1 0"/><geom size=".1"/></body></body>"""
STAIR = """<mujoco><worldbody><geom type="plane" size="0 0 1" pos="0 0 -1" friction=".7"/>
  <body name="stair" pos="1 0 -1"><geom type="box" size=".5 1 .3"/></body>
  <body name="ball" pos="POS"><freejoint/><geom size=".1" friction=".4"/></body>BASE</worldbody></mujoco>"""


@pytest.mark.parametrize(
    ("place", "end", "base"),
    [
        ("0 0 2", 2.0, ""),  # above the floor
        ("0 0 -1.5", -0.9, ""),
        ("1 0 -2", -0.6, ""),  # inside of what lies on the floor
        ("-.5 0 -.95", -0.9, POST),
    ],
)
def test_ground_of_the_file(place, end, base, tmp_path):
    """Its floor and what stands there, not z = 0, nor the base of an arm, which the ball may hit, though."""
    path = tmp_path / "stair.xml"
    path.write_text(STAIR.replace("POS", place).replace("BASE", base))
    model = jaxcfa.load_model(path)
    _, contacts, q, text = placed(path, q=model.keyframe("qpos0"))
    assert f"plane, box of the file{' (without post, which is fixed)' if base else ''}; " in text
    assert ("; 3 with other bodies, on ball, arm" in text) == bool(base)
    others, contacts = contacts.parts[1:], contacts.parts[0]
    assert {(part.carrier, *part.frames) for part in others} == (
        {(None, "ball"), ("ball", "arm"), ("arm", "ball")} if base else set()
    )
    np.testing.assert_allclose(q[2], end, atol=1e-6)
    assert contacts.friction[contacts.frames.index("ball")] == pytest.approx(0.4)  # the larger of both counts
    places = jnp.array([[-2.0, 0, -1], [1, 0, -0.7]])
    np.testing.assert_allclose([contacts.surface.touch(x).friction for x in places], [0.7, 1.0])
    if end < 0:
        *_, q, _ = placed(path, Ground(feet="ball", drop=0.25), model.keyframe("qpos0"))
        np.testing.assert_allclose(q[2], end + 0.25, atol=1e-6)


def test_friction_of_what_has_a_higher_priority(tmp_path):
    path = tmp_path / "foot.xml"
    path.write_text(
        STAIR.replace("POS", "0 0 2").replace("BASE", "").replace('friction=".4"', 'friction=".4" priority="1"')
    )
    _, contacts, *_ = placed(path)
    assert contacts.friction == pytest.approx(0.4)
    assert contacts.surface.touch(jnp.array([1.0, 0, -0.7])).friction is None


needs_robots = pytest.mark.skipif(not urdf_paths(), reason="the package example-robot-data is not installed")


@needs_robots
@pytest.mark.parametrize(
    ("name", "feet", "length"),
    [("solo12.urdf", "_FOOT", 0.0), ("talos_full_v2.urdf", ("leg_left_6_link", "leg_right_6_link"), 0.2)],
)
def test_robots_begin_on_their_feet(name, feet, length):
    """On all of these, and on all of a sole, which need not be quite flat."""
    model, contacts, q, _ = placed(urdf_path(name), floating_base=True)
    found = gaps(model, contacts, q)
    assert found.min() == pytest.approx(0, abs=1e-6)
    low = np.flatnonzero(found < 0.005)
    standing = {contacts.frames[i] for i in low}
    assert np.ptp(np.asarray(contacts.points)[low, 0]) >= length
    names = {frame for frame in model.frame_names + model.body_names if frame.endswith(feet)}
    assert names <= standing
    assert len(contacts.frames) > 100
    assert contacts.most == 32


def test_held_joints():
    """By springs as stiff as the weight asks for, where they begin; all but free bases, or those with motors."""
    builder = jaxcfa.ModelBuilder()
    builder.add_body("base", joint=Free(), mass=1.0, inertia=0.1)
    builder.add_body("arm", "base", Revolute((0, 0, 1)), mass=2.0, com=(0.5, 0, 0), inertia=0.1)
    builder.add_body("slide", "arm", Prismatic((1, 0, 0)), mass=1.0, stiffness=3.0, damping=0.5)
    model = builder.build()
    q = jaxcfa.neutral(model).at[7:].set(jnp.array([0.4, 0.1]))
    held = with_held_joints(model, q)
    stiffness = 4 * 9.81 / 0.02 * np.array([0.5, 1 / 0.5])
    np.testing.assert_allclose(held.stiffness, [*[0] * 6, *stiffness], rtol=1e-6)
    np.testing.assert_allclose(held.damping, [*[0] * 6, *(0.05 * stiffness)], rtol=1e-6)
    np.testing.assert_allclose(jaxcfa.passive_forces(held, q, jnp.zeros(8)), 0, atol=1e-9)
    text = TABLE.replace("</mujoco>", '<actuator><motor joint="knee1"/></actuator></mujoco>')
    driven = jaxcfa.load_model(text)
    assert np.flatnonzero(with_held_joints(driven, jaxcfa.neutral(driven)).stiffness).tolist() == [7]
    # Actuators that push on frames drive no joints.
    pushed = jaxcfa.add_thrusters(model, "base", force=(0, 0, 1.0))
    np.testing.assert_allclose(with_held_joints(pushed, q).stiffness, held.stiffness)
    builder = jaxcfa.ModelBuilder()
    builder.add_body("base", joint=Free(), mass=1.0, inertia=0.1)
    stone = builder.build()
    with pytest.raises(ValueError, match="no joints that could be held"):
        with_held_joints(stone, jaxcfa.neutral(stone))
