"""Environments as Gymnasium's."""

import pickle
import subprocess
import sys
import warnings

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from jaxcfa import environments, viz
from jaxcfa.environments import AbstractEnvironment, AutoReset, CartPole, GymnasiumEnv, GymnasiumVectorEnv
from test_package import public_members

ENVIRONMENT = CartPole(swing_up=False)


class Wrapped(AbstractEnvironment):
    """A wrapper as a user would write it."""

    inner: AbstractEnvironment

    def reset(self, key):
        return self.inner.reset(key)

    def step(self, state, action):
        return self.inner.step(state, action)

    @property
    def action_size(self):
        return self.inner.action_size

    @property
    def dt(self):
        return self.inner.dt

    @property
    def unwrapped(self):
        return self.inner.unwrapped


def test_checker_of_gymnasium():
    # All is checked only of environments with a name.
    gymnasium.register("jaxcfa/Balance-v0", lambda: GymnasiumEnv(ENVIRONMENT, 10))
    try:
        with warnings.catch_warnings():
            # That velocities have no bounds.
            warnings.filterwarnings("ignore", message=".*infinity. This is probably too")
            check_env(gymnasium.make("jaxcfa/Balance-v0").unwrapped)
    finally:
        del gymnasium.registry["jaxcfa/Balance-v0"]


def test_same_motion_and_ends():
    env = GymnasiumEnv(ENVIRONMENT, 3)
    obs, info = env.reset(seed=3)
    assert obs in env.observation_space
    assert info == {}
    state, action = env.state, np.array([0.3])
    for i in range(3):
        obs, reward, terminated, truncated, info = env.step(action)
        state = ENVIRONMENT.step(state, action)
        np.testing.assert_allclose(obs, state.obs, rtol=1e-12)
        assert reward == pytest.approx(float(state.reward), abs=1e-12)
        assert set(info) == {"reward/posture", "reward/effort"}
        assert (terminated, truncated) == (False, i == 2)
    assert env.step(action)[2:4] == (False, True)  # and after the end, too
    env.state = env.state.replace(data=env.state.data._replace(q=jnp.array([0.0, 1.0])))
    assert env.step(action)[2:4] == (True, False)
    assert gymnasium.wrappers.TimeLimit(env, 2).reset(seed=3)[0].shape == (5,)


def test_many_at_once():
    env = GymnasiumVectorEnv(ENVIRONMENT, 3, 4)
    obs, _ = env.reset(seed=1)
    again, _ = env.reset(seed=1)
    np.testing.assert_array_equal(obs, again)
    assert obs in env.observation_space
    q = env.state.q.at[1, 1].set(1.0)
    env.state = env.state.replace(data=env.state.data._replace(q=q))
    obs, reward, terminated, truncated, info = env.step(np.zeros((3, 1)))
    assert obs in env.observation_space
    assert reward.shape == (3,)
    assert terminated.tolist() == info["_final_obs"].tolist() == [False, True, False]
    assert not truncated.any()
    assert info["final_obs"][1][1] < np.cos(0.9)
    assert obs[1, 1] > np.cos(0.2)
    assert info["final_obs"][0] is None
    final, name = info["final_info"], "reward/posture"
    assert final[name].tolist() == [0, info[name][1], 0]
    assert final[f"_{name}"].tolist() == info["_final_info"].tolist() == [False, True, False]
    for _ in range(3):
        _, _, terminated, truncated, _ = env.step(np.zeros((3, 1)))
    assert truncated.tolist() == [True, False, True]
    assert not terminated.any()


def test_seed_of_each_robot():
    """That alone counts; without one, a robot starts anywhere."""
    env = GymnasiumVectorEnv(ENVIRONMENT, 3, 4)
    obs, _ = env.reset(seed=[5, None, np.int64(7)])
    again, _ = env.reset(seed=np.array([7, 8, 5]))
    np.testing.assert_array_equal(again[[2, 0]], obs[[0, 2]])
    again, _ = env.reset(seed=[5, None, 7])
    assert np.any(obs != again, axis=1).tolist() == [False, True, False]
    with pytest.raises(ValueError, match="seed must be an integer or num_envs = 3 of them, got 2"):
        env.reset(seed=[1, 2])


def test_only_some_are_reset():
    """Those of the mask; the others go on where they were, and their episodes too."""
    env = GymnasiumVectorEnv(ENVIRONMENT, 3, 4)
    mask = np.array([True, False, False])
    with pytest.raises(ValueError, match="without a reset_mask first"):
        env.reset(options={"reset_mask": mask})
    env.reset(seed=1)
    before = env.step(np.ones((3, 1)))[0]
    obs, _ = env.reset(options={"reset_mask": mask})
    assert np.all(obs == before, axis=1).tolist() == [False, True, True]
    truncated = [env.step(np.zeros((3, 1)))[3].tolist() for _ in range(4)]
    assert truncated[2:] == [[False, True, True], [True, False, False]]
    for wrong in (mask[:2], np.arange(3)):
        with pytest.raises(ValueError, match="must be an array of num_envs = 3 booleans, got shape"):
            env.reset(options={"reset_mask": wrong})


@pytest.mark.parametrize("env", [GymnasiumEnv(ENVIRONMENT, 3), GymnasiumVectorEnv(ENVIRONMENT, 2, 3)])
def test_pickles_go_on_where_they_were_made(env):
    env.reset(seed=1)
    copied, action = pickle.loads(pickle.dumps(env)), np.full(env.action_space.shape, 0.3)
    for expected, found in zip(env.step(action)[:2], copied.step(action)[:2], strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(copied.reset(seed=1)[0], env.reset(seed=1)[0])


def test_pictures():
    """Of the robot as it is, for Gymnasium's own wrappers, by a camera that follows it."""
    env = GymnasiumEnv(ENVIRONMENT, picture=viz.Frames(ENVIRONMENT.plant.model))
    assert env.metadata["render_modes"] == [env.render_mode]
    with pytest.raises(ValueError, match="Call reset"):
        env.render()
    collected = gymnasium.wrappers.RenderCollection(env)
    collected.reset(seed=1)
    collected.step(np.ones(1))
    first, second = collected.render()
    assert first.shape == (480, 480, 3)
    assert first.dtype == np.uint8
    assert np.mean(first < 200) > 0.02  # something is drawn,
    assert 0 < np.mean(np.any(first != second, axis=-1)) < 0.1  # and has moved a little
    copied = pickle.loads(pickle.dumps(env))
    far = env.state.q.at[0].set(1000.0)
    copied.render()  # here, and from there the camera goes on
    copied.state = env.state.replace(data=env.state.data._replace(q=far))
    assert np.mean(copied.render() < 200) > 0.02


def test_mistakes_are_explained():
    inner = AutoReset(ENVIRONMENT, 3)
    for wrong in (inner, Wrapped(inner), Wrapped(Wrapped(inner))):
        for make in (GymnasiumEnv, lambda x: GymnasiumVectorEnv(x, 2, 3)):
            with pytest.raises(ValueError, match="without AutoReset, in its wrappers"):
                make(wrong)
    with pytest.raises(ValueError, match="episode_length must be a positive integer"):
        GymnasiumEnv(ENVIRONMENT, 0)
    with pytest.raises(ValueError, match="num_envs must be a positive integer"):
        GymnasiumVectorEnv(ENVIRONMENT, 0, 3)
    with pytest.raises(ValueError, match=r"actions must have shape \(num_envs, m\) = \(2, 1\), got \(2,\)"):
        GymnasiumVectorEnv(ENVIRONMENT, np.int64(2), np.int64(3)).step(np.zeros(2))
    env = GymnasiumEnv(ENVIRONMENT)
    with pytest.raises(NotImplementedError, match="not drawn"):
        GymnasiumVectorEnv(ENVIRONMENT, 2, 3).render()
    with pytest.raises(ValueError, match=r"need GymnasiumEnv\(..., picture="):
        env.render()
    with pytest.raises(ValueError, match="picture must be a function of q"):
        GymnasiumEnv(ENVIRONMENT, picture="human")
    with pytest.raises(ValueError, match="size must be a positive integer, got 0"):
        viz.Frames(ENVIRONMENT.plant.model, size=(0, 480))
    for wrong in (5, (1, 2, 3)):
        with pytest.raises(ValueError, match="size must be two numbers, width and height, got"):
            viz.Frames(ENVIRONMENT.plant.model, size=wrong)
    with pytest.raises(ValueError, match="Call reset"):
        env.step(np.zeros(1))
    env.reset(seed=0)
    with pytest.raises(ValueError, match="Actions must be finite"):
        env.step(np.array([np.nan]))
    with pytest.raises(ValueError, match="Actions must be an array of numbers, got None"):
        env.step(None)
    with pytest.raises(ValueError, match="action must have shape"):
        env.step(np.zeros(2))


def test_they_are_documented():
    for kind in (GymnasiumEnv, GymnasiumVectorEnv):
        assert kind.__doc__
        assert all(member.__doc__ for member in public_members(kind).values())


def test_without_gymnasium_one_sentence_says_what_to_install():
    code = """
import sys
sys.modules["gymnasium"] = None
import jaxcfa
try:
    jaxcfa.environments.GymnasiumEnv
except ModuleNotFoundError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = "Environments of Gymnasium need the package gymnasium: pip install -e '.[gym]' in a clone of jaxcfa"
    assert result.stdout == f"{expected}\n"


def test_other_names_are_unknown():
    with pytest.raises(AttributeError, match="no attribute 'Pendulum'"):
        _ = environments.Pendulum
