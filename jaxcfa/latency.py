"""Programs for one state at a time on CPUs."""

import functools
import os
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import jax

from . import backend
from ._private_jax import backends_are_initialized, trace_state_clean
from .numerics._options import positive_integer
from .one_function import whole_program

Result = TypeVar("Result")

_OPTION = "xla_cpu_small_while_loop_byte_threshold"
_FLAG = "--xla_backend_extra_options="
_ASYNCHRONOUS = "jax_cpu_enable_async_dispatch"

# Products of matrices are loops of the function, not calls of a library.
_NO_LIBRARY = {"xla_cpu_experimental_ynn_fusion_type": ""}
# What XLA says of a program that it has no code for.
_REFUSALS = ("UNIMPLEMENTED", "Failed to materialize symbols")
# What such a function cannot hold, by the names in StableHLO, and how users know it.
_UNABLE = {
    "stablehlo.scatter": "assignments at indices (x.at[...])",
    "stablehlo.sort": "sorting",
    "stablehlo.fft": "Fourier transforms",
    "stablehlo.cholesky": "jnp.linalg.cholesky",
    "stablehlo.triangular_solve": "triangular solves",
    "chlo.top_k": "lax.top_k",
    "stablehlo.custom_call": "calls of a library or of Python (jnp.linalg, callbacks)",
}


def low_latency(
    function: Callable[..., Result],
    *,
    static_argnums: int | Iterable[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
) -> Callable[..., Result]:
    """`jax.jit` for one state at a time, or a small batch, on CPUs: XLA compiles the whole program into one function.

    Otherwise XLA starts a small function for nearly every operation, and for one state that is most of the time. (How
    programs are started takes as long: see `enable_low_latency`.) Dynamics, kinematics and their derivatives are
    functions of their own in every compiled program; by themselves they gain little more by this.
    Programs of many other operations do: simulated motions take about a quarter less time.
    One function works on one core, and has a batch along the first axes of its arrays: batches of more than a few are
    faster by `jax.jit` of `jax.vmap` or `batched`. Long programs take up to three times as long to compile. On other
    backends, and where JAX traces or transforms the result, this is `jax.jit`: have it outermost, as in
    `low_latency(jax.grad(cost))`.

        plan = jaxcfa.low_latency(lambda q, v: jaxcfa.optimal_control.solve(problem, (q, v)))

    **Arguments:** `function` of pytrees of arrays; `static_argnums`, `static_argnames` as for `jax.jit`.

    **Returns:** the compiled function, of the same arguments, with the methods `lower` and `trace` of `jax.jit`.

    **Raises:** `ValueError`, when called, if the program has what XLA cannot compile into one function: sorting,
    assignments at several traced indices, or calls of libraries, as in `jnp.linalg`. This package has them in the
    parallel methods, and in optimal control under `jax.vmap`; `lax.map` does without.
    """
    statics: dict[str, Any] = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    plain = jax.jit(function, **statics)

    @functools.partial(jax.jit, **statics, compiler_options=_NO_LIBRARY)
    @functools.wraps(function)
    def program(*arguments, **named):
        return whole_program(function)(*arguments, **named)

    # Not before the first call, because asking for the backend starts it.
    def in_use():
        return program if backend.backend() == "cpu" and trace_state_clean() else plain

    @functools.wraps(function)
    def run(*arguments, **named):
        chosen = in_use()
        try:
            return chosen(*arguments, **named)
        except jax.errors.JaxRuntimeError as error:
            if "No such compile option" in str(error):  # in a version of XLA that has dropped `_NO_LIBRARY`
                return plain(*arguments, **named)
            if chosen is plain or not any(words in str(error) for words in _REFUSALS):
                raise
            name, reason = getattr(function, "__name__", repr(function)), _reason(plain.lower(*arguments, **named))
            raise ValueError(f"low_latency cannot compile {name} into one function: {reason}. Use jax.jit.") from error

    for method in ("lower", "trace"):
        setattr(run, method, lambda *arguments, _of=method, **named: getattr(in_use(), _of)(*arguments, **named))
    return run


def _reason(program: jax.stages.Lowered) -> str:
    """Why XLA could not compile a program into one function."""
    text = program.as_text()
    found = [words for name, words in _UNABLE.items() if re.search(rf"\b{re.escape(name)}\b", text)]
    return "it has " + ", ".join(found) if found else "XLA has no code for a part of it"


def enable_low_latency(loop_bytes: int = 1_000_000) -> None:
    """On CPUs, has programs run in the thread that calls them, and loops over bodies be one function each.

    It holds for all programs of this process. JAX hands every program but the smallest over to another thread
    otherwise, which takes longer than the dynamics of a robot: those of an arm take some 25 microseconds with this, 50
    to 80 without. XLA starts some dozen small functions for each turn of a loop otherwise, such as one of your own.
    (Functions of a state are one function each without it.) Batches take as long as before, but Python no longer goes
    on while they are computed.

    JAX reads these options when it first computes something, so this comes first in a program. Calling it again changes
    nothing. They are `jax_cpu_enable_async_dispatch` of `jax.config`, and
    `XLA_FLAGS=--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=1000000` in the environment.

    **Arguments:** `loop_bytes`: how large the state of such loops may be [bytes].

    **Raises:** `ValueError` for a size that is not positive, and if it comes too late.
    """
    loop_bytes = positive_integer("loop_bytes", loop_bytes)
    flags = os.environ.get("XLA_FLAGS", "").split()
    is_given = any(_OPTION in flag for flag in flags)
    if is_given and not jax.config.read(_ASYNCHRONOUS):
        return
    if backends_are_initialized():
        raise ValueError(
            "enable_low_latency comes too late: JAX has computed something already. Call it before anything else."
        )
    jax.config.update(_ASYNCHRONOUS, False)
    if not is_given:
        extra = [flag.removeprefix(_FLAG) for flag in flags if flag.startswith(_FLAG)]
        others = [flag for flag in flags if not flag.startswith(_FLAG)]
        os.environ["XLA_FLAGS"] = " ".join([*others, _FLAG + ",".join([*extra, f"{_OPTION}={loop_bytes}"])])
