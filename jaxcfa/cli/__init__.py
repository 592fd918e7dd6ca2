"""The `jaxcfa` command. Needs the extra `cli`, and `io` for robot files."""

import sys


def main() -> None:
    """Entry point of the command."""
    try:
        from ._app import app
    except ModuleNotFoundError as error:
        sys.exit(f"The jaxcfa command needs {error.name}; install it with: pip install 'jaxcfa[all]'")
    app()
