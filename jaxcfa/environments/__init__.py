"""Environments for learning, in the conventions of Brax and MuJoCo Playground, and for Gymnasium.

An environment is data with `reset(key)` and `step(state, action)`: pure functions for one robot, to be compiled,
batched and differentiated, through the dynamics, too. `CartPole`, `Acrobot`, `Reacher` and `Walker` are ready-made;
your own is a subclass of `AbstractRobotEnvironment`. `AutoReset` begins anew what has ended, `unroll` lets a policy
act. `GymnasiumEnv` and `GymnasiumVectorEnv` need the extra `gym`.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ._acrobot import Acrobot as Acrobot
from ._auto_reset import AutoReset as AutoReset
from ._cart_pole import CartPole as CartPole
from ._environment import AbstractEnvironment as AbstractEnvironment, State as State
from ._plant import Plant as Plant
from ._reacher import Reacher as Reacher
from ._robot import AbstractRobotEnvironment as AbstractRobotEnvironment
from ._unroll import Transition as Transition, unroll as unroll
from ._walker import Walker as Walker

if TYPE_CHECKING:
    from ._gymnasium import GymnasiumEnv as GymnasiumEnv, GymnasiumVectorEnv as GymnasiumVectorEnv

_OF_GYMNASIUM = ("GymnasiumEnv", "GymnasiumVectorEnv")


def __getattr__(name: str) -> Any:
    """Imports Gymnasium only where it is used."""
    if name not in _OF_GYMNASIUM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import _gymnasium

    return getattr(_gymnasium, name)


def __dir__() -> list[str]:
    """Includes what is imported lazily, if its package is installed."""
    late = _OF_GYMNASIUM if find_spec("gymnasium") else ()
    return sorted({*globals(), *late})
