"""Steps and trajectories: the integrators' orders, what they conserve, MuJoCo's results, derivatives and memory."""

import functools
import inspect
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa import simulation
from jaxcfa.closed_chains import Projection
from jaxcfa.joints import Free, Revolute, Spherical
from jaxcfa.simulation import (
    ExplicitEuler,
    ImplicitMidpoint,
    RungeKutta4,
    SemiImplicitEuler,
    rollout,
    step,
)
from mujoco_models import compiled, path_of, random_state, without_unmodelled

EULER, RUNGE_KUTTA, EXPLICIT, MIDPOINT = SemiImplicitEuler(), RungeKutta4(), ExplicitEuler(), ImplicitMidpoint()
both_integrators = pytest.mark.parametrize("integrator", [EULER, RUNGE_KUTTA], ids=["Euler", "RK4"])


@functools.cache
def pendulum(dtype: str = "float64") -> jaxcfa.Model:
    """A double pendulum with springs, damping and dry friction."""
    model = jaxcfa.chain(2, length=0.5, damping=0.05)
    passive = jnp.array([1.0, 2.0]), jnp.array([0.02, 0.01])
    return eqx.tree_at(lambda m: (m.stiffness, m.friction_loss), model, passive).astype(dtype)


@functools.cache
def flying_tree() -> jaxcfa.Model:
    """A body that floats without gravity, with two others on spherical joints and one more on a revolute joint."""
    builder = jaxcfa.ModelBuilder()
    body = {"mass": 1.0, "com": (0.1, 0.05, 0.2), "inertia": (0.02, 0.03, 0.015)}
    builder.add_body("trunk", joint=Free(), **body)
    builder.add_body("upper", "trunk", Spherical(), (0.0, 0.0, 0.3), **body)
    builder.add_body("lower", "upper", Revolute((0, 1, 0)), (0.0, 0.2, 0.3), **body)
    builder.add_body("other", "trunk", Spherical(), (0.0, 0.3, 0.0), **body)
    return builder.build(gravity=(0.0, 0.0, 0.0))


def start(model: jaxcfa.Model, speed: float = 1.0):
    keys = jax.random.split(jax.random.key(7))
    v = speed * jax.random.normal(keys[1], (model.nv,), model.dtype)
    return jaxcfa.random_configuration(model, keys[0]), v


@functools.partial(jax.jit, static_argnames=("integrator", "observe"))
def march(integrator, observe, model, q, v, dt, steps):
    """The state after many steps without torques, and how far what is observed has strayed since the start.

    The number of steps is no shape here, so that one program serves all step sizes.
    """
    initial = observe(model, q, v)

    def body(_, carry):
        state, drift = carry
        state = step(model, *state, jnp.zeros(model.nv), dt, integrator)
        return tuple(state), jnp.maximum(drift, jnp.abs(observe(model, *state) - initial))

    return jax.lax.fori_loop(0, steps, body, ((q, v), jnp.zeros_like(initial)))


def energy(model, q, v):
    return jaxcfa.kinetic_energy(model, q, v) + jaxcfa.potential_energy(model, q)


def momentum(model, q, v):
    """Angular momentum about the world's origin, and linear momentum."""
    angular, linear = jnp.split(jaxcfa.momentum(model, q, v), 2)
    return jnp.concatenate([angular + jnp.cross(jaxcfa.center_of_mass(model, q), linear), linear])


ORDERS = {EXPLICIT: 1, EULER: 1, MIDPOINT: 2, RUNGE_KUTTA: 4}


def stray(integrator, q, dt, steps):
    """How far the energy of a double pendulum strays that starts from rest."""
    return float(march(integrator, energy, jaxcfa.chain(2, length=0.5), jnp.array(q), jnp.zeros(2), dt, steps)[1])


@pytest.mark.parametrize("integrator", ORDERS, ids=str)
def test_energy_of_a_double_pendulum_drifts_with_the_order_of_the_integrator(integrator):
    drifts = [stray(integrator, [0.5, 1.0], 1 / n, n) for n in (400, 800, 1600)]
    np.testing.assert_allclose(np.log2(drifts[:-1]) - np.log2(drifts[1:]), ORDERS[integrator], atol=0.2)


def test_the_midpoint_rule_keeps_energy_for_long():
    """After 8000 steps it has strayed no farther than after 2000, while other methods go on and on."""
    early, late = ({x: stray(x, [0.3, 0.4], 0.02, n) for x in (EULER, MIDPOINT, RUNGE_KUTTA)} for n in (2000, 8000))
    assert late[MIDPOINT] < 1.1 * early[MIDPOINT] < 3e-3
    assert late[RUNGE_KUTTA] > 3 * early[RUNGE_KUTTA]
    assert not late[EULER] < 1  # NaN, even


@pytest.mark.slow
def test_runge_kutta_has_order_four_with_quaternions_and_conserves_momentum():
    model = flying_tree()
    q, v = start(model, speed=4.0)  # rad/s and m/s
    runs = [march(RUNGE_KUTTA, momentum, model, q, v, 0.5 / n, n) for n in (50, 100, 200, 400, 1600)]
    exact, finest = runs[-1]
    errors = [float(jnp.abs(jaxcfa.difference(model, exact[0], state[0])).max()) for state, _ in runs[:-1]]
    orders = np.log2(errors[:-1]) - np.log2(errors[1:])
    np.testing.assert_allclose(orders[-2:], 4, atol=0.2)
    assert jnp.abs(momentum(model, q, v)).max() > 1
    assert finest.max() < 1e-10


@pytest.mark.slow
def test_a_step_of_the_midpoint_rule_is_undone_by_a_step_back():
    """With quaternions; so does its solution of the equation converge."""
    model = flying_tree()
    q, v = start(model, speed=4.0)
    once = jax.jit(lambda q, v: step(model, q, v, jnp.zeros(model.nv), 0.01, MIDPOINT))

    def after(q, v):
        for _ in range(8):
            q, v = once(q, v)
        return q, v

    q_next, v_next = after(q, v)
    assert jnp.abs(v_next - v).max() > 0.1
    q_back, v_back = after(q_next, -v_next)
    assert_close((q_back, v_back), (q, -v), 1e-12)


@functools.cache
def of_mujoco(name: str) -> tuple[jaxcfa.Model, mujoco.MjModel]:
    """The model without actuators, contacts and limits, here and there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = jaxcfa.load_model(path_of(name))
    mj = without_unmodelled(compiled(path_of(name)), ())
    mj.opt.disableflags = mujoco.mjtDisableBit.mjDSBL_CONSTRAINT | mujoco.mjtDisableBit.mjDSBL_ACTUATION
    return model, mj


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "integrator", "theirs"),
    [
        ("mjx/test_data/pendula.xml", RUNGE_KUTTA, mujoco.mjtIntegrator.mjINT_RK4),
        ("mjx/test_data/humanoid/humanoid.xml", RUNGE_KUTTA, mujoco.mjtIntegrator.mjINT_RK4),
        ("mjx/test_data/humanoid/humanoid.xml", EULER, mujoco.mjtIntegrator.mjINT_EULER),
    ],
    ids=["pendula, RK4", "humanoid, RK4", "humanoid, Euler"],
)
def test_one_second_equals_that_of_mujoco(name, integrator, theirs):
    """At MuJoCo's own time step: its RK4 (as of 4.0) follows rotating quaternions with order four, in the same way."""
    model, mj = of_mujoco(name)
    mj.opt.integrator = theirs
    data, dt = random_state(mj), mj.opt.timestep
    steps = round(1 / dt)
    (q, v), _ = march(integrator, lambda *_: jnp.zeros(()), model, data.qpos.copy(), data.qvel.copy(), dt, steps)
    for _ in range(steps):
        mujoco.mj_step(mj, data)
    assert_close(q, data.qpos, rtol=1e-9)
    assert_close(v, data.qvel, rtol=1e-9)


@pytest.mark.slow
def test_gradient_of_500_steps_of_a_long_chain():
    model = jaxcfa.chain(30)
    keys = jax.random.split(jax.random.key(0), 4)
    q, v = 0.3 * jax.random.normal(keys[0], (model.nq,)), jax.random.normal(keys[1], (model.nv,))
    point = (q, v, jax.random.normal(keys[2], (500, model.nv)), model.mass)
    weights = jax.random.normal(keys[3], (2, model.nv))

    def loss(q, v, controls, mass):
        trajectory = rollout(eqx.tree_at(lambda m: m.mass, model, mass), q, v, controls, 1e-3)
        return weights[0] @ trajectory.q[-1] + weights[1] @ trajectory.v[-1] + jnp.mean(trajectory.q**2)

    gradient = jax.jit(jax.grad(loss, argnums=(0, 1, 2, 3)))(*point)
    evaluate = jax.jit(loss)
    for number, (x, slope) in enumerate(zip(point, gradient, strict=True)):
        direction = jax.random.normal(jax.random.key(number), x.shape)
        sides = [evaluate(*point[:number], x + h * direction, *point[number + 1 :]) for h in (-1e-6, 1e-6)]
        expected = float(sides[1] - sides[0]) / 2e-6
        np.testing.assert_allclose(jnp.sum(slope * direction), expected, rtol=1e-5)


@pytest.mark.slow
def test_reverse_mode_keeps_the_states_alone():
    model, steps = jaxcfa.chain(1), 4096
    contacts = jaxcfa.ground_contacts(model, [0])  # whose derivatives need much

    def loss(controls):
        q, v = jnp.zeros(model.nq), jnp.zeros(model.nv)
        return jnp.sum(rollout(model, q, v, controls, 1e-3, contacts=contacts).q[-1])

    compiled = jax.jit(jax.grad(loss)).lower(jnp.zeros((steps, model.nv))).compile()
    numbers = compiled.memory_analysis().temp_size_in_bytes / (8 * steps)
    assert numbers < 6  # q, v, and a derivative; 108 where everything is stored


@both_integrators
def test_a_rollout_is_its_steps(integrator, dtype):
    model = pendulum(dtype.name)
    q, v = start(model)
    controls = jax.random.normal(jax.random.key(1), (5, model.nv), dtype)
    trajectory = rollout(model, q, v, controls, 0.01, integrator)
    assert {x.dtype for x in trajectory[:4]} == {dtype}
    assert trajectory.status == 0
    assert_close(trajectory.t, 0.01 * np.arange(6))
    assert_close(trajectory.tau, controls)
    for i, tau in enumerate(controls):
        assert_close(trajectory.q[i], q)
        assert_close(trajectory.v[i], v)
        q, v = step(model, q, v, tau, 0.01, integrator)
    assert_close(trajectory.q[-1], q)


@pytest.mark.slow
def test_the_segments_change_neither_values_nor_gradients():
    """Seven steps are one segment of seven, or seven of one, or three of three with two steps left over."""
    model = pendulum()
    q, v = start(model)
    controls = jnp.ones((7, model.nv))

    def loss(controls, checkpoint):
        trajectory = rollout(model, q, v, controls, 0.01, checkpoint=checkpoint, passive_forces=False)
        return jnp.sum(trajectory.q**2) + jnp.sum(trajectory.v**2), trajectory

    evaluate = jax.jit(jax.value_and_grad(loss, has_aux=True), static_argnums=1)
    everything = evaluate(controls, 7)
    assert_close(evaluate(controls, 1), everything)
    assert_close(evaluate(controls, 3), everything)


def test_policies_see_time_and_state_and_are_not_called_beyond_the_end():
    model = pendulum()
    q, v = start(model)

    def loss(gain):
        def policy(t, q, v):
            return -gain * q - 0.1 * v + jnp.sqrt(0.0401 - t)  # of which there is none after the fifth step

        trajectory = rollout(model, q, v, policy, 0.01, steps=5, checkpoint=3)
        return jnp.sum(trajectory.q[-1] ** 2), trajectory

    (_, trajectory), slope = jax.jit(jax.value_and_grad(loss, has_aux=True))(2.0)
    root = np.sqrt(0.0401 - trajectory.t[:-1, None])
    assert_close(trajectory.tau, -2 * trajectory.q[:-1] - 0.1 * trajectory.v[:-1] + root)
    assert np.isfinite(slope)
    assert slope != 0
    assert_close(trajectory, rollout(model, q, v, trajectory.tau, 0.01))


def test_a_batch_of_rollouts():
    model = pendulum()
    q, v = start(model)
    controls = jax.random.normal(jax.random.key(2), (3, 5, model.nv))
    batch = jax.jit(jax.vmap(lambda u: rollout(model, q, v, u, 0.01)))(controls)
    for i in range(3):
        one = jax.tree.map(lambda x, i=i: x[i], batch)
        assert_close(one, rollout(model, q, v, controls[i], 0.01))


def test_wrenches_may_change_from_step_to_step():
    model = pendulum()
    q, v = start(model)
    controls = jnp.zeros((5, model.nv))
    wrench = jax.random.normal(jax.random.key(3), (model.nb, 6))
    constant = rollout(model, q, v, controls, 0.01, f_ext=wrench)
    assert_close(rollout(model, q, v, controls, 0.01, f_ext=jnp.stack([wrench] * 5)), constant)
    q_next, v_next = step(model, q, v, controls[0], 0.01, f_ext=wrench)
    assert_close((constant.q[1], constant.v[1]), (q_next, v_next))
    assert jnp.abs(v_next - step(model, q, v, controls[0], 0.01).v).max() > 1e-3


def test_euler_takes_damping_at_the_new_velocity():
    """`M (v' - v) / dt + bias = tau - spring - damping v'`, or without all of these."""
    model, dt = eqx.tree_at(lambda m: m.friction_loss, pendulum(), jnp.zeros(2)), 0.01
    q, v = start(model)
    tau = jnp.array([0.3, -0.2])
    q_next, v_next = step(model, q, v, tau, dt)
    passive = -model.stiffness * (q - model.spring_reference) - model.damping * v_next
    bare = jaxcfa.inverse_dynamics(model, q, v, (v_next - v) / dt)
    assert_close(bare, tau + passive)
    assert_close(q_next, q + dt * v_next)
    _, v_next = step(model, q, v, tau, dt, passive_forces=False)
    assert_close(v_next, v + dt * jaxcfa.forward_dynamics(model, q, v, tau))


def test_the_explicit_method_of_euler_by_hand():
    model, dt = pendulum(), 0.01
    (q, v), tau = start(model), jnp.array([0.3, -0.2])
    q_next, v_next = step(model, q, v, tau, dt, EXPLICIT)
    assert_close(q_next, q + dt * v)
    assert_close(jaxcfa.inverse_dynamics(model, q, v, (v_next - v) / dt), tau + jaxcfa.passive_forces(model, q, v))


def test_euler_stays_stable_under_strong_damping_and_friction():
    model = eqx.tree_at(
        lambda m: (m.damping, m.friction_loss), pendulum(), (jnp.array([0.0, 1e4]), jnp.array([20.0, 0.0]))
    )
    trajectory = rollout(model, jnp.zeros(2), jnp.array([2.0, 2.0]), jnp.zeros((200, 2)), 0.01)
    assert jnp.abs(trajectory.v[-1]).max() < 1e-2
    assert jnp.abs(trajectory.v).max() < 5


@pytest.mark.slow
def test_joints_of_all_types_without_springs():
    """Steps and their derivatives are finite."""
    model = jaxcfa.random_tree(30, jax.random.key(0), floating_base=True)
    assert len(model.joints) == 8
    q, v = start(model)

    def total(tau):
        return jnp.sum(jnp.concatenate(step(model, q, v, tau, 1e-3)))

    value, slope = jax.jit(jax.value_and_grad(total))(0 * v)
    assert np.isfinite(value)
    assert np.all(np.isfinite(slope))


def test_numbers_of_steps_of_any_type():
    model, x = pendulum(), jnp.zeros(2)
    assert ImplicitMidpoint(np.int64(4)) == ImplicitMidpoint(4)
    assert Projection(np.int64(3)) == Projection(3)
    found = jax.eval_shape(
        lambda: rollout(model, x, x, lambda t, q, v: x, 0.1, steps=np.int32(3), checkpoint=np.uint8(2))
    )
    assert found.q.shape == (4, 2)


def test_errors_name_the_argument_and_the_remedy():
    model = pendulum()
    q, v, tau = jnp.zeros(2), jnp.zeros(2), jnp.zeros((5, 2))

    def policy(t, q, v):
        return jnp.zeros(3)

    massless = eqx.tree_at(lambda m: (m.mass, m.inertia), model, replace_fn=jnp.zeros_like)
    # Without the checks of types that the tests switch on, as users have them.
    step, rollout, linearize = map(inspect.unwrap, (simulation.step, simulation.rollout, simulation.linearize))
    for message, call in {
        r"integrator must be .* Write RungeKutta4\(\)": lambda: step(model, q, v, v, 0.1, RungeKutta4),
        "integrator must be": lambda: rollout(model, q, v, tau, 0.1, "euler"),
        "dt must be positive and finite, got 0": lambda: step(model, q, v, v, 0),
        "dt must be positive and finite, got nan": lambda: linearize(model, q, v, v, float("nan")),
        r"dt must be one number, got shape \(2,\)": lambda: step(model, q, v, v, q),
        "dt must be a time step": lambda: step(model, q, v, v, "1 ms"),
        r"dt must be a time step in seconds, got 1j": lambda: rollout(model, q, v, tau, 1j),
        r"tau must have shape \(nv,\) = \(2,\), got \(3,\)": lambda: step(model, q, v, jnp.zeros(3), 0.1),
        r"q0 must have shape .*jax.vmap": lambda: rollout(model, tau, v, tau, 0.1),
        r"controls must have shape \(steps, nv\) = .*, got \(2,\)\. Constant .* lambda t, q, v: tau": lambda: rollout(
            model, q, v, v, 0.1, steps=10
        ),
        r"function of t, q and v, but .* has the arguments \(q, v\)": lambda: rollout(
            model, q, v, lambda q, v: v, 0.1, steps=2
        ),
        r"controls must .*jax.vmap": lambda: rollout(model, q, v, jnp.zeros((4, 5, 2)), 0.1),
        "controls must be .* or a function, got 'hold'": lambda: rollout(model, q, v, "hold", 0.1),
        r"controls\(t, q, v\) is compiled by JAX .* in place of NumPy's": lambda: rollout(
            model, q, v, lambda t, q, v: np.sin(q), 0.1, steps=2
        ),
        r"is compiled by JAX .* jnp\.where in place of `if`": lambda: rollout(
            model, q, v, lambda t, q, v: q if t > 0 else v, 0.1, steps=2
        ),
        "A policy needs the number of steps": lambda: rollout(model, q, v, policy, 0.1),
        r"controls\(t, q, v\) must have shape \(nv,\)": lambda: rollout(model, q, v, policy, 0.1, steps=2),
        "controls has 5 rows, one for each step, but steps is 4": lambda: rollout(model, q, v, tau, 0.1, steps=4),
        "steps must be a positive integer, got array": lambda: rollout(model, q, v, tau, 0.1, steps=np.array([5, 5])),
        "steps must be a positive integer, got 5.0": lambda: rollout(model, q, v, tau, 0.1, steps=5.0),
        "steps must be a positive integer, got '5'": lambda: rollout(model, q, v, tau, 0.1, steps="5"),
        r"f_ext must be an array of shape \(nb, 6\) = .* got \[\[1, 2\], \[3\]\]": lambda: rollout(
            model, q, v, tau, 0.1, f_ext=[[1, 2], [3]]
        ),
        "passive_forces must be True or False, got 'no'": lambda: step(model, q, v, v, 0.1, passive_forces="no"),
        "steps must be a positive integer, got 0": lambda: rollout(model, q, v, tau[:0], 0.1),
        "checkpoint must be a positive integer": lambda: rollout(model, q, v, tau, 0.1, checkpoint=0),
        "checkpoint must be a positive integer, got 2.0": lambda: rollout(model, q, v, tau, 0.1, checkpoint=2.0),
        "iterations must be a positive integer, got True": lambda: ImplicitMidpoint(True),
        "f_ext has wrenches for 4 steps, but there are 5": lambda: rollout(
            model, q, v, tau, 0.1, f_ext=np.zeros((4, 2, 6))
        ),
        "friction_velocity must be positive": lambda: step(model, q, v, v, 0.1, friction_velocity=0.0),
        "method must be an algorithm": lambda: step(model, q, v, v, 0.1, method="aba"),
        "invertible mass matrix": lambda: step(massless, q, v, v, 0.1),
    }.items():
        with pytest.raises(ValueError, match=message):
            call()
