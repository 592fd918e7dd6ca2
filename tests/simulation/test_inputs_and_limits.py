"""Inputs of simulations through actuators, and the limits of positions and efforts."""

import functools
import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa import simulation
from jaxcfa.joints import Composite, Free, Revolute, Spherical
from jaxcfa.model import Actuators
from jaxcfa.optimal_control import RobotDynamics
from jaxcfa.simulation import ExplicitEuler, RungeKutta4, Stops, rollout, step
from jaxcfa.simulation._stops import stop_forces
from robots import urdf_path

UPPER = 0.5


@functools.cache
def pendulum() -> jaxcfa.Model:
    """Of one link, that can turn up to UPPER, whose servo has a gain of 3, a damping of 0.5 and at most 2 N m."""
    model = jaxcfa.chain(1, length=0.5)
    servo = Actuators(
        names=("servo",),
        frames=(None,),
        moment=np.array([[2.0]]),
        wrench=np.zeros((1, 6)),
        length_gradient=np.array([[2.0]]),
        length_offset=np.array([0.1]),
        gain=np.array([3.0]),
        bias=np.array([[0.2, -3.0, -0.5]]),
        control_lower=np.array([-np.inf]),
        control_upper=np.array([np.inf]),
        force_lower=np.array([-np.inf]),
        force_upper=np.array([np.inf]),
    )
    limits = tuple(np.array([x]) for x in (-0.1, UPPER, 2.0))
    model = eqx.tree_at(lambda m: (m.limits.lower, m.limits.upper, m.limits.effort), model, limits)
    return jax.tree.map(jnp.asarray, eqx.tree_at(lambda m: m.actuators, model, servo))


def test_known_numbers_may_be_arrays_where_states_are_traced():
    """Steps and stops that a compiled function takes from around it are looked at, and not traced."""
    model, dt, frequency, zero = pendulum(), jnp.array(0.02), jnp.array(30.0), jnp.array(0.0)

    def moved(x, dt=dt, frequency=frequency):
        return step(model, x, x, x, dt, limits=Stops(frequency))

    assert jax.eval_shape(moved, jnp.ones(1)).q.shape == (1,)
    cases = [("dt must be positive", {"dt": x}) for x in (zero, 0.0)]
    for message, options in [*cases, *(("frequency of stops", {"frequency": x}) for x in (zero, 0.0))]:
        with pytest.raises(ValueError, match=message):
            jax.eval_shape(functools.partial(moved, **options), jnp.ones(1))


def servo_torque(q, v, control):
    return np.clip(2 * (3 * control + 0.2 - 3 * (2 * q + 0.1) - 0.5 * 2 * v), -2, 2)


def test_controls_are_those_of_actuators():
    """A trajectory has their forces in the state at the start of each step; a policy may give controls, too."""
    model, dt = pendulum(), 0.02
    q, v = jnp.array([0.2]), jnp.array([0.5])
    controls = jnp.linspace(-1, 1, 6)[:, None]
    trajectory = rollout(model, q, v, controls, dt, RungeKutta4(), actuated=True)
    assert_close(trajectory.tau, servo_torque(trajectory.q[:-1], trajectory.v[:-1], controls))
    assert 0 < jnp.sum(jnp.abs(trajectory.tau) == 2) < 6
    explicit = step(model, q, v, trajectory.tau[0], dt, ExplicitEuler())
    assert_close(step(model, q, v, controls[0], dt, ExplicitEuler(), actuated=True), explicit)

    def policy(t, q, v):
        return jnp.interp(t, jnp.linspace(0, 0.1, 6), controls[:, 0])[None]

    by_policy = rollout(model, q, v, policy, dt, RungeKutta4(), actuated=True, steps=6)
    assert_close(by_policy, trajectory)


@jax.jit
def pressed(model, torque, dt):
    """After a second in which a torque presses a pendulum on its stop, its last position; and the trajectory."""
    q, v = jnp.array([0.0]), jnp.array([3.0])
    trajectory = rollout(model, q, v, jnp.broadcast_to(torque, (250, 1)), dt, limits=Stops(50.0))
    return trajectory.q[-1, 0], trajectory


def test_a_pendulum_comes_to_rest_on_its_stop():
    """As far beyond as the stop's stiffness says, `m w^2`, whatever the time step."""
    model = eqx.tree_at(lambda m: m.gravity, pendulum(), jnp.zeros(3))
    inertia = float(jaxcfa.mass_matrix(model, jnp.zeros(1))[0, 0])
    slope = jax.jit(jax.value_and_grad(pressed, argnums=1, has_aux=True))
    for dt in (4e-3, 4e-2):
        (_, trajectory), gradient = slope(model, jnp.array(1.5), dt)
        assert jnp.max(trajectory.q) < UPPER + 0.05
        assert_close(trajectory.q[-1], np.array([UPPER + 1.5 / (inertia * 50**2)]))
        assert jnp.abs(trajectory.v[-1]) < 1e-9
        assert_close(gradient, np.array(1 / (inertia * 50**2)))
    (_, trajectory), gradient = slope(model, jnp.array(5.0), 4e-3)
    assert jnp.all(trajectory.tau == 2)
    assert gradient == 0


# The numbers of a stop in a file, and how many rad or m a load pushes it in, about.
STOPS = (
    ("", 0.001),
    ("", 0.01),
    ('solreflimit="0.005 1" solimplimit="0.95 0.99 0.001"', 0.005),
    ('solreflimit="0.03 0.5"', 0.01),
    ('solreflimit="-900 -60" solimplimit="0 0.8"', 0.02),
    ('solreflimit="0.03 -1"', 0.01),  # of both kinds, for which MuJoCo takes its defaults
    ('solreflimit="0.0001 1" type="slide"', 0.003),  # MuJoCo takes two of its steps for less
)


def test_stops_give_way_as_far_as_those_of_mujoco():
    """Loads in many directions on stops of all kinds of numbers."""
    bodies = "".join(
        f"""<body><joint axis="0 1 0" limited="true" range="-0.5 0.5" {each}/>
        <geom type="capsule" size="0.02" fromto="0 0 0 1 0 {i}"/></body>"""
        for i, (each, _) in enumerate(STOPS)
    )
    text = f"""<mujoco><compiler angle="radian"/><option gravity="0 0 0" timestep="0.001"/><default>
    <geom contype="0" conaffinity="0"/></default><worldbody>{bodies}</worldbody></mujoco>"""
    model, mj = jaxcfa.load_model(text), mujoco.MjModel.from_xml_string(text)
    still = jnp.zeros(model.nv)
    stiffnesses = np.diagonal(jaxcfa.mass_matrix(model, still)) * model.limits.stop_frequency**2
    loads = stiffnesses * np.array([depth for _, depth in STOPS])
    for torque, end in ((loads, 0.5), (-loads, -0.5)):
        data = mujoco.MjData(mj)
        data.qpos[:], data.qfrc_applied[:] = end, torque
        mujoco.mj_step(mj, data, 600)
        q = rollout(model, still + end, still, jnp.tile(torque, (600, 1)), 1e-3, limits=True).q[-1]
        np.testing.assert_allclose(q - end, data.qpos - end, rtol=0.01)


def test_stops_act_on_request_only_and_as_strongly_as_asked():
    model, q, v, dt = pendulum(), jnp.array([UPPER + 0.01]), jnp.array([0.3]), 0.01
    inertia = jaxcfa.mass_matrix(model, q)[0]
    free, stopped = (step(model, q, v, v, dt, limits=limits).v for limits in (False, Stops(20.0, damping=0.5)))
    # Taken at the new velocity, and where that leads.
    stop = -inertia * (20.0**2 * (0.01 + dt * stopped) + 20.0 * stopped)
    assert_close(inertia * (stopped - free) / dt, stop)
    with pytest.raises(ValueError, match="limits must be True, False or Stops"):
        inspect.unwrap(simulation.step)(model, q, v, v, dt, limits="stops")


def test_quaternions_have_no_ends():
    """One number for all coordinates of a joint is not meant for these, nor is what a file or a program puts there."""
    builder = jaxcfa.ModelBuilder()
    builder.add_body("free", joint=Free(), mass=1.0, inertia=0.1, lower=-0.5, upper=0.5)
    builder.add_body("ball", joint=Spherical(), mass=1.0, inertia=0.1)
    model = builder.build(gravity=(0, 0, 0))
    ends = (limit.at[7:].set(end) for limit, end in ((model.limits.lower, 0.0), (model.limits.upper, 0.5)))
    model = eqx.tree_at(lambda m: (m.limits.lower, m.limits.upper), model, tuple(ends))
    q, v = jnp.array([0.6, 0.0, 0.0, 0.7, 0.1, 0.0, 0.7, 0.7, 0.1, 0.0, -0.7]), jnp.zeros(9)
    after = step(model, q, v, v, 0.01, limits=True)
    assert after.v[0] < 0
    assert np.max(np.abs(after.v[1:])) < 1e-12


def test_what_is_driven_is_said_alike_in_simulation_and_in_optimal_control():
    builder = jaxcfa.ModelBuilder()
    base = builder.add_body("base", joint=Free(), mass=1.0, inertia=0.1)
    for name in ("left", "right"):
        builder.add_body(name, base, Revolute((0, 1, 0)), (0.2, 0, 0), mass=1.0, inertia=0.1, joint_name=name)
    model, dt = builder.build(), 0.01
    q, v, u = jaxcfa.neutral(model), jnp.zeros(model.nv), jnp.array([1.0, 2.0])
    found = RobotDynamics(model, dt, actuated=["right", "left"]).torques(jnp.concatenate([q, v]), u)
    assert_close(found, np.array([0.0] * 6 + [2.0, 1.0]))
    for way, inputs in {None: u, False: v, ("right",): u[:1]}.items():
        linearize = functools.partial(simulation.linearize, model, q, v, dt=dt, actuated=way)
        assert jax.eval_shape(linearize, inputs).B.shape == (16, len(inputs))
        roll = functools.partial(rollout, model, q, v, dt=dt, steps=2, actuated=way)
        assert jax.eval_shape(lambda u, roll=roll: roll(lambda t, q, v: u), inputs).tau.shape == (2, model.nv)
    for way, driven in {None: (6, 7), False: None, ("right",): (7,)}.items():
        assert RobotDynamics(model, dt, actuated=way).actuated == driven
    # Nothing drives a body that floats.
    body, none = jaxcfa.lock_joints(model, ["left", "right"]), jnp.zeros((2, 0))
    drift = functools.partial(rollout, body, jaxcfa.neutral(body), dt=dt, actuated=None, limits=True)
    assert jax.eval_shape(drift, v[:6], none).tau.shape == (2, 6)


def test_controls_of_actuators_that_are_taken_for_torques_are_told_from_them():
    model, x, u, dt = jaxcfa.combine([pendulum(), jaxcfa.chain(1)], ["a_", "b_"]), jnp.zeros(2), jnp.zeros(1), 0.01
    for inputs in (u[None], lambda t, q, v: u):
        with pytest.raises(ValueError, match=r"nv.*got .*\. Controls of .* are taken with actuated=True"):
            rollout(model, x, x, inputs, dt, steps=1)
    with pytest.raises(ValueError, match="are taken with actuated=True"):
        step(model, x, x, u, dt)
    with pytest.raises(ValueError, match=r"got \(1,\)\.$"):
        step(jaxcfa.chain(2), x, x, u, dt)


def test_what_says_not_what_is_driven():
    model, servo, x, dt = jaxcfa.chain(3), pendulum(), jnp.zeros(3), 0.01
    for way in (True, "actuators", np.True_):
        assert RobotDynamics(servo, dt, actuated=way).actuated == "actuators"
        with pytest.raises(ValueError, match=r"control must have shape \(nu,\) = \(1,\), got \(2,\)"):
            step(servo, x[:1], x[:1], x[:2], dt, actuated=way)
    with pytest.raises(ValueError, match=r"tau must have shape \(m,\) = \(2,\), got \(3,\)"):
        step(model, x, x, x, dt, actuated=["joint2", 0])
    with pytest.raises(ValueError, match=r"controls must have shape \(steps, m\) = \(steps, 2\), got \(4, 3\)"):
        rollout(model, x, x, jnp.zeros((4, 3)), dt, actuated=["joint2", 0])
    with pytest.raises(ValueError, match=r"got \(4, 3\)\. The model has no actuators"):
        rollout(model, x, x, jnp.zeros((4, 3)), dt, actuated=True)
    mistakes = {
        r"actuated must be a list of joints, such as \[0\].* got 'joint2'": "joint2",
        "actuated must be a list of joints.* got 2": 2,
        r"actuated must name one joint or more, each once, got \[0, 'joint0'\]": [0, "joint0"],
        "actuated must name one joint or more": [],
        "joint": [True, False, True],
    }
    for message, wrong in mistakes.items():
        with pytest.raises(ValueError, match=message):
            RobotDynamics(model, dt, actuated=wrong)
        with pytest.raises(ValueError, match=message):
            rollout(model, x, x, x[None], dt, actuated=wrong)


def test_efforts_of_zero_are_refused_where_torques_are_clipped_to_them():
    model, q, effort = pendulum(), jnp.zeros(1), lambda m: m.limits.effort
    idle = eqx.tree_at(effort, model, jnp.zeros(1))
    message = r"those of the joints \['joint0'\] are zero.*by jaxcfa.with_joint\(model, 'joint0', effort_limit"
    refused = functools.partial(pytest.raises, ValueError, match=message)
    for options in ({"limits": True}, {"limits": Stops(20.0)}, {"actuated": True}):
        with refused():
            step(idle, q, q, q, 0.01, **options)
    with refused():
        rollout(idle, q, q, jnp.zeros((2, 1)), 0.01, limits=True)
    with refused():
        RobotDynamics(idle, 0.01, limits=True)
    # Not of joints that nothing drives, nor where the limits are traced or do not act.
    arm = eqx.tree_at(effort, jaxcfa.chain(2), jnp.array([1.0, 0.0]))
    assert RobotDynamics(arm, 0.01, actuated=[arm.joint_names[0]], limits=True).control_size == 1
    assert RobotDynamics(arm, 0.01).control_size == 2
    jax.eval_shape(lambda m: step(m, q, q, q, 0.01, limits=True), idle)
    # The thrust of propellers goes through the joints that carry them.
    flying = jaxcfa.add_thrusters(eqx.tree_at(effort, jaxcfa.chain(2), jnp.array([0.0, 1.0])), "link1", (0, 0, 1.0))
    with pytest.raises(ValueError, match=r"joints \['joint0'\] are zero"):
        RobotDynamics(flying, 0.01, actuated="actuators")
    # Of joints in series only those that are idle are named.
    builder = jaxcfa.ModelBuilder()
    hip = Composite([Revolute((1, 0, 0)), Revolute((0, 1, 0))])
    builder.add_body(joint=hip, joint_name="roll+pitch", mass=1.0, inertia=0.1, effort_limit=[1.0, 0.0])
    with pytest.raises(ValueError, match=r"joints \['pitch'\] are zero.*with_joint\(model, 'pitch', effort_limit"):
        RobotDynamics(builder.build(), 0.01, limits=True)


def test_senseless_stops_are_refused():
    for message, wrong in {
        "width of stops must be positive and finite, got 0": {"width": 0.0},
        "frequency of stops must be positive and finite, got inf": {"frequency": jnp.inf},
        "damping of stops must be finite and not negative, got -0.1": {"damping": -0.1},
        r"width of stops must be one number, got shape \(2,\)": {"width": np.ones(2)},
    }.items():
        with pytest.raises(ValueError, match=message):
            inspect.unwrap(Stops)(**wrong)
    assert Stops(damping=0).damping == 0
    assert jax.vmap(Stops)(jnp.array([10.0, 20.0])).frequency.shape == (2,)


def test_stops_are_one_program():
    """Also outside of compiled functions, where each step makes them."""
    model = jaxcfa.chain(2)
    assert len(jax.make_jaxpr(lambda model: stop_forces(model, Stops()))(model).eqns) == 1
    assert_close(*(make(model, Stops(20.0)).damping for make in (stop_forces, inspect.unwrap(stop_forces))))


@pytest.mark.slow
def test_stops_are_as_hard_for_arms_that_are_stretched():
    """In the neutral configuration, upright, the first joint of a Panda carries a 24th of what it does then."""
    with pytest.warns(UserWarning, match="not modelled|ignored|mimic"):
        model = jaxcfa.load_model(urdf_path("panda.urdf"))
    keys = jax.random.split(jax.random.key(0), 100)
    inertias = jax.vmap(lambda key: jnp.diagonal(jaxcfa.mass_matrix(model, jaxcfa.random_configuration(model, key))))
    held = stop_forces(model, Stops(frequency=10.0)).stiffness / 100
    assert np.all(held > 0.6 * np.max(inertias(keys), axis=0))
    assert held[0] > 20 * jaxcfa.mass_matrix(model, jaxcfa.neutral(model))[0, 0]
