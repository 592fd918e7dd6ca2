"""Packages that only come with an extra."""

import importlib
from types import ModuleType

_PURPOSES = {"io": "Reading robot files", "viz": "Showing robots"}


def optional_module(name: str, extra: str) -> ModuleType:
    """A module of a package that an extra installs; `ImportError` with the remedy if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(
            f"{_PURPOSES[extra]} needs the package {package}: pip install -e '.[{extra}]' in a clone of jaxcfa"
        ) from error
