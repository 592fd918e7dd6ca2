"""What of a URDF file ends up where in a model."""

import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import assert_close
from jaxcfa.io import ModelWarning, load_model, load_urdf
from jaxcfa.joints import Free, Planar, Prismatic, Revolute, Spherical
from urdf_text import INERTIA, INERTIAL, LIMIT, joint, link, one_joint, robot

ARM = robot(link("base"), link("upper"), link("lower"), joint("b", "upper", "lower"), joint("a", "base", "upper"))


@pytest.mark.parametrize(
    ("kind", "content", "joint_type", "nq"),
    [
        ("revolute", LIMIT, Revolute, 1),
        ("continuous", "", Revolute, 1),
        ("prismatic", LIMIT, Prismatic, 1),
        ("planar", "", Planar, 3),
        ("floating", "", Free, 7),
        ("spherical", "", Spherical, 4),
    ],
)
def test_joint_types(kind, content, joint_type, nq):
    model = load_urdf(one_joint(content, kind))
    assert type(model.joints[0]) is joint_type
    assert model.nq == nq
    assert model.joint_names == ("joint",)
    assert model.body_names == ("body",)
    assert model.locate("base")[0] == -1


@pytest.mark.parametrize("kind", ["revolute", "continuous", "prismatic", "planar", "floating"])
def test_single_precision_only(kind):
    content = "" if kind in ("planar", "floating") else LIMIT
    with jax.enable_x64(False):
        model = load_urdf(one_joint(content, kind), floating_base=True)  # JAX's warnings would be errors
    assert model.dtype == jnp.float32


def test_axis_is_x_by_default_and_of_any_length():
    assert_close(load_urdf(one_joint(LIMIT)).joints[0].axis, [[1.0, 0.0, 0.0]])
    assert_close(load_urdf(one_joint(LIMIT + '<axis xyz="0 0 -2"/>')).joints[0].axis, [[0.0, 0.0, -1.0]])


@pytest.mark.parametrize(
    ("normal", "x", "y"),
    [((0, 0, 1), (1, 0, 0), (0, 1, 0)), ((0, 0, -1), (1, 0, 0), (0, -1, 0)), ((1, 0, 0), (0, 1, 0), (0, 0, 1))],
)
def test_planar_joint_moves_normal_to_its_axis(normal, x, y):
    axis = " ".join(map(str, normal))
    (planar,) = load_urdf(one_joint(f'<axis xyz="{axis}"/>', "planar")).joints
    planar = jax.tree.map(lambda a: a[0], planar)
    assert_close(planar.transform(jnp.array([1.0, 0.0, 0.0])).translation, jnp.array(x, float))
    assert_close(planar.transform(jnp.array([0.0, 1.0, 0.0])).translation, jnp.array(y, float))


def test_limits_and_dynamics():
    model = load_urdf(one_joint(LIMIT + '<dynamics damping="0.5" friction="0.25"/>'))
    limits = model.limits
    assert [float(x[0]) for x in (limits.lower, limits.upper, limits.velocity, limits.effort)] == [-1, 2, 3, 4]
    assert float(model.damping[0]) == 0.5
    assert float(model.friction_loss[0]) == 0.25


def test_damping_and_friction_of_spherical_joint():
    model = load_urdf(one_joint('<dynamics damping="1" friction="2"/>', "spherical"))
    assert_close(model.damping, np.ones(3))
    assert_close(model.friction_loss, np.full(3, 2.0))


def test_continuous_joint_keeps_velocity_and_effort_limits_only():
    limits = load_urdf(one_joint(LIMIT, "continuous")).limits
    assert [float(x[0]) for x in (limits.lower, limits.upper)] == [-np.inf, np.inf]
    assert [float(x[0]) for x in (limits.velocity, limits.effort)] == [3, 4]


def test_missing_position_limits_are_zero_and_noted():
    with pytest.warns(ModelWarning, match="lower and upper are equal in <limit>, or left out"):
        limits = load_urdf(one_joint('<limit velocity="3" effort="4"/>')).limits
    assert [float(x[0]) for x in (limits.lower, limits.upper)] == [0, 0]


def test_missing_limit_is_none_and_noted():
    with pytest.warns(ModelWarning, match="no <limit> in a revolute joint"):
        model = load_urdf(one_joint(""))
    assert np.isinf(model.limits.upper[0])
    with pytest.warns(ModelWarning, match="no effort in <limit>"):
        model = load_urdf(one_joint('<limit lower="0" upper="1" velocity="1"/>'))
    assert np.isinf(model.limits.effort[0])


def test_huge_limits_are_infinite_in_single_precision():
    text = one_joint('<limit lower="-1e308" upper="1e308" velocity="1e308" effort="1e308"/>')
    assert float(load_urdf(text, dtype="float64").limits.upper[0]) == 1e308
    assert float(load_urdf(text, dtype="float32").limits.upper[0]) == np.inf


def test_inertia_is_turned_by_the_inertial_origin():
    inertial = (
        '<inertial><origin xyz="1 2 3" rpy="0 0 1.5707963267948966"/><mass value="2"/>'
        '<inertia ixx="1" ixy="0" ixz="0" iyy="2" iyz="0" izz="2.5"/></inertial>'
    )
    model = load_urdf(one_joint(LIMIT, child=inertial))
    assert_close(model.mass, np.array([2.0]))
    assert_close(model.com, np.array([[1.0, 2.0, 3.0]]))
    assert_close(model.inertia, np.diag([2.0, 1.0, 2.5])[None])


@pytest.mark.parametrize(
    ("xyzw", "expected"),
    [
        ("0 0 0 2", np.eye(3)),
        ("0.5 0.5 0.5 0.5", [[0, 0, 1], [1, 0, 0], [0, 1, 0]]),
        ("0.5 0.5 -0.5 0.5", [[0, 1, 0], [0, 0, -1], [-1, 0, 0]]),  # a pitch of 90 degrees
        ("1 2 3 4", np.array([[4, -20, 22], [28, 10, 4], [-10, 20, 20]]) / 30),
    ],
)
def test_orientations_as_quaternions(xyzw, expected):
    """Of URDF 1.2."""
    model = load_urdf(one_joint(f'{LIMIT}<origin xyz="1 2 3" quat_xyzw="{xyzw}"/>'))
    assert_close(model.placement.translation, [[1.0, 2.0, 3.0]])
    assert_close(model.placement.rotation[0], np.array(expected, float))


def test_fixed_links_are_merged_and_stay_as_frames():
    fixed = joint("weld", "body", "tool", '<origin xyz="0 0 2"/>', "fixed")
    model = load_urdf(robot(link("base"), link("body"), link("tool"), joint("joint", "base", "body"), fixed))
    assert model.nb == 1
    assert_close(model.mass, np.array([2.0]))
    assert_close(model.com, np.array([[0.0, 0.0, 1.0]]))
    # Two unit inertias and two unit masses at distance 1 from the common centre of mass.
    assert_close(model.inertia, np.diag([4.0, 4.0, 2.0])[None])
    body, placement = model.locate("tool")
    assert body == 0
    assert_close(placement.translation, np.array([0.0, 0.0, 2.0]))


def test_order_is_depth_first_by_joint_name():
    names = ["base", "z", "y", "x", "w"]
    joints = [joint("Zj", "base", "z"), joint("aj", "base", "y"), joint("_j", "base", "x"), joint("b", "z", "w")]
    model = load_urdf(robot(*map(link, names), *joints))
    assert model.joint_names == ("Zj", "b", "_j", "aj")
    assert model.body_names == ("z", "w", "x", "y")


def test_floating_base():
    model = load_urdf(ARM, floating_base=True)
    assert model.joint_names == ("root_joint", "a", "b")
    assert model.body_names == ("base", "upper", "lower")
    assert (model.nq, model.nv) == (9, 8)
    assert_close(model.spring_reference[:7], np.array([0.0, 0, 0, 1, 0, 0, 0]))


def test_floating_base_next_to_a_joint_of_that_name():
    text = robot(link("base"), link("body"), joint("root_joint", "base", "body"))
    assert load_urdf(text, floating_base=True).joint_names == ("root_joint_1", "root_joint")


def test_joints_and_links_may_share_names():
    text = robot(link("base"), link("body"), joint("base_joint", "base", "body"))
    assert load_urdf(text).joint_names == ("base_joint",)
    assert load_urdf(robot(link("base"), link("body"), joint("body", "base", "body"))).joint_names == ("body",)


def test_links_without_inertia_are_massless():
    with pytest.warns(ModelWarning, match="singular"):
        model = load_urdf(one_joint(LIMIT, child=""))
    assert float(model.mass[0]) == 0
    assert_close(model.inertia, np.zeros((1, 3, 3)))


def test_robot_without_joints():
    model = load_urdf(robot(link("base")))
    assert (model.nb, model.nv, model.frame_names) == (0, 0, ("base",))


def mimicking(content: str, reference: str = "a", kind: str = "revolute", reference_kind: str = "revolute") -> str:
    first = joint("a", "base", "upper", kind=reference_kind)
    second = joint("b", "upper", "lower", f"{LIMIT}<mimic joint='{reference}' {content}/>", kind)
    return robot(link("base"), link("upper"), link("lower"), first, second)


def test_mimic_joints_keep_their_coordinate_and_become_constraints():
    model = load_urdf(mimicking('multiplier="2" offset="0.5"'), dtype="float32")
    assert model.nq == 2
    (coupling,) = model.constraints
    assert (coupling.joint, coupling.reference) == (1, 0)
    assert_close(coupling.coefficients, np.array([0.5, 2.0]))
    assert coupling.coefficients.dtype == jnp.float32
    (coupling,) = load_urdf(mimicking("")).constraints
    assert_close(coupling.coefficients, np.array([0.0, 1.0]))


def test_mimic_of_a_fixed_joint_holds_the_joint():
    (coupling,) = load_urdf(mimicking('offset="0.5"', reference_kind="fixed")).constraints
    assert (coupling.joint, coupling.reference) == (0, -1)
    assert_close(coupling.coefficients, np.array([0.5]))


def test_mimic_of_an_unknown_joint_is_noted():
    with pytest.warns(ModelWarning, match="'left_a' in 'b'"):
        model = load_urdf(mimicking("", reference="left_a"))
    assert model.constraints == ()


def test_gravity_and_dtype():
    model = load_urdf(ARM, gravity=(0.0, 0.0, -1.62), dtype="float32")
    assert_close(model.gravity, np.array([0.0, 0.0, -1.62]), 1e-6)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(model)} == {"float32"}
    assert_close(load_urdf(ARM).gravity, np.array([0.0, 0.0, -9.81]))


def test_geometry_is_not_looked_at():
    mesh = '<visual><geometry><mesh filename="package://no/such.dae"/></geometry></visual><collision><nonsense/></collision>'
    assert load_urdf(one_joint(LIMIT, child=INERTIAL + mesh)).nb == 1


def test_one_warning_names_everything():
    strange = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="{}"/></inertial>'
    text = robot(
        link("base"),
        link("thin", strange.format(3)),
        link("negative", strange.format(-1)),
        link("rotor", f'<inertial><mass value="0"/>{INERTIA}</inertial>'),
        joint("a", "base", "thin", LIMIT + '<safety_controller k_velocity="1"/><dynamics K="7000"/>'),
        joint("b", "base", "negative", LIMIT * 2),
        joint("c", "base", "rotor", '<axis xmlns:drake="http://drake.mit.edu" drake:a="5" xyz="1 0 0"/>', "planar"),
        '<transmission name="gear"/><gazebo reference="thin"/><gazebo/>',
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load_urdf(text)
    (warning,) = caught
    assert warning.category is ModelWarning
    assert warning.message.notes == {
        'not modelled: <safety_controller> in <joint type="revolute">': ("joint 'a'",),
        "not modelled: attribute 'K' of <dynamics>": ("joint 'a'",),
        "not modelled: attribute 'drake:a' of <axis>": ("joint 'c'",),
        "repeated, of which the first counts: <limit>": ("joint 'b'",),
        "not modelled: <transmission>": ("gear",),
        "not modelled: <gazebo>": ("thin", "line 8"),
        "inertia without mass": ("link 'rotor'",),
        "inertia that is indefinite": ("link 'negative'",),
        "inertia that breaks the triangle inequality": ("link 'thin'",),
    }
    for note, elements in warning.message.notes.items():
        assert f"{note} ({len(elements)}): {', '.join(elements)}" in str(warning.message)
    assert float(model.inertia[model.body_index("negative"), 2, 2]) == -1


def test_warning_blames_the_caller(tmp_path):
    # In another process, as the type checks of the tests come between the caller and the package.
    script = tmp_path / "script.py"
    script.write_text("import jaxcfa.io\n\njaxcfa.io.load_model('<robot><link name=\"a\"/><gazebo/></robot>')\n")
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert f"{script}:3: ModelWarning: XML text holds what is not modelled, or doubtful:" in result.stderr
    assert "- not modelled: <gazebo> (1): line 1" in result.stderr


@pytest.mark.parametrize("package", ["yourdfpy", "lxml.etree"])
@pytest.mark.parametrize("load", [load_urdf, load_model])
def test_missing_package(monkeypatch, load, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=r"pip install -e '\.\[io\]' in a clone"):
        load(ARM)


@pytest.mark.parametrize(
    "content",
    [
        ARM,
        ARM.encode(),
        "\n  " + ARM,
        "\ufeff" + ARM,
        '<?xml version="1.0" encoding="utf-16"?>' + ARM,  # text is decoded already
        ('<?xml version="1.0" encoding="utf-16"?>' + ARM).encode("utf-16"),
        ('<?xml version="1.0" encoding="iso-8859-1"?><!-- \xe9 -->' + ARM).encode("latin-1"),
        b'<?xml version="0.0" ?>' + ARM.encode(),
        b'\n  <?xml version="1.0" encoding="utf-8"?>' + ARM.encode(),
        "<!-- about --><?target data?>" + ARM,
        "<!DOCTYPE robot>" + ARM,
        ARM.replace("<robot ", '<robot xmlns="http://www.ros.org" '),
    ],
)
def test_texts(content):
    assert load_urdf(content).joint_names == ("a", "b")
    assert load_model(content).joint_names == ("a", "b")


def test_files(tmp_path):
    path = tmp_path / "robot \xe9 file"
    path.write_text(ARM, encoding="utf-8")
    for name in (path, str(path)):
        assert load_urdf(name).nb == 2
        assert load_model(name, True).nb == 3
    assert_close(load_model(path, gravity=(0.0, 0.0, 1.0)).gravity, np.array([0.0, 0.0, 1.0]))


def test_undeclared_prefixes_do_no_harm():
    text = robot(
        link("base"), link("body"), joint("a", "base", "body"), "<gazebo><controller:plugin a:b='1'/></gazebo>"
    )
    with pytest.warns(ModelWarning, match="gazebo"):
        assert load_urdf(text).nb == 1
    with pytest.warns(ModelWarning, match="controller:plugin"):
        assert load_urdf(robot(link("base"), "<controller:plugin/>")).nb == 0


def test_long_chain():
    n = 3000
    links = [link(f"l{i}") for i in range(n)]
    joints = [joint(f"j{i}", f"l{i}", f"l{i + 1}") for i in range(n - 1)]
    assert load_urdf(robot(*links, *joints)).nb == n - 1
