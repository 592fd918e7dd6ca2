"""Servos on the joints of models without actuators."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close, cast
from jaxcfa.actuation import actuator_forces
from jaxcfa.joints import Composite, Free, Prismatic, Revolute, Spherical, Universal

STIFFNESS, DAMPING = np.array([3.0, 5.0, 7.0, 9.0, 11.0]), np.array([0.1, 0.2, 0.3, 0.4, 0.5])


def robot() -> jaxcfa.Model:
    """A free base with a hinge in a limited range, a ball, a universal joint, and a hinge and a slide in one body."""
    builder = jaxcfa.ModelBuilder()
    body = {"mass": 1.0, "inertia": 0.1, "com": (0.1, 0.0, 0.0)}
    base = builder.add_body("base", joint=Free(), **body)
    builder.add_body(
        "arm", base, Revolute((0, 1, 0)), **body, joint_name="hinge", lower=-0.5, upper=0.7, effort_limit=2.0
    )
    builder.add_body("head", base, Spherical(), **body, joint_name="ball")
    builder.add_body("hand", "arm", Universal((1, 0, 0), (0, 1, 0)), **body, joint_name="wrist")
    both = Composite((Revolute((0, 0, 1)), Prismatic((1, 0, 0))))
    builder.add_body("tip", "hand", both, **body, joint_name="turn+slide", damping=1.0)
    return builder.build()


def test_torques_are_those_of_springs_within_limits_and_damping_is_the_joints(dtype):
    model = cast(robot(), dtype)
    servos = jaxcfa.add_servos(model, STIFFNESS, DAMPING)
    assert servos.actuators.names == ("hinge", "wrist_0", "wrist_1", "turn", "slide")
    in_v = np.flatnonzero(servos.actuators.moment.sum(axis=0))
    assert in_v.tolist() == [6, 10, 11, 12, 13]
    in_q = np.array([7, 12, 13, 14, 15])
    q = jaxcfa.random_configuration(servos, jax.random.key(0))
    v, control = jnp.ones(servos.nv, dtype), jnp.linspace(-0.4, 0.4, 5, dtype=dtype)
    expected = np.zeros(servos.nv)
    expected[in_v] = STIFFNESS * np.asarray(control - q[in_q], float)
    expected[6] = np.clip(expected[6], -2, 2)
    tau = jax.jit(actuator_forces)(servos, q, v, control)
    assert tau.dtype == dtype
    assert_close(tau, expected)
    assert_close(servos.damping - model.damping, np.eye(servos.nv)[in_v].T @ DAMPING)
    # Targets beyond the range of a joint are those at its end.
    beyond = actuator_forces(servos, q.at[7].set(0.6), v, control.at[0].set(5.0))[6]
    assert_close(beyond, np.array(3.0 * (0.7 - 0.6)))


def test_a_simulated_servo_comes_to_its_target_and_a_stiff_one_is_stable():
    model = dataclasses.replace(jaxcfa.chain(2), gravity=jnp.zeros(3))
    target, still = jnp.array([0.4, -0.9]), jnp.zeros(2)

    @jax.jit
    @jax.vmap
    def end(stiffness):
        servos = jaxcfa.add_servos(model, stiffness, 0.1 * stiffness)
        targets = jnp.tile(target, (200, 1))
        return jaxcfa.rollout(servos, still, still, targets, 0.02, actuated="actuators").q[-1]

    assert_close(end(jnp.array([20.0, 200.0])), jnp.stack([target, target]), 1e-6)


def test_what_servos_are_told_in_keyframes():
    """To stay where the keyframe has them, unless it says otherwise; before they are added, too."""
    model = robot()
    q = jaxcfa.random_configuration(model, jax.random.key(0))
    before = jaxcfa.add_servos(jaxcfa.add_keyframe(model, "home", q), 3.0)
    after = jaxcfa.add_keyframe(jaxcfa.add_servos(model, 3.0), "home", q)
    for each in (before, after):
        assert_close(each.keyframe_control("home"), np.asarray(q)[[7, 12, 13, 14, 15]])
    told = jaxcfa.add_keyframe(before, "other", q, control=jnp.arange(5.0))
    assert told.keyframe_control("other").tolist() == [0, 1, 2, 3, 4]
    arm = jaxcfa.lock_joints(jaxcfa.subtree(told, "arm"), "wrist")
    assert (arm.actuators.names, arm.keyframe_control("other").tolist()) == (("hinge", "turn", "slide"), [0, 3, 4])
    pair = jaxcfa.combine([told, told], ["left", "right"])
    assert pair.keyframe_control("other").tolist() == [0, 1, 2, 3, 4] * 2
    more = jaxcfa.attach(told, "tip", jaxcfa.add_servos(jaxcfa.chain(1), 1.0), prefix="more")
    assert more.keyframe_control("other").tolist() == [0, 1, 2, 3, 4, 0]
    with pytest.raises(ValueError, match="No keyframe named 'away'; there are"):
        told.keyframe_control("away")
    with pytest.raises(ValueError, match="control of the keyframe 'bad' must be finite"):
        jaxcfa.add_keyframe(told, "bad", q, control=jnp.full(5, jnp.nan))


def test_some_joints_after_other_actuators():
    first = jaxcfa.add_servos(robot(), 3.0, joints="hinge")
    both = jaxcfa.add_servos(first, [4.0, 5.0], 1.0, joints=["wrist"])
    assert both.actuators.names == ("hinge", "wrist_0", "wrist_1")
    assert both.actuators.gain.tolist() == [3.0, 4.0, 5.0]
    assert jaxcfa.add_servos(robot(), 3.0, joints=[1]).actuators.names == ("hinge",)
    slide = jaxcfa.add_servos(robot(), 3.0, 2.0, joints="slide")
    assert (slide.actuators.names, slide.actuators.moment.tolist()) == (("slide",), [[0.0] * 13 + [1.0]])
    assert slide.damping[12:].tolist() == [1.0, 3.0]
    assert set(both.damping.tolist()) == {0.0, 1.0}
    pair = jaxcfa.combine([both, both], ["left", "right"])
    assert pair.actuators.moment.shape == (6, 2 * both.nv)


def test_mistakes_are_explained():
    model = robot()
    cases = {
        "which 'ball' has not": {"joints": "ball"},
        "which 'base_joint' has not": {"joints": [0]},
        "No joint named 'knee'": {"joints": "knee"},
        "joints must name one .* each once, got \\['hinge', 'hinge'\\]": {"joints": ["hinge", "hinge"]},
        "each once, got \\['turn.slide', 'turn'\\]": {"joints": ["turn+slide", "turn"]},
        "each once, got \\[1 1\\]": {"joints": np.array([1, 1])},
        "one for each of 5 servos, got shape \\(2,\\)": {"damping": [1.0, 2.0]},
        "damping must be finite and not negative, got -1": {"damping": -1.0},
    }
    for message, options in cases.items():
        with pytest.raises(ValueError, match=message):
            jaxcfa.add_servos(model, 1.0, **options)
    with pytest.raises(ValueError, match="has an actuator named 'hinge'"):
        jaxcfa.add_servos(jaxcfa.add_servos(model, 1.0), 1.0)
    builder = jaxcfa.ModelBuilder()
    for joint, name in ((Universal((1, 0, 0), (0, 1, 0)), "wrist"), (Revolute((1, 0, 0)), "wrist_0")):
        builder.add_body(joint=joint, joint_name=name, mass=1.0, inertia=0.1)
    with pytest.raises(ValueError, match="Two servos would be named 'wrist_0'"):
        jaxcfa.add_servos(builder.build(), 1.0)
    builder = jaxcfa.ModelBuilder()
    builder.add_body("ball", joint=Free(), mass=1.0, inertia=0.1)
    with pytest.raises(ValueError, match="got none"):
        jaxcfa.add_servos(builder.build(), 1.0)


class TestMotorsAndVelocityServos:
    def test_torques(self, dtype):
        model = cast(robot(), dtype)
        model = jaxcfa.with_joint(model, "hinge", velocity_limit=3.0)
        motors = jaxcfa.add_motors(model, gear=4.0)
        names = ("hinge", "ball_0", "ball_1", "ball_2", "wrist_0", "wrist_1", "turn", "slide")
        assert motors.actuators.names == names
        both = jaxcfa.add_velocity_servos(model, np.arange(1.0, 9.0))
        assert both.actuators.names == names
        q = jaxcfa.random_configuration(model, jax.random.key(0))
        v = jnp.linspace(-1, 1, 14, dtype=dtype)
        control = jnp.linspace(0.1, 0.8, 8, dtype=dtype)
        torques = jax.jit(actuator_forces)(motors, q, v, control)
        assert torques.dtype == dtype
        assert_close(torques, np.concatenate([np.zeros(6), 4 * control]))
        driven = actuator_forces(both, q, v, control)
        assert_close(driven, np.concatenate([np.zeros(6), np.arange(1, 9) * np.asarray(control - v[6:])]))
        # The hinge has at most 2 newton metres, and 3 radians a second.
        assert float(actuator_forces(motors, q, v, 9 * control)[6]) == 2.0
        assert (float(motors.actuators.control_upper[0]), float(both.actuators.control_lower[0])) == (0.5, -3.0)
        assert float(actuator_forces(both, q, v.at[6].set(2.5), control.at[0].set(9.0))[6]) == 0.5

    def test_they_are_those_of_files(self):
        """`<motor>` and `<velocity>` of MJCF."""
        text = """<mujoco><worldbody><body><joint name="a" axis="0 1 0"/><geom size="0.1"/><body pos="1 0 0">
        <joint name="b" type="slide" axis="0 1 0"/><geom size="0.1"/></body></body></worldbody><actuator>
        <motor name="a" joint="a" gear="3"/><velocity name="b" joint="b" kv="7"/></actuator></mujoco>"""
        read = jaxcfa.load_model(text)
        bare = jaxcfa.load_model(text.split("<actuator>")[0] + "</mujoco>")
        made = jaxcfa.add_velocity_servos(jaxcfa.add_motors(bare, 3.0, joints="a"), 7.0, joints="b")
        q, v = jnp.array([0.3, -0.2]), jnp.array([2.0, -5.0])
        for control in jnp.array([[0.7, -3.0], [-40.0, 20.0]]):
            assert_close(actuator_forces(made, q, v, control), actuator_forces(read, q, v, control))

    def test_a_wheel_gets_its_speed_at_any_gain_and_time_step(self):
        model = dataclasses.replace(jaxcfa.chain(2), gravity=jnp.zeros(3))

        @jax.jit
        @jax.vmap
        def end(gain):
            servos = jaxcfa.add_velocity_servos(model, gain)
            targets = jnp.tile(jnp.array([1.0, -0.5]), (60, 1))
            return jaxcfa.rollout(servos, jnp.zeros(2), jnp.zeros(2), targets, 0.02, actuated="actuators").v[-1]

        assert_close(end(jnp.array([1e3, 1e6])), jnp.array([[1.0, -0.5]] * 2), 1e-3)

    def test_beside_servos_in_changed_models(self):
        model = jaxcfa.add_keyframe(robot(), "home", jaxcfa.neutral(robot()))
        model = jaxcfa.add_servos(model, 3.0, joints="turn+slide")
        model = jaxcfa.add_motors(jaxcfa.add_velocity_servos(model, 2.0, joints="hinge"), joints="ball")
        assert model.actuators.names == ("turn", "slide", "hinge", "ball_0", "ball_1", "ball_2")
        assert model.keyframe_control("home").tolist() == [0.0] * 6
        locked = jaxcfa.lock_joints(model, "hinge")
        assert locked.actuators.names == ("turn", "slide", "ball_0", "ball_1", "ball_2")
        q, v = jaxcfa.neutral(locked), jnp.zeros(locked.nv)
        tau = actuator_forces(locked, q, v, jnp.array([0.0, 0.0, 1.0, 2.0, 3.0]))
        assert tau[locked.v_slice("ball")].tolist() == [1.0, 2.0, 3.0]

    def test_mistakes_are_explained(self):
        model = robot()
        cases = {
            "Nothing drives the free joint 'base_joint'": (jaxcfa.add_velocity_servos, 1.0, {"joints": [0]}),
            "gear must be positive, got 0": (jaxcfa.add_motors, 0.0, {}),
            "gear must be finite and not negative, got -1": (jaxcfa.add_motors, -1.0, {}),
            r"one for each of 8 motors, got shape \(2,\)": (jaxcfa.add_motors, [1.0, 2.0], {}),
            "gain must be finite and not negative": (jaxcfa.add_velocity_servos, np.nan, {}),
        }
        for message, (function, value, options) in cases.items():
            with pytest.raises(ValueError, match=message):
                function(model, value, **options)
        with pytest.raises(
            ValueError, match="has an actuator named 'hinge'; rename a joint, or name those that need a motor"
        ):
            jaxcfa.add_motors(jaxcfa.add_servos(model, 1.0))
