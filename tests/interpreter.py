"""Python, so that it traces faster: for the tests, and for the processes that they start."""

import contextlib
import gc


def hasten() -> None:
    """Looks for garbage less often, and has JAX keep no tracebacks."""
    # Tracing makes millions of objects that live on. Looking through them takes a tenth of all time at Python's own
    # thresholds.
    gc.set_threshold(300_000, 50, 100)
    # JAX notes for messages where in Python each equation comes from, which takes a twentieth of all time.
    with contextlib.suppress(ImportError, AttributeError):
        from jax._src.lib import _jax

        _jax.set_tracebacks_enabled(False)
