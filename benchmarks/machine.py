"""Hardware and versions."""

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

import jax

import jaxcfa

_PACKAGES = ("jax", "jaxlib", "numpy", "pin", "mujoco", "mujoco-mjx", "frax", "jaxsim", "brax")


def environment() -> dict[str, str]:
    """What the times depend on, as a table."""
    device = jax.devices()[0]
    facts = {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{_total_memory() / 2**30:.0f} GiB",
        "JAX device": f"{device.platform}: {device.device_kind}, {jax.device_count()} of them",
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", "") or "none",
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
    }
    return facts | {"jaxcfa": jaxcfa.__version__} | {name: version(name) or "not installed" for name in _PACKAGES}


def available_memory() -> int:
    """Bytes that a program on the first device can still take."""
    statistics = jax.devices()[0].memory_stats()
    if statistics and "bytes_limit" in statistics:
        return statistics["bytes_limit"] - statistics.get("bytes_in_use", 0)
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    return _total_memory()


def _total_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 2**33


def _processor() -> str:
    names = [line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def version(package: str) -> str | None:
    """None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def commit() -> str:
    """The commit of the source, where there is one."""
    command = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    try:
        folder = Path(__file__).parent
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
