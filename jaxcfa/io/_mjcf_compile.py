"""From an MJCF file or text to a compiled MuJoCo model."""

import contextlib
import re
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

MjModel = Any  # mujoco.MjModel: the package is optional
_MISSING_FILE = re.compile(r"Error opening file '(.*)'")
_NOT_ELEMENTS = re.compile(r"<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>]*>", re.DOTALL)
_ELEMENT = re.compile(r"<\s*([^\s/>]+)")


def import_mujoco() -> ModuleType:
    """The `mujoco` package; `ImportError` with the remedy if it is not installed."""
    try:
        import mujoco
    except ImportError as error:
        raise ImportError("Reading MJCF needs the package mujoco: pip install 'jaxcfa[io]'") from error
    return mujoco


def describe(source: str | Path) -> str:
    """How messages call the source."""
    return "MJCF text" if is_text(source) else textwrap.shorten(str(source), 200)


def is_text(source: str | Path) -> bool:
    """Whether the source is a description itself, not the path of one."""
    return isinstance(source, str) and ("<" in source or not source.strip())


def compile_mjcf(source: str | Path) -> tuple[MjModel, list[str]]:
    """The model that MuJoCo's own compiler makes of a file or text, and the compiler's warnings.

    Files of meshes, textures, skins and height fields may be missing unless masses are computed from them.
    """
    mujoco = import_mujoco()
    what = describe(source)
    _check_root(_read(source, what), what)
    with _messages_kept(mujoco) as messages:
        try:
            model = _compile(mujoco, source)
        except Exception as error:  # MuJoCo has exceptions of its own, derived from nothing but Exception
            message = " ".join([str(error).strip(), *messages])
            raise ValueError(f"{what}: MuJoCo cannot compile it: {message}\n{_remedy(message)}") from error
    return model, list(dict.fromkeys(messages))


def _compile(mujoco: ModuleType, source: str | Path) -> MjModel:
    if is_text(source):
        spec = mujoco.MjSpec.from_string(source)
    elif Path(source).suffix == ".xml":
        spec = mujoco.MjSpec.from_file(str(source))
    else:  # MjSpec looks at the suffix
        return mujoco.MjModel.from_xml_path(str(source))
    # The range of muscles' lengths takes long to find, may fail, and is of no use here.
    spec.compiler.LRopt.mode = mujoco.mjtLRMode.mjLRMODE_NONE
    try:
        return spec.compile()
    except ValueError as error:
        if not _MISSING_FILE.search(str(error)):
            raise
    _leave_assets_out(mujoco, spec)
    return spec.compile()


def _leave_assets_out(mujoco: ModuleType, spec: Any) -> None:
    """Delete everything that is read from files and has no influence on masses, and what refers to it."""
    needed = set()
    for body in spec.bodies:
        given = _inertia_is_given(mujoco, spec, body)
        for geom in body.geoms:
            geom.material = ""
            if geom.meshname and not given and _has_inertia(spec, geom):
                needed.add(geom.meshname)
            elif geom.meshname or geom.type == mujoco.mjtGeom.mjGEOM_HFIELD:
                spec.delete(geom)
    for site in spec.sites:
        site.material = ""
    geom_type = mujoco.mjtObj.mjOBJ_GEOM
    sensors = [sensor for sensor in spec.sensors if geom_type in (sensor.objtype, sensor.reftype)]
    meshes = [mesh for mesh in spec.meshes if mesh.name not in needed]
    assets = (*spec.skins, *spec.materials, *spec.textures, *spec.hfields, *meshes)
    for element in (*spec.pairs, *sensors, *assets):
        spec.delete(element)


def _inertia_is_given(mujoco: ModuleType, spec: Any, body: Any) -> bool:
    always = spec.compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
    never = spec.compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_FALSE
    return body.name == "world" or never or (body.explicitinertial and not always)


def _has_inertia(spec: Any, geom: Any) -> bool:
    first, last = spec.compiler.inertiagrouprange
    mass = geom.density if np.isnan(geom.mass) else geom.mass
    return first <= geom.group <= last and mass > 0


def _read(source: str | Path, what: str) -> str:
    if is_text(source):
        return str(source)
    path = Path(source)
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{what}: no such file. Check the path; relative ones start at {Path.cwd()}."
        ) from error
    except (OSError, ValueError) as error:
        raise ValueError(f"{what}: cannot be read ({error}). Give the path of an MJCF file.") from error
    if b"\0" in data:
        raise ValueError(f"{what}: is a binary file. Give an MJCF file, which is XML text.")
    return data.decode("utf-8", errors="replace")


def _check_root(text: str, what: str) -> None:
    element = _ELEMENT.search(_NOT_ELEMENTS.sub("", text))
    root = element.group(1) if element else None
    if root is None:
        raise ValueError(f"{what}: holds no XML element. Give MJCF, which starts with <mujoco>.")
    if root == "robot":
        raise ValueError(f"{what}: the root element is <robot>, which is URDF. Use load_urdf.")
    if root != "mujoco":
        raise ValueError(f"{what}: the root element is <{root}>. Give MJCF, whose root element is <mujoco>.")


@contextlib.contextmanager
def _messages_kept(mujoco: ModuleType) -> Iterator[list[str]]:
    """Keeps MuJoCo's warnings, most of which otherwise go to stderr and to a log file in the working directory."""
    messages: list[str] = []
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: messages.append(" ".join(message.split())))
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield messages
        messages.extend(" ".join(str(warning.message).split()) for warning in caught)
    finally:
        mujoco.set_mju_user_warning(before)


def _remedy(message: str) -> str:
    missing = _MISSING_FILE.search(message)
    if missing is None:
        return "Correct what the message names; MuJoCo's XML reference explains the elements."
    otherwise = "" if "'include'" in message else ", or give the bodies that need it an <inertial>"
    return f"Put the file {missing.group(1)!r} in its place{otherwise}."
