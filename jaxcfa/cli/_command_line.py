"""Commands that are suggested to the user."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path


def command_line(*words: str) -> str:
    """A command as it can be typed: words with spaces and the like are in quotes, those that the system's shell has."""
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)


def own_command() -> list[str]:
    """The words that start this command: its name where the shell finds it, else as it was started."""
    if shutil.which("jaxcfa"):
        return ["jaxcfa"]
    started = sys.argv[0]
    return [sys.executable, "-m", "jaxcfa"] if Path(started).name == "__main__.py" else [started]
