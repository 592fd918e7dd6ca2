"""Building models body by body."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxcfa
from helpers import assert_close
from jaxcfa import ModelBuilder, Transform
from jaxcfa.joints import Anchored, Composite, Fixed, Free, Helical, Planar, Prismatic, Revolute, Spherical, Universal

Z = (0.0, 0.0, 1.0)
POSE = np.eye(4)
POSE[:3, :3], POSE[:3, 3] = Rotation.from_rotvec([0.4, -0.3, 1.0]).as_matrix(), (0.1, 0.2, -0.3)


def steiner(mass, d):
    return mass * (d @ d * np.eye(3) - np.outer(d, d))


def test_empty_builder():
    model = ModelBuilder().build(gravity=(0, 0, -1))
    assert (model.nb, model.nq, model.nv) == (0, 0, 0)
    assert model.body_names == model.frame_names == ()
    assert model.inertia.shape == (0, 3, 3)


def test_fixed_bodies_are_merged():
    """Mass, centre and inertia are those of all parts together, wherever the parts are."""
    rng = np.random.default_rng(0)
    masses, coms = rng.uniform(1, 2, 3), rng.normal(size=(3, 3))
    inertias = [np.diag([2.0, 3.0, 4.0]), np.eye(3), np.diag([1.0, 1.5, 2.0])]
    builder = ModelBuilder()
    parent = None
    for i, name in enumerate(("arm", "plate", "tool")):
        joint = Revolute(Z) if i == 0 else None
        parent = builder.add_body(name, parent, joint, POSE, mass=masses[i], com=coms[i], inertia=inertias[i])
    builder.add_body("finger", "tool", Prismatic(Z), POSE, mass=1.0)
    builder.add_frame("tip", "tool", (0.0, 0.0, 0.5))
    model = builder.build()

    poses = [np.linalg.matrix_power(POSE, i) for i in range(3)]
    centers = np.array([pose[:3, :3] @ com + pose[:3, 3] for pose, com in zip(poses, coms, strict=True)])
    center = masses @ centers / masses.sum()
    about_center = sum(
        pose[:3, :3] @ inertia @ pose[:3, :3].T + steiner(mass, c - center)
        for pose, inertia, mass, c in zip(poses, inertias, masses, centers, strict=True)
    )
    assert model.body_names == ("arm", "finger")
    assert model.joint_names == ("arm_joint", "finger_joint")
    assert_close(model.mass, np.array([masses.sum(), 1.0]), 1e-14)
    assert_close(model.com[0], center, 1e-14)
    assert_close(model.inertia[0], about_center, 1e-14)
    assert_close(model.placement[1].as_matrix(), np.linalg.matrix_power(POSE, 3), 1e-14)
    # Merged bodies remain as frames, before those that were added.
    assert model.frame_names == ("plate", "tool", "tip")
    assert model.topology.frame_bodies.tolist() == [0, 0, 0]
    assert_close(model.frame_placement[1].as_matrix(), poses[2], 1e-14)
    assert_close(model.frame_placement[2].translation, poses[2][:3, :3] @ [0, 0, 0.5] + poses[2][:3, 3], 1e-14)


def test_bodies_fixed_to_the_world_are_frames_of_it():
    builder = ModelBuilder()
    builder.add_body("table", None, None, POSE, mass=5.0)
    builder.add_body("arm", "table", Revolute(Z), (0.0, 0.0, 1.0), mass=1.0)
    builder.add_frame("origin", -1)
    model = builder.build()
    assert (model.nb, float(model.mass[0])) == (1, 1.0)
    assert model.topology.parents.tolist() == [-1]
    assert model.topology.frame_bodies.tolist() == [-1, -1]
    lifted = POSE.copy()
    lifted[:3, 3] += POSE[:3, 2]
    assert_close(model.placement[0].as_matrix(), lifted, 1e-14)


class Bent(Fixed):
    """Holds its body in a pose of its own."""

    def transform(self, q):
        return Transform(jnp.asarray(POSE[:3, :3], q.dtype), jnp.asarray(POSE[:3, 3], q.dtype))


@pytest.mark.parametrize("joint", [Bent(), Composite([Fixed(), Bent()])])
def test_joints_that_do_not_move_hold_bodies_where_they_say(joint):
    builders = ModelBuilder(), ModelBuilder()
    for builder, rigid, placement in zip(builders, (joint, None), (POSE, POSE @ POSE), strict=True):
        builder.add_body("arm", None, Revolute(Z), POSE, mass=1.0)
        builder.add_body("plate", "arm", rigid, placement, mass=2.0, com=(0.1, 0, 0), inertia=(1, 2, 3))
        builder.add_body("finger", "plate", Prismatic(Z), POSE, mass=1.0)
        builder.add_frame("tip", "plate", POSE)
    bent, straight = (builder.build() for builder in builders)
    for found, expected in zip(jax.tree.leaves(bent), jax.tree.leaves(straight), strict=True):
        assert_close(found, expected, 1e-14)


def test_massless_bodies_merge():
    builder = ModelBuilder()
    builder.add_body("arm", joint=Revolute(Z))
    builder.add_body("stub", "arm", placement=(1.0, 0.0, 0.0))
    model = builder.build()
    assert not np.any(model.com)
    assert not np.any(model.inertia)


def test_roots_names_and_parents():
    builder = ModelBuilder()
    assert builder.add_body(joint=Free(), mass=1.0) == 0
    assert builder.add_body("fixed", 0) == 1
    assert builder.add_body(parent="fixed", joint=Revolute(Z), joint_name="elbow") == 2
    assert builder.add_body("other", None, Spherical()) == 3
    assert builder.add_body("last", 3, Planar()) == 4
    model = builder.build(gravity=(1, 2, 3), dtype="float32")
    assert model.body_names == ("body0", "body2", "other", "last")
    assert model.joint_names == ("body0_joint", "elbow", "other_joint", "last_joint")
    assert model.topology.parents.tolist() == [-1, 0, -1, 2]
    assert (model.nq, model.nv) == (7 + 1 + 4 + 3, 6 + 1 + 3 + 3)
    assert model.dtype == jnp.float32
    assert model.gravity.tolist() == [1, 2, 3]


def test_values_of_degrees_of_freedom():
    """One number counts for all of a joint; springs rest at the zero configuration."""
    builder = ModelBuilder()
    builder.add_body("a", joint=Universal((1, 0, 0), (0, 1, 0)), armature=(0.1, 0.2), lower=-1, upper=(2, 3))
    builder.add_body("b", "a", Spherical(), damping=0.3, stiffness=4.0, effort_limit=5.0)
    builder.add_body("c", "b", Revolute(Z), friction_loss=0.6, spring_reference=0.7, velocity_limit=(8.0,))
    model = builder.build()
    inf = np.inf
    expected = {
        "armature": [0.1, 0.2, 0, 0, 0, 0],
        "damping": [0, 0, 0.3, 0.3, 0.3, 0],
        "friction_loss": [0, 0, 0, 0, 0, 0.6],
        "stiffness": [0, 0, 4, 4, 4, 0],
        "spring_reference": [0, 0, 1, 0, 0, 0, 0.7],
    }
    for name, values in expected.items():
        assert getattr(model, name).tolist() == values
    assert model.limits.lower.tolist() == [-1, -1] + 5 * [-inf]
    assert model.limits.upper.tolist() == [2, 3] + 5 * [inf]
    assert model.limits.velocity.tolist() == 5 * [inf] + [8]
    assert model.limits.effort.tolist() == [inf, inf, 5, 5, 5, inf]


@pytest.mark.parametrize("placement", [POSE, Transform(jnp.asarray(POSE[:3, :3]), jnp.asarray(POSE[:3, 3]))])
def test_placements_and_inertias_in_every_form(placement):
    matrix = [[2.0, 0.1, 0.0], [0.1, 3.0, 0.0], [0.0, 0.0, 4.0]]
    builder = ModelBuilder()
    for inertia in (0.5, (1.0, 2.0, 3.0), matrix):
        builder.add_body(joint=Revolute(Z), placement=placement, inertia=inertia)
    builder.add_body(joint=Revolute(Z), placement=[1, 2, 3])
    model = builder.build()
    assert_close(model.inertia[:3], np.stack([0.5 * np.eye(3), np.diag([1.0, 2.0, 3.0]), matrix]), 1e-15)
    assert_close(model.placement[0].as_matrix(), POSE, 1e-15)
    assert model.placement[3].translation.tolist() == [1, 2, 3]


def test_a_builder_can_go_on_after_build():
    builder = ModelBuilder()
    builder.add_body("a", joint=Revolute(Z))
    first = builder.build()
    builder.add_body("b", "a", Revolute(Z))
    assert (first.nb, builder.build().nb) == (1, 2)


def test_what_is_given_may_change_afterwards():
    """One buffer for all bodies."""
    builder, pose, numbers = ModelBuilder(), np.eye(4), np.zeros(3)
    pitch = np.array(0.0)
    for i in range(2):
        pose[:3, :3], pose[:3, 3] = np.eye(3) if i else POSE[:3, :3], i
        numbers[:], pitch[...] = i, i
        same = {"com": numbers, "damping": numbers, "upper": numbers}
        builder.add_body(f"ball{i}", None, Anchored(Planar(), numbers), pose, **same)
        builder.add_body(f"screw{i}", None, Helical(Z, pitch), numbers)
        builder.add_frame(f"frame{i}", None, pose)
    model = builder.build()
    assert_close(model.placement.rotation[0], POSE[:3, :3], 1e-14)
    assert_close(model.frame_placement.rotation[0], POSE[:3, :3], 1e-14)
    balls, screws = model.joint("ball0_joint"), model.joint("screw0_joint")
    found = balls.joint.anchor, balls.damping, balls.upper, model.com[0], balls.placement.translation
    assert not any(np.any(x) for x in (*found, model.frame_placement.translation[0]))
    assert not any(np.any(x) for x in (screws.joint.pitch, screws.placement.translation))


def test_inertias_are_symmetric_up_to_rounding_of_the_largest():
    turn = POSE[:3, :3].astype(np.float32)
    moments = np.diag([1.0, 1.0, 2e-3]).astype(np.float32)
    rounded = turn @ moments @ turn.T + np.array([[0, 1e-6, 0], [0, 0, 0], [0, 0, 0]])
    builder = ModelBuilder()
    for name, matrix in (("turned", rounded), ("diagonal", np.eye(3) + 1e-6 * np.triu(np.ones((3, 3)), 1))):
        builder.add_body(name, joint=Revolute(Z), inertia=matrix)
    inertia = builder.build().inertia
    assert np.array_equal(inertia, np.swapaxes(inertia, 1, 2))
    assert_close(inertia[0], rounded, 1e-6)
    with pytest.raises(ValueError, match="must be symmetric"):
        builder.add_body("askew", joint=Revolute(Z), inertia=np.eye(3) + 1e-4 * np.triu(np.ones((3, 3)), 1))


MIRROR = np.diag([1.0, 1.0, -1.0, 1.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "a"}, "Duplicate body or frame name 'a'"),
        ({"joint_name": "a_joint"}, "Duplicate joint name 'a_joint'"),
        ({"parent": "c"}, "Body 'b' refers to unknown body 'c'"),
        ({"parent": 1}, "Body 'b' refers to body 1, but only 1 were added"),
        ({"parent": -2}, "refers to body -2"),
        ({"mass": -1}, "mass of body 'b' must not be negative"),
        ({"mass": np.nan}, "mass of body 'b' must be finite"),
        ({"mass": (1, 2)}, r"mass of body 'b' must have shape \(\), got \(2,\)"),
        ({"com": (1, 2)}, r"centre of mass of body 'b' must have shape \(3,\)"),
        ({"com": (1, 2, np.inf)}, "centre of mass of body 'b' must be finite"),
        ({"inertia": (1, 2)}, r"inertia of body 'b' must have shape \(3, 3\)"),
        ({"inertia": np.nan}, "inertia of body 'b' must be finite"),
        ({"inertia": np.triu(np.ones((3, 3)))}, "inertia of body 'b' must be symmetric"),
        ({"placement": (1, 2)}, r"placement of body 'b' must be .* got shape \(2,\)"),
        ({"placement": (1, 2, np.nan)}, "translation of body 'b' must be finite"),
        ({"placement": np.full((4, 4), np.nan)}, "rotation of body 'b' must be finite"),
        ({"placement": 2 * np.eye(4)}, "rotation of body 'b' must be a proper rotation matrix"),
        ({"placement": MIRROR}, "rotation of body 'b' must be a proper rotation matrix"),
        ({"placement": POSE.T}, "last row of the placement of body 'b' must be .* is it transposed?"),
        ({"joint": None, "damping": 1.0}, "Body 'b' is fixed to its parent, so that it has no damping"),
        ({"parent": "world"}, "unknown body 'world'; add that one first. .None is the world."),
        ({"armatur": 1.0}, "Unknown argument 'armatur' for body 'b'; known are armature, damping"),
        ({"armature": -1.0}, "armature of body 'b' must not be negative"),
        ({"damping": (0.0, 1.0)}, r"damping of body 'b' must be one number or have shape \(1,\), got \(2,\)"),
        ({"effort_limit": np.nan}, "effort_limit of body 'b' must not be NaN"),
        *(
            ({key: np.inf}, f"{key} of body 'b' must be finite, got inf. Only limits may be infinite")
            for key in ("armature", "damping", "friction_loss", "stiffness", "spring_reference")
        ),
        ({"name": ""}, "name of a body or frame must be a string that is not empty, got ''"),
        ({"joint_name": ""}, "joint_name of body 'b' must be a string that is not empty, got ''"),
        ({"parent": "TorsoX"}, "Body 'b' refers to unknown body 'TorsoX'; add that one first"),
        ({"name": "LeftArm", "parent": 7}, "Body 'LeftArm' refers to body 7, but only 1 were added"),
        ({"velocity_limit": -1}, "velocity_limit of body 'b' must not be negative"),
        ({"friction_loss": -1}, "friction_loss of body 'b' must not be negative"),
        ({"spring_reference": np.zeros((1, 1))}, "spring_reference of body 'b' must be one number"),
        ({"lower": 1, "upper": 0}, "lower limit of body 'b' exceeds the upper"),
    ],
)
def test_senseless_bodies_are_refused(arguments, message):
    builder = ModelBuilder()
    builder.add_body("a", joint=Revolute(Z))
    with pytest.raises(ValueError, match=message):
        builder.add_body(**{"name": "b", "joint": Revolute(Z), **arguments})
    # A refused body leaves no trace.
    builder.add_body("b", "a", Revolute(Z))
    assert builder.build().body_names == ("a", "b")


@pytest.mark.parametrize("joint", [Revolute, "revolute"])
def test_joints_are_instances(joint):
    # Without the checks of types that the tests switch on, as users have it.
    add_body = inspect.unwrap(ModelBuilder.add_body)
    with pytest.raises(ValueError, match="joint of body 'a' must be an instance of a joint type, got "):
        add_body(ModelBuilder(), "a", None, joint)


@pytest.mark.parametrize("name", [5, ["a"], None])
def test_names_are_strings(name):
    # Without the checks of types that the tests switch on, as users have it.
    for add, arguments in ((ModelBuilder.add_body, (Revolute(Z),)), (ModelBuilder.add_frame, ())):
        if name is not None or not arguments:
            with pytest.raises(ValueError, match="name of a body or frame must be a string that is not empty, got "):
                inspect.unwrap(add)(ModelBuilder(), name, None, *arguments)


def test_senseless_frames_are_refused():
    builder = ModelBuilder()
    builder.add_body("a", joint=Revolute(Z))
    builder.add_frame("f", "a")
    for name in ("a", "f"):
        with pytest.raises(ValueError, match=f"Duplicate body or frame name '{name}'"):
            builder.add_frame(name)
    with pytest.raises(ValueError, match="Frame 'g' refers to 'f', which is a frame of body 'a'; give that body, and"):
        builder.add_frame("g", "f")
    with pytest.raises(ValueError, match="Body 'b' refers to 'f', which is a frame of body 'a'; give that body, and"):
        builder.add_body("b", "f", Revolute(Z))
    builder.add_frame("origin")
    with pytest.raises(ValueError, match="refers to 'origin', which is a frame of the world; give None, and a"):
        builder.add_body("b", "origin", Revolute(Z))
    with pytest.raises(ValueError, match="placement of frame 'g' must be"):
        builder.add_frame("g", "a", np.zeros((2, 2)))


def test_a_body_named_like_a_frame_is_refused():
    builder = ModelBuilder()
    builder.add_body("a", joint=Revolute(Z))
    builder.add_frame("f", "a")
    with pytest.raises(ValueError, match="Duplicate body or frame name 'f'"):
        builder.add_body("f", "a", Revolute(Z))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gravity": 9.81}, r"gravity must have shape \(3,\)"),
        ({"gravity": (0, 0, np.nan)}, "gravity must be finite"),
        ({"dtype": int}, "dtype of a model must be a floating-point type, got int64"),
    ],
)
def test_senseless_models_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ModelBuilder().build(**arguments)


def test_double_precision_that_is_off_is_asked_for():
    with jax.enable_x64(False):
        model = jaxcfa.chain(1)
        for attempt in (
            lambda: model.astype(jnp.float64),
            lambda: jaxcfa.chain(1, dtype="float64"),
            lambda: ModelBuilder().build(dtype=np.float64),
        ):
            with pytest.raises(ValueError, match=r"dtype float64 needs .* jax.config.update\('jax_enable_x64', True\)"):
                attempt()


def test_the_default_precision_is_that_of_jax():
    assert jaxcfa.chain(1).dtype == jnp.float64


def test_none_is_the_default_of_every_parameter():
    builder = jaxcfa.ModelBuilder()
    builder.add_body("a", joint=Revolute(Z), lower=None, upper=None, effort_limit=None, damping=None)
    limits = builder.build().limits
    assert (limits.lower, limits.upper, limits.effort) == (-np.inf, np.inf, np.inf)
