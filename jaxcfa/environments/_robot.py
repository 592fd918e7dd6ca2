"""Environments of one robot."""

import abc
import functools
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from ..model._arguments import as_arrays, check_instance, checked_key
from ..numerics import of_perturbed
from ..simulation import State as Motion
from ..simulation._step import is_sound
from ..typing import ConfigurationLike, Key, VelocityLike
from ._environment import AbstractEnvironment, State
from ._plant import Plant

Task = Any
"""What an episode is about, a pytree of arrays drawn at its start, such as a target; `()` if all are the same."""


class AbstractRobotEnvironment(AbstractEnvironment):
    """A task for a robot. A new one is a subclass with a field `plant` and the four methods that are abstract here.

    They are for one robot, and must be traceable by JAX. Episodes end where `terminated` says so; `AutoReset` ends them
    after some time. If an action leads to a motion that is not finite, or so fast that a joint would move by 10,000 rad
    or m in the next step, the state stays what it was, the reward is zero, and the episode ends; first derivatives are
    those of this outcome.

    The `info` of a state holds the `task`.
    """

    plant: eqx.AbstractVar[Plant]

    @abc.abstractmethod
    def start(self, key: Key) -> tuple[ConfigurationLike, VelocityLike, Task]:
        """A random start of an episode: q (nq,), v (nv,) and its task, `()` if there is nothing to say."""

    @abc.abstractmethod
    def observe(self, q: Float[Array, "nq"], v: Float[Array, "nv"], task: Task) -> ArrayLike:
        """What a policy sees (n,)."""

    @abc.abstractmethod
    def reward(
        self, q: Float[Array, "nq"], v: Float[Array, "nv"], action: Float[Array, "m"], task: Task
    ) -> ArrayLike | Mapping[str, ArrayLike]:
        """The reward () of a step with this action, clipped, to the state q, v; or its terms by name, to be added.

        The terms are also in the state's `metrics`, as `reward/name`.
        """

    @abc.abstractmethod
    def terminated(self, q: Float[Array, "nq"], v: Float[Array, "nv"], task: Task) -> ArrayLike:
        """Whether the episode ends in this state."""

    @property
    def action_size(self) -> int:
        return self.plant.dynamics.control_size

    @property
    def dt(self) -> Float[Array, ""]:
        return self.plant.dt

    @property
    def unwrapped(self) -> "AbstractRobotEnvironment":
        return self

    def reset(self, key: Key) -> State:
        """The start of an episode, drawn at random. **Raises:** `ValueError` for what is not one key."""
        return _reset(self, checked_key(key))

    def step(self, state: State, action: ArrayLike) -> State:
        """The state after one action (m,), clipped to [-1, 1] and held for the time `dt`.

        **Raises:** `ValueError` for wrong shapes.
        """
        check_instance("state", state, State, "what reset(key) or step(state, action) gives")
        return _step(self, state, _as_action(action, self.action_size, self.plant.model.dtype))


@eqx.filter_jit
def _reset(environment: AbstractRobotEnvironment, key: Key) -> State:
    plant = environment.plant
    q, v, task = _start(environment, key)
    q, v = (x.astype(plant.model.dtype) for x in as_arrays(plant.model, q=q, v=v))
    reward, metrics = _reward(environment, q, v, jnp.zeros(environment.action_size, q.dtype), task)
    zero, nothing = jax.tree.map(jnp.zeros_like, (reward, metrics))
    return State(Motion(q, v), _observation(environment, q, v, task), zero, zero, nothing, {"task": task})


@eqx.filter_jit
def _step(environment: AbstractRobotEnvironment, state: State, action: Float[Array, "m"]) -> State:
    plant, task = environment.plant, state.info["task"]
    before = Motion(*as_arrays(plant.model, q=state.q, v=state.v))
    after = _moved(plant, before, action)
    action = jnp.clip(action, -1.0, 1.0)
    sound = is_sound(after.q, after.v, plant.dt)
    q, v = (jnp.where(sound, x, y) for x, y in zip(after, before, strict=True))
    reward, metrics = jax.tree.map(lambda x: jnp.where(sound, x, 0.0), _reward(environment, q, v, action, task))
    terminated = _number("terminated", environment.terminated(q, v, task), q.dtype)
    return state.replace(
        data=Motion(q, v),
        obs=_observation(environment, q, v, task),
        reward=reward,
        done=jnp.where(sound, terminated, 1.0),
        metrics=state.metrics | metrics,
    )


def _moved(plant: Plant, before: Motion, action: Float[Array, "m"]) -> Motion:
    """The state after an action, with first derivatives of zero where that is not sound.

    Where it is not finite JAX would find NaN, also where the state is not used: zero times infinity is not zero.
    """
    arrays, static = eqx.partition((plant, before, action), eqx.is_inexact_array)

    def step(arrays: PyTree[Array]) -> Motion:
        plant, before, action = eqx.combine(arrays, static)
        return plant.step(*before, action)

    def rule(primals: tuple, tangents: tuple) -> tuple[Motion, Motion]:
        function, values, directions = of_perturbed(step, primals, tangents)
        after, linear = jax.linearize(function, values)
        sound = is_sound(after.q, after.v, eqx.combine(*primals, static)[0].dt)
        gate = functools.partial(jax.tree.map, lambda x: jnp.where(sound, x, 0))
        return after, gate(linear(gate(directions)))

    moved = jax.custom_jvp(step)
    moved.defjvp(rule, symbolic_zeros=True)
    return moved(arrays)


def _start(environment: AbstractRobotEnvironment, key: Key) -> tuple[ConfigurationLike, VelocityLike, Task]:
    found: Any = environment.start(key)
    if not isinstance(found, tuple | list) or len(found) != 3:
        what = f"{len(found)} values" if isinstance(found, tuple | list) else f"{found!r:.200}"
        raise ValueError(f"start must give three values, q, v and the task, () for no task, got {what}.")
    return found[0], found[1], found[2]


def _observation(environment: AbstractRobotEnvironment, q: Array, v: Array, task: Task) -> Float[Array, "n"]:
    found: Any = environment.observe(q, v, task)
    try:
        obs = jnp.asarray(found, q.dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"observe must give a vector (n,), one array, got {found!r:.200}. Concatenate what is observed."
        ) from error
    if obs.ndim != 1:
        raise ValueError(f"observe must give a vector (n,), got shape {obs.shape}. Concatenate what is observed.")
    return obs


def _reward(
    environment: AbstractRobotEnvironment, q: Array, v: Array, action: Array, task: Task
) -> tuple[Float[Array, ""], dict[str, Array]]:
    found: Any = environment.reward(q, v, action, task)
    if not isinstance(found, Mapping):
        return _number("reward", found, q.dtype), {}
    terms = {f"reward/{name}": _number(f"reward {name!r}", term, q.dtype) for name, term in found.items()}
    return sum(terms.values(), jnp.zeros((), q.dtype)), terms


def _number(name: str, value: Any, dtype: Any) -> Float[Array, ""]:
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be one number, got {value!r:.200}.") from error
    if array.shape != ():
        raise ValueError(f"{name} must be one number, got shape {array.shape}.")
    return array.astype(dtype)


def _as_action(value: Any, size: int, dtype: Any) -> Float[Array, "m"]:
    try:
        array = jnp.asarray(value, dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"action must be an array of shape (m,) = ({size},), got {value!r:.200}.") from error
    if array.shape != (size,):
        remedy = " Functions are for one state; batch them with jax.vmap." if array.ndim > 1 else ""
        raise ValueError(f"action must have shape (m,) = ({size},), got {array.shape}.{remedy}")
    return array
