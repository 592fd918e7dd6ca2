"""Settings and fixtures of all tests."""

import contextlib
import ctypes
import gc
import os
import shutil
from pathlib import Path

from compilation import QUICK_FLAGS

if os.environ.get("JAXCFA_OPTIMISED_TESTS", "0") == "0":
    os.environ["XLA_FLAGS"] = f"{QUICK_FLAGS} {os.environ.get('XLA_FLAGS', '')}"
# Tests of several devices; all others take the first.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
os.environ.setdefault("MPLBACKEND", "Agg")

import jax
import jax.numpy as jnp
import pytest

import evaluation
from interpreter import hasten, with_room
from jaxcfa.cli._cache import processor

# Laws are tested in double precision; tests of single precision convert their data with the `dtype` fixture.
jax.config.update("jax_enable_x64", True)

evaluation.install()

hasten()

_LARGEST_CACHE = 4e9  # bytes, of compiled programs on disk
_MOST_MEMORY = _limit = 3e9  # bytes
_MORE_MEMORY = 0.3e9  # than was left when programs were dropped last


def pytest_configure(config):
    """Compiled programs are kept beside pytest's own cache: for the other workers, and for the next run."""
    if not hasattr(config, "cache") or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    folder = config.cache.mkdir(f"programs-{processor()}")
    if not hasattr(config, "workerinput") and sum(x.stat().st_size for x in folder.iterdir()) > _LARGEST_CACHE:
        shutil.rmtree(folder)
        folder.mkdir()
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def pytest_sessionfinish():
    # Then pytest looks for garbage five times, among all that tracing has left.
    gc.collect()
    gc.freeze()


def pytest_itemcollected(item):
    item.setup, item.runtest = with_room(item.setup), with_room(item.runtest)


@pytest.fixture(autouse=True)
def _programs_are_compiled(request):
    """For tests that are marked so."""
    with evaluation.compiled() if request.node.get_closest_marker("compiled") else contextlib.nullcontext():
        yield


@pytest.fixture(autouse=True, scope="module")
def _programs_are_freed():
    """Drops what was traced and compiled when it takes much memory, or many memory maps: Linux allows 65530.

    Not after each file, since files share mechanisms, and with them programs.
    """
    global _limit
    yield
    maps = Path("/proc/self/maps")
    if not maps.exists() or maps.read_bytes().count(b"\n") > 20_000 or _memory() > _limit:
        jax.clear_caches()
        gc.collect()
        if maps.exists():
            _return_free_memory()
            _limit = max(_MOST_MEMORY, _memory() + _MORE_MEMORY)


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _return_free_memory() -> None:
    """To the system, from the C library, which keeps it otherwise."""
    if hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)


@pytest.fixture
def on_cpu():
    """For what is true of CPUs alone, wherever the tests run."""
    with jax.default_device(jax.devices("cpu")[0]):
        yield


@pytest.fixture
def key():
    """A fixed key, so that every run draws the same mechanisms."""
    return jax.random.key(20_240_229)


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    """Both precisions; `helpers.tolerance` has the error allowed for each."""
    return jnp.dtype(request.param)
