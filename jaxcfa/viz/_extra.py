"""The packages of the extra `viz`."""

import importlib
from types import ModuleType


def extra(name: str) -> ModuleType:
    """A module that only pictures and the viewer need; `ImportError` with the remedy if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(
            f"Showing robots needs the package {package}: pip install -e '.[viz]' in a clone of jaxcfa"
        ) from error
