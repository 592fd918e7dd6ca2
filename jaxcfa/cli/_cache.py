"""Compiled programs, kept from one run of the command to the next."""

import hashlib
import os
import platform
import sys
from pathlib import Path

import jax

_LEAST_TIME = 0.02  # of compiling, for a program to be kept [s]


def keep_programs() -> Path | None:
    """Lets JAX keep compiled programs in the user's folder for caches, and says in which; `None` if it does not.

    `JAX_ENABLE_COMPILATION_CACHE=0` in the environment switches this off, `JAX_COMPILATION_CACHE_DIR` takes another
    folder, and `JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS` says what is worth keeping; all are JAX's own. Where no
    folder can be written, everything is compiled each time.
    """
    settings = jax.config.values
    if not settings["jax_enable_compilation_cache"]:
        return None
    folder = settings["jax_compilation_cache_dir"]
    if folder is None:
        try:
            folder = _caches() / "jaxcfa" / f"programs-{processor()}"
            folder.mkdir(parents=True, exist_ok=True)
        except (OSError, RuntimeError):  # RuntimeError: there is no home
            return None
        if not os.access(folder, os.W_OK):
            return None
        jax.config.update("jax_compilation_cache_dir", str(folder))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", _LEAST_TIME)
    return Path(folder)


def _caches() -> Path:
    """The user's folder for caches, where the platform has it."""
    match sys.platform:
        case "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        case "darwin":
            return Path.home() / "Library" / "Caches"
    given = os.environ.get("XDG_CACHE_HOME", "")
    return Path(given) if Path(given).is_absolute() else Path.home() / ".cache"


def processor() -> str:
    """What tells processors apart that share a home: a program for one may not run on another."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    return hashlib.sha256(f"{platform.machine()} {features}".encode()).hexdigest()[:12]
