"""Python, so that it traces faster: for the tests, and for the processes that they start."""

import contextlib
import functools
import gc
import types
from collections.abc import Callable

_ROOM = 70_000  # machine words


def hasten() -> None:
    """Looks for garbage less often, and has JAX keep no tracebacks."""
    # Tracing makes millions of objects that live on. Looking through them takes a tenth of all time at Python's own
    # thresholds.
    gc.set_threshold(1_000_000, 50, 100)
    # JAX notes for messages where in Python each equation comes from, which takes a twentieth of all time.
    with contextlib.suppress(ImportError, AttributeError):
        from jax._src.lib import _jax

        _jax.set_tracebacks_enabled(False)


def with_room(function: Callable[[], None]) -> Callable[[], None]:
    """The function, called where there is room for the frames of all functions that it calls.

    Python has them in pieces of memory of 16 KB. Each call from the end of one piece asks the system for another, and
    each return gives it back, which takes a fifth of the time of deep programs, as tracing is. One frame that seems
    large has a larger piece made, of which the rest serves the others.
    """
    return functools.partial(_called, function)


def _call(function: Callable[[], None]) -> None:
    function()


_called = types.FunctionType(_call.__code__.replace(co_stacksize=_ROOM), globals())
