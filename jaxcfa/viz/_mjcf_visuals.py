"""Shapes in an MJCF file, from MuJoCo's compiled model."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..io._mjcf_compile import LeftOut, compile_mjcf, import_mujoco
from ..io._mjcf_layout import read_layout
from ..io._report import Report
from ..io._source import FileOrCompiled, Source
from ..model import WORLD
from ..spatial._host import pose_matrix, rotation_matrix
from ._shapes import (
    AbstractShape,
    Box,
    Capsule,
    Collisions,
    Color,
    Cylinder,
    Ellipsoid,
    HeightField,
    Mesh,
    Plane,
    Sphere,
    Visual,
    inertia_box,
)

_SHOWN_GROUPS = 3  # of six, as MuJoCo's own viewer does at first; models put what only collides into the others
_DEFAULT_COLOR = (0.5, 0.5, 0.5, 1.0)


def mjcf_visuals(
    path_or_text: FileOrCompiled, source: Source, report: Report, assets: Mapping[str, bytes] | None
) -> list[Visual]:
    """The geoms that MuJoCo's own viewer shows at first, or all if it shows none, or none of those that move.

    Bodies of which a mesh is missing, so that the compiler had to do without, get a box with their inertia.
    """
    mj, names, left_out = _compiled(path_or_text, source, assets)
    found = [x for x in _visuals(mj, names, _shown(mj), report).values() if x.color is None or x.color[3] > 0]
    _report_missing(left_out, names, report, "a box with the body's inertia stands for it")
    boxes = {x.body: _inertia_box(mj, x.body, names[x.body]) for x in left_out if x.body}
    return [*found, *boxes.values()]


def mjcf_collisions(
    path_or_text: FileOrCompiled, source: Source, report: Report, assets: Mapping[str, bytes] | None
) -> Collisions:
    """The geoms that collide, and which of them do with each other, as MuJoCo filters them."""
    mj, names, left_out = _compiled(path_or_text, source, assets)
    found = _visuals(mj, names, _colliding(mj), report)
    _report_missing([x for x in left_out if x.collides], names, report, "it is left out")
    geoms = np.array(list(found), int)
    bodies = mj.geom_bodyid[geoms]
    robots = np.where(bodies == 0, WORLD, mj.body_rootid[bodies])
    _report_rolling(mj, geoms, names, report)
    return Collisions(list(found.values()), _meeting(mj, geoms), _friction(mj, geoms), robots)


def _compiled(
    path_or_text: FileOrCompiled, source: Source, assets: Mapping[str, bytes] | None
) -> tuple[Any, list[str | None], list[LeftOut]]:
    """MuJoCo's model, names of its bodies, none for the world, and meshes that are missing."""
    try:
        mj, _, left_out = compile_mjcf(path_or_text, source, assets=assets)
    except ValueError:  # as a model with a fixed base does without more of the meshes
        mj, _, left_out = compile_mjcf(path_or_text, source, fixed_too=False, assets=assets)
    return mj, [None, *read_layout(mj, floating_base=False).bodies[1:]], left_out


def _visuals(mj: Any, names: list[str | None], geoms: list[int], report: Report) -> dict[int, Visual]:
    """What geoms are, by their numbers."""
    found = {}
    for geom in geoms:
        shape = _shape(mj, geom)
        if shape is None:
            report.add("kind of geom that is left out", f"geom {geom}")
            continue
        placement = pose_matrix(rotation_matrix(mj.geom_quat[geom]), mj.geom_pos[geom])
        friction = max(float(mj.geom_friction[geom, 0]), 0.0)  # MuJoCo takes any numbers
        found[geom] = Visual(shape, names[mj.geom_bodyid[geom]], placement, _color(mj, geom), friction)
    return found


def _report_missing(missing: list[LeftOut], names: list[str | None], report: Report, instead: str) -> None:
    for body, mesh, _ in missing:
        report.add(
            f"mesh that the compiler had to do without; {instead}", f"{mesh!r} of body {names[body] or 'world'!r}"
        )


def _report_rolling(mj: Any, geoms: np.ndarray, names: list[str | None], report: Report) -> None:
    """Contacts here resist sliding alone."""
    what = "friction against spinning and rolling (condim above 3)"
    for geom in geoms[(mj.geom_condim[geoms] > 3) & np.any(mj.geom_friction[geoms, 1:] > 0, axis=1)]:
        report.add(what, f"a geom of body {names[mj.geom_bodyid[geom]] or 'world'!r}")
    for pair in np.flatnonzero((mj.pair_dim > 3) & np.any(mj.pair_friction[:, 2:] > 0, axis=1)):
        report.add(what, f"pair {pair}")


def _shown(mj: Any) -> list[int]:
    shown = np.flatnonzero(mj.geom_group < _SHOWN_GROUPS).tolist()
    moving = np.flatnonzero(mj.body_weldid[mj.geom_bodyid] != 0).tolist()
    return shown if set(shown).intersection(moving or shown) else list(range(mj.ngeom))


def _colliding(mj: Any) -> list[int]:
    """By their bits, or because a pair names them."""
    paired = {*mj.pair_geom1.tolist(), *mj.pair_geom2.tolist()}
    return [geom for geom in range(mj.ngeom) if mj.geom_contype[geom] or mj.geom_conaffinity[geom] or geom in paired]


def _meeting(mj: Any, geoms: np.ndarray) -> np.ndarray:
    """(n, n): which geoms meet which, by their bits unless they are next to each other or excluded, and by pairs."""
    mine, theirs = mj.geom_contype[geoms], mj.geom_conaffinity[geoms]
    meet = (mine[:, None] & theirs) != 0
    body = mj.geom_bodyid[geoms]
    welded = mj.body_weldid[body]  # of what is fixed to each other the first
    parent = mj.body_weldid[mj.body_parentid[welded]]
    apart = welded[:, None] != welded
    if not mj.opt.disableflags & import_mujoco().mjtDisableBit.mjDSBL_FILTERPARENT:
        next_to = (welded[:, None] == parent) & (welded[:, None] != 0)
        apart &= ~(next_to | next_to.T)
    for one, other in zip(*np.divmod(mj.exclude_signature, 1 << 16), strict=True):
        apart &= ~(((body[:, None] == one) & (body == other)) | ((body[:, None] == other) & (body == one)))
    meet = (meet | meet.T) & apart
    for one, other in zip(mj.pair_geom1, mj.pair_geom2, strict=True):
        named = (geoms[:, None] == one) & (geoms == other)
        meet |= named | named.T
    return meet


def _friction(mj: Any, geoms: np.ndarray) -> np.ndarray:
    """(n, n): friction of two geoms that slide on each other: that of their pair, or else of the one with the higher
    priority, or of equal ones the larger one; none where `condim` is 1, of which the same holds."""
    priority = mj.geom_priority[geoms]
    first, second = priority[:, None] > priority, priority[:, None] < priority

    def of_two(each: np.ndarray) -> np.ndarray:
        own, other = np.broadcast_arrays(each[:, None], each)
        return np.where(first, own, np.where(second, other, np.maximum(own, other)))

    # MuJoCo takes any numbers.
    friction = np.maximum(of_two(mj.geom_friction[geoms, 0]), 0) * (of_two(mj.geom_condim[geoms]) > 1)
    of_pairs = np.maximum(mj.pair_friction[:, 0], 0) * (mj.pair_dim > 1)
    for one, other, own in zip(mj.pair_geom1, mj.pair_geom2, of_pairs, strict=True):
        named = (geoms[:, None] == one) & (geoms == other)
        friction = np.where(named | named.T, own, friction)
    return friction


def _shape(mj: Any, geom: int) -> AbstractShape | None:
    kinds = import_mujoco().mjtGeom
    x, y, z = mj.geom_size[geom].tolist()
    match mj.geom_type[geom]:
        case kinds.mjGEOM_PLANE:
            return Plane((2 * x, 2 * y) if x > 0 and y > 0 else None)
        case kinds.mjGEOM_SPHERE:
            return Sphere(x)
        case kinds.mjGEOM_CAPSULE:
            return Capsule(x, 2 * y)
        case kinds.mjGEOM_ELLIPSOID:
            return Ellipsoid((x, y, z))
        case kinds.mjGEOM_CYLINDER:
            return Cylinder(x, 2 * y)
        case kinds.mjGEOM_BOX:
            return Box((2 * x, 2 * y, 2 * z))
        case kinds.mjGEOM_MESH:
            return _mesh(mj, int(mj.geom_dataid[geom]))
        case kinds.mjGEOM_HFIELD:
            return _height_field(mj, int(mj.geom_dataid[geom]))
    return None


def _mesh(mj: Any, mesh: int) -> Mesh:
    first, count = mj.mesh_vertadr[mesh], mj.mesh_vertnum[mesh]
    faces = mj.mesh_face[mj.mesh_faceadr[mesh] : mj.mesh_faceadr[mesh] + mj.mesh_facenum[mesh]]
    return Mesh(np.array(mj.mesh_vert[first : first + count], dtype=float), np.array(faces), mj.mesh(mesh).name)


def _height_field(mj: Any, field: int) -> HeightField:
    rows, columns = int(mj.hfield_nrow[field]), int(mj.hfield_ncol[field])
    x, y, z, _ = mj.hfield_size[field]
    first = mj.hfield_adr[field]
    heights = z * mj.hfield_data[first : first + rows * columns].astype(float)
    return HeightField(heights.reshape(rows, columns), (2 * x, 2 * y))


def _color(mj: Any, geom: int) -> Color | None:
    """The geom's own colour, or its material's; `None` if the file says nothing."""
    if tuple(mj.geom_rgba[geom].tolist()) != _DEFAULT_COLOR:
        return _clipped(mj.geom_rgba[geom])
    if mj.geom_matid[geom] < 0:
        return None
    return _clipped(mj.mat_rgba[mj.geom_matid[geom]])


def _clipped(rgba: np.ndarray) -> Color:
    """MuJoCo takes any numbers."""
    red, green, blue, alpha = np.clip(rgba, 0, 1).tolist()
    return red, green, blue, alpha


def _inertia_box(mj: Any, body: int, name: str | None) -> Visual:
    axes = rotation_matrix(mj.body_iquat[body])
    return inertia_box(
        name, float(mj.body_mass[body]), mj.body_ipos[body], axes @ np.diag(mj.body_inertia[body]) @ axes.T
    )
