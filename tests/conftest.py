"""Settings and fixtures of all tests."""

import gc
import os

# Nearly all time of the tests is XLA's, so programs compile quickly (in a third of the time) and run slowly. XLA reads
# this once, before the first computation. Programs that run long are compiled by `helpers.optimised` instead, and
# JAXCFA_OPTIMISED_TESTS=1 in the environment compiles all as users have them.
QUICK = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
    # In programs with loops in loops these two take as long as all else, and run up to 25 times.
    "--xla_disable_hlo_passes=while-loop-invariant-code-motion,simplify-while-loops",
)
if os.environ.get("JAXCFA_OPTIMISED_TESTS", "0") == "0":
    os.environ["XLA_FLAGS"] = " ".join((*QUICK, os.environ.get("XLA_FLAGS", "")))
# Tests of several devices; all others take the first.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
os.environ.setdefault("MPLBACKEND", "Agg")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import pytest  # noqa: E402

# Laws are tested in double precision; tests of single precision convert their data with the `dtype` fixture.
jax.config.update("jax_enable_x64", True)

# Tracing makes millions of objects that live on. Looking through them for garbage takes a tenth of all time at Python's
# own thresholds.
gc.set_threshold(100_000, 20, 20)


@pytest.fixture(autouse=True, scope="module")
def _programs_are_freed():
    """Drops what a file compiled. Thousands of programs in one process run out of memory maps (Linux allows 65530)."""
    yield
    jax.clear_caches()


@pytest.fixture
def key():
    """A fixed key, so that every run draws the same mechanisms."""
    return jax.random.key(20_240_229)


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    """Both precisions; `helpers.tolerance` has the error allowed for each."""
    return jnp.dtype(request.param)
