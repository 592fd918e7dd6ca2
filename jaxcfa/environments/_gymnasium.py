"""Environments for Gymnasium, on the host."""

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..model._arguments import positive_integer
from ..numerics import choose
from ._auto_reset import AutoReset, check_without_reset
from ._environment import AbstractEnvironment, State

try:
    import gymnasium
    from gymnasium.utils import seeding
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "Environments of Gymnasium need the package gymnasium: pip install -e '.[gym]' in a clone of jaxcfa",
        name=error.name,
    ) from error

_NO_PICTURES = (
    "Many robots at once are not drawn. Collect the configurations, state.data.q, and hand them to jaxcfa.viz: "
    "animate(model, ...) or Viewer(); or take GymnasiumEnv(..., picture=viz.Frames(model))."
)


_of_each = jax.jit(jax.vmap(choose))


class _Compiled:
    """The programs `_reset` and `_step`, which no pickle can hold: they are made again from what else there is."""

    def _compile(self) -> None:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_reset", "_step")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._compile()


class GymnasiumEnv(_Compiled, gymnasium.Env):
    """An environment as a `gymnasium.Env`, one robot on the host, for packages that learn from these.

    Both spaces are boxes: actions between -1 and 1, observations without bounds. An episode is `terminated` where the
    environment says so and `truncated` after `episode_length` steps; it does not begin anew by itself. `info` holds the
    metrics. `state` is the `State`.

    **Arguments:** `environment`, without `AutoReset`; `episode_length`: number of steps, `None` for no limit.
    `picture`: what draws a configuration (nq,), such as `jaxcfa.viz.Frames(model, "robot.urdf")`, with which the
    `render_mode` is `"rgb_array"`, as for Gymnasium's `RecordVideo`.

    **Raises:** `ValueError` for an environment with `AutoReset`, and (from `step`) for actions that are not finite.
    """

    def __init__(
        self,
        environment: AbstractEnvironment,
        episode_length: SupportsIndex | None = None,
        *,
        picture: Callable[[np.ndarray], np.ndarray] | None = None,
    ):
        check_without_reset(environment)
        if picture is not None and not callable(picture):
            raise ValueError(f"picture must be a function of q, such as viz.Frames(model), got {picture!r:.200}.")
        self.environment = environment
        self.picture = picture
        self.render_mode = "rgb_array" if picture else None
        known = episode_length is not None
        self.episode_length = positive_integer("episode_length", episode_length) if known else None
        modes = ["rgb_array"] if picture else []
        self.metadata = {"render_modes": modes, "render_fps": round(1 / float(environment.dt))}
        self.action_space, self.observation_space = _spaces(environment)
        self.state: State | None = None
        self._steps = 0
        self._compile()

    def _compile(self) -> None:
        environment = self.environment
        self._reset = jax.jit(lambda key: environment.reset(key))
        self._step = jax.jit(lambda state, action: _with_numbers(environment.step(state, action)))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """The first observation (n,) of a new episode, and an empty `info`; `options` are not used."""
        super().reset(seed=seed)
        self._steps = 0
        self.state = self._reset(_key(self.np_random))
        return _array(self.state.obs), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Observation (n,), reward, terminated, truncated and metrics after one action (m,)."""
        if self.state is None:
            raise ValueError("Call reset() before step().")
        self.state, numbers = self._step(self.state, _finite(action))
        self._steps += 1
        names = sorted(self.state.metrics)
        host = np.asarray(numbers)
        obs, (reward, done, *metrics) = host[: -2 - len(names)], host[-2 - len(names) :].tolist()
        terminated = done > 0
        is_over = self.episode_length is not None and self._steps >= self.episode_length
        truncated = is_over and not terminated
        info = dict(zip(names, metrics, strict=True))
        return obs.astype(self.observation_space.dtype), reward, terminated, truncated, info

    def render(self) -> np.ndarray:
        """The robot as it is now (height, width, 3). **Raises:** `ValueError` without `picture`, or before `reset`."""
        if self.picture is None:
            raise ValueError("These pictures need GymnasiumEnv(..., picture=jaxcfa.viz.Frames(model, file)).")
        if self.state is None:
            raise ValueError("Call reset() before render().")
        return self.picture(np.asarray(self.state.q))


class GymnasiumVectorEnv(_Compiled, VectorEnv):
    """Many robots in one environment as a `gymnasium.vector.VectorEnv`, computed together.

    A robot whose episode has ended is reset in the same step (`AutoresetMode.SAME_STEP`): then `info["final_obs"]` has
    the last observation of the episode where the mask `info["_final_obs"]` is true, and `info["final_info"]` the last
    metrics. `info` holds the metrics, too.

    **Arguments:** `environment`, without `AutoReset`; `num_envs`: how many robots; `episode_length`: number of steps.

    **Raises:** `ValueError` for an environment with `AutoReset`, and (from `step`) for actions of another shape or that
    are not finite.
    """

    def __init__(self, environment: AbstractEnvironment, num_envs: SupportsIndex, episode_length: SupportsIndex):
        self.environment = AutoReset(environment, positive_integer("episode_length", episode_length))
        self.num_envs = num_envs = positive_integer("num_envs", num_envs)
        fps = round(1 / float(environment.dt))
        self.metadata = {"render_modes": [], "render_fps": fps, "autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_action_space, self.single_observation_space = _spaces(environment)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.state: State | None = None
        self._compile()

    def _compile(self) -> None:
        environment = self.environment
        self._reset = jax.jit(jax.vmap(environment.reset))
        self._step = jax.jit(lambda state, actions: jax.vmap(environment.step)(state, actions))

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict]:
        """The first observations (num_envs, n) of new episodes, and an empty `info`.

        How a robot starts that has a seed of its own depends on that alone. Of `options` the mask `"reset_mask"`
        (num_envs,) counts: robots where it is false go on, and their observations are those that they have.

        **Raises:** `ValueError` for another number of seeds, and for a mask of another shape or type, or before all
        have been reset.
        """
        mask = _reset_mask(options, self.num_envs, self.state)
        if isinstance(seed, (Sequence, np.ndarray)):
            if len(seed) != self.num_envs:
                raise ValueError(f"seed must be an integer or num_envs = {self.num_envs} of them, got {len(seed)}.")
            keys = jnp.stack([_key(seeding.np_random(None if x is None else int(x))[0]) for x in seed])
        else:
            super().reset(seed=seed)
            keys = jax.random.split(_key(self.np_random), self.num_envs)
        started = self._reset(keys)
        self.state = started if mask is None else _of_each(mask, started, self.state)
        return _array(self.state.obs), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        """Observations, rewards, terminated, truncated and `info` after one action (num_envs, m) of each."""
        actions, expected = _finite(actions), self.action_space.shape
        if actions.shape != expected:
            raise ValueError(f"actions must have shape (num_envs, m) = {expected}, got {actions.shape}.")
        if self.state is None:
            raise ValueError("Call reset() before step().")
        self.state = self._step(self.state, actions)
        done, truncated = _array(self.state.done) > 0, _array(self.state.info["truncation"]) > 0
        info: dict[str, Any] = {}
        for name, value in self.state.metrics.items():
            info[name], info[f"_{name}"] = _array(value), np.ones(self.num_envs, bool)
        if done.any():
            # As Gymnasium's own vector environments give it.
            last = np.full(self.num_envs, None, dtype=object)
            for i in np.flatnonzero(done):
                last[i] = _array(self.state.info["terminal_obs"][i])
            info["final_obs"], info["_final_obs"] = last, done
            final = {name: np.where(done, _array(value), 0) for name, value in self.state.metrics.items()}
            info["final_info"] = {**final, **{f"_{name}": done for name in final}}
            info["_final_info"] = done
        return _array(self.state.obs), _array(self.state.reward), done & ~truncated, truncated, info

    def render(self) -> None:
        """Raises `NotImplementedError`: many robots at once are not drawn."""
        raise NotImplementedError(_NO_PICTURES)


def _spaces(environment: AbstractEnvironment) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box]:
    """The spaces of actions and of observations."""
    obs = jax.eval_shape(environment.reset, jax.random.key(0)).obs
    actions = gymnasium.spaces.Box(-1.0, 1.0, (environment.action_size,), obs.dtype)
    return actions, gymnasium.spaces.Box(-np.inf, np.inf, obs.shape, obs.dtype)


def _reset_mask(options: dict[str, Any] | None, number: int, state: State | None) -> np.ndarray | None:
    """Which robots are to be reset; `None` for all."""
    if not options or options.get("reset_mask") is None:
        return None
    mask = np.asarray(options["reset_mask"])
    if mask.shape != (number,) or mask.dtype != bool:
        raise ValueError(
            f"reset_mask must be an array of num_envs = {number} booleans, got shape {mask.shape} of {mask.dtype}."
        )
    if state is None:
        raise ValueError("Call reset() without a reset_mask first, which starts all robots.")
    return mask


def _with_numbers(state: State) -> tuple[State, Array]:
    """The state, and its observation, reward, `done` and metrics as one array, since each one is fetched by itself."""
    numbers = (state.reward, state.done, *(state.metrics[name] for name in sorted(state.metrics)))
    return state, jnp.concatenate([state.obs, *(jnp.reshape(x, 1) for x in numbers)])


def _key(generator: np.random.Generator) -> Any:
    return jax.random.key(int(generator.integers(2**31)))


def _array(x: Any) -> np.ndarray:
    # A copy, because what JAX gives cannot be written to.
    return np.array(x)


def _finite(action: Any) -> np.ndarray:
    array = np.asarray(action)
    try:
        finite = np.all(np.isfinite(array))
    except TypeError as error:
        raise ValueError(f"Actions must be an array of numbers, got {action!r:.200}.") from error
    if not finite:
        raise ValueError(f"Actions must be finite, got {array}.")
    return array
