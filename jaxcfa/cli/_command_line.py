"""Commands that are suggested to the user."""

import shlex
import subprocess
import sys


def command_line(*words: str) -> str:
    """A command as it can be typed: words with spaces and the like are in quotes, those that the system's shell has."""
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)
