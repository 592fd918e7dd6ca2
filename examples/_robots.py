"""The robots that examples take where none is given."""

from importlib import metadata, resources
from pathlib import Path


def installed(file: str) -> Path | None:
    """A file of the package example-robot-data, if that is installed."""
    try:
        files = metadata.files("example-robot-data") or []
    except metadata.PackageNotFoundError:
        return None
    return next((Path(str(x.locate())) for x in files if x.name == file), None)


def arm_file() -> Path:
    """The Franka Panda if its package is installed, else the arm that comes with jaxcfa."""
    return installed("panda.urdf") or Path(str(resources.files("jaxcfa") / "data" / "arm7.urdf"))
