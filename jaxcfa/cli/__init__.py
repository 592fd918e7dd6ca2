"""The `jaxcfa` command. Needs the extra `cli`, and `io` for robot files."""

import sys


def main() -> None:
    """Entry point of the command."""
    try:
        from ._app import app
    except ModuleNotFoundError as error:
        sys.exit(f"The jaxcfa command needs {error.name}: pip install -e '.[all]' in a clone of jaxcfa")
    from ._cache import keep_programs

    # Here and not in the app, so that those who run it from a program of their own keep their settings.
    keep_programs()
    app()
