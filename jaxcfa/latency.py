"""Programs for one state at a time on CPUs."""

import os

from jax._src import xla_bridge

_OPTION = "xla_cpu_small_while_loop_byte_threshold"
_FLAG = "--xla_backend_extra_options="


def enable_low_latency(loop_bytes: int = 1_000_000) -> None:
    """Lets XLA compile loops over bodies into one function each, on CPUs, for all programs of this process.

    The time of one state is otherwise that of starting some dozen small functions for each body: forward dynamics of an
    arm takes half as long with this, of a chain of a thousand links a twentieth. Batches lose little. XLA reads the
    option from the environment when JAX first computes something, so this comes first in a program, or as
    `XLA_FLAGS=--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=1000000` before it starts. Calling it
    again, or where the environment has the option already, changes nothing.

    **Arguments:** `loop_bytes`: how large the state of such loops may be [bytes].

    **Raises:** `ValueError` for a size that is not positive, and if it comes too late.
    """
    if not (isinstance(loop_bytes, int) and loop_bytes > 0):
        raise ValueError(f"loop_bytes must be a positive integer, got {loop_bytes!r}.")
    flags = os.environ.get("XLA_FLAGS", "").split()
    if any(_OPTION in flag for flag in flags):
        return
    # JAX has no public way to ask this.
    if xla_bridge.backends_are_initialized():
        raise ValueError(
            "enable_low_latency comes too late: JAX has computed something already. Call it before anything else, or "
            f"set XLA_FLAGS={_FLAG}{_OPTION}={loop_bytes} in the environment."
        )
    extra = [flag.removeprefix(_FLAG) for flag in flags if flag.startswith(_FLAG)]
    others = [flag for flag in flags if not flag.startswith(_FLAG)]
    os.environ["XLA_FLAGS"] = " ".join([*others, _FLAG + ",".join([*extra, f"{_OPTION}={loop_bytes}"])])
