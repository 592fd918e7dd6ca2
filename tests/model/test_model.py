"""Models as pytrees, and looking things up in them."""

import dataclasses
import inspect
import operator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa.model import Keyframes, Model
from mechanisms import mechanism, random_state


def test_astype(dtype):
    model = mechanism("mixed tree").astype(dtype)
    assert model.dtype == dtype
    assert all(leaf.dtype == dtype for leaf in jax.tree.leaves(model))
    assert model.topology == mechanism("mixed tree").topology
    for wrong in (int, None, 3):
        with pytest.raises(ValueError, match=r"must be a floating-point type, got .* Write jnp.float32"):
            model.astype(wrong)


@pytest.mark.parametrize(
    "part",
    [
        *("mass", "damping", "friction_loss", "stiffness", "spring_reference", "limits.lower", "limits.effort"),
        "actuators.gain",
    ],
)
def test_dtype_is_the_widest(part):
    """So that steps, in which all of these are, return the type of the state that they are given."""
    field = operator.attrgetter(part)
    model = jaxcfa.chain(3, dtype="float32")
    assert model.dtype == jnp.float32
    wider = eqx.tree_at(field, model, field(model).astype(jnp.float64))
    assert wider.dtype == jnp.float64
    x = jnp.zeros(3, jnp.float32)
    for each in (model, wider):
        motion = jax.eval_shape(lambda q, each=each: jaxcfa.rollout(each, q, x, x[None], 0.1, limits=True), x)
        assert motion.q.dtype == motion.v.dtype == each.dtype


def test_repr_is_short():
    expected = "Model(nb=13, nq=19, nv=18, frames=1, dtype=float64)"
    assert repr(mechanism("humanoid-like")) == expected
    assert repr(mechanism("humanoid-like").topology) == "Topology(nb=13, nq=19, nv=18)"


def test_coordinates_of_joints():
    model = mechanism("humanoid-like")
    assert model.q_slice("trunk_joint") == slice(0, 7)
    assert model.v_slice("trunk_joint") == slice(0, 6)
    assert model.q_slice("limb1_0_joint") == model.q_slice(4) == slice(10, 11)
    assert model.v_slice("limb1_0_joint") == model.v_slice(4) == slice(9, 10)
    forest = mechanism("forest")
    ends = [forest.q_slice(name).stop for name in forest.joint_names]
    assert [forest.q_slice(name).start for name in forest.joint_names] == [0, *ends[:-1]]
    assert ends[-1] == forest.nq


def test_locate():
    model = mechanism("humanoid-like")
    body, pose = model.locate("hand")
    assert (body, pose.translation.tolist()) == (12, [0.0, 0.0, 0.3])
    for key, number in (("limb3_2", 12), (12, 12), (-1, -1)):
        body, pose = model.locate(key)
        assert body == number
        assert np.array_equal(pose.as_matrix(), np.eye(4))
    assert model.body_index("trunk") == model.joint_index("trunk_joint") == 0


@pytest.mark.parametrize(
    ("look_up", "message"),
    [
        (lambda m: m.locate("world"), "the world itself is number -1"),
        (lambda m: m.locate("hnad"), "No frame or body named 'hnad'; did you mean 'hand'"),
        (lambda m: m.body_index("limb3-2"), "No body named 'limb3-2'; did you mean 'limb3_2' or "),
        (lambda m: m.q_slice("zzz"), "No joint named 'zzz'; there are: 'trunk_joint', .*, ...."),
        (lambda m: m.v_slice("trunk"), "No joint named 'trunk': it is a body, which the joint 'trunk_joint' moves"),
        (
            lambda m: m.locate("trunk_joint"),
            "No frame or body named 'trunk_joint': it is a joint, which moves ",
        ),
        (lambda m: m.body("hand"), "No body named 'hand': it is a frame, fixed to the body 'limb3_2'"),
        (lambda m: jaxcfa.with_joint(m, "hand", damping=1.0), "No joint named 'hand': it is a frame, fixed to"),
        (lambda m: m.locate(14), "No frame or body number 14: numbers go from -1 .the world. to 13. The first 13 "),
        (lambda m: m.locate(-2), "No frame or body number -2"),
        (lambda m: m.joint_index(-1), "No joint number -1"),
        (lambda m: m.keyframe("home"), "No keyframe named 'home'; there are none"),
    ],
)
def test_unknown_names(look_up, message):
    with pytest.raises(ValueError, match=message):
        look_up(mechanism("humanoid-like"))


@pytest.mark.parametrize("gravity", [[0, 0, 0], 0.0, np.zeros(2), None])
def test_gravity_that_is_no_array_is_explained(gravity):
    model = eqx.tree_at(lambda m: m.gravity, mechanism("humanoid-like"), gravity)
    with pytest.raises(ValueError, match=r"gravity of a model must be an array of shape \(3,\), got .* load_model"):
        jaxcfa.gravity_forces(model, np.zeros(model.nq))


@pytest.mark.parametrize("given", [["trunk"], None, 1.0, True, np.True_, ("trunk",), np.array([1])])
@pytest.mark.parametrize("look_up", [Model.locate, Model.body_index, Model.joint_index])
def test_what_is_neither_name_nor_number(look_up, given):
    # Without the checks of types that the tests switch on, as users have it.
    with pytest.raises(ValueError, match=r"must be a name \(a string\) or a number \(an integer\), got "):
        inspect.unwrap(look_up)(mechanism("humanoid-like"), given)


def test_numbers_are_integers_of_any_type_that_are_known():
    model = mechanism("humanoid-like")
    for number in (np.int64(3), np.uint8(3), jnp.array(3), np.array(3)):
        assert model.locate(number)[0] == model.body_index(number) == model.joint_index(number) == 3
    with pytest.raises(ValueError, match=r"frame or body must be known while tracing, got .*static argument"):
        jax.jit(lambda i: jaxcfa.add_payload(model, i, 1.0).mass)(3)


def test_keyframes():
    model = mechanism("straight chain")
    frames = Keyframes(("home", "folded"), jnp.arange(12.0).reshape(2, 6), jnp.zeros((2, 6)), jnp.zeros((2, 0)))
    model = dataclasses.replace(model, keyframes=frames)
    assert model.keyframe("folded").tolist() == [6, 7, 8, 9, 10, 11]
    with pytest.raises(ValueError, match="No keyframe named 'fold'; did you mean 'folded'"):
        model.keyframe("fold")


def test_compiled_once_for_equal_topologies():
    """Values may change; only another structure is another program."""
    traces = []

    @jax.jit
    def total_mass(model):
        traces.append(model.nb)
        return jnp.sum(model.mass)

    model = jaxcfa.random_tree(4, jax.random.key(0))
    heavier = eqx.tree_at(lambda m: m.mass, jaxcfa.random_tree(4, jax.random.key(0)), 2 * model.mass)
    assert_close(total_mass(heavier), 2 * np.asarray(total_mass(model)))
    assert traces == [4]
    total_mass(jaxcfa.random_tree(4, jax.random.key(1)))
    assert traces == [4, 4]


def test_replaced_leaves_count():
    model = mechanism("straight chain")
    q = random_state(model).q
    moved = eqx.tree_at(lambda m: m.placement.translation, model, 2 * model.placement.translation)
    positions = jaxcfa.forward_kinematics(model, q).translation
    assert_close(jaxcfa.forward_kinematics(moved, q).translation, 2 * np.asarray(positions))


@pytest.mark.parametrize(
    ("part", "wrong", "message"),
    [
        ("mass", 2.0, r"The mass of a model must be an array of shape \(6,\), got 2.0. Write jnp.full\(\(6,\)"),
        ("mass", jnp.ones(5), r"The mass of a model must .* \(6,\), got shape \(5,\)"),
        ("armature", jnp.ones(()), r"The armature of a model must .* \(6,\), got shape \(\)"),
        ("com", jnp.ones((3, 6)), r"The com of a model must .* \(6, 3\), got shape \(3, 6\)"),
        ("limits.lower", -1.0, r"The limits.lower of a model must .* \(6,\), got -1.0"),
        ("placement.rotation", jnp.eye(3), r"The placement.rotation .* \(6, 3, 3\), got shape \(3, 3\)"),
        ("damping", jnp.ones((4, 6)), r"single models, but values of damping have shape \(4, 6\) instead of 1 axes"),
    ],
)
def test_replaced_leaves_of_other_shapes_are_explained(part, wrong, message):
    model = eqx.tree_at(operator.attrgetter(part), mechanism("straight chain"), wrong)
    with pytest.raises(ValueError, match=message):
        jaxcfa.gravity_forces(model, np.zeros(model.nq))


def test_batch_of_models():
    """Placements differ, the configuration is shared."""
    model = mechanism("straight chain")
    q = random_state(model).q
    factors = jnp.array([1.0, 2.0, -3.0])
    scaled = jax.vmap(lambda s: eqx.tree_at(lambda m: m.placement.translation, model, s * model.placement.translation))
    poses = jax.vmap(jaxcfa.forward_kinematics, (0, None))(scaled(factors), q)
    positions = np.asarray(jaxcfa.forward_kinematics(model, q).translation)
    assert_close(poses.translation, np.asarray(factors)[:, None, None] * positions)


def test_spatial_inertia():
    model = mechanism("mixed tree")
    inertia = model.spatial_inertia
    assert inertia.as_matrix().shape == (8, 6, 6)
    assert_close(inertia.moment, np.asarray(model.mass)[:, None] * np.asarray(model.com), 1e-15)
