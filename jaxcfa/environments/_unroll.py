"""A policy in an environment."""

from collections.abc import Callable
from typing import Any, NamedTuple, SupportsIndex

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from ..model._arguments import check_instance, checked_key, positive_integer
from ..simulation._checkpointed_scan import checkpointed_scan
from ..simulation._inputs import check_arguments
from ..typing import Key
from ._environment import AbstractEnvironment, State

Policy = Callable[[Float[Array, "n"], Key], ArrayLike | tuple[ArrayLike, PyTree[Array]]]


class Transition(NamedTuple):
    """What happened in one step; stacked over steps by `unroll`.

    **Fields:** `obs` (n,) before, `action` (m,), `reward` (), `done` (): 1 if an episode ended, `discount` (): 0 if it
    ended for more than its length, so that the future is worth nothing, else 1; `next_obs` (n,): the observation
    after the step in the same episode; `extras`: what the policy gave along with the action.
    """

    obs: Float[Array, "*steps n"]
    action: Float[Array, "*steps m"]
    reward: Float[Array, "*steps"]
    done: Float[Array, "*steps"]
    discount: Float[Array, "*steps"]
    next_obs: Float[Array, "*steps n"]
    extras: PyTree[Array]


def unroll(
    environment: AbstractEnvironment, policy: Policy, state: State, key: Key, length: SupportsIndex
) -> tuple[State, Transition]:
    """The state after `length` steps of a policy, and what happened on the way.

    **Arguments:** `policy(obs, key)` gives the action (m,), or a pair: the action, and extra data to be kept with it,
    such as its probability. `state`: where to begin. `length`: number of steps. Without `AutoReset` steps after the end
    of an episode go on with it.

    Reverse mode keeps the states alone and computes each step again, as that of `rollout`.

    Called outside `jit` it compiles anew for every new function object; an `equinox.Module` with `__call__`, whose
    arrays may change, does not.

    **Returns:** the last `State`, and a `Transition` whose arrays have a leading axis over steps.

    **Raises:** `ValueError` for a `length` below one, a batch of keys, a policy of other arguments, and a wrong shape
    of actions.
    """
    check_instance("environment", environment, AbstractEnvironment, "one such as CartPole() or AutoReset(...)")
    check_instance("state", state, State, "what environment.reset(key) or environment.step(state, action) gives")
    wanted = "policy must be a function of an observation and a key"
    if not callable(policy):
        raise ValueError(f"{wanted}, got {policy!r:.200}.")
    check_arguments(wanted, policy, "obs", "key")
    return _unroll(environment, policy, state, checked_key(key), positive_integer("length", length))


@eqx.filter_jit
def _unroll(
    environment: AbstractEnvironment, policy: Policy, state: State, key: Key, length: int
) -> tuple[State, Transition]:
    def body(state: State, key: Key) -> tuple[State, Transition]:
        chosen: Any = policy(state.obs, key)
        if isinstance(chosen, tuple) and len(chosen) != 2:
            raise ValueError(f"policy must return an action, or a pair of it and extras, got a tuple of {len(chosen)}.")
        action, extras = chosen if isinstance(chosen, tuple) else (chosen, ())
        after = environment.step(state, action)
        terminated = after.done - after.info.get("truncation", 0.0)
        next_obs = after.info.get("terminal_obs", after.obs)
        if jnp.shape(next_obs) != jnp.shape(after.obs):
            raise ValueError(
                f'info["terminal_obs"] must have the shape of observations, {jnp.shape(after.obs)}, got '
                f"{jnp.shape(next_obs)}: wrappers that change observations go inside AutoReset, or change it, too."
            )
        return after, Transition(state.obs, action, after.reward, after.done, 1 - terminated, next_obs, extras)

    return checkpointed_scan(body, state, jax.random.split(key, length), length, 1)
