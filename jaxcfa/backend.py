"""Which backend programs are traced for, and how loops over bodies are written for it.

| | bodies written out | at a time in longer loops | fenced after every | branches |
|---|---|---|---|---|
| CPU | none | 1 | | `lax.cond` |
| GPU | 32 | 8 | 1 | selection |
| TPU | 32 | 8 | 8 | selection |

CPUs run loops over bodies best as they stand, and compile them fast. On accelerators each iteration costs the start of
all its kernels, a `lax.cond` inside a loop may wait for the host, and the state of the loop goes through memory.
Written out, bodies have neither registers nor branches. Fences (`lax.optimization_barrier`) then keep the compiler from
making kernels of many bodies each, which compute the same again and again and take long to compile. The numbers are
from programs compiled ahead of time (`python -m benchmarks accelerators`). An H100 bears out those for GPUs: forward
dynamics of batches takes 1.3 to 5 times as long in loops, and 1.2 to 3 times with no fence or one for two bodies.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import jax
from jaxtyping import PyTree


class LoopForm(NamedTuple):
    """How loops over bodies are written.

    **Fields:** `written_out`: up to so many bodies there is no loop at all; `unroll`: bodies in one iteration of a
    longer loop; `fence`: after so many bodies all results are made, 0 for never; `fence_together`: whether a fence is
    one around all of them, which keeps what nobody uses, or each has its own, with which XLA:TPU is three times slower;
    `branches`: whether `lax.cond` is used; `inline`: whether bodies that are written out are parts of the program,
    which takes longer to trace, or calls of one function. XLA:TPU makes four times fewer kernels of the former, XLA:GPU
    the same. `rounds_written_out`: whether the rounds of parallel algorithms are no loop either.
    """

    written_out: int
    unroll: int
    fence: int
    fence_together: bool = False
    branches: bool = False
    inline: bool = False
    rounds_written_out: bool = True


_FORMS = {
    "cpu": LoopForm(written_out=0, unroll=1, fence=0, branches=True, rounds_written_out=False),
    "gpu": LoopForm(written_out=32, unroll=8, fence=1),
    "tpu": LoopForm(written_out=32, unroll=8, fence=8, fence_together=True, inline=True),
}

GPUS = ("cuda", "rocm")  # as JAX calls them where programs are lowered

# A part of the keys of all caches of JAX, so that what was traced for one backend does not serve another.
_target = jax.make_user_context(None)


def compiling_for(backend: str) -> AbstractContextManager[None]:
    """Inside this context, programs are traced for another backend than that of JAX's default device.

    For programs that are compiled ahead of time or exported, such as those for an accelerator from a machine without:
    algorithms and loops are chosen while tracing, by the default device. All of `jax.jit(f).lower(...)` or
    `jax.export.export(...)(...)` must be inside. Nothing is placed on that backend, or compiled for it, by this alone.

    **Arguments:** `backend`: "cpu", "gpu" or "tpu".

    **Raises:** `ValueError` for another one.
    """
    if backend not in _FORMS:
        raise ValueError(f"backend must be one of {', '.join(map(repr, _FORMS))}, got {backend!r}.")
    return _target(backend)


def backend() -> str:
    """The backend that programs are traced for: "cpu", "gpu", "tpu", or the name of another."""
    if _target.value:
        return _target.value
    # Also a part of the keys of JAX's caches.
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    if device is None:
        return jax.default_backend()
    return device if isinstance(device, str) else device.platform


def is_gpu() -> bool:
    """Whether programs are traced for a GPU."""
    return backend() in ("gpu", *GPUS)


def following(arguments: PyTree) -> AbstractContextManager[None]:
    """Inside this context, programs are traced for the device that arguments are committed to: they will run there.

    Nothing changes where none is, or inside of `compiling_for`.
    """
    arrays = (x for x in jax.tree.leaves(arguments) if isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer))
    platforms = {device.platform for x in arrays if x.committed for device in x.devices()}
    others = (platforms & _FORMS.keys()) - {backend()}
    return nullcontext() if _target.value or not others else _target(others.pop())


def loop_form() -> LoopForm:
    """How loops over bodies are written for `backend()`."""
    return _FORMS.get(backend(), _FORMS["gpu"])
