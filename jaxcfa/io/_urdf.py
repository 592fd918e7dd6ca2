"""Models from URDF."""

import dataclasses
import io
import itertools
import math

import numpy as np

from .._optional import optional_module
from ..joints import AbstractJoint, Fixed, Free, Planar, Prismatic, Revolute, Spherical
from ..model import STANDARD_GRAVITY, Model, ModelBuilder
from ..model._inertia_checks import doubtful_inertias, massless_subtrees
from ..numerics._options import check_flag
from ._report import Report
from ._source import Element, PathOrText, parse_xml, read_source, tag_of
from ._urdf_check import checked_robot
from ._urdf_mimic import read_mimics
from ._urdf_tree import Joint, Link, Robot, ordered_links


def load_urdf(path_or_text: PathOrText, floating_base: bool = False, *, gravity=STANDARD_GRAVITY, dtype=None) -> Model:
    """The model that a URDF file describes.

    Bodies are called after their links, joints after their joints, and both come in Pinocchio's order: depth first,
    the joints of one link sorted by name. Links attached by fixed joints are merged into their parents and stay
    available as frames; with a fixed base so is the root link, as a frame of the world.

    - `revolute`, `continuous` and `prismatic` joints have one coordinate; `continuous` ones have no limits. Of a
      `<limit>`, `lower` and `upper` are zero if absent; without `<limit>`, `velocity` or `effort`, there is none.
    - `floating` is a free joint. `planar` moves in the plane normal to its axis: `q = [x, y, angle]` with x along the
      joint frame's x axis (made perpendicular to the normal; y if the normal is x). Pinocchio takes the normal for z.
    - `spherical`, which MuJoCo and PyBullet read too, is a ball joint, whose limits are not modelled.
    - A joint with `mimic` keeps its own coordinate; the coupling is in `model.constraints`.
    - `damping` and `friction` are read; links without `<inertial>` are massless.
    - Orientations are `rpy`, or `quat_xyzw` as in URDF 1.2.

    Meshes and other geometry are no part of the model, in which nothing collides by itself: `ground_contacts` names
    points that do, and `viz.collision_points` takes them from the file's shapes. What else is not modelled
    (transmissions, sensors, simulator settings, ...) gives one `ModelWarning` that names it, and so do inertias that no
    rigid body has, which are used as they are.

    **Arguments:**

    - `path_or_text`: path of a file, or its content.
    - `floating_base`: attach the root link to the world by a free joint "root_joint", whose coordinates come first.
    - `gravity` (3,) [m/s^2]: acceleration of gravity in world axes.
    - `dtype`: of the arrays; JAX's default float type if absent.

    **Raises:** `FileNotFoundError` for a wrong path; `ValueError` for anything malformed, naming file and element;
    `ImportError` without the package `yourdfpy`.
    """
    check_flag("floating_base", floating_base)
    source = read_source(path_or_text)
    report = Report(source.name)
    try:
        links = ordered_links(_parse(parse_xml(source.data), report))
        _note_inertias([link for link, _ in links], report)
        with np.errstate(over="ignore"):  # of limits of 1e308 in single precision, which stand for none
            model = _build(links, floating_base, gravity, dtype, report)
    except ValueError as error:
        raise ValueError(f"{source.name}: {error}") from error
    massless = massless_subtrees(model)
    if massless:
        report.add(
            "moving link that carries no inertia, so that the mass matrix is singular",
            [f"link {name!r}" for name in massless],
        )
    report.warn()
    return model


def _parse(root: Element, report: Report) -> Robot:
    if tag_of(root) != "robot":
        raise ValueError(
            f"the root element is <{tag_of(root)}>, but that of URDF is <robot>; `load_model` also reads MJCF."
        )
    etree, yourdfpy = optional_module("lxml.etree", "io"), optional_module("yourdfpy", "io")
    text = etree.tostring(checked_robot(root, report))
    return yourdfpy.URDF.load(io.BytesIO(text), build_scene_graph=False, load_meshes=False).robot


def _build(links: list[tuple[Link, Joint | None]], floating_base: bool, gravity, dtype, report: Report) -> Model:
    builder = ModelBuilder()
    joints = [joint for _, joint in links if joint is not None]
    root_joint = _unused("root_joint", {joint.name for joint in joints})
    for link, joint in links:
        if joint is None:
            base = Free() if floating_base else Fixed()
            builder.add_body(link.name, None, base, joint_name=root_joint, **_inertia(link))
        else:
            dofs = _dofs(joint, report)
            kind = _joint(joint)
            builder.add_body(
                link.name, joint.parent, kind, joint.origin, joint_name=joint.name, **_inertia(link), **dofs
            )
    model = builder.build(gravity=gravity, dtype=dtype)
    return dataclasses.replace(model, constraints=read_mimics(joints, model, report))


def _unused(name: str, used: set[str]) -> str:
    numbered = (f"{name}_{i}" for i in itertools.count(1))
    return next(candidate for candidate in itertools.chain([name], numbered) if candidate not in used)


def _inertia(link: Link) -> dict:
    """Mass, centre of mass and inertia about it, in the link's axes."""
    inertial = link.inertial
    if inertial is None:
        return {}
    origin = np.eye(4) if inertial.origin is None else inertial.origin
    rotation = origin[:3, :3]
    return {"mass": inertial.mass, "com": origin[:3, 3], "inertia": rotation @ inertial.inertia @ rotation.T}


def _joint(joint: Joint) -> AbstractJoint:
    try:
        match joint.type:
            case "revolute" | "continuous":
                return Revolute(joint.axis)
            case "prismatic":
                return Prismatic(joint.axis)
            case "planar":
                return Planar(joint.axis)
            case "floating":
                return Free()
            case "spherical":
                return Spherical()
            case _:
                return Fixed()
    except ValueError as error:
        raise ValueError(f"joint {joint.name!r}: {error}") from error


def _dofs(joint: Joint, report: Report) -> dict[str, float]:
    """Limits and passive forces of a joint; of `spherical` ones the latter, of `floating` and `planar` ones none."""
    dofs = {}
    if joint.dynamics is not None and joint.type != "fixed":
        dofs = {"damping": float(joint.dynamics.damping or 0), "friction_loss": float(joint.dynamics.friction or 0)}
    if joint.type not in ("revolute", "continuous", "prismatic"):
        return dofs
    dofs["spring_reference"] = 0.0
    limit = joint.limit
    if limit is None:
        if joint.type != "continuous":
            report.add(f"no <limit> in a {joint.type} joint, which needs one; it is unlimited", repr(joint.name))
        return dofs
    for name in ("velocity", "effort"):
        value = getattr(limit, name)
        if value is None:
            report.add(f"no {name} in <limit>; it is unlimited", repr(joint.name))
        dofs[f"{name}_limit"] = math.inf if value is None else value
    if joint.type != "continuous":
        lower, upper = limit.lower or 0.0, limit.upper or 0.0
        if lower > upper:
            raise ValueError(
                f"joint {joint.name!r}: the lower limit {lower} exceeds the upper {upper}. Exchange them, or "
                "remove <limit> where they stand for none, as in PyBullet."
            )
        if lower == upper:
            what = (
                "lower and upper are equal in <limit>, or left out, which is zero; where ranges count, it cannot move"
            )
            report.add(what, repr(joint.name))
        dofs |= {"lower": lower, "upper": upper}
    return dofs


def _note_inertias(links: list[Link], report: Report) -> None:
    links = [link for link in links if link.inertial is not None]
    if links:
        mass = np.array([link.inertial.mass for link in links])
        problems = doubtful_inertias(mass, np.stack([link.inertial.inertia for link in links]))
        for problem, where in problems.items():
            if np.any(where):
                report.add(problem, [f"link {links[i].name!r}" for i in np.flatnonzero(where)])
