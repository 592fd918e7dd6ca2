"""The robots that tests read: the URDF files of the package `example-robot-data`."""

import functools
from importlib import metadata
from pathlib import Path

# Bodies, limits and joints of all kinds in a few small files.
HANDFUL = (
    "panda.urdf",
    "double_pendulum_continuous.urdf",
    "anymal_c_simple_description/urdf/anymal.urdf",
    "icub.urdf",
    "talos_full_v2.urdf",
    "iris_simple.urdf",
)
WITHOUT_LINKS = "ur_description/urdf/ur3.urdf"


@functools.cache
def urdf_paths() -> tuple[Path, ...]:
    """All 69 files, sorted; none where the package is not installed."""
    try:
        package = metadata.distribution("example-robot-data")
    except metadata.PackageNotFoundError:
        return ()
    return tuple(sorted(Path(str(package.locate_file("cmeel.prefix/share/example-robot-data/robots"))).rglob("*.urdf")))


def urdf_path(name: str) -> Path:
    """The only file whose path ends with `name`, for example "panda.urdf"."""
    parts = Path(name).parts
    (path,) = (path for path in urdf_paths() if path.parts[-len(parts) :] == parts)
    return path


def robot_paths() -> tuple[Path, ...]:
    """The 68 files that describe a robot; the other has no links."""
    return tuple(path for path in urdf_paths() if not path.as_posix().endswith(WITHOUT_LINKS))


def robot_id(path: Path) -> str:
    """A short name that tells the files apart."""
    return "/".join(path.with_suffix("").parts[-3:])
