"""From an MJCF file, text or specification to a compiled MuJoCo model."""

import contextlib
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from .._optional import optional_module
from ._mjcf_layout import MjModel
from ._mjcf_nan import refuse_nan
from ._source import FileOrCompiled, Source, is_text, root_tag

ASSETS_OF_URDF = "assets are files that MJCF text names, but this is URDF: omit assets."
_MISSING_FILE = re.compile(r"Error opening file '(.*)'")


def import_mujoco() -> ModuleType:
    """The `mujoco` package; `ImportError` with the remedy if it is not installed."""
    return optional_module("mujoco", "io")


class LeftOut(NamedTuple):
    """A geom without its mesh: the number of its body, the name of the mesh, and whether it is to collide."""

    body: int
    mesh: str
    collides: bool


class Compiled(NamedTuple):
    """A compiled model, the compiler's warnings, and the geoms that were left out because files are missing."""

    model: MjModel
    messages: list[str]
    left_out: list[LeftOut]


def compile_mjcf(
    path_or_text: FileOrCompiled,
    source: Source,
    *,
    fixed_too: bool = True,
    assets: Mapping[str, bytes] | None = None,
) -> Compiled:
    """What MuJoCo's own compiler makes of a file, a text or a copy of a specification; a compiled model as it is.

    Files of meshes, textures, skins and height fields may be missing unless masses are computed from them.

    **Arguments:** `source`: what `read_source` makes of `path_or_text`. `fixed_too`: whether masses of bodies that are
    fixed to the world count. `assets`: what a text names, as `check_assets` has seen it.
    """
    mujoco = import_mujoco()
    if isinstance(path_or_text, mujoco.MjModel):
        return Compiled(path_or_text, [], [])
    _check_root(source.data)
    text = source.data.decode("utf-8", "replace") if is_text(path_or_text) else None
    parse: Callable[[], Any]
    folder = Path()
    if isinstance(path_or_text, mujoco.MjSpec):
        parse = path_or_text.copy
        folder = Path(getattr(path_or_text, "modelfiledir", ""))
    else:
        path = Path() if text is not None else Path(os.fsdecode(path_or_text))
        folder = path.parent
        refuse_nan(source.data, path.parent, assets or {})
        parse = partial(_parsed, mujoco, text, path, assets or {})
    with _messages_kept(mujoco) as messages:
        try:
            model, left_out = _compile(mujoco, parse, fixed_too, folder)
        except Exception as error:  # MuJoCo has exceptions of its own, derived from nothing but Exception
            message = " ".join([str(error).strip(), *messages])
            raise ValueError(f"MuJoCo cannot compile it: {message}\n{_remedy(message, text)}") from error
    return Compiled(model, list(dict.fromkeys(messages)), left_out)


def check_assets(assets: object, path_or_text: FileOrCompiled) -> None:
    """Raises `ValueError` for what are no files by their names, and for a robot that takes none."""
    if assets is None:
        return
    known = isinstance(assets, Mapping) and all(isinstance(x, str) and isinstance(y, bytes) for x, y in assets.items())
    if not known:
        raise ValueError(f"assets must be a dictionary of bytes by the names of files, got {assets!r:.200}.")
    if not is_text(path_or_text):
        raise ValueError(
            "assets are files that MJCF text names. A file finds its own, and a mujoco.MjModel or MjSpec has them "
            "already: omit assets."
        )


def _check_root(data: bytes) -> None:
    if b"\0" in data:
        raise ValueError("the content is binary. Give MJCF, which is XML text in UTF-8.")
    tag = root_tag(data)
    if tag == "robot":
        raise ValueError("the root element is <robot>, which is URDF. Use load_urdf or load_model.")
    if tag != "mujoco":
        raise ValueError(f"the root element is <{tag}>. Give MJCF, whose root element is <mujoco>.")


def _compile(
    mujoco: ModuleType, parse: Callable[[], Any], fixed_too: bool, folder: Path
) -> tuple[MjModel, list[LeftOut]]:
    """Without what is read from missing files, those of the messages; if these name none, without all assets."""
    try:
        return _prepared(mujoco, parse()).compile(), []
    except ValueError as error:
        name = _missing_file(error)
        if name is None:
            raise
    missing: set[str] = set()
    while True:
        spec = _prepared(mujoco, parse())  # anew: one that failed gives its error again where bodies have no geoms
        files = {file for asset in _assets(spec) for file in _files_of(asset)} - missing
        found = {file for file in files if name is not None and _base(file) == _base(name)}
        absent = {file for file in files if _is_absent(spec, file, folder)}
        # All that are absent at once, if that is what the compiler finds.
        missing |= found | absent if found <= absent else found
        left_out = _leave_assets_out(mujoco, spec, fixed_too, missing if found else None)
        try:
            return spec.compile(), left_out
        except ValueError as error:
            if not found:
                raise
            name = _missing_file(error)


def _missing_file(error: ValueError) -> str | None:
    found = _MISSING_FILE.search(str(error))
    return None if found is None else found.group(1)


def _assets(spec: Any) -> tuple[Any, ...]:
    """Everything that may be read from files."""
    return *spec.meshes, *spec.hfields, *spec.textures, *spec.skins


def _files_of(asset: Any) -> list[str]:
    return [str(file) for file in (asset.file, *getattr(asset, "cubefiles", ())) if file]


def _base(file: str) -> str:
    """The name of a file without its folder, which not all messages have."""
    return file.replace("\\", "/").rpartition("/")[2]


def _is_absent(spec: Any, file: str, folder: Path) -> bool:
    """Whether a file is nowhere where the compiler may look for it."""
    if _base(file) in map(_base, spec.assets or ()):
        return False
    folders = [getattr(owner, name, "") for owner in (spec, spec.compiler) for name in ("meshdir", "texturedir")]
    return not any((folder / str(x) / name).exists() for x in ("", *folders) for name in (file, _base(file)))


def _parsed(mujoco: ModuleType, text: str | None, path: Path, assets: Mapping[str, bytes]) -> Any:
    """A `mujoco.MjSpec`."""
    if text is not None:
        if not assets:
            return mujoco.MjSpec.from_string(text)
        include = {name: data for name, data in assets.items() if name.endswith(".xml")}
        return mujoco.MjSpec.from_string(text, include=include, assets=dict(assets))
    if path.suffix == ".xml":
        return mujoco.MjSpec.from_file(str(path))
    # MjSpec looks at the suffix.
    return mujoco.MjSpec.from_file(f"{path}.xml", include={f"{path.name}.xml": path.read_bytes()})


def _prepared(mujoco: ModuleType, spec: Any) -> Any:
    """Without the range of muscles' lengths, which takes long to find, may fail, and is of no use here, and without
    `fusestatic`, which would take away bodies that become frames, and the one that `floating_base` lets move."""
    spec.compiler.LRopt.mode = mujoco.mjtLRMode.mjLRMODE_NONE
    spec.compiler.fusestatic = False
    return spec


def _leave_assets_out(mujoco: ModuleType, spec: Any, fixed_too: bool, files: set[str] | None) -> list[LeftOut]:
    """Delete everything that is read from these files, or `None` for any, and has no influence on masses, and what
    refers to it.

    **Returns:** the geoms of meshes that are deleted.
    """

    def read_from(assets: Iterable[Any]) -> dict[str, Any]:
        chosen = [x for x in assets if files is None or not files.isdisjoint(_files_of(x))]
        return {str(x.name) or Path(_base(x.file)).stem: x for x in chosen}

    meshes, fields, textures, skins = map(read_from, (spec.meshes, spec.hfields, spec.textures, spec.skins))
    needed, left_out, without_geom = set(), [], set()
    paired = {name for pair in spec.pairs for name in (pair.geomname1, pair.geomname2)}
    fixed_too = fixed_too or spec.compiler.settotalmass > 0
    for number, body in enumerate(spec.bodies):
        given = _inertia_is_given(mujoco, spec, body) or not (fixed_too or _moves(body))
        for geom in body.geoms:
            if geom.meshname in meshes and not given and _has_inertia(spec, geom):
                needed.add(geom.meshname)
            elif geom.meshname in meshes or geom.hfieldname in fields:
                if geom.meshname:
                    collides = bool(geom.contype or geom.conaffinity or geom.name in paired)
                    left_out.append(LeftOut(number, str(geom.meshname), collides))
                without_geom.add((mujoco.mjtObj.mjOBJ_GEOM, geom.name))
                spec.delete(geom)
    for site in spec.sites:
        if getattr(site, "meshname", "") in meshes:  # before MuJoCo 4 there are none
            site.meshname, site.type = "", mujoco.mjtGeom.mjGEOM_SPHERE
    for material in spec.materials:
        for role, name in enumerate(material.textures):
            if name in textures:
                material.textures[role] = ""
    geom_type = mujoco.mjtObj.mjOBJ_GEOM
    sensors = [x for x in spec.sensors if {(x.objtype, x.objname), (x.reftype, x.refname)} & without_geom]
    pairs = [x for x in spec.pairs if {(geom_type, x.geomname1), (geom_type, x.geomname2)} & without_geom]
    free = [mesh for name, mesh in meshes.items() if name not in needed]
    for element in (*pairs, *sensors, *skins.values(), *textures.values(), *fields.values(), *free):
        spec.delete(element)
    return left_out


def _inertia_is_given(mujoco: ModuleType, spec: Any, body: Any) -> bool:
    always = spec.compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
    never = spec.compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_FALSE
    return body.name == "world" or never or (body.explicitinertial and not always)


def _moves(body: Any) -> bool:
    """Whether there is a joint between a body and the world."""
    while body is not None and not body.joints:
        body = body.parent
    return body is not None


def _has_inertia(spec: Any, geom: Any) -> bool:
    first, last = spec.compiler.inertiagrouprange
    mass = geom.density if np.isnan(geom.mass) else geom.mass
    return first <= geom.group <= last and mass > 0


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


def _remedy(message: str, text: str | None) -> str:
    missing = _MISSING_FILE.search(message)
    if missing is None:
        return "Correct what the message names; MuJoCo's XML reference explains the elements."
    otherwise = "" if "'include'" in message else ", or give the bodies that need it an <inertial>"
    of_text = " Files that XML text names are looked for among assets and in the working directory; or give a path."
    return f"Put the file {missing.group(1)!r} in its place{otherwise}.{of_text if text is not None else ''}"
