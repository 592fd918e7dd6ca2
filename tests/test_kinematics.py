"""Kinematics against derivatives of poses, and the arguments that all functions share."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close, cast
from jaxcfa.joints import Revolute, Spherical
from jaxcfa.spatial import rotation_exp
from jaxcfa.structured import Doubling
from mechanisms import mechanism, random_state, random_states


def model_and_frame(name: str):
    """A mechanism, and its last frame, which is turned against its body."""
    model = mechanism(name)
    turned = jnp.tile(rotation_exp(jnp.array([0.3, 1.0, -0.4])), (len(model.frame_names), 1, 1))
    return eqx.tree_at(lambda m: m.frame_placement.rotation, model, turned), model.frame_names[-1]


def angular_velocity(rotation, rate):
    spin = rate @ jnp.swapaxes(rotation, -1, -2)
    return jnp.stack([spin[..., 2, 1], spin[..., 0, 2], spin[..., 1, 0]], axis=-1)


def velocity_of(pose_at):
    """`[angular; linear]` velocity at time zero of a pose that is a function of time."""
    pose, rate = jax.jvp(pose_at, (0.0,), (1.0,))
    return jnp.concatenate([angular_velocity(pose.rotation, rate.rotation), rate.translation], axis=-1)


def rate_of(function):
    return jax.jvp(function, (0.0,), (1.0,))[1]


@functools.cache
def laws() -> dict[str, tuple]:
    """Both sides of every law, of all mechanisms side by side, from one program."""
    model, frame = model_and_frame("all together")
    frames = frame, f"mixed tree: {mechanism('mixed tree').body_names[-1]}"

    @jax.jit
    def run(q, v, qdd):
        def along(dv):
            return lambda t: jaxcfa.integrate(model, q, dv, t)

        def columns(frame):
            moving = jax.vmap(lambda dv: velocity_of(lambda t: jaxcfa.frame_pose(model, along(dv)(t), frame)))
            return moving(jnp.eye(model.nv)).T

        def drift(frame):
            return rate_of(lambda t: jaxcfa.jacobian(model, along(v)(t), frame) @ v)

        bodies = velocity_of(lambda t: jaxcfa.forward_kinematics(model, along(v)(t)))
        moving = rate_of(lambda t: jaxcfa.body_velocities(model, along(v)(t), v + t * qdd))
        return {
            "velocities": (jaxcfa.body_velocities(model, q, v), bodies),
            "accelerations": (jaxcfa.body_accelerations(model, q, v, qdd), moving),
            "jacobian": ([jaxcfa.jacobian(model, q, x) for x in frames], [columns(x) for x in frames]),
            "jacobian_dot_v": ([jaxcfa.jacobian_dot_v(model, q, v, x) for x in frames], [drift(x) for x in frames]),
        }

    return jax.device_get(run(*random_state(model)[:3]))


@pytest.mark.parametrize("law", ["velocities", "accelerations", "jacobian", "jacobian_dot_v"])
def test_derivatives_of_poses(law):
    assert_close(*laws()[law], 1e-12)


def test_poses_of_frames_are_fixed_in_bodies():
    model, frame = model_and_frame("humanoid-like")
    q = random_state(model).q
    body, placement = model.locate(frame)
    poses = np.asarray(jaxcfa.forward_kinematics(model, q).as_matrix())
    expected = poses[body] @ np.asarray(placement.as_matrix())
    assert_close(jaxcfa.frame_pose(model, q, frame).as_matrix(), expected, 1e-14)


def test_names_and_numbers_mean_the_same():
    model = mechanism("humanoid-like")
    q, v, *_ = random_state(model)
    velocities = jaxcfa.body_velocities(model, q, v)
    poses = jaxcfa.forward_kinematics(model, q).as_matrix()
    for body in (0, 5, model.nb - 1):
        for key in (body, model.body_names[body]):
            assert_close(jaxcfa.jacobian(model, q, key) @ v, np.asarray(velocities[body]), 1e-12)
            assert_close(jaxcfa.frame_pose(model, q, key).as_matrix(), np.asarray(poses[body]), 1e-14)


def test_only_joints_below_move_a_body():
    model = mechanism("humanoid-like")
    moving = np.any(jaxcfa.jacobian(model, random_state(model).q, "limb2_1"), axis=0)
    assert np.flatnonzero(moving).tolist() == [*range(6), *range(12, 14)]


def test_frames_of_the_world():
    builder = jaxcfa.ModelBuilder()
    builder.add_frame("post", None, (1.0, 2.0, 3.0))
    builder.add_body("arm", joint=jaxcfa.joints.Revolute((0, 0, 1)), mass=1.0)
    model = builder.build()
    q, v = jnp.array([0.4]), jnp.array([5.0])
    for frame, position in (("post", [1, 2, 3]), (-1, [0, 0, 0])):
        pose = jaxcfa.frame_pose(model, q, frame)
        assert pose.translation.tolist() == position
        assert np.array_equal(pose.rotation, np.eye(3))
        assert not np.any(jaxcfa.jacobian(model, q, frame))
        assert not np.any(jaxcfa.jacobian_dot_v(model, q, v, frame))


def test_batches_and_single_precision():
    """A batch of states in single precision is that of single states in double."""
    model, frame = model_and_frame("humanoid-like")

    def everything(model, q, v, qdd):
        return {
            "poses": jaxcfa.forward_kinematics(model, q),
            "frame": jaxcfa.frame_pose(model, q, frame),
            "velocities": jaxcfa.body_velocities(model, q, v),
            "accelerations": jaxcfa.body_accelerations(model, q, v, qdd),
            "jacobian": jaxcfa.jacobian(model, q, frame),
            "drift": jaxcfa.jacobian_dot_v(model, q, v, frame),
        }

    states = random_states(model, 3)[:3]
    batched = jax.jit(jax.vmap(everything, (None, 0, 0, 0)))
    single = jax.jit(everything)
    actual = batched(cast(model, jnp.float32), *cast(states, jnp.float32))
    expected = [single(model, *(x[i] for x in states)) for i in range(3)]
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(actual))
    assert_close(actual, jax.tree.map(lambda *x: np.stack(x), *expected), 2e-5)


def test_types_are_promoted():
    model = mechanism("straight chain", "float32")
    for q, dtype in ((np.zeros(6, np.float32), jnp.float32), (np.zeros(6, int), jnp.float32), ([0.0] * 6, jnp.float64)):
        assert jaxcfa.jacobian(model, jnp.asarray(q), "tip").dtype == dtype


FUNCTIONS = {
    "forward_kinematics": ("q",),
    "body_velocities": ("q", "v"),
    "body_accelerations": ("q", "v", "qdd"),
    "inverse_dynamics": ("q", "v", "qdd", "f_ext"),
    "bias_forces": ("q", "v", "f_ext"),
    "forward_dynamics": ("q", "v", "tau", "f_ext"),
    "mass_matrix": ("q",),
    "center_of_mass": ("q",),
    "center_of_mass_jacobian": ("q",),
    "center_of_mass_velocity": ("q", "v"),
    "centroidal_momentum_bias": ("q", "v"),
    "centroidal_momentum_matrix": ("q",),
    "coriolis_matrix": ("q", "v"),
    "gravity_forces": ("q",),
    "momentum": ("q", "v"),
    "subtree_centers_of_mass": ("q",),
    "kinetic_energy": ("q", "v"),
    "potential_energy": ("q",),
    "elastic_energy": ("q",),
    "passive_forces": ("q", "v"),
    "integrate": ("q", "v"),
    "difference": ("q0", "q1"),
}
OF_FRAMES = {
    "frame_acceleration": ("q", "v", "qdd"),
    "frame_pose": ("q",),
    "frame_velocity": ("q", "v"),
    "jacobian": ("q",),
    "jacobian_dot_v": ("q", "v"),
}


def right_shape(model, argument: str) -> tuple[int, ...]:
    if argument == "f_ext":
        return (model.nb, 6)
    return (model.nq if argument.startswith("q") and argument != "qdd" else model.nv,)


@pytest.mark.parametrize(
    ("function", "argument"), [(name, x) for name, arguments in (FUNCTIONS | OF_FRAMES).items() for x in arguments]
)
def test_wrong_shapes(function, argument):
    model = mechanism("forest")
    arguments = {name: np.zeros(right_shape(model, name)) for name in (FUNCTIONS | OF_FRAMES)[function]}
    frame = ("body0",) if function in OF_FRAMES else ()
    shape = right_shape(model, argument)
    wrong = {"scalar": (), "longer": (shape[0] + 1, *shape[1:]), "batch": (4, *shape)}
    for kind, given in wrong.items():
        values = (arguments | {argument: np.zeros(given)}).values()
        with pytest.raises(ValueError, match=rf"{argument} must have shape \(n.*\) = .*, got ") as error:
            getattr(jaxcfa, function)(model, *values, *frame)
        assert ("jax.vmap" in str(error.value)) == (kind == "batch")


@pytest.mark.parametrize("function", FUNCTIONS | OF_FRAMES)
def test_zeros_are_no_configuration_with_quaternions(function):
    """Without the check everything would be NaN. Of traced values it still is."""
    model = mechanism("forest")
    names = (FUNCTIONS | OF_FRAMES)[function]
    frame = ("body0",) if function in OF_FRAMES else ()
    configurations = [name for name in names if name in ("q", "q0", "q1")]
    for wrong in configurations:
        arguments = {name: np.zeros(right_shape(model, name)) for name in names}
        arguments |= dict.fromkeys(configurations, jaxcfa.neutral(model))
        arguments[wrong] = np.asarray(arguments[wrong]).copy()
        start = model.q_slice("joint5").stop - 4
        arguments[wrong][start : start + 4] = 0
        message = rf"{wrong}\[{start}:{start + 4}\] is the quaternion of joint 'joint5' .* Start from neutral\(model\)"
        with pytest.raises(ValueError, match=message):
            getattr(jaxcfa, function)(model, *arguments.values(), *frame)


def test_traced_zeros_give_nan():
    model = mechanism("free body")
    assert np.all(np.isnan(jax.jit(lambda q: jaxcfa.forward_kinematics(model, q).rotation)(np.zeros(7))))


@pytest.mark.slow
def test_far_from_the_worlds_origin_no_digits_are_lost():
    """Nor from other robots: 100 km away positions in single precision are right to some millimetres only."""
    types = [Revolute, Spherical]
    model = jaxcfa.random_tree(6, jax.random.key(0), types, roots=2, floating_base=True, dtype="float32")
    q, v, qdd, f_ext = random_state(model)
    last = int(np.flatnonzero(model.topology.roots == 0)[-1])
    # The distance of two robots is not known better: of one of them.
    first = jaxcfa.subtree(model, 0)
    own = np.concatenate([np.arange(*model.q_slice(joint).indices(model.nq)) for joint in first.joint_names])
    own_v = np.concatenate([np.arange(*model.v_slice(joint).indices(model.nv)) for joint in first.joint_names])

    @functools.partial(jax.jit)
    def everything(q):
        return {
            "jacobian": jaxcfa.jacobian(model, q, last),
            "by scans": jaxcfa.jacobian(model, q, last, schedule=Doubling()),
            "several": jaxcfa.operational_space_inertia(model, q, [last, 0]).jacobian,
            "derivatives": tuple(jaxcfa.inverse_dynamics_derivatives(model, q, v, qdd, f_ext)),
            "regressor": jaxcfa.regressor(model, q, v, qdd),
            "mass matrix": jaxcfa.mass_matrix(model, q),
            "momentum": jaxcfa.momentum(first, q[own], v[own_v]),
            "its matrix": jaxcfa.centroidal_momentum_matrix(first, q[own]),
            "its bias": jaxcfa.centroidal_momentum_bias(first, q[own], v[own_v]),
        }

    far = everything(q.at[:3].add(jnp.array([1e5, -2e4, 3e4], q.dtype)))
    assert_close(far, jax.device_get(everything(q)), 1e-6)


def test_arguments_that_are_no_numbers():
    model = mechanism("straight chain")
    with pytest.raises(ValueError, match="q must be real, got dtype complex128"):
        jaxcfa.mass_matrix(model, np.zeros(6, complex))


@pytest.mark.parametrize("function", OF_FRAMES)
def test_unknown_frames(function):
    model = mechanism("humanoid-like")
    state = {"q": jaxcfa.neutral(model), "v": np.zeros(model.nv), "qdd": np.zeros(model.nv)}
    arguments = [state[name] for name in OF_FRAMES[function]]
    with pytest.raises(ValueError, match="No frame or body named 'hnd'; did you mean 'hand'"):
        getattr(jaxcfa, function)(model, *arguments, "hnd")
    with pytest.raises(ValueError, match="No frame or body number 14"):
        getattr(jaxcfa, function)(model, *arguments, 14)


def test_nothing_that_moves():
    builder = jaxcfa.ModelBuilder()
    builder.add_body("table", mass=3.0, placement=(1.0, 2.0, 3.0))
    model = builder.build()
    shapes = {
        "mass_matrix": (0, 0),
        "kinetic_energy": (),
        "potential_energy": (),
        "elastic_energy": (),
        "body_velocities": (0, 6),
        "body_accelerations": (0, 6),
        "coriolis_matrix": (0, 0),
        "subtree_centers_of_mass": (0, 3),
    }
    for function, names in FUNCTIONS.items():
        arguments = [np.zeros(right_shape(model, name)) for name in names]
        if "center_of_mass" in function or "momentum" in function:
            with pytest.raises(ValueError, match="no moving body with mass"):
                getattr(jaxcfa, function)(model, *arguments)
        elif function == "forward_kinematics":
            assert jaxcfa.forward_kinematics(model, *arguments).as_matrix().shape == (0, 4, 4)
        else:
            result = getattr(jaxcfa, function)(model, *arguments)
            assert result.shape == shapes.get(function, (0,))
            assert result.dtype == jnp.float64
            assert not np.any(result)
    nothing = np.zeros(0)
    assert jaxcfa.neutral(model).shape == jaxcfa.random_configuration(model, jax.random.key(0)).shape == (0,)
    assert jaxcfa.frame_pose(model, nothing, "table").translation.tolist() == [1, 2, 3]
    assert jaxcfa.jacobian(model, nothing, "table").shape == (6, 0)
    assert jaxcfa.jacobian_dot_v(model, nothing, nothing, "table").tolist() == [0] * 6
    assert jaxcfa.wrench_at(model, nothing, "table", np.ones(6)).shape == (0, 6)
