"""Locating the files that a robot description names."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

_PACKAGE_NAME = re.compile(rb"<name>\s*([^<\s]+)\s*</name>")
Directories = Sequence[str | os.PathLike]


def check_directories(package_dirs: Directories) -> None:
    """Raises `ValueError` for what is no list of folders, `FileNotFoundError` for a folder that is not there."""
    if isinstance(package_dirs, str | bytes | os.PathLike):
        raise ValueError(f"package_dirs must be a list of folders, such as [{package_dirs!r}], got {package_dirs!r}.")
    for folder in package_dirs:
        if not Path(folder).is_dir():
            raise FileNotFoundError(f"There is no folder {os.fspath(folder)!r}, which is among package_dirs.")


def find_file(address: str, robot_file: Path | None, package_dirs: Directories = ()) -> Path | None:
    """The file that an address in a robot description means; `None` if there is none here. Nothing is fetched.

    - `package://NAME/PATH` and `model://NAME/PATH`: in the package NAME, which is looked for in `package_dirs`, above
      the robot's file (by the names of folders, and those in their `package.xml`), in `ROS_PACKAGE_PATH`, and in what
      ROS 2 has installed (`AMENT_PREFIX_PATH`). If it is nowhere, PATH is looked for in the folders above the file.
    - `file://PATH`, absolute paths, and paths relative to the robot's file.
    """
    address = address.strip().replace("\\", "/")
    scheme, _, rest = address.partition("://")
    if not rest:
        return _first([(robot_file.parent if robot_file else Path.cwd()) / address])
    if scheme == "file":
        return _first([*_of_url(address), Path(rest)])
    if scheme not in ("package", "model"):
        return None
    for spelt in (rest, unquote(rest)):  # as it stands, or with %20 for a space
        package, _, path = spelt.lstrip("/").partition("/")
        if found := _first(_in_package(package, path, robot_file, package_dirs)):
            return found
    return None


def _in_package(package: str, path: str, robot_file: Path | None, package_dirs: Directories) -> Iterator[Path]:
    above = list(robot_file.resolve().parents) if robot_file else []
    listed = [*_listed("ROS_PACKAGE_PATH"), *(prefix / "share" for prefix in _listed("AMENT_PREFIX_PATH"))]
    for folder in (*map(Path, package_dirs), *above, *listed):
        if folder.name == package or _package_name(folder) == package:
            yield folder / path
        yield folder / package / path
    for folder in above:
        yield folder / path


def _of_url(address: str) -> list[Path]:
    try:
        return [Path(url2pathname(urlsplit(address).path))]  # on Windows /C:/robot.urdf is C:\robot.urdf
    except OSError:  # no path of this system
        return []


def _listed(variable: str) -> list[Path]:
    return [Path(entry) for entry in os.environ.get(variable, "").split(os.pathsep) if entry]


def _package_name(folder: Path) -> str | None:
    try:
        found = _PACKAGE_NAME.search((folder / "package.xml").read_bytes())
    except OSError:
        return None
    return found.group(1).decode(errors="replace") if found else None


def _first(paths: Iterator[Path] | list[Path]) -> Path | None:
    return next((path for path in paths if _is_file(path)), None)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # characters that no path can have
        return False
