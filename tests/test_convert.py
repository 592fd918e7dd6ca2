"""Coordinates of Pinocchio and MuJoCo, on trees with every kind of joint that has others there."""

import functools
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pinocchio as pin
import pytest
from scipy.spatial.transform import Rotation

import jaxcfa
from helpers import assert_close
from jaxcfa.joints import Anchored, Composite, Free, Helical, Planar, Prismatic, Revolute, Spherical, Universal
from mechanisms import random_state
from mujoco_models import compiled, mass_matrix
from pinocchio_reference import Robots

X, Y, Z = np.eye(3)


class Joint(NamedTuple):
    """A joint in both packages, by name of its parent joint."""

    parent: str | None
    ours: jaxcfa.joints.AbstractJoint
    theirs: object


# Depth first, as Pinocchio's mass matrix demands.
JOINTS = {
    "base": Joint(None, Free(), pin.JointModelFreeFlyer()),
    "ball": Joint("base", Spherical(), pin.JointModelSpherical()),
    "wheel": Joint("ball", Revolute(Z), pin.JointModelRUBZ()),
    "puck": Joint("wheel", Planar(), pin.JointModelPlanar()),
    "slide": Joint("base", Prismatic(X), pin.JointModelPX()),
    "ship": Joint("slide", Free(), pin.JointModelFreeFlyer()),
    "screw": Joint("ship", Helical(X, 0.3), pin.JointModelHX(0.3)),
    "cross": Joint("screw", Universal(X, Y), pin.JointModelUniversal(X, Y)),
    "hinge": Joint(None, Revolute(Y), pin.JointModelRY()),
}
OTHER_ORDER = ("hinge", "base", "slide", "ball", "ship", "wheel", "screw", "puck", "cross")


def bodies():
    """Placement, mass, centre of mass and inertia for every joint."""
    rng = np.random.default_rng(0)
    for name in JOINTS:
        placement = np.eye(4)
        placement[:3, :3], placement[:3, 3] = Rotation.random(rng=rng).as_matrix(), rng.normal(size=3)
        principal = Rotation.random(rng=rng).as_matrix()
        inertia = principal @ np.diag(rng.uniform(1.0, 1.5, 3)) @ principal.T
        yield name, (placement, rng.uniform(1, 2), rng.normal(size=3) / 3, inertia)


def build(names=tuple(JOINTS)) -> jaxcfa.Model:
    builder, parameters = jaxcfa.ModelBuilder(), dict(bodies())
    for name in names:
        placement, mass, com, inertia = parameters[name]
        options = {"mass": mass, "com": com, "inertia": inertia, "joint_name": name}
        builder.add_body(
            f"{name}_body",
            JOINTS[name].parent and f"{JOINTS[name].parent}_body",
            JOINTS[name].ours,
            placement,
            **options,
        )
    return builder.build()


def build_pinocchio(names=tuple(JOINTS)) -> pin.Model:
    model, parameters = pin.Model(), dict(bodies())
    for name in names:
        placement, mass, com, inertia = parameters[name]
        parent = model.getJointId(JOINTS[name].parent) if JOINTS[name].parent else 0
        joint = model.addJoint(parent, JOINTS[name].theirs, pin.SE3(placement), name)
        model.appendBodyToJoint(joint, pin.Inertia(mass, com, inertia), pin.SE3.Identity())
    return model


class Setting(NamedTuple):
    model: jaxcfa.Model
    pin_model: pin.Model
    coordinates: jaxcfa.convert.Pinocchio
    q: jax.Array
    v: jax.Array
    qdd: jax.Array


@functools.cache
def setting() -> Setting:
    model, pin_model = build(), build_pinocchio()
    q, v, qdd, _ = random_state(model)
    return Setting(model, pin_model, jaxcfa.convert.Pinocchio(model, pin_model), q, v, qdd)


@pytest.mark.slow
def test_same_as_pinocchio():
    s = setting()
    both, state = Robots([s.model], [s.pin_model]), (s.q, s.v, s.qdd)
    (ours,) = both.quantities(*state)
    (theirs,) = both.pinocchio_quantities(*state, ours["inverse dynamics"])
    for name in theirs:
        assert_close(ours[name], theirs[name], 1e-10 if name == "forward dynamics" else 1e-12)


def test_velocities_are_rates_of_configurations():
    """By differences on Pinocchio's manifold."""
    s = setting()
    h = 1e-5
    before, after = (np.asarray(s.coordinates.q_to(jaxcfa.integrate(s.model, s.q, s.v, t))) for t in (-h, h))
    rate = pin.difference(s.pin_model, before, after) / (2 * h)
    assert_close(s.coordinates.v_to(s.q, s.v), rate, 1e-8)


def maps(coordinates):
    """There and back for everything, compiled together."""

    @jax.jit
    def run(q, v, matrix):
        c, jacobian = coordinates, matrix[:6]
        return {
            "map": c.velocity_map(q),
            "there": (c.v_to(q, v), c.tau_to(q, v), c.jacobian_to(q, jacobian), c.mass_matrix_to(q, matrix)),
            "q": c.q_from(c.q_to(q)),
            "v": c.v_from(q, c.v_to(q, v)),
            "qdd": c.qdd_from(q, v, c.qdd_to(q, v, matrix[0])),
            "tau": c.tau_from(q, c.tau_to(q, v)),
            "jacobian": c.jacobian_from(q, c.jacobian_to(q, jacobian)),
            "mass matrix": c.mass_matrix_from(q, c.mass_matrix_to(q, matrix)),
        }

    return run


def test_maps_are_undone(dtype):
    s = setting()
    matrix = jax.random.normal(jax.random.key(1), (s.model.nv, s.model.nv))
    # Plain numpy arrays, as other packages have them.
    q, v, matrix = (np.asarray(x, dtype) for x in (s.q, s.v, matrix))
    coordinates = jaxcfa.convert.Pinocchio(s.model.astype(dtype), s.pin_model)
    result = maps(coordinates)(q, v, matrix)
    assert all(x.dtype == dtype for x in jax.tree.leaves(result))
    expected = {"q": q, "v": v, "qdd": matrix[0], "tau": v, "jacobian": matrix[:6], "mass matrix": matrix}
    rounding = 50 * float(jnp.finfo(dtype).eps)
    for name, value in expected.items():
        assert_close(result[name], value, rounding)
    # Power and energy are the same in both, and the rows of Jacobians trade places.
    assert_close(result["map"] @ result["map"].T, np.eye(s.model.nv), rounding)
    v_there, tau_there, jacobian_there, matrix_there = result["there"]
    assert_close(tau_there @ v_there, v @ v, rounding)
    assert_close(jnp.roll(jacobian_there @ v_there, 3), matrix[:6] @ v, rounding)
    assert_close(v_there @ matrix_there @ v_there, v @ matrix @ v, rounding)


def test_quaternions_of_any_length():
    """Pinocchio takes them as they are."""
    s = setting()
    rows = [s.model.q_slice(name) for name in ("base", "ball", "ship")]
    longer = s.q
    for row in rows:
        longer = longer.at[row.stop - 4 : row.stop].multiply(3.0)
    assert_close(s.coordinates.q_to(longer), np.asarray(s.coordinates.q_to(s.q)), 1e-15)
    with pytest.raises(ValueError, match="quaternion of joint 'base' and must not be zero"):
        s.coordinates.q_to(np.zeros(s.model.nq))
    with pytest.raises(ValueError, match=r"the result q.* is the quaternion of joint 'base' and must not be zero"):
        s.coordinates.q_from(np.zeros(s.pin_model.nq))


def test_angles_come_back_within_one_turn():
    s = setting()
    q = s.q.at[s.model.q_slice("wheel")].set(7.0)
    again = s.coordinates.q_from(s.coordinates.q_to(q))
    assert_close(again[s.model.q_slice("wheel")], np.array([7.0 - 2 * np.pi]), 1e-14)


def test_joints_are_matched_by_name():
    """A model with its bodies in another order has the same coordinates there."""
    s = setting()
    other = build(OTHER_ORDER)
    assert other.joint_names == OTHER_ORDER
    coordinates = jaxcfa.convert.Pinocchio(other, s.pin_model)
    q, v = np.zeros(other.nq), np.zeros(other.nv)
    for name in OTHER_ORDER:
        q[other.q_slice(name)], v[other.v_slice(name)] = s.q[s.model.q_slice(name)], s.v[s.model.v_slice(name)]
    assert_close(coordinates.q_to(q), np.asarray(s.coordinates.q_to(s.q)), 1e-15)
    assert_close(coordinates.v_to(q, v), np.asarray(s.coordinates.v_to(s.q, s.v)), 1e-14)
    assert_close(coordinates.v_from(q, coordinates.v_to(q, v)), v, 1e-14)


def test_what_pinocchio_reads_from_mjcf(tmp_path):
    """Several joints of one body, which have one name there, and another one here."""
    file = tmp_path / "robot.xml"
    file.write_text(
        """<mujoco><worldbody><body name="trunk"> <freejoint name="base"/> <geom type="box" size="0.1 0.2 0.3"/>
          <body name="arm" pos="0.2 0 0">
            <joint name="yaw" pos="0.1 0 0.2"/> <joint name="lift" type="slide" axis="1 0 1"/> <geom size="0.1"/>
            <body name="hand">
              <joint name="wrist" type="ball"/> <geom type="box" size="0.1 0.2 0.1" pos="0.1 0 0"/>
            </body>
          </body>
        </body></worldbody></mujoco>"""
    )
    model, pin_model = jaxcfa.load_model(file), pin.buildModelFromMJCF(str(file))
    assert (model.joint_names[1], pin_model.names[2]) == ("yaw+lift", "Composite_yaw")
    coordinates = jaxcfa.convert.Pinocchio(model, pin_model)
    q, v = jaxcfa.random_configuration(model, jax.random.key(0)), jnp.linspace(-1, 1, model.nv)
    state = coordinates.q_to(q), coordinates.v_to(q, v)
    bias = pin.nonLinearEffects(pin_model, pin_model.createData(), *map(np.asarray, state))
    assert_close(coordinates.tau_from(q, bias), jaxcfa.inverse_dynamics(model, q, v, coordinates.qdd_from(q, v, 0 * v)))


def test_batches():
    s = setting()
    qs = jnp.stack([s.q, jaxcfa.neutral(s.model)])
    there = jax.vmap(s.coordinates.q_to)(qs)
    assert_close(there[0], np.asarray(s.coordinates.q_to(s.q)), 1e-15)
    assert_close(there[1], pin.neutral(s.pin_model), 1e-15)


def test_other_joints_are_refused():
    names = list(JOINTS)
    with pytest.raises(ValueError, match=r"differ: \['hinge'\] are not in the Pinocchio model, \[\] only there"):
        jaxcfa.convert.Pinocchio(build(), build_pinocchio(names[:-1]))
    with pytest.raises(ValueError, match=r"\[\] are not in the Pinocchio model, \['hinge'\] only there"):
        jaxcfa.convert.Pinocchio(build(names[:-1]), build_pinocchio())
    builder = jaxcfa.ModelBuilder()
    builder.add_body("a", joint=Spherical(), joint_name="base")
    with pytest.raises(ValueError, match=r"'base', a Spherical, should have 4 configuration coordinates .* but has 7"):
        jaxcfa.convert.Pinocchio(builder.build(), build_pinocchio(names[:1]))


def test_planes_that_pinocchio_does_not_know_are_refused():
    """Of a file, it reads all planar joints as those in the plane of x and y."""
    mass = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    text = (
        f'<robot name="r"><link name="a"/><link name="b">{mass}</link><link name="c">{mass}</link>'
        '<joint name="level" type="planar"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/></joint>'
        '<joint name="wall" type="planar"><parent link="b"/><child link="c"/><axis xyz="%s"/></joint></robot>'
    )
    jaxcfa.convert.Pinocchio(jaxcfa.load_model(text % "0 0 2"), pin.buildModelFromXML(text % "0 0 2"))
    for axis in ("1 0 0", "0 0 -1"):
        with pytest.raises(ValueError, match=r"'wall' has the normal .* Pinocchio's have z and x"):
            jaxcfa.convert.Pinocchio(jaxcfa.load_model(text % axis), pin.buildModelFromXML(text % axis))


def test_quaternions_inside_of_other_joints():
    """Poses of bodies, and rates of configurations."""
    anchor = np.array([0.1, -0.2, 0.3])
    builder = jaxcfa.ModelBuilder()
    builder.add_body("a", None, Anchored(Spherical(), anchor), (0.0, 0.0, 1.0), joint_name="ball")
    parts = Prismatic(X), Spherical(), Revolute(Y), Free()
    builder.add_body("b", "a", Composite(parts), (0.5, 0.0, 0.0), joint_name="several")
    builder.add_body("c", None, Composite((Anchored(Spherical(), anchor), Planar())), joint_name="more")
    model = builder.build()
    pin_model, several, more = pin.Model(), pin.JointModelComposite(), pin.JointModelComposite()
    for part in (pin.JointModelPX(), pin.JointModelSpherical(), pin.JointModelRY(), pin.JointModelFreeFlyer()):
        several.addJoint(part)
    more.addJoint(pin.JointModelSpherical(), pin.SE3(np.eye(3), anchor))
    more.addJoint(pin.JointModelPlanar(), pin.SE3(np.eye(3), -anchor))
    ball = pin_model.addJoint(0, pin.JointModelSpherical(), pin.SE3(np.eye(3), anchor + Z), "ball")
    pin_model.addJoint(ball, several, pin.SE3(np.eye(3), 0.5 * X - anchor), "several")
    pin_model.addJoint(0, more, pin.SE3.Identity(), "more")

    coordinates = jaxcfa.convert.Pinocchio(model, pin_model)
    start, v = np.random.default_rng(0).normal(size=(2, model.nv))
    h = 1e-5

    @jax.jit
    def run(start, v):
        q = jaxcfa.integrate(model, jaxcfa.neutral(model), start)
        steps = jnp.array([-h, 0.0, h])
        path = jax.vmap(lambda t: coordinates.q_to(jaxcfa.integrate(model, q, v, t)))(steps)
        return path, coordinates.v_to(q, v), jaxcfa.forward_kinematics(model, q).as_matrix()

    (before, now, after), v_pin, poses = map(np.asarray, run(start, v))
    data = pin_model.createData()
    pin.forwardKinematics(pin_model, data, now)
    expected = [data.oMi[1] * pin.SE3(np.eye(3), -anchor), *data.oMi.tolist()[2:]]
    assert_close(poses, np.stack([pose.homogeneous for pose in expected]), 1e-12)
    assert_close(v_pin, pin.difference(pin_model, before, after) / (2 * h), 1e-8)


class Tilt(Universal):
    """A type of a user's own, which says that it has a quaternion."""

    quaternions: ClassVar[tuple[int, ...]] = (0,)


def test_quaternions_of_other_types_are_refused():
    pin_model = pin.Model()
    pin_model.addJoint(0, pin.JointModelUniversal(X, Y), pin.SE3.Identity(), "tilt")
    builder = jaxcfa.ModelBuilder()
    builder.add_body("a", None, Tilt(X, Y), joint_name="tilt")
    with pytest.raises(ValueError, match="quaternions of a joint of type Tilt cannot be converted; only those of Free"):
        jaxcfa.convert.Pinocchio(builder.build(), pin_model)


def test_wrong_shapes_are_refused():
    s = setting()
    with pytest.raises(ValueError, match=rf"q must have shape \({s.model.nq},\), got \(3,\)"):
        s.coordinates.q_to(np.zeros(3))
    with pytest.raises(ValueError, match=rf"q_other must have shape \({s.pin_model.nq},\), got \(4,\)"):
        s.coordinates.q_from(np.zeros(4))


# Arguments that pass through the products, and come out as something else.
SHAPES = {
    r"v must have shape \(2,\), got \(2, 5\)": lambda c, q: c.v_to(q, np.ones((2, 5))),
    r"v_other must have shape \(2,\), got \(5, 2\)\. .* jax.vmap": lambda c, q: c.v_from(q, np.ones((5, 2))),
    r"qdd must have shape \(2,\), got \(2, 1\)": lambda c, q: c.qdd_to(q, [0, 0], np.ones((2, 1))),
    r"qdd_other must have shape \(2,\), got \(\)": lambda c, q: c.qdd_from(q, [0, 0], 1.0),
    r"tau must have shape \(2,\), got \(2, 2\)": lambda c, q: c.tau_to(q, np.eye(2)),
    r"tau_other must have shape \(2,\), got \(2, 2\)": lambda c, q: c.tau_from(q, np.eye(2)),
    r"jacobian must have shape \(6, 2\), got \(3, 2\)": lambda c, q: c.jacobian_to(q, np.ones((3, 2))),
    r"jacobian_other must have shape \(6, 2\), got \(8, 6, 2\)": lambda c, q: c.jacobian_from(q, np.ones((8, 6, 2))),
    r"mass_matrix must have shape \(2, 2\), got \(2,\)": lambda c, q: c.mass_matrix_to(q, np.ones(2)),
    r"mass_matrix_other must have shape \(2, 2\), got \(2,\)": lambda c, q: c.mass_matrix_from(q, np.ones(2)),
    r"pin_model must be a pinocchio.Model, got Model": lambda c, q: jaxcfa.convert.Pinocchio(c, jaxcfa.chain(1)),
    r"mj_model must be a mujoco.MjModel or None, got 'arm.xml'": lambda c, q: jaxcfa.convert.MuJoCo(c, "arm.xml"),
}


@pytest.mark.parametrize("message", SHAPES)
def test_what_is_converted_has_one_shape(message):
    model = jaxcfa.chain(2)
    with pytest.raises(ValueError, match=message):
        SHAPES[message](model if "_model" in message else jaxcfa.convert.MuJoCo(model), [0, 1])


def test_jacobian_of_one_joint_is_a_single_column_in_pinocchio():
    pin_model = pin.Model()
    pin_model.addJoint(0, pin.JointModelRY(), pin.SE3.Identity(), "swing")
    jacobian = pin.computeJointJacobians(pin_model, pin_model.createData(), np.zeros(1))
    builder = jaxcfa.ModelBuilder()
    builder.add_body("a", None, Revolute(Y), joint_name="swing", mass=1.0)
    coordinates = jaxcfa.convert.Pinocchio(builder.build(), pin_model)
    assert_close(coordinates.jacobian_from([0.0], jacobian), np.eye(6)[:, 1:2])


def test_lists_are_converted():
    coordinates = jaxcfa.convert.MuJoCo(jaxcfa.chain(2))
    assert np.array_equal(coordinates.v_to([0, 1], [1, 2]), [1, 2])
    assert np.array_equal(coordinates.qdd_from([0, 1], [1, 2], [3, 4]), [3, 4])
    assert np.array_equal(coordinates.mass_matrix_from([0, 1], [[1, 2], [2, 3]]), [[1, 2], [2, 3]])


INERTIAL = "<inertial pos='.1 .2 .3' mass='1' diaginertia='.1 .2 .15'/>"
BRANCHES = (
    f"""<body name='arm' pos='1 0 0'>{INERTIAL}<joint name='swing' axis='0 1 0'/>
          <body name='hand'>{INERTIAL}<joint name='ball' type='ball'/></body></body>""",
    f"""<body name='leg' pos='0 1 0'>{INERTIAL}<joint name='out' type='slide' axis='0 0 1'/>
          <joint name='turn' axis='1 0 0'/></body>""",
)
LOOSE = f"<body name='rock'>{INERTIAL}<freejoint/></body>"


def mjcf(*parts: str) -> str:
    return f"<mujoco><worldbody>{''.join(parts)}</worldbody></mujoco>"


@pytest.fixture(scope="module")
def mujoco_pair():
    """A model, and MuJoCo's with the branches in another order."""
    model = jaxcfa.load_model(mjcf(*BRANCHES, LOOSE))
    mj_model = compiled(mjcf(LOOSE, *BRANCHES[::-1]))
    assert model.joint_names == ("swing", "ball", "out+turn", "rock_joint")
    return model, mj_model


def test_mujoco_coordinates_by_name(mujoco_pair):
    model, mj_model = mujoco_pair
    coordinates = jaxcfa.convert.MuJoCo(model, mj_model)
    q, *_ = random_state(model)
    data = mujoco.MjData(mj_model)
    data.qpos[:] = coordinates.q_to(q)
    mujoco.mj_forward(mj_model, data)
    ours = jaxcfa.mass_matrix(model, q)
    assert_close(ours, np.asarray(coordinates.mass_matrix_from(q, mass_matrix(mj_model, data))), 1e-12)
    assert_close(coordinates.tau_to(q, jaxcfa.bias_forces(model, q, jnp.zeros(model.nv))), data.qfrc_bias, 1e-12)
    assert_close(coordinates.q_from(data.qpos.copy()), np.asarray(q), 1e-15)
    # Coordinates are permuted, and no more.
    assert_close(sorted(coordinates.q_to(q).tolist()), sorted(q.tolist()), 1e-15)


def test_mujoco_rows_of_jacobians(mujoco_pair):
    model, mj_model = mujoco_pair
    coordinates = jaxcfa.convert.MuJoCo(model, mj_model)
    q, *_ = random_state(model)
    data = mujoco.MjData(mj_model)
    data.qpos[:] = coordinates.q_to(q)
    mujoco.mj_kinematics(mj_model, data)
    mujoco.mj_comPos(mj_model, data)
    both = np.zeros((6, mj_model.nv))
    mujoco.mj_jacBody(mj_model, data, both[:3], both[3:], mj_model.body("hand").id)
    assert_close(coordinates.jacobian_to(q, jaxcfa.jacobian(model, q, "hand")), both, 1e-12)


def test_names_of_joints_with_plus_signs(tmp_path):
    """Which are between the names of joints that share a body, too."""
    leg = BRANCHES[1].replace("name='out'", "name='in+out'")
    model, mj_model = jaxcfa.load_model(mjcf(BRANCHES[0], leg)), compiled(mjcf(leg, BRANCHES[0]))
    assert model.joint_names == ("swing", "ball", "in+out+turn")
    q = np.arange(1.0, 8)
    assert np.array_equal(jaxcfa.convert.MuJoCo(model, mj_model).q_to(q), [6, 7, 1, 2, 3, 4, 5])
    file = tmp_path / "leg.xml"
    file.write_text(mjcf(leg))
    coordinates = jaxcfa.convert.Pinocchio(jaxcfa.load_model(file), pin.buildModelFromMJCF(str(file)))
    assert np.array_equal(coordinates.q_to([1.0, 2]), [1, 2])


def test_mujoco_coordinates_of_a_model_read_from_mjcf(mujoco_pair):
    """They are the same."""
    model, _ = mujoco_pair
    coordinates = jaxcfa.convert.MuJoCo(model)
    q, v, qdd, _ = random_state(model)
    assert np.array_equal(coordinates.q_to(q), q)
    assert np.array_equal(coordinates.velocity_map(q), np.eye(model.nv))
    assert np.array_equal(coordinates.qdd_to(q, v, qdd), qdd)


MOTORS = (
    "<general joint='ball' gear='0 1 0'/>",
    "<general name='muscle' joint='swing' dyntype='integrator' ctrlrange='0 1'/>",
    "<position name='servo' joint='out' kp='10'/>",
    "<motor name='pull' tendon='rope'/>",
    "<motor joint='turn' gear='3'/>",
)
ROPE = "<tendon><fixed name='rope'><joint joint='out' coef='2'/></fixed></tendon>"


def driven(*motors: str) -> str:
    rope = ROPE if any("rope" in motor for motor in motors) else ""
    return f"<mujoco><worldbody>{''.join(BRANCHES)}</worldbody>{rope}<actuator>{''.join(motors)}</actuator></mujoco>"


def test_mujoco_controls():
    """Those of actuators that are not modelled are left out; unnamed ones are called by their number."""
    with pytest.warns(UserWarning, match="muscle"):
        model = jaxcfa.load_model(driven(*MOTORS))
    assert model.actuators.names == ("actuator0", "servo", "pull", "actuator4")
    mj_model = compiled(driven(*MOTORS))
    data, coordinates = mujoco.MjData(mj_model), jaxcfa.convert.MuJoCo(model, mj_model)
    data.ctrl[:] = [1, 2, 3, 4, 5]
    control = coordinates.control_from(data.ctrl)
    assert control.tolist() == [1, 3, 4, 5]
    assert coordinates.control_to([6.0, 7, 8, 9]).tolist() == [6, 0, 7, 8, 9]
    assert coordinates.control_to([6.0, 7, 8, 9], others=data.ctrl).tolist() == [6, 2, 7, 8, 9]
    assert np.array_equal(jax.jacobian(coordinates.control_to)(control), np.eye(5)[:, [0, 2, 3, 4]])
    assert jax.vmap(coordinates.control_from)(np.eye(5)).shape == (5, 4)
    # The same forces, but for those of the actuators that are not modelled.
    q, *_ = random_state(model)
    data.qpos[:], data.ctrl[:] = coordinates.q_to(q), coordinates.control_to(control)
    mujoco.mj_forward(mj_model, data)
    tau = jaxcfa.actuator_forces(model, q, jnp.zeros(model.nv), control)
    assert_close(coordinates.tau_to(q, tau), data.qfrc_actuator, 1e-12)
    # By name, in another order, and of some of the actuators only.
    other = jaxcfa.convert.MuJoCo(jaxcfa.load_model(driven(MOTORS[2])), compiled(driven(*MOTORS[1:3])))
    assert other.control_from([1.0, 2]).tolist() == [2]


def test_mujoco_controls_that_are_not_known():
    model, mj_model = jaxcfa.load_model(driven(MOTORS[2])), compiled(driven(MOTORS[2]))
    with pytest.raises(ValueError, match=r"give the MuJoCo model, too, convert.MuJoCo\(model, mj_model\)"):
        jaxcfa.convert.MuJoCo(model).control_to([1.0])
    with pytest.raises(ValueError, match=r"\['servo'\] are not in the MuJoCo model.*; that has \[\]"):
        jaxcfa.convert.MuJoCo(model, compiled(mjcf(*BRANCHES))).control_from([])
    coordinates = jaxcfa.convert.MuJoCo(model, mj_model)
    with pytest.raises(ValueError, match=r"control_other must have shape \(1,\), got \(4, 1\)\. .* jax.vmap"):
        coordinates.control_from(np.zeros((4, 1)))
    with pytest.raises(ValueError, match=r"others must have shape \(1,\), got \(2,\)"):
        coordinates.control_to([1.0], [1.0, 2])


def test_other_mujoco_joints_are_refused(mujoco_pair):
    model, _ = mujoco_pair
    with pytest.raises(ValueError, match=r"\['rock_joint'\] are not in the MuJoCo model, \[\] only there"):
        jaxcfa.convert.MuJoCo(model, compiled(mjcf(*BRANCHES)))
    changed = (branch.replace("type='ball'", "type='hinge'") for branch in BRANCHES)
    with pytest.raises(ValueError, match=r"'ball', a Spherical, should have 4 configuration coordinates .* but has 1"):
        jaxcfa.convert.MuJoCo(model, compiled(mjcf(*changed, LOOSE)))
