"""Laws of environments: purity, batches, derivatives, ends of episodes, and mistakes that are explained."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa import Transform, body_contacts, optimal_control as oc
from jaxcfa.contacts import Box, FlatGround, HeightField, Placed, Sphere, Union
from jaxcfa.environments import (
    AbstractEnvironment,
    AbstractRobotEnvironment,
    Acrobot,
    AutoReset,
    CartPole,
    Plant,
    Reacher,
    State,
    Transition,
    Walker,
    unroll,
)
from jaxcfa.joints import Free, Prismatic, Revolute, Spherical

LENGTH = 3  # of an episode, in steps


class Slider(AbstractRobotEnvironment):
    """What a user would write, as short as possible: a mass on a rail, to be brought to a target."""

    plant: Plant

    def start(self, key):
        return jax.random.uniform(key, (1,)), jnp.zeros(1), jax.random.normal(key)

    def observe(self, q, v, task):
        return jnp.concatenate([q - task, v])

    def reward(self, q, v, action, task):
        return -jnp.abs(q[0] - task)

    def terminated(self, q, v, task):
        return q[0] > 1.5


class Scaled(AbstractEnvironment):
    """A wrapper as a user would write it."""

    environment: AbstractEnvironment
    scale: jax.Array

    def reset(self, key):
        return self.environment.reset(key)

    def step(self, state, action):
        state = self.environment.step(state, action)
        return state.replace(reward=self.scale * state.reward)

    @property
    def action_size(self):
        return self.environment.action_size

    @property
    def dt(self):
        return self.environment.dt

    @property
    def unwrapped(self):
        return self.environment.unwrapped


class Keyed(Scaled):
    """A wrapper that keeps a key of its own."""

    def reset(self, key):
        state = self.environment.reset(key)
        return state.replace(info=state.info | {"key": key})


def mass(**options) -> jaxcfa.Model:
    return jaxcfa.chain(1, jaxcfa.joints.Prismatic((1.0, 0.0, 0.0)), **options)


@functools.cache
def slider(dtype: str = "float64") -> Slider:
    return Slider(Plant(oc.RobotDynamics(mass(dtype=dtype), 0.05), 10.0, substeps=2))


def arm() -> jaxcfa.Model:
    return jaxcfa.chain(2, axes=np.eye(3)[1:], damping=0.1)


def tripod(placement: Transform | None = None) -> jaxcfa.Model:
    """A plate on three legs, each on a hinge."""
    builder = jaxcfa.ModelBuilder()
    base = builder.add_body("base", joint=Free(), placement=placement, mass=3.0, inertia=0.05, com=(0.02, 0.0, 0.01))
    for i, angle in enumerate(2 * np.pi / 3 * np.arange(3)):
        x, y = np.cos(angle), np.sin(angle)
        leg = {"mass": 0.3, "inertia": 0.01, "com": (0, 0, -0.1), "effort_limit": 20.0, "lower": -0.6, "upper": 0.6}
        builder.add_body(f"leg{i}", base, Revolute((-y, x, 0)), (0.2 * x, 0.2 * y, 0), **leg)
    return builder.build()


def walker(placement: Transform | None = None, **options) -> Walker:
    model = tripod(placement)
    feet = jaxcfa.ground_contacts(model, ["leg0", "leg1", "leg2"], (0, 0, -0.3), radius=0.02)
    return Walker(model, feet, **{"stiffness": 20.0, **options})


MAKERS = {
    "slider": slider,
    "swing up": CartPole,
    "balance": lambda: CartPole(swing_up=False),
    "acrobot": Acrobot,
    "reacher": lambda: Reacher(arm(), "tip", limit=0.5),
    "walker": walker,
}


@functools.cache
def environment(name: str) -> AbstractRobotEnvironment:
    return MAKERS[name]()


def equal(x, y) -> bool:
    return bool(eqx.tree_equal(x, y))


@pytest.mark.parametrize("name", MAKERS)
def test_laws_of_every_environment(name, key):
    env = environment(name)
    state = env.reset(key)
    action = jnp.full(env.action_size, 0.7)
    after = env.step(state, action)
    assert equal(state, env.reset(key))
    assert equal(after, env.step(state, action))
    assert not equal(state.q, env.reset(jax.random.key(1)).q)
    for x in (state, after):
        assert x.obs.shape == (env.observation_size,)
        assert x.reward.shape == x.done.shape == ()
        assert x.obs.dtype == x.reward.dtype == x.done.dtype == env.plant.model.dtype
        assert jax.tree.all(jax.tree.map(lambda y: bool(jnp.all(jnp.isfinite(y))), eqx.filter(x, eqx.is_inexact_array)))
    assert jax.tree.structure(state) == jax.tree.structure(after)
    assert state.reward == state.done == after.done == 0
    if after.metrics:
        assert_close(after.reward, sum(after.metrics.values()))
        assert -0.02 < after.reward <= 1
    # Actions are clipped to what the limits allow, and the same from there on.
    assert equal(env.step(state, 1.0 + action), env.step(state, 3.0 + action))


def test_a_step_is_that_of_the_simulation(key):
    env = environment("swing up")
    state = env.reset(key)
    q, v = state.data
    for _ in range(2):
        q, v = jaxcfa.step(env.plant.model, q, v, jnp.array([5.0, 0.0]), 0.02)
    after = env.step(state, jnp.array([0.5]))
    assert_close((after.q, after.v), (q, v), 1e-12)
    assert_close(env.dt, 0.04)


def test_batches_are_the_same_one_by_one_and_models_can_be_batched(key):
    env = environment("swing up")
    keys, actions = jax.random.split(key, 3), jnp.array([[1.0], [-1.0], [0.2]])
    masses = jnp.array([0.1, 0.2, 0.3])

    def with_pole(mass):
        model = env.plant.model
        changed = eqx.tree_at(lambda m: m.mass, model, model.mass.at[1].set(mass))
        return eqx.tree_at(lambda e: e.plant.dynamics.equation.model, env, changed)

    def both(mass, key, action):
        env = with_pole(mass)
        return env.step(env.reset(key), action)

    batch = jax.jit(jax.vmap(both))(masses, keys, actions)
    for i in range(3):
        one = both(masses[i], keys[i], actions[i])
        assert_close(jax.tree.map(lambda x, i=i: x[i], (batch.data, batch.obs)), (one.data, one.obs), 1e-12)
    assert len({float(x) for x in batch.v[:, 0]}) == 3


def test_methods_can_be_compiled_by_themselves(key):
    """As users of Brax do; equinox' own methods have no hash."""
    env = AutoReset(Scaled(slider(), jnp.array(2.0)), np.int64(LENGTH))
    for each in (env, env.environment):
        state = jax.jit(each.reset)(key)
        assert equal(jax.jit(each.step)(state, jnp.ones(1)).data, each.step(state, jnp.ones(1)).data)
        assert isinstance(jax.jit(each.step)(state, np.ones(1)), State)


def test_derivatives_of_the_return(key):
    """By actions, against finite differences."""
    env = environment("swing up")
    state, actions = env.reset(key), jax.random.uniform(key, (6, 1), minval=-0.9, maxval=0.9)

    def total(actions):
        def body(state, action):
            state = env.step(state, action)
            return state, state.reward

        return jnp.sum(jax.lax.scan(body, state, actions)[1])

    value = jax.jit(total)
    slope = jax.jit(jax.grad(total))(actions)
    assert jnp.all(slope != 0)
    h = 1e-6
    for i in range(len(actions)):
        assert_close(slope[i, 0], (value(actions.at[i].add(h)) - value(actions.at[i].add(-h))) / (2 * h), 1e-7)


def test_both_precisions(dtype, key):
    env = slider(dtype.name)
    state = env.step(env.reset(key), np.ones(1))
    assert {x.dtype for x in jax.tree.leaves((state.data, state.obs, state.reward, state.done))} == {dtype}
    q0 = env.reset(key).q.astype("float64")
    # Semi-implicit Euler, twice, with the acceleration 10 m/s^2 of a mass of 1 kg.
    assert_close(state.q.astype("float64"), q0 + 10 * 0.05**2 * 3, 1e-6)


def test_episodes_end_and_begin_anew(key):
    env = AutoReset(slider(), LENGTH)
    keys = jax.random.split(key, 4)
    state = jax.vmap(env.reset)(keys)
    # The second robot is beyond the end, which it has not noticed; the third has been on its way.
    q = state.q.at[1].set(2.0).at[0].set(0.3).at[2].set(0.3).at[3].set(0.3)
    steps = jnp.array([0, 0, LENGTH - 1, 1])
    state = state.replace(data=state.data._replace(q=q), info=state.info | {"steps": steps})
    action = jnp.zeros((4, 1))
    plain = jax.vmap(slider().step)(state, action)
    after = jax.jit(jax.vmap(env.step))(state, action)

    assert after.done.tolist() == [0, 1, 1, 0]
    assert after.info["truncation"].tolist() == [0, 0, 1, 0]
    assert after.info["steps"].tolist() == [1, 0, 0, 2]
    assert_close(after.reward, plain.reward)
    assert_close(after.info["terminal_obs"], plain.obs)
    for i in (0, 3):
        goes_on = plain.q[i], plain.obs[i], state.info["task"][i]
        assert_close((after.q[i], after.obs[i], after.info["task"][i]), goes_on)
    for i in (1, 2):
        assert 0 <= after.q[i] <= 1
        assert after.v[i] == 0
        assert after.info["task"][i] != state.info["task"][i]
        assert_close(after.obs[i], jnp.stack([after.q[i, 0] - after.info["task"][i], 0.0]))
    assert after.q[1] != after.q[2]
    # What begins now is not what began before, and other keys give other starts.
    later = jax.vmap(env.step)(after.replace(info=after.info | {"steps": steps * 0 + LENGTH - 1}), action)
    assert len({float(x) for x in jnp.concatenate([state.q[1:3], after.q[1:3], later.q]).ravel()} - {2.0, 0.3}) == 6


def test_unroll(key):
    env = AutoReset(slider(), LENGTH)
    keys = jax.random.split(key, 2)
    state = jax.vmap(env.reset)(keys)

    def policy(obs, key):
        return -0.1 * obs[:1] + 0.1 * jax.random.normal(key, (1,)), obs[1]

    last, steps = jax.vmap(lambda s, k: unroll(env, policy, s, k, 5))(state, keys)
    assert isinstance(steps, Transition)
    assert steps.action.shape == (2, 5, 1)
    assert_close(steps.extras, steps.obs[..., 1])
    assert steps.done[0].tolist() == [0, 0, 1, 0, 0]
    assert steps.discount.tolist() == [[1] * 5] * 2
    # The next observation is the next step's, but at the end of an episode.
    going = steps.done[:, :-1] == 0
    same = jnp.all(steps.next_obs[:, :-1] == steps.obs[:, 1:], axis=-1)
    assert_close(same, going)
    assert_close(last.obs, steps.next_obs[:, -1])


def test_derivatives_reach_the_end_of_an_episode_but_not_the_next(key):
    env = AutoReset(slider(), 1)
    start = env.reset(key)

    def outcome(action):
        state = env.step(start, action)
        return jnp.concatenate([state.info["terminal_obs"], state.reward[None], state.obs, state.q])

    slope = jax.jacobian(outcome)(jnp.array([0.3]))[:, 0]
    assert jnp.all(slope[:3] != 0)
    assert jnp.all(slope[3:] == 0)


def test_a_motion_that_is_not_finite_ends_the_episode(key):
    env = slider()
    state = env.reset(key)
    after = env.step(state, jnp.array([jnp.nan]))
    assert after.done == 1
    assert after.reward == 0
    assert_close(after.data, state.data)
    # One that is so fast that nobody follows it; the time of a step is 0.1 s.
    for speed, moves in ((1e4, True), (1e6, False)):
        fast = state.replace(data=state.data._replace(v=jnp.array([speed])))
        after = env.step(fast, jnp.zeros(1))
        assert after.done == 1
        assert bool(after.q != fast.q) == bool(after.reward != 0) == moves


def test_derivatives_where_a_motion_is_not_finite(key):
    """One robot of a batch does not spoil the gradient of all."""
    env = environment("swing up")
    start = env.reset(key)

    @jax.jit
    @jax.vmap
    @functools.partial(jax.value_and_grad, argnums=(0, 1))
    def slopes(v, action):
        after = env.step(start.replace(data=start.data._replace(v=v)), action)
        return after.reward + jnp.sum(after.v)

    values, (by_v, by_action) = slopes(jnp.array([[0.0, 1.0], [0.0, 1e200]]), jnp.full((2, 1), 0.1))
    assert jnp.all(jnp.isfinite(values))
    assert by_v[0, 0] != 0
    assert by_action[0] != 0
    assert by_v[1].tolist() == [1.0, 1.0]
    assert by_action[1] == 0


def test_cart_poles_end_where_they_should(key):
    for name, q, ends in (
        ("swing up", (2.5, 0.0), True),
        ("swing up", (0.0, 1.0), False),
        ("balance", (0.0, 1.0), True),
        ("balance", (0.0, 0.1), False),
    ):
        env = environment(name)
        state = env.reset(key)
        state = state.replace(data=state.data._replace(q=jnp.array(q), v=jnp.zeros(2)))
        assert bool(env.step(state, jnp.zeros(1)).done) == ends


def test_what_walkers_feel_and_are_paid_for(key):
    """In a base that leans and turns; velocities of it are those of its frame, in its axes."""
    env = environment("walker")
    model = env.plant.model
    q = jaxcfa.integrate(model, env.home, jnp.array([0.3, -0.2, 0.1, 0.2, -0.3, 0.4, 0.1, 0.2, 0.3]))
    v, action, task = jax.random.normal(key, (model.nv,)), jnp.array([0.5, -0.2, 0.1]), jnp.array([0.3, -0.4, 0.5])
    pose, twist = jaxcfa.frame_pose(model, q, "base"), jaxcfa.frame_velocity(model, q, v, "base")
    own = pose.rotation.T @ twist.reshape(2, 3).T
    velocity, turning, up = own[:, 1], own[:, 0], pose.rotation[2]
    obs = env.observe(q, v, task)
    assert_close(obs, jnp.concatenate([velocity, turning, up, q[7:] - env.home[7:], 0.1 * v[6:], task]))
    found = env.reward(q, v, action, task)
    assert_close(found["velocity"], 0.7 / (1 + jnp.sum((velocity[:2] - task[:2]) ** 2) / 0.25**2))
    assert_close(found["turning"], 0.3 / (1 + (turning[2] - task[2]) ** 2 / 0.5**2))
    assert_close(found["tilt"], 0.5 * (up[2] - 1))
    assert_close(found["bounce"], -0.1 * twist[5] ** 2)
    assert_close(found["posture"], -0.05 * jnp.mean(q[7:] ** 2))
    torque = 20.0 * (0.5 * action - q[7:])
    assert_close(found["effort"], -0.05 * jnp.mean((torque / 20.0) ** 2))
    assert not env.terminated(q, v, task)
    assert env.terminated(q.at[2].set(0.45 * env.home[2]), v, task)
    assert env.terminated(jaxcfa.integrate(model, q, jnp.zeros(9).at[3].set(1.0)), v, task)


def test_coordinates_of_walkers_may_be_in_any_frame(key):
    """The same robot, whose free joint is elsewhere and turned, feels and does the same."""
    frame = Transform.from_quaternion(jnp.array([0.5, -0.1, 0.7, 0.4]), jnp.array([0.3, -0.2, 0.7]))
    plain, model = environment("walker"), tripod(frame)

    def moved(q, v):
        pose = frame.inverse() @ Transform.from_quaternion(q[3:7], q[:3])
        q = jnp.concatenate([pose.translation, pose.as_quaternion(), q[7:]])
        return q, jnp.concatenate([frame.rotation.T @ v[:3], v[3:]])

    still, task = jnp.zeros(9), jnp.array([0.3, -0.4, 0.5])
    placed = walker(frame, home=moved(plain.home.at[:3].add(jnp.array([0.1, 0.2, 0.3])), still)[0])
    pose = jaxcfa.frame_pose(model, placed.home, "base")
    assert_close(pose.translation, plain.home[:3] + jnp.array([0.1, 0.2, 0.0]))
    dq, v = jax.random.normal(key, (2, 9))
    for size in (0.2, 1.0):  # the second one has fallen
        q = jaxcfa.integrate(plain.plant.model, plain.home, size * dq)
        states = (plain, q, v), (placed, *moved(q, v))
        assert_close(*(env.observe(q, v, task) for env, q, v in states))
        found = [env.reward(q, v, jnp.ones(3), task) for env, q, v in states]
        assert_close(*(jnp.stack(list(rewards.values())) for rewards in found))
        assert [bool(env.terminated(q, v, task)) for env, q, v in states] == [size == 1.0] * 2


def test_servos_of_walkers_carry_them_on_hinges_and_on_legs_that_slide():
    """By default: all of the weight on one leg that slides is a twentieth of the height."""
    builder = jaxcfa.ModelBuilder()
    trunk = builder.add_body("trunk", joint=Free(), mass=8.0, inertia=0.1)
    hip = builder.add_body("hip", trunk, Revolute((0, 1, 0)), mass=0.1, inertia=0.01)
    builder.add_body("leg", hip, Prismatic((0, 0, 1)), (0, 0, -0.3), mass=0.1, inertia=0.01)
    model = builder.build()
    contacts = jaxcfa.ground_contacts(model, "leg", (0, 0, -0.18), radius=0.02)
    gain = Walker(model, contacts).plant.model.actuators.gain
    assert_close(gain, 8.2 * 9.81 * np.array([0.5, 1 / (0.05 * 0.5)]))


def test_joints_without_servos_are_named():
    builder = jaxcfa.ModelBuilder()
    trunk = builder.add_body("trunk", joint=Free(), mass=8.0, inertia=0.1)
    hip = builder.add_body("hip", trunk, Spherical(), mass=0.1, inertia=0.01)
    builder.add_body("leg", hip, Revolute((0, 1, 0)), (0, 0, -0.3), mass=0.1, inertia=0.01)
    model = builder.build()
    contacts = jaxcfa.ground_contacts(model, "leg", (0, 0, -0.2), radius=0.02)
    with pytest.warns(UserWarning, match=r"The joints \['hip_joint'\] have no servos"):
        assert Walker(model, contacts).action_size == 1
    assert Walker(model, contacts, joints="leg_joint").action_size == 1  # as is meant


def test_walkers_stand_as_the_first_keyframe_of_their_file(key):
    """Not as the initial configuration, which every model from MJCF has under a name of its own before these."""
    text = (
        '<mujoco><worldbody><body pos="0 0 1"><freejoint/><geom size=".1"/><body><joint name="knee"/>'
        '<geom type="capsule" fromto="0 0 0 0 0 -.5" size=".02"/></body></body></worldbody>KEYS</mujoco>'
    )
    keys = '<keyframe><key name="bent" qpos="0 0 2 1 0 0 0 .3"/><key name="low" qpos="0 0 1 1 0 0 0 .6"/></keyframe>'
    for knee, kept in ((0.3, keys), (0.0, "")):
        model = jaxcfa.load_model(text.replace("KEYS", kept))
        feet = jaxcfa.ground_contacts(model, 1, (0, 0, -0.5))
        assert_close(Walker(model, feet).home[7:], np.array([knee]))


def test_walkers_begin_on_steps_from_above(key):
    """Wherever they are told to: the lowest foot touches, and none is in a step, or in the ground."""
    step = Placed(Box([0.3, 2.0, 0.1]), [0.35, 0.0, 0.05])
    bumps = HeightField(0.1 * np.random.default_rng(0).uniform(size=(9, 9)), [-1, -1], [1, 1])
    model = tripod()
    wall = Placed(Box([0.5, 2.0, 2.0]), [0.78, 0.0, 0.0])  # nearer to the base than the floor
    for ground in (Union([FlatGround(), step]), bumps, FlatGround([0.5, 0.0, 1.0]), Union([FlatGround(), wall])):
        feet = jaxcfa.ground_contacts(model, ["leg0", "leg1", "leg2"], (0, 0, -0.3), radius=0.02, ground=ground)
        env = Walker(model, feet, stiffness=20.0)
        gaps = [jaxcfa.contact_state(model, feet, q, jnp.zeros(9)).gap for q in (env.home, env.reset(key).q)]
        assert_close(jnp.min(jnp.stack(gaps), axis=1), np.zeros(2), 1e-9)
        assert not env.terminated(env.home, jnp.zeros(9), jnp.zeros(3))
        beside = env.home.at[0].add(-0.17)  # the base beside the step, whose wall is what is nearest
        assert not env.terminated(beside, jnp.zeros(9), jnp.zeros(3))


def test_grounds_of_walkers_have_any_order():
    """A wall, which may be the first one, or what the base is nearest to, does not hide the floor."""
    model, wall = tripod(), FlatGround([-1.0, 0.0, 0.0], [0.25, 0.0, 0.0])
    on_floor, at_wall, at_both, in_world = (
        jaxcfa.ground_contacts(model, ["leg0", "leg1", "leg2"], (0, 0, -0.3), radius=0.02, ground=ground)
        for ground in (None, wall, Union([wall, FlatGround()]), FlatGround([0.0, 0.0, 1.0], [0.0, 0.0, -9.0]))
    )
    plain, *others = (Walker(model, x) for x in (on_floor, at_wall + in_world + on_floor, on_floor + at_wall, at_both))
    low = plain.home.at[2].add(-0.2)
    for env in others:
        assert_close(env.home, plain.home)
        assert_close(env.plant.model.actuators.gain, plain.plant.model.actuators.gain)
        found = [bool(env.terminated(q, jnp.zeros(9), jnp.zeros(3))) for q in (plain.home, low)]
        assert found == [False, env is not others[-1]]
    with pytest.raises(ValueError, match="ground, which is upright"):
        Walker(model, at_wall + at_wall)


def test_walkers_stand_on_the_ground_and_the_derivatives_of_what_they_do(key):
    env = environment("walker")
    model, contacts = env.plant.model, env.plant.dynamics.equation.contacts
    state = env.reset(key)
    gap = jaxcfa.contact_state(model, contacts, state.q, state.v).gap
    assert_close(jnp.min(gap), np.zeros(()), 1e-12)
    assert jnp.all(state.info["task"] != 0)
    assert jnp.all(jnp.abs(state.info["task"]) <= env.fastest)

    def outcome(actions):
        def body(state, action):
            state = env.step(state, action)
            return state, (state.reward, state.done, state.metrics)

        last, (rewards, done, metrics) = jax.lax.scan(body, state, actions)
        return jnp.sum(rewards), (last, done, metrics)

    h, direction = 1e-5, jax.random.normal(key, (40, 3))
    both = jax.jit(lambda actions: jax.lax.map(jax.value_and_grad(outcome, has_aux=True), actions))
    (returns, found), slopes = both(jnp.array([0.0, h, -h])[:, None, None] * direction)
    (last, done, metrics), slope = jax.tree.map(lambda x: x[0], (found, slopes))
    assert jnp.all(done == 0)
    assert abs(last.q[2] - env.home[2]) < 0.02
    assert jnp.max(jnp.abs(last.v)) < 0.05
    assert metrics["reward/tilt"][-1] > -1e-3
    assert jnp.all(jnp.isfinite(slope))
    assert_close(jnp.sum(slope * direction), (returns[1] - returns[2]) / (2 * h), 1e-4)


def test_targets_can_be_reached(key):
    env = environment("reacher")
    state = env.reset(key)
    q = jnp.clip(env.home, -0.7, 0.7)
    assert jnp.linalg.norm(state.info["task"] - jaxcfa.frame_pose(arm(), q, "tip").translation) < 0.2
    there = jaxcfa.frame_pose(arm(), state.q, "tip").translation
    assert_close(env.reward(state.q, state.v, jnp.zeros(2), there)["near"], 1.0)


def test_angles_of_joints_inside_of_others_are_seen_as_such(key):
    """A hinge aside of its body's origin, and two hinges and a slide in one body."""
    model = jaxcfa.load_model(
        '<mujoco><worldbody><body><joint name="a" pos="0 0 .1"/><geom size=".1"/><body><joint name="b"/>'
        '<joint name="c" type="slide"/><joint name="d" axis="1 0 0"/><geom size=".1"/></body></body>'
        "</worldbody></mujoco>"
    )
    env, q = Reacher(model, 0, limit=1.0), jnp.array([0.1, 0.2, 0.3, 0.4])
    seen, angles = env.observe(q, jnp.zeros(4), jnp.zeros(3)), q[jnp.array([0, 1, 3])]
    assert_close(seen[:7], jnp.concatenate([jnp.cos(angles), jnp.sin(angles), q[2:3]]))


def test_arms_with_ranges_of_one_end_start_inside(key):
    builder = jaxcfa.ModelBuilder()
    builder.add_body("a", joint=Revolute((0, 0, 1)), mass=1.0, inertia=0.1, com=(0.3, 0, 0), lower=0.9)
    env = Reacher(builder.build(), 0, limit=1.0)
    np.testing.assert_allclose(env.home, [1.0])
    starts = jnp.stack([env.start(k)[0] for k in jax.random.split(key, 4)])
    assert np.all(starts > 0.9)
    assert len(np.unique(starts)) == 4


def test_limits_of_plants():
    model = eqx.tree_at(lambda m: m.limits.effort, arm(), jnp.array([3.0, jnp.inf]))
    plant = Plant(oc.RobotDynamics(model, 0.01, actuated=["joint0"]))
    assert (plant.middle.tolist(), plant.scale.tolist()) == ([0.0], [3.0])
    servo = jaxcfa.load_model(
        '<mujoco><worldbody><body><joint name="j"/><geom size=".1"/></body></worldbody><actuator>'
        '<position joint="j" ctrlrange="-1 3" kp="2"/></actuator></mujoco>'
    )
    plant = Plant(oc.RobotDynamics(servo, 0.01, actuated="actuators"))
    assert (plant.middle.tolist(), plant.scale.tolist()) == ([1.0], [2.0])
    # So are they where all is known but the action.
    for options in ({}, {"limit": jnp.array(2.0)}):
        make = lambda x, o=options: Plant(oc.RobotDynamics(servo, 0.01, actuated="actuators"), **o).scale * x  # noqa: E731
        assert jax.eval_shape(make, jnp.ones(1)).shape == (1,)
    with pytest.raises(ValueError, match="no limit for the control of 'joint1'"):
        Plant(oc.RobotDynamics(model, 0.01))


def bad_environment(**methods) -> Slider:
    kind = type("Bad", (Slider,), {"__doc__": "", **methods})
    return kind(slider().plant)


def test_mistakes_are_explained(key):
    env, keys = slider(), jax.random.split(key, 2)
    state = env.reset(key)
    dynamics = oc.RobotDynamics(mass(), 0.05)
    cases = {
        r"action must have shape \(m,\) = \(1,\), got \(2,\)": lambda: env.step(state, jnp.ones(2)),
        "got \\(2, 1\\). Functions are for one state; batch them with jax.vmap": lambda: env.step(
            state, jnp.ones((2, 1))
        ),
        "action must be an array": lambda: env.step(state, "left"),
        "q must have shape": lambda: env.step(jax.vmap(env.reset)(keys), jnp.ones(1)),
        "key must be one key": lambda: env.reset(keys),
        "key must be a random key": lambda: env.reset(0),
        "length must be a positive integer": lambda: unroll(env, lambda obs, key: obs[:1], state, key, 0),
        r"of an observation and a key, but .* has the arguments \(obs\)": lambda: unroll(
            env, lambda obs: obs[:1], state, key, 2
        ),
        "spread must be finite and not negative, got -1": lambda: Reacher(arm(), "tip", limit=1.0, spread=-1.0),
        "pole_length must be positive and finite, .* got -1": lambda: CartPole(pole_length=-1.0),
        "length must be positive and finite, .* got 0": lambda: Acrobot(length=0.0),
        "frame that joints move, but -1 is fixed": lambda: Reacher(arm(), -1, limit=1.0),
        "No frame or body named 'hand'": lambda: Reacher(arm(), "hand", limit=1.0),
        "fixed base, but .* is a free joint": lambda: Reacher(jaxcfa.chain(2, floating_base=True), "tip", limit=1.0),
        "no limit for the control": lambda: Reacher(arm(), "tip"),
        "one robot with a floating base, .* its first joint hangs": lambda: Walker(
            arm(), jaxcfa.ground_contacts(arm(), "tip")
        ),
        r"fastest must have shape \(3,\)": lambda: walker(fastest=1.0),
        "reach must be positive, got -0.5": lambda: walker(reach=-0.5),
        "needs contacts with the ground": lambda: Walker(
            tripod(), body_contacts(tripod(), "leg0", "leg1", Sphere(0.1))
        ),
        "ground, which is upright": lambda: Walker(
            tripod(), jaxcfa.ground_contacts(tripod(), "leg0", ground=FlatGround([1.0, 0.0, 0.0]))
        ),
        "above the ground, but its centre of mass is at -": lambda: Walker(
            tripod(), jaxcfa.ground_contacts(tripod(), "leg0", (0, 0, 0.3))
        ),
        "middle must be one number": lambda: Plant(dynamics, 1.0, middle=[1.0, 2.0]),
        "middle is that of a given limit": lambda: Plant(dynamics, middle=1.0),
        "middle must be finite": lambda: Plant(dynamics, 1.0, middle=jnp.inf),
        "q must have shape \\(nq,\\)": lambda: Reacher(arm(), "tip", limit=1.0, home=[0.0]),
        "limit must be positive": lambda: Plant(dynamics, -1.0),
        "limit must be one number or have shape": lambda: Plant(dynamics, [1.0, 2.0]),
        "substeps must be a positive integer": lambda: Plant(dynamics, 1.0, substeps=0),
        "dynamics must be": lambda: Plant(mass(), 1.0),
        "one without AutoReset": lambda: AutoReset(AutoReset(env, 3), 3),
        "without AutoReset, in its wrappers": lambda: AutoReset(Scaled(AutoReset(env, 3), jnp.ones(())), 3),
        "has to call its \\['key'\\] otherwise": lambda: AutoReset(Keyed(env, 1.0), 3).reset(key),
        "episode_length must be a positive integer": lambda: AutoReset(env, True),
        "must come from the reset of AutoReset; its info has no key, steps": lambda: AutoReset(env, 3).step(
            env.reset(key), jnp.zeros(env.action_size)
        ),
        "observe must give a vector": lambda: bad_environment(observe=lambda self, q, v, task: q[0]).reset(key),
        "observe must give a vector .*, one array, got {'q': ": lambda: bad_environment(
            observe=lambda self, q, v, task: {"q": q}
        ).reset(key),
        "start must give three values, .* \\(\\) for no task, got 2 values": lambda: bad_environment(
            start=lambda self, key: (jnp.zeros(1), jnp.zeros(1))
        ).reset(key),
        "start must give three values.* got None": lambda: bad_environment(start=lambda self, key: None).reset(key),
        "reward must be one number, got None": lambda: bad_environment(
            reward=lambda self, q, v, action, task: None
        ).reset(key),
        "dt must be positive and finite, got -1.0": lambda: CartPole(dt=-1.0),
        "swing_up must be True or False, got 'no'": lambda: CartPole(swing_up="no"),
        "dt must be a time step": lambda: Acrobot(dt="slow"),
        "reward must be one number": lambda: bad_environment(reward=lambda self, q, v, action, task: q).reset(key),
        "terminated must be one number": lambda: bad_environment(terminated=lambda self, q, v, task: q > 0).step(
            state, jnp.ones(1)
        ),
        "q must have shape .*got \\(\\)": lambda: bad_environment(start=lambda self, key: (0.0, [0.0], ())).reset(key),
    }
    for message, call in cases.items():
        with pytest.raises(ValueError, match=message):
            call()


def test_entries_of_others_are_kept(key):
    """Wrappers of Brax and MuJoCo Playground write their own into `info` and `metrics`."""
    env = environment("swing up")
    state = env.reset(key)
    state.info["first_state"], state.metrics["sum"] = state.data, jnp.ones(())
    after = env.step(state, jnp.zeros(1))
    assert after.info["first_state"].q.shape == (2,)
    assert after.metrics["sum"] == 1
    assert env.unwrapped is AutoReset(env, 3).unwrapped is env
