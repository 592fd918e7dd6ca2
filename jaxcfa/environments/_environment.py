"""The interface of an environment."""

import abc
import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..simulation import State as Motion
from ..typing import Configuration, Key, Velocity


class State(eqx.Module):
    """What `step` takes and returns, with the fields of MuJoCo Playground (and, except `data`, of Brax).

    **Fields:** `data`: the pair `q`, `v`; `obs` (n,), the observation; `reward` () of the last step; `done` (): 1 if
    that step ended the episode, else 0, a floating-point number; `metrics`: numbers by name, such as the terms of the
    reward; `info`: what else goes from step to step, by name. Unknown entries are kept.
    """

    data: Motion
    obs: Float[Array, "n"]
    reward: Float[Array, ""]
    done: Float[Array, ""]
    metrics: dict[str, Array]
    info: dict[str, Any]

    @property
    def q(self) -> Configuration:
        """The configuration (nq,)."""
        return self.data.q

    @property
    def v(self) -> Velocity:
        """The velocity (nv,) [rad/s, m/s]."""
        return self.data.v

    def replace(self, **changes: Any) -> "State":
        """The state with other values of some fields."""
        return dataclasses.replace(self, **changes)


class AbstractEnvironment(eqx.Module):
    """An environment: `reset` begins an episode, `step` takes one action.

    Both are pure functions for one robot; `jax.vmap` makes the batch. All arrays of an environment can be replaced,
    batched and differentiated, those of its model included. A new one for a robot is a subclass of
    `AbstractRobotEnvironment`; a new wrapper is one of this class.
    """

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        for name in ("reset", "step"):
            method = cls.__dict__.get(name)
            if inspect.isfunction(method) and not getattr(method, "__isabstractmethod__", False):
                setattr(cls, name, _PlainMethod(method))

    @abc.abstractmethod
    def reset(self, key: Key) -> State:
        """The start of an episode, drawn at random."""

    @abc.abstractmethod
    def step(self, state: State, action: ArrayLike) -> State:
        """The state after one action (m,), held for the time `dt`."""

    @property
    @abc.abstractmethod
    def action_size(self) -> int:
        """How many numbers an action has: m. Each is between -1 and 1, and clipped to that."""

    @property
    @abc.abstractmethod
    def dt(self) -> Float[Array, ""]:
        """The time of one step [s]."""

    @property
    @abc.abstractmethod
    def unwrapped(self) -> "AbstractEnvironment":
        """The environment without wrappers."""

    @property
    def observation_size(self) -> int:
        """How many numbers an observation has: n."""
        return jax.eval_shape(self.reset, jax.random.key(0)).obs.shape[-1]


class _PlainMethod:
    """A method that can be compiled by `step = jax.jit(env.step)`, as users of Brax do.

    Those that equinox binds are hashed by their object, whose arrays have no hash. Each one is another function to JAX:
    `jax.jit(env.step)` in a loop compiles every time.
    """

    def __init__(self, function: Callable):
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: Any, owner: type) -> Callable:
        return self.function if instance is None else functools.partial(self.function, instance)
