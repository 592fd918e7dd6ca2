"""Episodes one after the other."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..model._arguments import checked_key, positive_integer
from ..numerics import choose
from ..typing import Key
from ._environment import AbstractEnvironment, State


class AutoReset(AbstractEnvironment):
    """An environment whose `step` begins a new episode, from a new random start, where one has ended.

    Episodes end where the environment says so, or after `episode_length` steps. The step that ends one gives its
    reward, `done` and metrics, and the observation of the next episode's start. The `info` of a state holds, under
    Brax's names where it has any:

    - `truncation`: 1 if the step ended an episode for its length only, else 0; then the future has a value,
    - `terminal_obs` (n,): the observation after the step in the episode that it belongs to, from which that value
      follows; where nothing ended it is `obs`,
    - `steps`: number of steps since the start of the episode,
    - `key`, from which starts are drawn.

    The derivatives of a state by what was before its episode are zero; those of `terminal_obs` and the reward are not.
    A new start is computed in every step, whether it is used or not, since a batch computes both cases anyway.

    **Fields:** `environment`, `episode_length`.
    """

    environment: AbstractEnvironment
    episode_length: int = eqx.field(converter=lambda x: positive_integer("episode_length", x), static=True)

    def __check_init__(self):
        check_without_reset(self.environment)

    @property
    def action_size(self) -> int:
        return self.environment.action_size

    @property
    def dt(self) -> Float[Array, ""]:
        return self.environment.dt

    @property
    def unwrapped(self) -> AbstractEnvironment:
        return self.environment.unwrapped

    def reset(self, key: Key) -> State:
        """The start of the first episode. `ValueError` where the environment's `info` has names of this class."""
        return _reset(self, checked_key(key))

    def step(self, state: State, action: ArrayLike) -> State:
        """The state after one action (m,), at the start of a new episode if that has ended one.

        **Raises:** `ValueError` for states that are not of this class, whose `reset` gives the first.
        """
        missing = sorted({"steps", "key"} - set(state.info))
        if missing:
            raise ValueError(f"state must come from the reset of AutoReset; its info has no {', '.join(missing)}.")
        return _step(self, state, action)


@eqx.filter_jit
def _reset(environment: AutoReset, key: Key) -> State:
    key, start = jax.random.split(key)
    state = environment.environment.reset(start)
    own = {
        "truncation": jnp.zeros_like(state.done),
        "terminal_obs": state.obs,
        "steps": jnp.zeros((), jnp.int32),
        "key": key,
    }
    if taken := sorted(own.keys() & state.info.keys()):
        raise ValueError(
            f"AutoReset keeps {', '.join(own)} in info; the environment has to call its {taken} otherwise."
        )
    return state.replace(info=state.info | own)


@eqx.filter_jit
def _step(environment: AutoReset, state: State, action: ArrayLike) -> State:
    after = environment.environment.step(state, action)
    steps = state.info["steps"] + 1
    truncation = jnp.where(steps >= environment.episode_length, 1 - after.done, 0.0)
    done = after.done + truncation
    key, start = jax.random.split(state.info["key"])
    fresh = environment.environment.reset(start)

    def chosen(new: Any, old: Any) -> Any:
        return choose(done > 0, new, old)

    own: dict[str, Any] = {
        "truncation": truncation,
        "terminal_obs": after.obs,
        "steps": jnp.where(done > 0, 0, steps),
        "key": key,
    }
    of_episode = {name: chosen(value, after.info[name]) for name, value in fresh.info.items()}
    return after.replace(
        data=chosen(fresh.data, after.data),
        obs=chosen(fresh.obs, after.obs),
        done=done,
        info=after.info | of_episode | own,
    )


def check_without_reset(environment: Any) -> None:
    """Raises `ValueError` for what is no environment, or one with `AutoReset` already, perhaps inside of wrappers."""
    parts = jax.tree.leaves(environment, is_leaf=lambda x: isinstance(x, AutoReset))
    if not isinstance(environment, AbstractEnvironment) or any(isinstance(x, AutoReset) for x in parts):
        raise ValueError(f"environment must be one without AutoReset, in its wrappers, too, got {environment!r:.200}.")
