"""Comparisons shared by the tests."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from compilation import AS_USERS_HAVE_IT

_TOLERANCES = {"float32": 1e-4, "float64": 1e-9}


def tolerance(dtype) -> float:
    """Relative error allowed for dynamics of mechanisms with some tens of bodies, by precision."""
    return _TOLERANCES[jnp.dtype(dtype).name]


def optimised(function: Callable, **options) -> Callable:
    """`jax.jit` as users have it, for programs that run long; all others are compiled quickly, see `compilation`."""
    return jax.jit(function, compiler_options=AS_USERS_HAVE_IT, **options)


def cast(tree, dtype):
    """The tree with its floating-point arrays in another precision."""
    return jax.tree.map(lambda x: x.astype(dtype) if jnp.issubdtype(jnp.result_type(x), jnp.floating) else x, tree)


def traced_again(caplog, call: Callable) -> list[str]:
    """What JAX traces and compiles, as it says itself, when something is called for the third time."""
    call(), call()
    caplog.clear()
    with jax.log_compiles():
        call()
    return [x for x in caplog.messages if x.startswith(("Finished tracing", "Compiling"))]


def second_derivatives(function, x, along) -> list:
    """Of a scalar along a direction: in all four orders of forward and reverse mode, and by differences of slopes."""

    def forward(f):
        return lambda x: jax.jvp(f, (x,), (along,))[1]

    def reverse(f):
        return lambda x: jnp.vdot(jax.grad(f)(x), along)

    orders = [outer(inner(function))(x) for outer in (forward, reverse) for inner in (forward, reverse)]
    slopes = jax.lax.map(lambda h: forward(function)(x + h * along), jnp.array([1e-5, -1e-5]))
    return [*orders, (slopes[0] - slopes[1]) / 2e-5]


def assert_close(actual, expected, rtol: float | None = None, what: str = "") -> None:
    """Every array of `actual` equals that of `expected`, up to `rtol` times the largest magnitude in the latter.

    By default the tolerance is that of the lowest precision in `actual`. Magnitudes below one count as one. `what` is
    compared, for the message.
    """
    if rtol is None:
        rtol = max((tolerance(x.dtype) for x in jax.tree.leaves(actual) if _is_floating(x)), default=0.0)

    def check(x, y):
        scale = np.max(np.abs(y), initial=1.0)
        np.testing.assert_allclose(x, y, rtol=0, atol=rtol * scale, err_msg=what)

    jax.tree.map(check, actual, expected)


def _is_floating(x) -> bool:
    return hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating)
