"""Models taken apart, put together and changed: against Pinocchio, and against the models they are made of."""

import dataclasses
import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pinocchio as pin
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa import (
    CFA,
    ModelBuilder,
    Transform,
    attach,
    closed_chains,
    lock_joints,
    rename,
    subtree,
    with_body,
    with_joint,
)
from jaxcfa.joints import Composite, Fixed, Free, Planar, Prismatic, Revolute, Universal
from jaxcfa.model import (
    AbstractConstraint,
    AbstractFrameConstraint,
    Actuators,
    JointCoupling,
    Keyframes,
    inertia_problems,
    massless_subtrees,
)
from jaxcfa.model._arguments import driven_coordinates
from mechanisms import random_state
from pinocchio_reference import Robots
from robots import urdf_path

BODY = {"mass": 1.0, "com": (0.02, 0.0, 0.1), "inertia": (0.02, 0.03, 0.02)}


def reduced_pair(name, floating_base, joints, seed=1):
    """A robot with locked joints, here and in Pinocchio."""
    path = urdf_path(name)
    model = jaxcfa.load_model(path, floating_base, dtype="float64")
    pin_model = pin.buildModelFromUrdf(str(path), *([pin.JointModelFreeFlyer()] if floating_base else []))
    q = random_state(model, seed).q
    q_pin = np.asarray(jaxcfa.convert.Pinocchio(model, pin_model).q_to(q))
    numbers = [pin_model.getJointId(joint) for joint in joints]
    return lock_joints(model, joints, q), pin.buildReducedModel(pin_model, numbers, q_pin)


def attached_pair():
    """A pendulum on the hand of an arm, here and in Pinocchio, which knows of the mass of its fixed base."""
    paths = [urdf_path("panda.urdf"), urdf_path("double_pendulum_continuous.urdf")]
    arm, pendulum = (jaxcfa.load_model(path, i == 1, dtype="float64") for i, path in enumerate(paths))
    pin_arm, pin_pendulum = (pin.buildModelFromUrdf(str(path)) for path in paths)
    pose = pin.SE3(pin.exp3(np.array([0.3, -0.5, 0.2])), np.array([0.1, 0.2, 0.3]))
    placement = Transform(jnp.asarray(pose.rotation), jnp.asarray(pose.translation))
    frame = pin_arm.getFrameId("panda_hand")
    model = attach(arm, "panda_hand", pendulum, placement, weld=True)
    return model, pin.appendModel(pin_arm, pin_pendulum, frame, pose)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::jaxcfa.io.ModelWarning")
def test_pinocchio_agrees():
    """As one forest, and so one program."""
    legs = ["FL_hip_joint", "FL_thigh_joint", "FL_calf_joint", "RR_thigh_joint"]
    pairs = [
        reduced_pair("panda.urdf", False, ["panda_joint1", "panda_joint3", "panda_joint4", "panda_finger_joint2"]),
        reduced_pair("a1_description/urdf/a1.urdf", True, legs),
        reduced_pair("a1_description/urdf/a1.urdf", True, ["root_joint", *legs[1:]]),
        attached_pair(),
    ]
    both = Robots(*zip(*pairs, strict=True))
    q, v, qdd, _ = random_state(both.model)

    @jax.jit
    def ours(model, q, v, qdd):
        poses = jaxcfa.forward_kinematics(model, q)
        frames = np.array(model.topology.frame_bodies)
        world = jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]]), poses, Transform.identity())
        placed = (world[frames] @ model.frame_placement).as_matrix()
        return placed, jaxcfa.inverse_dynamics(model, q, v, qdd), jaxcfa.mass_matrix(model, q)

    frames, tau, mass = map(np.asarray, ours(both.model, q, v, qdd))
    theirs = both.pinocchio_quantities(q, v, qdd, tau)
    q_pin = np.asarray(both.coordinates.q_to(q))
    starts = np.cumsum([0, *(len(model.frame_names) for model in both.models)])
    for number, (dof, expected) in enumerate(zip(both.dofs, theirs, strict=True)):
        assert_close(tau[dof], expected["inverse dynamics"], 1e-9)
        assert_close(mass[dof, dof], expected["mass matrix"], 1e-9)
        pin_model = both.pin_models[number]
        data = pin_model.createData()
        pin.framesForwardKinematics(pin_model, data, q_pin[both.q_pin[number]])
        for row, name in enumerate(both.models[number].frame_names, starts[number]):
            assert_close(frames[row], data.oMf[pin_model.getFrameId(name, pin.BODY)].homogeneous, 1e-9, name)


def mixed():
    """Joints of several kinds, composites too, two of them on the world."""
    builder = ModelBuilder()
    wrist = Composite((Prismatic((1, 0, 0)), Revolute((0, 0, 1))))
    builder.add_body("trunk", joint=Free(), **BODY)
    builder.add_body("upper", "trunk", Revolute((0, 1, 0)), (0, 0, 0.4), lower=-0.5, upper=1.0, damping=0.4, **BODY)
    builder.add_body("hand", "upper", wrist, (0, 0, 0.4), joint_name="slide+turn", armature=0.1, **BODY)
    builder.add_body("finger", "hand", Revolute((0, 1, 1)), (0.1, 0, 0.2), joint_name="bend", **BODY)
    builder.add_body("tip", "finger", Revolute((1, 0, 0)), (0.1, 0, 0.2), joint_name="curl", armature=0.1)
    builder.add_body("tail", "trunk", Revolute((0, 1, 0)), (0, 0, -0.4), joint_name="wag", **BODY)
    builder.add_body("post", None, Revolute((1, 0, 1)), (0, 1, 0), joint_name="yaw", **BODY)
    builder.add_body("sign", "post", Revolute((0, 1, 0)), (0, 1, 0), joint_name="pitch", **BODY)
    builder.add_frame("nail", "tip", (0.0, 0.0, 0.3))
    builder.add_frame("eye", "hand", (0.0, 0.2, 0.3))
    return builder.build()


# The hand and both links of the finger, of which the last has no mass, become parts of the upper arm.
LOCKED = ["slide+turn", "bend", "curl", "yaw"]


def all_close(actual, expected):
    """Also where limits are infinite."""
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12), actual, expected)


def coordinates(model, joints):
    """Masks of the coordinates that stay."""
    stays = ~np.isin(np.arange(model.nb), [model.joint_index(joint) for joint in joints])
    return np.repeat(stays, model.topology.nqs), np.repeat(stays, model.topology.nvs)


@pytest.mark.slow
def test_locked_joints_are_held_joints():
    """Torques are those of the whole with joints at rest, and so are derivatives of energy by all masses."""
    model = mixed()
    x = random_state(model)
    q_mask, v_mask = coordinates(model, LOCKED)
    q_kept, v_kept = np.flatnonzero(q_mask), np.flatnonzero(v_mask)

    @jax.jit
    def everything(model, x):
        v, qdd = x.v * v_mask, x.qdd * v_mask

        def energy(mass, lock):
            heavy = eqx.tree_at(lambda m: m.mass, model, mass)
            if not lock:
                return jaxcfa.kinetic_energy(heavy, x.q, v)
            return jaxcfa.kinetic_energy(lock_joints(heavy, LOCKED, x.q), x.q[q_kept], v[v_kept])

        slopes, found = (jax.grad(energy)(model.mass, lock) for lock in (False, True))
        part = lock_joints(model, LOCKED, x.q)
        expected = jaxcfa.inverse_dynamics(model, x.q, v, qdd)[v_kept]
        tau = jaxcfa.inverse_dynamics(part, x.q[q_kept], v[v_kept], qdd[v_kept])
        state = x.q[q_kept], v[v_kept], tau
        solved = jaxcfa.forward_dynamics(part, *state, method=CFA())
        poses = [jaxcfa.frame_pose(m, q, "nail") for m, q in ((part, state[0]), (model, x.q))]
        return (tau, found, poses[0]), (expected, slopes, poses[1]), solved, part

    actual, expected, solved, part = everything(model, x)
    assert_close(actual, expected, 1e-11)
    assert_close(solved, x.qdd[v_kept], 1e-9)
    outside = lock_joints(model, LOCKED, x.q)
    assert outside.topology == part.topology
    all_close(outside, part)
    assert outside.body_names == ("trunk", "upper", "tail", "sign")
    assert outside.frame_names == ("nail", "eye", "hand", "finger", "tip", "post")
    assert outside.body("upper").frames == ("nail", "eye", "hand", "finger", "tip")
    assert outside.limits.lower[outside.q_slice("upper_joint")] == -0.5


FLANGE = np.array([[0.0, -1.0, 0.0, 0.1], [1.0, 0.0, 0.0, 0.2], [0.0, 0.0, 1.0, 0.3], [0.0, 0.0, 0.0, 1.0]])
OFFSET = (0.0, 0.1, 0.2)


def add_arm(builder):
    builder.add_body("upper", joint=Revolute((0, 1, 0)), placement=(0, 0, 0.3), **BODY)
    builder.add_body("lower", "upper", Prismatic((0, 0, 1)), (0, 0.1, 0.4), damping=0.3, **BODY)
    builder.add_body("flange", "lower", Fixed(), FLANGE)


def add_hand(builder, base, joint, placement=None):
    builder.add_body("palm", base, joint, placement, **BODY)
    for side in (-1, 1):
        name = f"finger{side}"
        builder.add_body(name, "palm", Prismatic((0, side, 0)), (0, 0.05 * side, 0.1), armature=0.2, upper=0.1, **BODY)
    builder.add_frame("nail", "finger1", (0, 0, 0.05))


def built(*parts, gravity=(0.0, 0.0, -9.81)):
    builder = ModelBuilder()
    for add, *arguments in parts:
        add(builder, *arguments)
    return builder.build(gravity=gravity)


def same(actual, expected):
    """Equal but for the order of frames."""
    order = [actual.frame_names.index(name) for name in expected.frame_names]
    placement = jax.tree.map(lambda x: x[np.array(order, dtype=int)], actual.frame_placement)
    topology = actual.topology.replace(
        frame_names=expected.frame_names, frame_bodies=actual.topology.frame_bodies[order]
    )
    assert len(actual.frame_names) == len(expected.frame_names)
    assert topology == expected.topology
    all_close(dataclasses.replace(actual, topology=topology, frame_placement=placement), expected)


def test_attached_hand_is_one_that_was_built_there():
    """Welded by its palm, whose mass counts; and with a fixed base, where nothing of the palm is left but its frame."""
    arm = built((add_arm,))
    free = built((add_hand, None, Free()), gravity=(0, 0, 0))
    whole = built((add_arm,), (add_hand, "flange", Fixed(), OFFSET))
    same(attach(arm, "flange", free, OFFSET, weld=True), whole)
    same(subtree(attach(arm, "flange", free, OFFSET), "palm"), moved_root(free, arm, "palm"))
    bare = built((add_hand, None, Fixed()))
    without_mass = attach(arm, "flange", bare, OFFSET)
    lighter = jaxcfa.with_body(whole, "lower", mass=1.0, com=BODY["com"], inertia=BODY["inertia"])
    same(without_mass, lighter)
    same(jaxcfa.add_payload(without_mass, "palm", **BODY), whole)


def moved_root(free, arm, body):
    """The free hand where it hangs on the arm: as a subtree it keeps that placement, and frames beside it."""
    pose = arm.locate("flange")[1] @ Transform(jnp.eye(3), jnp.array(OFFSET))
    moved = jaxcfa.with_joint(free, f"{body}_joint", placement=pose)
    moved = dataclasses.replace(moved, gravity=arm.gravity)
    return jaxcfa.add_frames(moved, {"flange": (-1, arm.locate("flange")[1])})


def test_a_payload_that_cannot_be():
    with pytest.warns(
        UserWarning, match=r"The payload: inertia that breaks the triangle inequality.*\[1\.0, 1\.0, 5\.0\]"
    ):
        jaxcfa.add_payload(built((add_arm,)), "flange", 1.0, inertia=(1, 1, 5))


def test_payloads_of_a_batch():
    """Torques are linear in the mass of a load, and so is their derivative's."""
    arm = built((add_arm,))
    x = random_state(arm)

    def torque(mass):
        loaded = jaxcfa.add_payload(arm, "flange", mass, (0.1, 0, 0), 0.2)
        return jaxcfa.bias_forces(loaded, x.q, x.v)

    values, slopes = jax.jit(jax.vmap(lambda m: jax.jvp(torque, (m,), (1.0,))))(jnp.array([0.0, 2.0, 5.0]))
    assert_close(values[1] - values[0], 2 * slopes[0], 1e-12)
    assert_close(values[2] - values[1], 3 * slopes[2], 1e-12)


class Meeting(AbstractFrameConstraint):
    """A constraint of a type of its own."""

    body1: int = eqx.field(static=True)
    body2: int = eqx.field(static=True)
    heights: jax.Array
    name: str = eqx.field(static=True, default="")

    def residual(self, body1, body2):
        return (body1.translation[2] - self.heights[0] - body2.translation[2] + self.heights[1])[None]


class Strange(AbstractConstraint):
    """A constraint that is none between frames."""

    name: str = eqx.field(static=True, default="")


def linkage():
    """Constraints of all kinds, motors and keyframes."""
    model = mixed()
    ends = ("tail", "nail")
    constraints = (
        closed_chains.weld(model, "tail", "nail", "weld"),
        closed_chains.connect(model, "trunk", "hand", "point"),
        closed_chains.distance(model, *ends, 0.7),
        closed_chains.loop_joint(model, "nail", -1, Revolute((0, 0, 1))),
        Meeting(model.body_index("finger"), model.body_index("tail"), jnp.array([0.1, 0.3]), "met"),
        closed_chains.weld(model, "hand", "nail", "within the locked"),
        closed_chains.couple(model, "bend", "upper_joint", (0.3, 2.0, 1.0)),
        closed_chains.couple(model, "upper_joint", "bend", (0.3, 2.0, 1.0)),
        closed_chains.couple(model, "bend", None, (0.4,)),
    )
    lengths = np.zeros((3, model.nq))
    lengths[0, model.q_slice("curl")], lengths[0, model.q_slice("wag")] = 2.0, 3.0
    moment = np.zeros((3, model.nv))
    moment[0, model.v_slice("curl")], moment[0, model.v_slice("wag")] = 2.0, 3.0
    moment[1, model.v_slice("bend")] = 1.0
    none = Actuators.none(model.nq, model.nv, model.dtype)
    unlimited = jnp.full(3, jnp.inf)
    actuators = dataclasses.replace(
        none,
        names=("both", "bender", "idle"),
        frames=(None,) * 3,
        moment=jnp.asarray(moment),
        wrench=jnp.zeros((3, 6)),
        length_gradient=jnp.asarray(lengths),
        length_offset=jnp.ones(3),
        gain=jnp.ones(3),
        bias=jnp.ones((3, 3)),
        **dict.fromkeys(("control_lower", "force_lower"), -unlimited),
        **dict.fromkeys(("control_upper", "force_upper"), unlimited),
    )
    keyframes = Keyframes(("home",), random_state(model, 5).q[None], random_state(model, 5).v[None], jnp.ones((1, 3)))
    return dataclasses.replace(model, constraints=constraints, actuators=actuators, keyframes=keyframes)


def residuals(model, q):
    poses = jaxcfa.forward_kinematics(model, q)
    world = Transform.identity()

    def of(constraint):
        if isinstance(constraint, JointCoupling):
            numbers = constraint.joint, constraint.reference
            return constraint.residual(*(q[model.q_slice(x).start] if x >= 0 else jnp.zeros(()) for x in numbers))
        bodies = constraint.body1, constraint.body2
        return constraint.residual(*(poses[x] if x >= 0 else world for x in bodies))

    return [of(constraint) for constraint in model.constraints]


@pytest.mark.parametrize("kind", [list, np.array, jnp.array])
def test_joints_to_be_locked_are_numbers_of_any_kind(kind):
    assert lock_joints(jaxcfa.chain(3), kind([0, 2])).joint_names == ("joint1",)


def test_constraints_actuators_and_keyframes_of_locked_joints():
    """They say the same as before; what has become meaningless is gone."""
    model = linkage()
    q = random_state(model).q
    q_mask, v_mask = coordinates(model, LOCKED)
    part = lock_joints(model, LOCKED, q)
    expected = residuals(model, q)
    kept = [number for number, constraint in enumerate(model.constraints) if number not in (5, 8)]
    assert len(part.constraints) == len(kept)
    all_close(residuals(part, q[q_mask]), [expected[number] for number in kept])
    assert [c.name for c in part.constraints if c.name] == ["weld", "point", "met"]
    assert part.actuators.names == ("both", "idle")
    u, v = jnp.array([0.5, 0.3, 0.2]), random_state(model).v * v_mask
    found = jaxcfa.actuator_forces(part, q[q_mask], v[v_mask], u[jnp.array([0, 2])])
    assert_close(found, jaxcfa.actuator_forces(model, q, v, u)[v_mask], 1e-13)
    assert_close(part.keyframe("home"), model.keyframe("home")[q_mask], 0)
    # Nothing is left of a coupling of locked joints, nor of a constraint of parts of the world.
    rest = lock_joints(part, list(part.joint_names), q[q_mask])
    assert (rest.nb, rest.constraints, rest.actuators.names) == (0, (), ("idle",))


def test_keyframes_of_any_model(tmp_path):
    """Of integers and traced numbers too; they are kept like those of a file."""
    chain = jaxcfa.chain(3)
    model = jaxcfa.add_keyframe(jaxcfa.add_keyframe(chain, "up", [0, -1, 2]), "fast", jnp.ones(3), v=jnp.arange(3.0))
    assert model.keyframes.names == ("up", "fast")
    assert model.keyframe("up").dtype == chain.dtype
    assert_close(model.keyframes.q, np.array([[0.0, -1, 2], [1, 1, 1]]), 0)
    assert_close(model.keyframes.v, np.array([[0.0, 0, 0], [0, 1, 2]]), 0)
    assert chain.keyframes.names == ()
    slope = jax.jacobian(lambda x: jaxcfa.add_keyframe(chain, "up", [x, 0.0, 2 * x]).keyframe("up"))(0.5)
    assert slope.tolist() == [1, 0, 2]
    jaxcfa.save_model(tmp_path / "model.npz", model)
    assert_close(jaxcfa.load_model(tmp_path / "model.npz").keyframe("fast"), np.ones(3), 0)


def test_constraints_of_subtrees_and_attached_models():
    """A point that a body was tied to on what carried it is a point of the world, and the other way round."""
    model = linkage()
    part = subtree(model, "upper")
    assert part.body_names == ("upper", "hand", "finger", "tip")
    names = ["point", "within the locked", "", "", ""]
    assert [constraint.name for constraint in part.constraints] == names
    tied = closed_chains.connect(model, "trunk", "nail")
    part = subtree(dataclasses.replace(model, constraints=(tied,)), "upper")
    assert (part.constraints[0].body1, part.constraints[0].body2) == (-1, 3)
    assert part.actuators.names == ("both", "bender", "idle")
    assert_close(part.keyframe("home"), model.keyframe("home")[jnp.arange(7, 12)], 0)
    arm = built((add_arm,))
    arm = dataclasses.replace(
        arm, keyframes=Keyframes(("home", "up"), jnp.ones((2, 2)), jnp.ones((2, 2)), jnp.ones((2, 0)))
    )
    whole = attach(arm, "flange", part, OFFSET, "x_")
    (tied,) = whole.constraints
    pose = arm.locate("flange")[1] @ Transform(jnp.eye(3), jnp.array(OFFSET))
    assert (tied.body1, tied.body2) == (1, 5)
    assert_close(tied.point1, pose.apply(part.constraints[0].point1), 1e-14)
    assert whole.joint_names == ("upper_joint", "lower_joint", "x_upper_joint", "x_slide+x_turn", "x_bend", "x_curl")
    assert whole.keyframes.names == ("home", "up")
    home, up = whole.keyframes.q
    assert_close(home, np.concatenate([np.ones(2), part.keyframe("home")]), 0)
    assert_close(up, np.concatenate([np.ones(2), np.zeros(5)]), 0)
    assert whole.actuators.names == ("x_both", "x_bender", "x_idle")


def test_single_precision():
    model, arm = linkage().astype("float32"), built((add_arm,)).astype("float32")

    def parts():
        loaded, framed = jaxcfa.add_payload(arm, "flange", 1.0), jaxcfa.add_frames(arm, {"a": ("flange", OFFSET)})
        both = attach(arm, "flange", model, prefix="x")
        return lock_joints(model, LOCKED), subtree(model, "upper"), both, loaded, framed

    assert {leaf.dtype.name for leaf in jax.tree.leaves(jax.eval_shape(parts))} == {"float32"}


def test_views_and_changes():
    model = mixed()
    slide, hand = model.joint("slide+turn"), model.body("hand")
    assert (slide.body, slide.parent, slide.q, slide.v) == ("hand", "upper", slice(8, 10), slice(7, 9))
    assert slide.armature.tolist() == [0.1, 0.1]
    assert isinstance(slide.joint, Composite)
    assert (hand.joint, hand.parent, hand.children, hand.frames) == ("slide+turn", "upper", ("finger",), ("eye",))
    assert model.joint("yaw").parent is model.body("post").parent is None
    assert "effort_limit      [inf]" in repr(model.joint("upper_joint"))
    assert "Revolute(axis=[0., 1., 0.])" in repr(model.joint("upper_joint"))
    assert repr(hand).startswith("Body 'hand'\n  number")
    changed = with_joint(
        model, "bend", damping=0.3, lower=-1.0, upper=2.0, stiffness=4.0, axis=(0, 0, 2), placement=OFFSET
    )
    view = changed.joint("bend")
    values = view.damping, view.lower, view.upper, view.stiffness, view.joint.axis, view.placement.translation
    assert [value.tolist() for value in values] == [[0.3], [-1], [2], [4], [0, 0, 1], list(OFFSET)]
    back = with_joint(
        changed, "bend", damping=0, lower=-np.inf, upper=np.inf, stiffness=0, axis=(0, 1, 1), placement=(0.1, 0, 0.2)
    )
    assert jax.tree.all(jax.tree.map(np.array_equal, back, model))
    assert with_body(model, "tip", inertia=(1, 2, 3)).inertia[4].tolist() == np.diag([1.0, 2.0, 3.0]).tolist()

    @jax.jit
    def traced(x):
        other = with_joint(with_body(model, "hand", mass=x, com=x * jnp.ones(3)), "slide+turn", armature=x)
        other = with_joint(other, "bend", axis=x * jnp.ones(3), lower=x)
        return other, other.joint("bend").lower

    other, lower = traced(jnp.array(0.7))
    assert (other.mass[2], other.armature[8], lower.tolist()) == (0.7, 0.7, [0.7])


def test_views_and_changes_of_joints_in_series():
    model = mixed()
    slide, turn = model.joint("slide"), model.joint("turn")
    assert (slide.q, slide.v, turn.q, turn.v) == (slice(8, 9), slice(7, 8), slice(9, 10), slice(8, 9))
    assert (turn.number, turn.body, turn.parent) == (2, "hand", "upper")
    assert (type(slide.joint), type(turn.joint)) == (Prismatic, Revolute)
    changed = with_joint(model, "turn", armature=0.4, lower=-1.0, axis=(0, 0, 2))
    assert changed.joint("slide+turn").armature.tolist() == [0.1, 0.4]
    assert changed.limits.lower[8:10].tolist() == [-np.inf, -1]
    assert changed.joint("turn").joint.axis.tolist() == [0, 0, 1]
    assert changed.topology == model.topology
    assert driven_coordinates(model, ["turn", "bend"]) == [8, 9]
    back = with_joint(changed, "turn", armature=0.1, lower=-np.inf, axis=turn.joint.axis)
    assert jax.tree.all(jax.tree.map(np.array_equal, back, model))
    held = "'turn' is part of the joint 'slide.turn', which is locked as a whole. .*couple.model, 'turn', None"
    for message, attempt in {
        held: lambda: lock_joints(model, ["yaw", "turn"]),
        "'turn' is part of the joint .*, placed as a whole": lambda: with_joint(model, "turn", placement=OFFSET),
        "Unknown parameter 'axes' of joint 'turn'; did you mean 'axis'": lambda: with_joint(model, "turn", axes=0),
        "lower limit of joint 'turn' exceeds": lambda: with_joint(model, "turn", lower=2.0, upper=1.0),
        "'turn' is part of the joint 'slide.turn'; give that one, .* v_slice.'turn'": lambda: model.joint_index("turn"),
        "No joint named 'tern'; did you mean 'turn'": lambda: model.q_slice("tern"),
        "Several models have joints named 'turn'": lambda: jaxcfa.combine([model, _of_names("turn", "turns+x")]),
        "Several parts of joints are named 'x', those of 'a.x', 'x.b'": lambda: _of_names("a+x", "x+b").q_slice("x"),
    }.items():
        with pytest.raises(ValueError, match=message):
            attempt()


def _of_names(*names):
    """A model of joints of these names, in series where they have plus signs."""
    builder = ModelBuilder()
    for name in names:
        parts = [Revolute((1, 0, 0))] * (name.count("+") + 1)
        builder.add_body(f"body of {name}", joint=Composite(parts) if parts[1:] else parts[0], joint_name=name, **BODY)
    return builder.build()


def test_arrays_of_numpy_are_changed_as_well():
    arm = built((add_arm,))
    own = jax.tree.map(np.asarray, arm)

    def changed(model):
        stiff = with_joint(model, "lower_joint", stiffness=2.0, upper=1.0, axis=(0, 1, 0), placement=OFFSET)
        return jaxcfa.add_payload(with_body(stiff, "upper", mass=3.0), "flange", 1.0)

    all_close(changed(own), changed(arm))


def test_sequences_with_traced_numbers():
    model = mixed()
    moments = [[2.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 1.0]]

    @jax.jit
    def changed(x):
        heavy = with_body(model, "hand", com=(0.0, x, 0.2), inertia=[*moments[:2], [0.0, 0.0, x]])
        loaded = jaxcfa.add_payload(model, "tip", 1.0, [x, 0.0, 0.0], (x, 1.0, 1.0))
        stiff = with_joint(model, "slide+turn", stiffness=(x, 2.0), lower=[-x, 0.0])
        return heavy.com[2], heavy.inertia[2], loaded.com[4], stiff.joint("slide+turn").stiffness

    com, inertia, payload, stiffness = changed(0.7)
    assert_close((com, inertia), (np.array([0.0, 0.7, 0.2]), np.diag([2.0, 3.0, 0.7])), 1e-14)
    assert_close((payload, stiffness), (np.array([0.7, 0.0, 0.0]), np.array([0.7, 2.0])), 1e-14)
    ragged = {
        r"must have shape \(3,\), got \(2,\)": lambda x: with_body(model, "hand", com=(0.0, x)),
        r"inertia of body 'hand' must have shape .*, got \[\[": lambda x: with_body(
            model, "hand", inertia=[[x, 0.0], [0.0, 1.0, 0.0]]
        ),
    }
    for message, attempt in ragged.items():
        with pytest.raises(ValueError, match=message):
            jax.eval_shape(attempt, 0.7)


def test_changed_joints_are_ones_that_their_constructors_make():
    builder = ModelBuilder()
    builder.add_body("puck", joint=Planar((0, 0, 1), (1, 0, 0)), **BODY)
    builder.add_body("cross", "puck", Universal((1, 0, 0), (0, 1, 0)), **BODY)
    model = builder.build()
    with pytest.raises(ValueError, match="axis_x of a planar joint must not be along its normal"):
        with_joint(model, "puck_joint", normal=(2, 0, 0))
    with pytest.raises(ValueError, match="axes of a universal joint must not be parallel"):
        with_joint(model, "cross_joint", axis2=(1, 0, 0))
    both = with_joint(model, "puck_joint", normal=(1, 0, 0), axis_x=(0, 1, 0))
    assert both.joint("puck_joint").joint.axis_x.tolist() == [0, 1, 0]

    def columns(normal):  # of the puck: its translations, and the axis about which it turns
        joint = with_joint(model, "puck_joint", normal=normal).joint("puck_joint").joint
        subspace = joint.motion_subspace(jnp.array([0.1, 0.2, 0.3]))
        return jnp.concatenate([subspace[3:, :2], subspace[:3, 2:]], axis=1)

    normal = jnp.array([0.5, 0.1, 1.0])
    for axes in (columns(normal), jax.jit(columns)(normal)):
        assert_close(axes.T @ axes, np.eye(3), 1e-14)
        assert_close(axes[:, 2], normal / np.linalg.norm(normal), 1e-14)


def test_names():
    model = linkage()
    left = rename(model, lambda name: "left_" + name)
    assert left.joint("left_slide+left_turn").body == "left_hand"
    assert left.frame_names == ("left_nail", "left_eye")
    assert left.constraints[0].name == "left_weld"
    assert left.constraints[3].name == ""
    other = rename(model, {"turn": "twist", "nail": "claw", "idle": "lazy"})
    assert other.joint_names[2] == "slide+twist"
    assert other.frame_names == ("claw", "eye")
    assert other.actuators.names == ("both", "bender", "lazy")
    framed = jaxcfa.add_frames(model, {"a": "nail", "b": (-1, OFFSET), "c": ("hand", FLANGE)})
    assert framed.frame_names == ("nail", "eye", "a", "b", "c")
    assert [framed.locate(name)[0] for name in "abc"] == [4, -1, 2]
    assert_close(framed.locate("c")[1].as_matrix(), FLANGE, 0)


def test_batches_of_models_are_refused_where_single_ones_are_meant():
    """Also those of which one array is a batch: sums over the wrong axis would go unseen."""
    chain = jaxcfa.chain(3)
    batch = jax.vmap(lambda length: jaxcfa.scale(chain, length=length))(jnp.linspace(0.5, 2, 3))
    damped = dataclasses.replace(chain, damping=jnp.ones((3, 3)))
    zero, q = jnp.zeros(3), jax.vmap(jaxcfa.neutral)(batch)[0]
    for message, attempt in {
        r"takes single models, but masses have shape \(3, 3\) instead of \(3,\). Use jax.vmap": (
            lambda: jaxcfa.subtree_masses(batch),
            lambda: jaxcfa.random_configuration(batch, jax.random.key(0)),
            lambda: jaxcfa.forward_dynamics(batch, q, zero, zero),
            lambda: jax.eval_shape(lambda m: jaxcfa.integrate(m, q, zero), batch),
            lambda: jaxcfa.inverse_kinematics.solve(batch, lambda stage: stage.q),
            lambda: jaxcfa.neutral(batch),
            lambda: batch.keyframe("home"),
            lambda: batch.locate("tip"),
            lambda: inertia_problems(batch),
            lambda: massless_subtrees(batch),
        ),
        r"takes single models, but values of damping have shape \(3, 3\)": (
            lambda: jaxcfa.passive_forces(damped, q, zero),
            lambda: jaxcfa.scale(damped, length=2.0),
        ),
    }.items():
        for call in attempt:
            with pytest.raises(ValueError, match=message):
                call()
    assert jaxcfa.inertial_parameters(batch).shape == (3, 3, 10)
    assert jax.vmap(jaxcfa.subtree_masses)(batch).shape == (3, 3)


def test_errors():
    model, arm, hand = mixed(), built((add_arm,)), built((add_hand, None, Fixed()))
    batch = jax.tree.map(lambda x: jnp.stack([x] * 2), model)
    strange = dataclasses.replace(model, constraints=(Strange(),))
    messages = {
        "No joint named 'bnd'; did you mean 'bend'": lambda: lock_joints(model, "bnd"),
        r"q must have shape \(nq,\) = \(15,\), got \(3,\)": lambda: lock_joints(model, "bend", jnp.ones(3)),
        "the quaternion of joint 'trunk_joint'": lambda: lock_joints(model, "bend", jnp.zeros(15)),
        r"lock_joints takes single models, but masses have shape \(2, 8\)": lambda: lock_joints(batch, "bend"),
        "lock_joints cannot renumber the bodies of Strange": lambda: lock_joints(strange, "bend"),
        "No body named 'hnd'; did you mean 'hand'": lambda: subtree(model, "hnd"),
        r"Model.joint takes single models": lambda: batch.joint("bend"),
        "Give each model a prefix of its own": lambda: attach(arm, "flange", arm),
        "weld needs a model that hangs on its world by a free joint": lambda: attach(arm, "flange", hand, weld=True),
        "placement of the other model must be a Transform": lambda: attach(arm, "flange", hand, 3.0),
        "'palm' is fixed to the world": lambda: jaxcfa.add_payload(hand, "palm", 1.0),
        "mass of the payload must not be negative": lambda: jaxcfa.add_payload(arm, "flange", -1.0),
        "has a frame or body named 'eye'": lambda: jaxcfa.add_frames(model, {"eye": "hand"}),
        "Nothing in the model is named 'hnd'; did you mean": lambda: rename(model, {"hnd": "x"}),
        "Several bodies or frames would be named 'eye'": lambda: rename(model, {"hand": "eye"}),
        "Unknown parameter 'dampin' of joint 'bend'; did you mean 'damping'": lambda: with_joint(
            model, "bend", dampin=1
        ),
        "damping of joint 'bend' must not be negative": lambda: with_joint(model, "bend", damping=-1.0),
        "lower limit of joint 'bend' exceeds the upper": lambda: with_joint(model, "bend", lower=1.0, upper=0.0),
        "axis of a joint must not be zero": lambda: with_joint(model, "bend", axis=(0, 0, 0)),
        r"armature of joint 'bend' must be one number or have shape \(1,\)": lambda: with_joint(
            model, "bend", armature=(1.0, 2.0)
        ),
        "inertia of body 'hand' must be symmetric": lambda: with_body(model, "hand", inertia=np.triu(np.ones((3, 3)))),
        "damping of joint 'bend' must be finite, got inf. Only limits": lambda: with_joint(
            model, "bend", damping=np.inf
        ),
        "q must be finite where joints are locked, but it has .nan. for 'bend'": lambda: lock_joints(
            model, "bend", jaxcfa.neutral(model).at[model.q_slice("bend")].set(np.nan)
        ),
        "new name of 'hand' must be a string that is not empty, got ''": lambda: rename(model, {"hand": ""}),
        "Frame 'f' needs a frame or body, or a pair of this and a placement, got ": lambda: inspect.unwrap(
            jaxcfa.add_frames
        )(model, {"f": ("hand", (0, 0, 0), 1)}),
        "name of a frame must be a string that is not empty, got ''": lambda: jaxcfa.add_frames(model, {"": "hand"}),
        "has a keyframe named 'home'": lambda: jaxcfa.add_keyframe(linkage(), "home", random_state(linkage()).q),
        r"q must have shape \(nq,\) = \(15,\), got \(14,\)": lambda: jaxcfa.add_keyframe(model, "up", jnp.ones(14)),
        r"v must have shape \(nv,\) = \(14,\), got \(15,\)": lambda: jaxcfa.add_keyframe(
            model, "up", jaxcfa.neutral(model), jnp.ones(15)
        ),
        "v of the keyframe 'up' must be finite, got .*nan": lambda: jaxcfa.add_keyframe(
            model, "up", jnp.ones(15), jnp.full(14, jnp.nan)
        ),
        r"add_keyframe takes single models, but masses": lambda: jaxcfa.add_keyframe(batch, "up", jnp.ones(15)),
        "name of a keyframe must be a string that is not empty": lambda: jaxcfa.add_keyframe(model, "", jnp.ones(15)),
    }
    for message, attempt in messages.items():
        with pytest.raises(ValueError, match=message):
            attempt()


def test_names_are_strings():
    model, arm = mixed(), built((add_arm,))
    # Without the checks of types that the tests switch on, as users have them.
    rename, add_frames, combine, attach = map(
        inspect.unwrap, (jaxcfa.rename, jaxcfa.add_frames, jaxcfa.combine, jaxcfa.attach)
    )
    for message, attempt in {
        "new name of 'hand' must be a string that is not empty, got None": lambda: rename(model, {"hand": None}),
        "new name of 'bend' must be a string that is not empty, got 5": lambda: rename(model, {"bend": 5}),
        "Nothing in the model is named 0; names are strings": lambda: rename(model, {0: "base"}),
        "new name of '.*' must be a string that is not empty, got None": lambda: rename(model, lambda name: None),
        "name of a frame must be a string that is not empty, got 5": lambda: add_frames(model, {5: "hand"}),
        "prefix of a model must be a string, got 1": lambda: combine([arm, arm], [1, 2]),
        "prefix of a model must be a string, got 3": lambda: attach(arm, "flange", arm, prefix=3),
    }.items():
        with pytest.raises(ValueError, match=message):
            attempt()
    # Where a joint is held that is locked is all that counts.
    assert jaxcfa.lock_joints(arm, 0, jnp.full(arm.nq, jnp.nan).at[0].set(0.1)).nb == arm.nb - 1


def test_plus_signs_in_names():
    """They join the names of joints in series, and are parts of other names."""
    builder = jaxcfa.ModelBuilder()
    builder.add_body("arm", joint=Revolute((0, 0, 1)), joint_name="a+b", mass=1.0)
    builder.add_body("wrist", "arm", Composite([Revolute((0, 1, 0)), Revolute((1, 0, 0))]), joint_name="c+d", mass=1.0)
    builder.add_body("hand", "wrist", Composite([Revolute((0, 1, 0)), Revolute((1, 0, 0))]), mass=1.0)
    model = builder.build()
    found = jaxcfa.rename(model, {"a+b": "x", "d": "y", "hand_joint": "z"})
    assert found.joint_names == ("x", "c+y", "z")
    assert jaxcfa.combine([model], ["l_"]).joint_names == ("l_a+b", "l_c+l_d", "l_hand_joint")
    assert [model.v_slice(name).start for name in ("a+b", "c", "d", "hand_joint[0]", "hand_joint[1]")] == [*range(5)]
    q = jnp.arange(5.0)
    np.testing.assert_array_equal(jaxcfa.convert.MuJoCo(model).q_to(q), q)
