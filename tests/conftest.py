"""Settings and fixtures of all tests."""

import os

import jax
import jax.numpy as jnp
import pytest

# Laws are tested in double precision; tests of single precision convert their data with the `dtype` fixture.
jax.config.update("jax_enable_x64", True)

# Programs compile twice as fast, and run slowly. Tests that run long, and what users run as a whole, take the fixture
# `optimised`. JAX_DISABLE_MOST_OPTIMIZATIONS=0 in the environment has everything optimised.
QUICK = os.environ.get("JAX_DISABLE_MOST_OPTIMIZATIONS", "1") != "0"
jax.config.update("jax_disable_most_optimizations", QUICK)

os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture(autouse=True, scope="module")
def _programs_are_freed():
    """Drops what a file compiled. Thousands of programs in one process run out of memory maps (Linux allows 65530)."""
    yield
    jax.clear_caches()


@pytest.fixture
def optimised():
    """Programs are compiled as users have them."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", QUICK)


@pytest.fixture
def key():
    """A fixed key, so that every run draws the same mechanisms."""
    return jax.random.key(20_240_229)


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    """Both precisions; `helpers.tolerance` has the error allowed for each."""
    return jnp.dtype(request.param)
