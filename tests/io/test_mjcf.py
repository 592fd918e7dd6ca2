"""What `load_mjcf` takes over, names, reports and rejects. (Motion is compared in `test_mjcf_dynamics.py`.)"""

import contextlib
import pickle
import re
import sys
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import jaxcfa
from helpers import assert_close
from jaxcfa.io import ModelWarning, load_mjcf, load_urdf
from jaxcfa.io._mjcf_compile import compile_mjcf
from jaxcfa.io._source import read_source
from jaxcfa.joints import Anchored, Composite, Free, Prismatic, Revolute, Spherical
from jaxcfa.model import Connect, JointCoupling, Weld
from jaxcfa.model._ranges import coupled_coordinates
from mujoco_models import REPRESENTATIVE, compiled, mass_matrix, path_of, random_state, shipped_models

INERTIAL = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'


def mjcf(bodies: str, rest: str = "") -> str:
    return f"<mujoco><worldbody>{bodies}</worldbody>{rest}</mujoco>"


def body(name: str, joints: str, inside: str = "", **attributes: str) -> str:
    given = " ".join(f'{key}="{value}"' for key, value in attributes.items())
    return f'<body name="{name}" {given}>{joints}{INERTIAL}{inside}</body>'


def notes_of(source, **arguments) -> dict[str, tuple[str, ...]]:
    with pytest.warns(ModelWarning) as caught:
        load_mjcf(source, **arguments)
    (warning,) = caught
    return warning.message.notes


def check_structure(name: str) -> None:
    """Coordinates, names, tree, masses and parameters equal MuJoCo's."""
    mj = compiled(path_of(name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        model = load_mjcf(path_of(name))
    assert (model.nq, model.nv) == (mj.nq, mj.nv)
    moving = np.flatnonzero(mj.body_jntnum)
    assert model.body_names == tuple(mj.body(i).name or f"body{i}" for i in moving)
    fixed = [i for i in range(1, mj.nbody) if not mj.body_jntnum[i]]
    assert model.frame_names[: len(fixed)] == tuple(mj.body(i).name or f"body{i}" for i in fixed)
    welded_to = [int(np.searchsorted(moving, b)) if b else -1 for b in mj.body_weldid[mj.body_parentid[moving]]]
    assert model.topology.parents.tolist() == welded_to
    joints = [mj.joint(i).name for i in range(mj.njnt)]
    if all(joints):
        assert "+".join(joints) == "+".join(model.joint_names)
    masses = [mj.body_mass[mj.body_weldid == i].sum() for i in moving]
    assert_close(model.mass, np.array(masses))
    assert_close(model.armature, mj.dof_armature)
    assert_close(model.damping, mj.dof_damping)
    assert_close(model.stiffness, mj.jnt_stiffness[mj.dof_jntid])
    assert_close(model.friction_loss, mj.dof_frictionloss)
    assert_close(model.spring_reference, mj.qpos_spring)
    assert_close(model.keyframe("qpos0"), mj.qpos0)
    assert_close(model.keyframes.q[1:], mj.key_qpos)
    limited = (mj.jnt_limited == 1) & np.isin(mj.jnt_type, (2, 3))
    assert_close(model.limits.lower[mj.jnt_qposadr[limited]], mj.jnt_range[limited, 0])
    assert_close(model.limits.upper[mj.jnt_qposadr[limited]], mj.jnt_range[limited, 1])


@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_representative_models_have_mujocos_structure(name):
    check_structure(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(shipped_models()) - set(REPRESENTATIVE)))
def test_all_shipped_models_have_mujocos_structure(name):
    try:
        compiled(path_of(name))
    except ValueError:
        pytest.skip("MuJoCo cannot compile it; see test_mjcf_dynamics.py")
    check_structure(name)


def test_joint_types_and_names():
    several = '<joint name="x" type="slide" axis="1 0 0"/><joint type="hinge" pos="0 0 1"/>'
    text = mjcf(
        body("free", "<freejoint/>")
        + body("a", '<joint name="ball" type="ball"/>', body("b", several) + body("c", '<joint type="slide"/>'))
        + f"<body><joint name='b_joint1'/>{INERTIAL}</body>"
    )
    model = load_mjcf(text)
    assert model.body_names == ("free", "a", "b", "c", "body5")
    assert model.joint_names == ("free_joint", "ball", "x+b_joint1_", "c_joint", "b_joint1")
    kinds = [type(model.joint(i).joint) for i in range(model.nb)]
    assert kinds == [Free, Spherical, Composite, Prismatic, Revolute]
    assert isinstance(model.joint(2).joint.joints[1], Anchored)
    assert model.topology.parents.tolist() == [-1, -1, 1, 1, -1]


def test_given_names_are_kept():
    unnamed = f"<body><joint/><site/>{INERTIAL}</body>"
    sites = '<site name="site0"/>'
    model = load_mjcf(mjcf(unnamed + body("body1", '<joint name="body1__joint"/>', sites)))
    assert model.body_names == ("body1_", "body1")
    assert model.joint_names == ("body1__joint_", "body1__joint")
    assert model.frame_names == ("site0_", "site0")


def test_welded_bodies_and_sites_are_frames():
    inside = '<site name="b"/><site pos="1 0 0"/>' + body("b", "", '<site name="tip" pos="0 0 1"/>', pos="0 1 0")
    model = load_mjcf(mjcf('<site name="origin" pos="1 2 3"/>' + body("a", "<joint/>", inside)))
    assert model.frame_names == ("b", "origin", "site:b", "site2", "tip")
    assert_close(model.mass, np.array([2.0]))
    assert_close(model.com, np.array([[0, 0.5, 0]]))
    assert model.locate("origin")[0] == -1
    assert_close(model.locate("tip")[1].translation, np.array([0, 1, 1.0]))


def test_a_welded_body_whose_joint_name_is_taken():
    model = load_mjcf(mjcf(body("a", '<joint name="b_fixed"/>', body("b", ""))))
    assert model.joint_names == ("b_fixed",)


@pytest.mark.parametrize(
    ("bodies", "joints", "frames"),
    [
        (
            body("a", '<joint name="x"/><joint name="y" axis="1 0 0"/>') + body("b", '<joint name="x+y"/>'),
            ("x+y_", "x+y"),
            (),
        ),
        (body("a", "<joint/>", '<site name="a"/><site name="site:a"/>'), ("a_joint",), ("site:a_", "site:a")),
        (
            body("a", "<joint/>", '<site name="a"/>') + body("site:a", "<joint/>", '<site name="site:a"/>'),
            ("a_joint", "site:a_joint"),
            ("site:a_", "site:site:a"),
        ),
    ],
)
def test_names_that_are_made_are_unique(bodies, joints, frames):
    model = load_mjcf(mjcf(bodies))
    assert (model.joint_names, model.frame_names) == (joints, frames)


def test_options_that_switch_things_off():
    joint = '<joint stiffness="1" damping="2" frictionloss="3" range="-1 1"/>'
    flags = '<flag gravity="disable" spring="disable" damper="disable" frictionloss="disable" limit="disable"/>'
    model = load_mjcf(mjcf(body("a", joint), f"<option>{flags}</option>"))
    for values in (model.gravity, model.stiffness, model.damping, model.friction_loss):
        assert not np.any(values)
    assert np.array_equal([*model.limits.lower, *model.limits.upper], [-np.inf, np.inf])
    model = load_mjcf(mjcf(body("a", joint), '<option><flag constraint="disable"/></option>'))
    assert np.array_equal([*model.limits.lower, *model.limits.upper], [-np.inf, np.inf])
    assert_close(load_mjcf(mjcf(body("a", joint))).limits.upper, np.deg2rad([1.0]))


def test_gravity_and_dtype_can_be_given():
    text = mjcf(body("a", "<joint/>"), '<option gravity="1 2 3"/>')
    model = load_mjcf(text, dtype=jnp.float32)
    assert all(x.dtype == jnp.float32 for x in (model.mass, model.keyframes.q, model.actuators.gain))
    assert_close(model.gravity, np.array([1, 2, 3.0]))
    assert_close(load_mjcf(text, gravity=(0, 0, 1)).gravity, np.array([0, 0, 1.0]))


def test_single_precision_with_a_floating_base():
    text = mjcf(
        body("a", "", body("b", "<joint name='j'/>")),
        "<actuator><motor joint='j'/></actuator><keyframe><key/></keyframe>",
    )
    model = load_mjcf(text, floating_base=True, dtype="float32")
    assert {leaf.dtype.name for leaf in jax.tree.leaves(model)} == {"float32"}


def test_keyframes():
    keys = '<keyframe><key name="bent" qpos="0.5" qvel="2"/><key/><key name="qpos0" qpos="1"/></keyframe>'
    model = load_mjcf(mjcf(body("a", '<joint ref="90"/>'), keys))
    assert model.keyframes.names == ("qpos0", "bent", "key1", "qpos0_")
    assert_close(model.keyframes.q[:, 0], np.array([np.pi / 2, 0.5, np.pi / 2, 1]))
    assert_close(model.keyframes.v[:, 0], np.array([0, 2, 0, 0.0]))


def test_what_else_keyframes_have_is_reported():
    bodies = body("a", "<joint name='j'/>") + '<body name="m" mocap="true" pos="1 2 3" quat="1 2 3 4"/>'
    keys = """
      <key name="plain" qpos="0.5"/> <key name="pushed" ctrl="3 1"/> <key name="active" act="2"/>
      <key name="led" mpos="1 2 4"/> <key name="turned" mquat="1 0 0 0"/>"""
    rest = """<actuator><general name="slow" joint="j" dyntype="filter"/><motor joint="j"/></actuator>
      <keyframe>{}</keyframe>"""
    notes = notes_of(mjcf(bodies, rest.format(keys)))
    what = "activations and mocap poses of keyframes"
    assert notes[what] == ("active", "led", "turned")
    assert what not in notes_of(mjcf(bodies, rest.format("")))
    with pytest.warns(ModelWarning):
        model = load_mjcf(mjcf(bodies, rest.format(keys)))
    assert (model.keyframe_control("pushed").tolist(), model.keyframe_control("qpos0").tolist()) == ([1.0], [0.0])


def test_joints_that_share_their_body_have_names_of_their_own(tmp_path):
    """Where MuJoCo has their coordinates; also in models that were saved, combined and taken apart."""
    joints = '<joint name="x" type="slide" axis="1 0 0" damping="2" range="-3 4"/><joint name="ball" type="ball"/>'
    joints += '<joint name="z" type="slide" axis="0 0 1" armature="0.5" ref="0.1"/>'
    hips = '<joint name="h1" axis="1 0 0" range="-20 30" stiffness="7" springref="10"/><joint name="h2" pos="0 0 1"/>'
    text = mjcf(body("base", joints, body("leg", hips, body("foot", '<joint name="ankle"/>'))))
    model, mj = load_mjcf(text), compiled(text)
    jaxcfa.save_model(tmp_path / "legs.npz", model)
    for found in (model, jaxcfa.load_model(tmp_path / "legs.npz"), pickle.loads(pickle.dumps(model))):
        for number in range(mj.njnt):
            joint, view = mj.joint(number), found.joint(mj.joint(number).name)
            q, v = int(joint.qposadr[0]), int(joint.dofadr[0])
            assert (view.q, view.v) == (slice(q, q + len(joint.qpos0)), slice(v, v + len(joint.damping)))
            assert (view.q, view.v) == (found.q_slice(joint.name), found.v_slice(joint.name))
            for ours, theirs in ((view.damping, joint.damping), (view.armature, joint.armature)):
                assert_close(ours, theirs)
            assert_close(view.spring_reference, mj.qpos_spring[view.q])
            limits = joint.range if mj.jnt_limited[number] else np.array([-np.inf, np.inf])
            assert_close(jnp.stack([view.lower[0], view.upper[0]]), limits)
    pair = jaxcfa.combine([model, model], ["l_", "r_"])
    assert (pair.q_slice("r_h2"), pair.v_slice("r_h2")) == (slice(16, 17), slice(14, 15))
    assert jaxcfa.subtree(model, "leg").v_slice("h2") == slice(1, 2)
    assert jaxcfa.lock_joints(model, "h1+h2").v_slice("z") == slice(4, 5)
    assert jaxcfa.rename(model, {"h2": "pitch"}).v_slice("pitch") == slice(6, 7)
    batch = jax.vmap(lambda x: jaxcfa.with_joint(model, "h2", damping=x))(jnp.arange(3.0))
    assert batch.damping[:, batch.v_slice("h2")].tolist() == [[0], [1], [2]]


def test_armature_and_damping_of_actuators():
    """They count with the square of the first gear, for joints of all types."""
    actuators = """<actuator>
      <motor joint="hinge" gear="3" armature="0.5" damping="0.7"/>
      <motor joint="slide" gear="-2" armature="0.3" damping="0.2"/>
      <motor joint="ball" gear="2 3 4" armature="0.6" damping="0.4"/>
      <motor joint="ball" gear="0 1 0" armature="0.6" damping="0.4"/>
      <motor joint="free" gear="0.5 1 1 2 2 2" armature="0.1" damping="0.8"/>
    </actuator>"""
    both = '<joint name="hinge"/><joint name="slide" type="slide" armature="0.2" damping="0.1"/>'
    bodies = body("a", both, body("b", '<joint name="ball" type="ball"/>')) + body("c", '<freejoint name="free"/>')
    text = mjcf(bodies, actuators)
    model, mj, bare = load_mjcf(text), compiled(text), compiled(re.sub('armature="[^"]*"', "", text))
    data = random_state(mj)
    assert_close(model.damping * data.qvel, -data.qfrc_damper)
    added = mass_matrix(mj, data) - mass_matrix(bare, random_state(bare))
    assert_close(np.diag(np.asarray(model.armature)), added)


def test_damping_of_actuators_that_is_not_linear():
    notes = notes_of(
        mjcf(
            body("a", '<joint name="j"/>'),
            '<actuator><motor name="plain" joint="j"/><motor name="oil" joint="j" damping="1 2"/></actuator>',
        )
    )
    assert notes == {"damping that is not linear": ("oil",)}


def test_effort_limits():
    joints = '<joint name="x" actuatorfrcrange="-2 2"/><joint name="y" type="slide" actuatorfrcrange="-2 3"/>'
    text = mjcf(body("a", joints))
    assert notes_of(text) == {"actuatorfrcrange that is not symmetric; the larger bound is used": ("y",)}
    with pytest.warns(ModelWarning):
        assert_close(load_mjcf(text).limits.effort, np.array([2.0, 3.0]))


EQUALITIES = mjcf(
    body(
        "a", '<joint name="aj" ref="30"/>', body("b", "", pos="1 0 0", euler="0 0 90") + '<site name="s" pos="0 0 1"/>'
    )
    + body("c", '<joint name="cj" type="slide"/>', '<site name="t" pos="0 2 0" euler="90 0 0"/>')
    + body("d", "<joint name='d1' ref='20'/><joint name='d2' axis='1 0 0'/>")
    + body("e", "<joint name='e1' type='ball'/><joint name='e2' type='slide'/>"),
    """<equality>
      <connect name="points" body1="b" body2="c" anchor="0.1 0.2 0.3"/>
      <connect name="sites" site1="s" site2="t"/>
      <weld name="rigid" body1="b" body2="c" anchor="0.5 0.6 0.7" relpose="1 2 3 0.5 0.5 0.5 0.5"/>
      <weld name="to_world" body1="c"/>
      <weld name="rigid_sites" site1="s" site2="t"/>
      <weld name="turning" body1="b" body2="c" anchor="0.5 0.6 0.7" relpose="1 2 3 0.5 0.5 0.5 0.5" torquescale="0"/>
      <weld name="turning_sites" site1="s" site2="t" torquescale="0"/>
      <joint name="coupled" joint1="aj" joint2="cj" polycoef="0.1 2 0.3 0 0"/>
      <joint name="held" joint1="cj" polycoef="0.4 0 0 0 0"/>
      <joint name="shared" joint1="d1" joint2="cj"/>
      <joint name="beside" joint1="d2" joint2="d1" polycoef="0.1 -1 0.5 0 0"/>
      <joint name="behind" joint1="e2" joint2="d2" polycoef="0 3 0 0 0"/>
      <weld name="off" body1="a" body2="c" active="false"/>
    </equality>""",
)


def test_equality_constraints():
    with pytest.warns(ModelWarning, match="off"):
        model = load_mjcf(EQUALITIES)
    by_name = {constraint.name: constraint for constraint in model.constraints}
    types = {
        **dict.fromkeys(["points", "sites"], Connect),
        **dict.fromkeys(["rigid", "to_world", "rigid_sites"], Weld),
        **dict.fromkeys(["turning", "turning_sites"], Connect),
        **dict.fromkeys(["coupled", "held", "shared", "beside", "behind"], JointCoupling),
    }
    assert [(name, type(constraint)) for name, constraint in by_name.items()] == list(types.items())
    coupled, held = by_name["coupled"], by_name["held"]
    assert (coupled.joint, coupled.reference) == (model.joint_index("aj"), model.joint_index("cj"))
    assert_close(coupled.joint_offset, np.deg2rad(30.0))
    assert_close(coupled.coefficients, np.array([0.1, 2, 0.3, 0, 0]))
    assert (held.joint, held.reference) == (model.joint_index("cj"), -1)
    beside, behind = by_name["beside"], by_name["behind"]
    assert (beside.joint, beside.joint_coordinate, beside.reference, beside.reference_coordinate) == (2, 1, 2, 0)
    assert (behind.joint, behind.joint_coordinate, behind.reference, behind.reference_coordinate) == (3, 3, 2, 1)
    assert (by_name["to_world"].body1, by_name["to_world"].body2) == (model.body_index("c"), -1)


def test_equality_constraints_within_one_body_are_left_out():
    """Bodies without joints are parts of the one that carries them."""
    bodies = body("a", "<joint/>", body("b", "", '<site name="s"/>') + '<site name="t"/>') + body("post", "")
    text = mjcf(
        bodies,
        """<equality>
          <connect name="points" body1="a" body2="b" anchor="0 0 0"/>
          <weld name="sites" site1="s" site2="t"/>
          <weld name="ground" body1="post"/>
          <weld name="kept" body1="a" body2="post"/>
        </equality>""",
    )
    assert notes_of(text) == {"equality constraints within one body": ("points", "sites", "ground")}
    with pytest.warns(ModelWarning):
        assert [constraint.name for constraint in load_mjcf(text).constraints] == ["kept"]


def test_equality_constraints_are_violated_as_in_mujoco():
    """Distances between the points and angles between the frames, at a random configuration."""
    with pytest.warns(ModelWarning):
        model = load_mjcf(EQUALITIES)
    mj = compiled(EQUALITIES)
    data = mujoco.MjData(mj)
    data.qpos[:] = np.random.default_rng(1).normal(size=mj.nq)
    mujoco.mj_forward(mj, data)
    poses = jaxcfa.forward_kinematics(model, data.qpos)

    def world(number: int, local):
        return local if number < 0 else poses[number] @ local

    for constraint in model.constraints:
        rows = data.efc_pos[data.efc_id[: data.nefc] == mj.equality(constraint.name).id]
        if isinstance(constraint, Connect):
            points = [(constraint.body1, constraint.point1), (constraint.body2, constraint.point2)]
            ends = [point if number < 0 else poses[number].apply(point) for number, point in points]
            assert_close(ends[0] - ends[1], rows[:3])
            assert not np.any(rows[3:])
        elif isinstance(constraint, Weld):
            frame1, frame2 = world(constraint.body1, constraint.frame1), world(constraint.body2, constraint.frame2)
            assert_close(frame1.translation - frame2.translation, rows[:3])
            relative = np.asarray(frame2.rotation.T @ frame1.rotation)
            cosine_of_half = 0.5 * np.sqrt(1 + np.trace(relative))
            assert_close(np.linalg.norm(rows[3:]), np.sqrt(max(0.0, 1 - cosine_of_half**2)))
        else:
            own, reference = coupled_coordinates(model, constraint)
            x = 0.0 if reference < 0 else data.qpos[reference]
            x = x - constraint.reference_offset
            value = sum(c * x**k for k, c in enumerate(constraint.coefficients))
            assert_close(data.qpos[own] - constraint.joint_offset - value, rows[0])


UNMODELLED = (
    "target",
    "a",
    "ball",
    "hinge",
    "cable",
    "rope",
    "heavy",
    "lift",
    "pair",
    "biceps",
    "slow",
    "curved",
    "aim",
)
UNMODELLED += ("turn", "orient", "angle")


def test_one_warning_names_everything_that_is_not_modelled():
    text = f"""
    <mujoco>
      <option density="1"/>
      <worldbody>
        <body name="target" mocap="true"/>
        <body name="a" gravcomp="1">
          <joint name="ball" type="ball" range="0 30" limited="true"/>
          {INERTIAL}
          <site name="s"/>
          <body name="b"> <joint name="hinge" damping="1 2" stiffness="1 2"/> {INERTIAL} <site name="t"/> </body>
        </body>
      </worldbody>
      <tendon>
        <fixed name="cable" stiffness="2"> <joint joint="hinge" coef="1"/> </fixed>
        <fixed name="silent"> <joint joint="hinge" coef="1"/> </fixed>
        <spatial name="rope"> <site site="s"/> <site site="t"/> </spatial>
      </tendon>
      <actuator>
        <motor name="pull" tendon="cable"/>
        <motor name="heavy" tendon="silent" armature="1"/>
        <motor name="lift" tendon="rope"/>
        <motor name="pair" site="s" refsite="t"/>
        <muscle name="biceps" joint="hinge" lengthrange="0 1"/>
        <general name="slow" joint="hinge" dyntype="filter"/>
        <general name="curved" joint="hinge" gaintype="affine" gainprm="1 2"/>
        <position name="aim" joint="ball"/>
        <motor name="turn" jointinparent="ball"/>
        <general name="orient" joint="ball" gaintype="so3" biastype="so3" gainprm="5" biasprm="0 -5 -1"/>
        <motor name="good" joint="hinge"/>
      </actuator>
      <sensor> <jointpos name="angle" joint="hinge"/> </sensor>
    </mujoco>"""
    notes = notes_of(text)
    named = {element for elements in notes.values() for element in elements}
    assert named == set(UNMODELLED)
    assert any("fluid" in note for note in notes)
    assert "orient" in next(elements for note, elements in notes.items() if "servo the orientation" in note)
    with pytest.warns(ModelWarning):
        assert load_mjcf(text).actuators.names == ("pull", "heavy", "good")


def test_nothing_is_reported_about_what_every_file_has():
    extras = (
        '<asset><material name="m"/></asset><contact><exclude body1="a" body2="b"/></contact><option timestep="1"/>'
    )
    geoms = '<geom size="1" material="m"/>'
    bodies = '<light/><camera/><geom type="plane" size="1 1 1"/>' + body("a", "<joint/>", geoms) + body("b", "", geoms)
    load_mjcf(mjcf(bodies, extras))


@pytest.mark.parametrize(
    ("bodies", "message"),
    [
        (body("a", "<joint/>"), "hangs on the world by a joint"),
        (body("a", "", body("b", "<joint/>")) + body("c", "", body("d", "<joint/>")), "exactly one body.*: a, c"),
        ("", "exactly one body.*none"),
    ],
)
def test_floating_base_needs_a_base(bodies, message):
    with pytest.raises(ValueError, match=message):
        load_mjcf(mjcf(bodies), floating_base=True)


def test_floating_base_of_a_floating_model_and_beside_scenery():
    floating = mjcf(body("a", "<freejoint/>"))
    assert load_mjcf(floating, floating_base=True).nq == 7
    scene = mjcf(body("table", "") + body("robot", "", body("arm", "<joint/>"), pos="1 0 0"))
    model = load_mjcf(scene, floating_base=True)
    assert model.body_names == ("robot", "arm")
    assert_close(model.keyframe("qpos0"), np.array([1, 0, 0, 1, 0, 0, 0, 0.0]))
    assert_close(model.spring_reference[7:], np.zeros(1))


def test_bodies_that_are_fused_stay():
    """MuJoCo would take away the base, and what is fixed to it."""
    text = mjcf(body("base", "", body("arm", "<joint/>", body("tip", ""))), '<compiler fusestatic="true"/>')
    model = load_mjcf(text, floating_base=True)
    assert (model.body_names, model.frame_names) == (("base", "arm"), ("tip",))
    assert load_mjcf(text).frame_names == ("base", "tip")


MESHES = """
<mujoco>
  <asset>
    <mesh name="visual" file="missing.stl"/>
    <texture name="t" type="2d" file="missing.png"/>
    <material name="m" texture="t"/>
  </asset>
  <worldbody>
    <geom type="mesh" mesh="visual"/>
    <body name="a">
      <joint/> {}
      <geom name="g" type="mesh" mesh="visual" material="m"/>
      <geom type="sphere" size="1" material="m"/>
    </body>
  </worldbody>
  <sensor> <framepos name="f" objtype="geom" objname="g"/> </sensor>
</mujoco>"""


def test_missing_meshes_matter_only_for_masses(tmp_path):
    path = tmp_path / "robot.xml"
    path.write_text(MESHES.format(INERTIAL))
    for source in (path, MESHES.format(INERTIAL)):
        assert_close(load_mjcf(source).mass, np.ones(1))
    with pytest.raises(ValueError, match=r"Put the file 'missing\.stl' in its place, or give .* an <inertial>"):
        load_mjcf(MESHES.format(""))


@pytest.mark.parametrize("at_once", [True, False])
def test_only_what_is_missing_is_left_out(at_once, tmp_path, monkeypatch):
    """Files that are known to be absent are left out at once, others one by one, as the compiler names them."""
    if not at_once:
        monkeypatch.setattr("jaxcfa.io._mjcf_compile._is_absent", lambda *_: False)
    tetrahedron = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "there.obj").write_text(tetrahedron)
    assets = """<asset><texture type="skybox" file="sky.png"/><texture name="t" type="2d" file="wood.png"/>
      <texture name="plain" type="2d" builtin="flat" width="8" height="8" rgb1="1 0 0"/>
      <mesh file="there.obj"/><mesh file="missing.stl"/><mesh name="other" file="gone.stl"/>
      <hfield name="h" nrow="2" ncol="2" size="1 1 1 1" elevation="0 1 0 1"/>
      <material name="m" texture="t" rgba=".1 .2 .3 1"/><material name="n" texture="plain"/></asset>"""
    geoms = """<geom name="g" type="mesh" mesh="there" material="m"/><geom name="lost" type="mesh" mesh="missing"/>
      <geom type="mesh" mesh="other"/><geom size=".1" material="n"/>"""
    sensors = """<sensor><framepos name="s" objtype="geom" objname="g"/>
      <framepos name="r" objtype="geom" objname="lost"/></sensor><compiler meshdir="meshes"/>"""
    bodies = '<geom type="hfield" hfield="h"/>' + body("a", "<joint/>", geoms)
    path = tmp_path / "robot.xml"
    path.write_text(mjcf(bodies, assets + sensors))
    mj, _, left_out = compile_mjcf(path, read_source(path))
    assert sorted(left_out) == [(1, "missing", True), (1, "other", True)]
    assert (mj.ngeom, mj.nmesh, mj.nhfield, mj.nmat, mj.ntex, mj.nsensor) == (3, 1, 1, 2, 1, 1)
    assert_close(mj.mat_rgba[mj.geom_matid[mj.geom("g").id]], np.array([0.1, 0.2, 0.3, 1]))


def test_missing_meshes_of_what_is_fixed_to_the_world():
    scenery = '<body name="table"> <body> <geom type="mesh" mesh="m"/> </body> </body>'
    text = mjcf(scenery + body("base", "", body("a", "<joint/>")), '<asset><mesh name="m" file="missing.stl"/></asset>')
    assert load_mjcf(text).body_names == ("a",)
    total = text.replace("<mujoco>", '<mujoco><compiler settotalmass="3"/>')
    for source, floating_base in ((text, True), (total, False)):
        with pytest.raises(ValueError, match=r"Put the file 'missing\.stl' in its place"):
            load_mjcf(source, floating_base)


DECORATED = f"""
<mujoco>
  <asset>
    <mesh name="visual" file="missing.stl"/>
    <texture name="t" type="2d" file="missing.png"/>
    <material name="m" texture="t"/>
  </asset>
  <worldbody>
    <site name="origin" pos="0 0 1"/>
    <body name="a">
      <joint/> {INERTIAL}
      <site name="s" type="mesh" mesh="visual" material="m" pos="0 1 0"/>
      <flexcomp name="cloth" type="grid" count="2 2 1" spacing="1 1 1" dim="2" mass="1" rigid="true" material="m"/>
    </body>
  </worldbody>
  <tendon> <spatial name="cable" material="m"> <site site="origin"/> <site site="s"/> </spatial> </tendon>
</mujoco>"""


COMPILED = mjcf(
    body("base", "", body("a", '<joint name="j" damping="2"/>', '<site name="s" pos="0 0 1"/>')),
    """<equality><connect body1="a" body2="world" anchor="1 0 0"/></equality><actuator><motor joint="j"/></actuator>
    <keyframe><key name="k" qpos="1"/></keyframe><option gravity="0 0 -1"/>""",
)


@pytest.mark.parametrize("kind", [mujoco.MjModel.from_xml_string, mujoco.MjSpec.from_string])
@pytest.mark.parametrize("arguments", [{}, {"floating_base": True}, {"gravity": (1, 2, 3), "dtype": "float32"}])
@pytest.mark.parametrize("load", [load_mjcf, jaxcfa.load_model])
def test_what_mujoco_has_loaded(kind, arguments, load):
    """Gives the model of the text, leaf by leaf, and shares no memory with it."""
    loaded = kind(COMPILED)
    model, expected = load(loaded, **arguments), load_mjcf(COMPILED, **arguments)
    if kind is mujoco.MjModel.from_xml_string:
        for name in ("body_mass", "jnt_range", "dof_damping", "eq_data", "key_qpos", "qpos0"):
            getattr(loaded, name)[:] = 7
        loaded.opt.gravity[:] = 7
    assert eqx.tree_equal(model, expected)


def test_changes_made_in_mujoco_count():
    mj, spec = mujoco.MjModel.from_xml_string(COMPILED), mujoco.MjSpec.from_string(COMPILED)
    mj.body_mass[2] = spec.body("a").mass = 5.0
    for loaded in (mj, spec, spec):
        assert_close(load_mjcf(loaded).mass, np.full(1, 5.0))
    mj.body_mass[2] = np.nan
    with pytest.raises(ValueError, match=r"MjModel 'MuJoCo Model': body 'a': mass must be finite"):
        load_mjcf(mj)
    spec.body("a").inertia = [1, 1, 9]
    with pytest.raises(ValueError, match=r"MjSpec 'MuJoCo Model': MuJoCo cannot compile it: "):
        load_mjcf(spec)
    with pytest.raises(ValueError, match=r"MjModel .* is <mujoco>, but that of URDF is <robot>; `load_model` also"):
        load_urdf(mj)


def test_missing_files_of_a_specification_matter_only_for_masses():
    assert_close(load_mjcf(mujoco.MjSpec.from_string(MESHES.format(INERTIAL))).mass, np.ones(1))
    with pytest.raises(ValueError, match=r"Put the file 'missing\.stl' in its place"):
        load_mjcf(mujoco.MjSpec.from_string(MESHES.format("")))


def test_assets_of_a_text(tmp_path):
    part = f"<mujocoinclude><worldbody>{body('b', '<joint/>')}</worldbody></mujocoinclude>"
    mesh = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    assets = {"parts/part.xml": part.encode(), "meshes/m.obj": mesh}
    text = """<mujoco><include file="parts/part.xml"/><asset><mesh name="m" file="meshes/m.obj"/></asset>
        <worldbody><body><joint/><geom type="mesh" mesh="m"/></body></worldbody></mujoco>"""
    expected = mujoco.MjModel.from_xml_string(text, assets)
    for load in (load_mjcf, jaxcfa.load_model):
        assert_close(load(text, assets=assets).mass, expected.body_mass[1:])
    with pytest.raises(ValueError, match=r"of 'parts/part\.xml': mass='nan' must be finite"):
        load_mjcf(text, assets=assets | {"parts/part.xml": part.replace('mass="1"', 'mass="nan"').encode()})
    # One that includes itself by another folder is looked through once; MuJoCo says what is wrong.
    own = b'<mujocoinclude><default class="nano"/><include file="sub/a.xml"/></mujocoinclude>'
    with pytest.raises(ValueError, match=r"a\.xml"):
        load_mjcf('<mujoco><include file="sub/a.xml"/></mujoco>', assets={"a.xml": own, "sub/a.xml": own})
    for wrong in (["m.obj"], {"m.obj": "text"}):
        with pytest.raises(ValueError, match="assets must be a dictionary of bytes by the names of files"):
            load_mjcf(text, assets=wrong)
    for robot in (tmp_path / "robot.xml", expected):
        with pytest.raises(ValueError, match=r"assets are files that MJCF text names.*omit assets"):
            jaxcfa.load_model(robot, assets=assets)
    with pytest.raises(ValueError, match="but this is URDF: omit assets"):
        jaxcfa.load_model('<robot name="r"><link name="a"/></robot>', assets=assets)


@pytest.mark.parametrize("suffix", ["xml", "mjcf"])
def test_missing_files_of_tendons_sites_and_flexes(suffix, tmp_path):
    path = tmp_path / f"robot.{suffix}"
    path.write_text(DECORATED)
    assert set(notes_of(path)) == {"spatial tendons", "flexes"}
    with pytest.warns(ModelWarning):
        model = load_mjcf(path)
    assert_close(model.locate("s")[1].translation, np.array([0.0, 1.0, 0.0]))


def test_includes_and_any_suffix(tmp_path):
    (tmp_path / "part.xml").write_text(f"<mujocoinclude>{body('a', '<joint/>')}</mujocoinclude>")
    for name in ("robot.xml", "robot.mjcf"):
        (tmp_path / name).write_text(mjcf('<include file="part.xml"/>'))
        assert load_mjcf(tmp_path / name).body_names == ("a",)
    text = (tmp_path / "robot.xml").read_text()
    (tmp_path / "part.xml").unlink()
    with pytest.raises(ValueError, match=r"robot\.xml.*[\s\S]*Put the file 'part\.xml' in its place.$"):
        load_mjcf(tmp_path / "robot.xml")
    with pytest.raises(ValueError, match=r"'part\.xml' in its place\..*among assets and in the working directory"):
        load_mjcf(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<mujoco", "MuJoCo cannot compile it|well-formed"),
        ("<mujoco><nonsense/></mujoco>", "nonsense"),
        ("<robot name='r'/>", "load_urdf"),
        ("<html/>", "root element is <html>"),
        ("", "empty"),
        (b"<mujoco>\0</mujoco>", "binary"),
        (mjcf(body("a", '<joint type="screw"/>')), "screw"),
        (mjcf(body("a", '<joint axis="0 0 0"/>')), "axis too small"),
        (mjcf(body("a", '<joint name="j"/>') + body("b", '<joint name="j"/>')), "repeated name 'j'"),
        (mjcf("<body name='a'><joint/></body>"), "mass and inertia"),
        (mjcf(body("a", '<joint pos="nan 0 0"/>')), "<joint> on line 1: pos='nan 0 0' must be finite"),
        (mjcf(body("a", '<joint pos="0 -NaN(1) 0"/>')), "must be finite"),
        (mjcf(body("a", "<joint/>", pos="inf 0 0")), "finite"),
        (mjcf(body("a", '<joint damping="1e200"/>')), "damping must be finite, got 1e.200"),
        (mjcf(body("a", '<joint damping="-1"/>')), "damping of body 'a' must not be negative"),
        (mjcf(body("a", "<joint/>"), '<option gravity="nan 0 0"/>'), "gravity"),
    ],
)
def test_malformed_input(text, message):
    with pytest.raises(ValueError, match=message):
        load_mjcf(text)


def test_numbers_that_are_none_in_included_files(tmp_path):
    """Of files that are included by others, from their folder or that of the main file; and of models as assets."""
    (tmp_path / "parts").mkdir()
    main, part = tmp_path / "robot.xml", tmp_path / "parts" / "part.xml"
    main.write_text(mjcf("", '<include file="parts/part.xml"/>'))
    for folder in (tmp_path, tmp_path / "parts"):
        part.write_text('<mujoco><include file="limb.xml"/><include file="parts/part.xml"/></mujoco>')
        (folder / "limb.xml").write_text("\n" + mjcf(body("a", '<joint pos="nan 0 0"/>')))
        with pytest.raises(ValueError, match=r"robot\.xml: <joint> on line 2 of 'limb\.xml': pos='nan 0 0' must be"):
            load_mjcf(main)
        (folder / "limb.xml").unlink()
    part.write_text(mjcf(body("a", '<joint range="0 nan"/>')))
    main.write_text(mjcf("", '<asset><model name="m" file="parts/part.xml"/></asset>'))
    with pytest.raises(ValueError, match=r"on line 1 of 'parts/part\.xml': range='0 nan' must be finite"):
        load_mjcf(main)


def test_malformed_files(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.xml"):
        load_mjcf(tmp_path / "absent.xml")
    with pytest.raises(ValueError, match="file"):
        load_mjcf(tmp_path)
    (tmp_path / "broken.xml").write_bytes(bytes(range(256)))
    with pytest.raises(ValueError, match=r"broken\.xml"):
        load_mjcf(tmp_path / "broken.xml")


def test_loading_leaves_no_log_file_and_prints_nothing(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    with pytest.warns(ModelWarning, match="MuJoCo says: Inertia matrix is too close to singular"):
        load_mjcf(path_of("mjx/test_data/actuator/general_dyntype.xml"))
    with pytest.raises(ValueError, match="finite"):
        load_mjcf(mjcf(body("a", '<joint pos="nan 0 0"/>')))
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")


def test_the_remedy_without_mujoco(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ImportError, match=r"pip install -e '\.\[io\]' in a clone"):
        load_mjcf(mjcf(""))


_NUMBERS = st.sampled_from(["0", "-1", "1e30", "1e-30", "nan", "inf", "", "x", "0 0 0", "1 2 3 4 5 6 7 8", "true", "a"])
_PIECES = EQUALITIES.replace(">", ">\n").splitlines()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_only_value_errors_escape(data):
    """Delete an element's tag, or change the value of an attribute."""
    pieces = list(_PIECES)
    for _ in range(data.draw(st.integers(1, 2))):
        i = data.draw(st.integers(0, len(pieces) - 1))
        parts = pieces[i].split('"')
        if len(parts) < 3 or data.draw(st.integers(0, 4)) == 0:
            del pieces[i]
        else:
            k = 2 * data.draw(st.integers(0, len(parts) // 2 - 1)) + 1
            parts[k] = data.draw(_NUMBERS)
            pieces[i] = '"'.join(parts)
    text = "".join(pieces)
    with warnings.catch_warnings(), contextlib.suppress(ValueError):
        warnings.simplefilter("ignore", ModelWarning)
        model = load_mjcf(text, floating_base=data.draw(st.booleans()))
        assert all(np.all(np.isfinite(x)) for x in (model.mass, model.com, model.inertia, model.keyframes.q))


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.text(), st.binary(), st.text().map(lambda text: f"<mujoco>{text}")))
def test_junk_is_rejected(junk):
    assume(junk != b"<mujoco/>")  # which Hypothesis finds in the package; nothing is wrong with it
    with pytest.raises((ValueError, FileNotFoundError)):
        load_mjcf(junk)
