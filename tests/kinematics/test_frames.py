"""One argument for frames: names, numbers, several of them, and numbers that are traced."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close, cast
from mechanisms import mechanism, random_state
from program_size import equations


@pytest.fixture(scope="module")
def robot():
    """A free base with an arm, a hand on it, and a post in the world."""
    builder = jaxcfa.ModelBuilder()
    body = {"mass": 1.0, "com": (0.02, 0.0, 0.1), "inertia": (0.02, 0.03, 0.01)}
    builder.add_body("base", joint=jaxcfa.joints.Free(), **body)
    builder.add_body("arm", "base", jaxcfa.joints.Revolute((0, 1, 0)), (0.1, 0.0, 0.2), **body)
    builder.add_frame("hand", "arm", jaxcfa.Transform.from_rpy(0.3, -0.2, 1.0, (0.0, 0.1, 0.3)))
    builder.add_frame("post", None, (1.0, 2.0, 3.0))
    return builder.build(dtype="float64")


def everything(model, x, frames, reference="post"):
    """All functions of frames."""
    q, v, qdd, _ = x
    wrenches = jnp.ones((*jnp.shape(frames), 6))
    known = {"motions": jaxcfa.body_motions(model, q, v)}
    return {
        "pose": jaxcfa.frame_pose(model, q, frames, **known),
        "velocity": jaxcfa.frame_velocity(model, q, v, frames, "local", **known),
        "acceleration": jaxcfa.frame_acceleration(model, q, v, qdd, frames, **known),
        "jacobian": jaxcfa.jacobian(model, q, frames, "local", **known),
        "drift": jaxcfa.jacobian_dot_v(model, q, v, frames, "local", **known),
        "relative pose": jaxcfa.relative_pose(model, q, frames, reference, **known),
        "relative velocity": jaxcfa.relative_velocity(model, q, v, frames, reference, **known),
        "relative jacobian": jaxcfa.relative_jacobian(model, q, frames, reference, **known),
        "wrench": jaxcfa.wrench_at(model, q, frames, wrenches, "local", **known),
    }


def test_several_and_traced_frames_are_single_ones(robot):
    """By one compiled program with a traced number, which serves all frames, and one with several."""
    x, names = random_state(robot), ("hand", "base", "arm", "post")
    numbers = [robot.frame_number(name) for name in names]
    assert numbers == [2, 0, 1, 3]
    one = jax.jit(lambda x, i: everything(robot, x, i))
    single = [one(x, i) for i in (*numbers, -1)]
    assert one._cache_size() == 1
    expected = jax.tree.map(lambda *y: np.stack(y), *single)
    # Those fixed to the world do not move, and wrenches there do nothing.
    assert not any(np.any(y[3:]) for name, y in expected.items() if "pose" not in name)
    wrench = expected.pop("wrench").sum(axis=0)
    found = jax.jit(lambda x, i: everything(robot, x, i))(x, np.array([*numbers, -1]))
    assert_close(found.pop("wrench"), wrench, 1e-13)
    assert_close(found, expected, 1e-13)
    poses = jaxcfa.frame_pose(robot, x.q, names)
    for same in (np.array(names), np.array(numbers), jnp.array(numbers), tuple(numbers)):
        assert jnp.array_equal(jaxcfa.frame_pose(robot, x.q, same).as_matrix(), poses.as_matrix())
    assert_close(poses.as_matrix(), expected["pose"].as_matrix()[:4], 1e-13)
    # One by one, beside one that is known.
    some = jax.jit(jax.vmap(lambda i: jaxcfa.frame_pose(robot, x.q, [i, "post"])))(jnp.array([2, 0]))
    assert_close(some.translation[:, 0], expected["pose"].translation[:2], 1e-13)
    assert some.translation[1, 1].tolist() == [1, 2, 3]


def test_no_frames(robot):
    for model in (robot, jaxcfa.random_tree(2, jax.random.key(0))):
        state = jax.eval_shape(lambda model=model: random_state(model))
        found = jax.eval_shape(lambda x, model=model: everything(model, x, np.zeros(0, int), 0), state)
        assert found.pop("wrench").shape == (2, 6)
        assert {y.shape[0] for y in jax.tree.leaves(found)} == {0}
    assert jaxcfa.frame_pose(robot, random_state(robot).q, []).translation.shape == (0, 3)


def test_sizes_of_programs():
    """One vectorised computation, whatever the number of frames and of bodies."""

    def size(n, frames):
        model = jaxcfa.chain(n, floating_base=True)
        state = jax.eval_shape(lambda: random_state(model))
        return equations(lambda x: everything(model, x, np.arange(frames) % n, 1), state)

    assert size(5, 2) == size(5, 40) == size(50, 40)


def test_relative_to_a_body_that_is_carried_along(robot):
    q = random_state(robot).q
    found = jaxcfa.relative_pose(robot, q, "hand", ["arm", "hand"]).as_matrix()
    assert_close(found, np.stack([robot.locate("hand")[1].as_matrix(), np.eye(4)]), 1e-14)
    assert not np.any(jaxcfa.relative_jacobian(robot, q, "hand", "arm"))


def test_far_from_the_worlds_origin_no_digits_are_lost(robot):
    x = cast(random_state(robot), jnp.float32)
    model = robot.astype("float32")
    far = x._replace(q=x.q.at[:3].add(jnp.array([1e5, -2e4, 3e4], jnp.float32)))
    pairs = {"frames": ["hand", "base"], "reference": ["base", "arm"]}
    here, there = (jaxcfa.relative_pose(model, y.q, **pairs) for y in (x, far))
    assert_close(there, jax.tree.map(np.asarray, here), 1e-6)
    assert_close(*(jax.device_get(jaxcfa.relative_jacobian(model, y.q, **pairs)) for y in (far, x)), 1e-6)


def test_senseless_frames(robot):
    q = jaxcfa.neutral(robot)
    zero = np.zeros(robot.nv)
    calls = {
        "No frame or body named 'hnad'; did you mean 'hand'": lambda: jaxcfa.frame_pose(robot, q, ["arm", "hnad"]),
        r"number 4: numbers go from -1 \(the world\) to 3. The first 2 from 0 are bodies": lambda: jaxcfa.jacobian(
            robot, q, jnp.array([0, 4])
        ),
        "No frame or body number -2": lambda: jaxcfa.frame_velocity(robot, q, zero, [0, -2]),
        r"array of integers of shape \(\) or \(m,\), got an array of shape \(2,\) and dtype float": lambda: (
            jaxcfa.frame_pose(robot, q, np.zeros(2))
        ),
        r"got an array of shape \(1, 2\)": lambda: jaxcfa.frame_pose(robot, q, np.zeros((1, 2), int)),
        r"must be a name \(a string\) or a number": lambda: jaxcfa.frame_pose(robot, q, [0, 1.5]),
        'axes must be "world" or "local", got \'body\'': lambda: jaxcfa.jacobian(robot, q, 0, "body"),
        r"wrenches must have shape \(2, 6\), six for each frame, got \(6,\)": lambda: jaxcfa.wrench_at(
            robot, q, ["hand", "arm"], np.zeros(6)
        ),
        "equally many, or one of either, got 2 and 3": lambda: jaxcfa.relative_pose(robot, q, [0, 1], [0, 1, 2]),
    }
    for message, call in calls.items():
        with pytest.raises(ValueError, match=message):
            call()


def test_numbers_of_frames():
    model = mechanism("humanoid-like")
    names = (*model.body_names, *model.frame_names)
    assert [model.frame_number(name) for name in names] == list(range(14))
    assert model.frame_number(-1) == -1
    assert model.locate(13)[0] == model.locate("hand")[0] == 12
    assert_close(model.locate(13)[1].translation, np.array([0.0, 0.0, 0.3]), 0)
