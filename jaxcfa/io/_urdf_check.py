"""Checking the XML of a URDF file against what a model holds.

The result is a copy with nothing else in it, in which all numbers are valid and no required part is missing, so that
reading it cannot fail. What is left out is reported.
"""

import math
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ..spatial._host import rotation_matrix
from ._report import Report
from ._source import Element, attribute_of, tag_of

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LARGEST = 1e12  # products of a few such numbers are finite in single precision


class _Numbers(NamedTuple):
    """What an attribute holds: `size` numbers. Limits may be of any finite size, as 1e308 often stands for none.

    **Fields:** `remedy`: what to do where numbers that are not required are none, or not finite.
    """

    size: int = 1
    required: bool = False
    minimum: float = -math.inf
    largest: float = _LARGEST
    remedy: str = "leave the attribute out for its default"


class _Text(NamedTuple):
    """What an attribute holds: a name."""

    required: bool = True


class _Kind(NamedTuple):
    """What is read of an element; `ignored` parts are left out without a word."""

    attributes: Mapping[str, _Numbers | _Text]
    children: Mapping[str, "_Kind"] = MappingProxyType({})
    required: tuple[str, ...] = ()
    ignored: frozenset[str] = frozenset()


_ORIGIN = _Kind({"xyz": _Numbers(3), "rpy": _Numbers(3), "quat_xyzw": _Numbers(4)})
_MASS = _Kind({"value": _Numbers(required=True, minimum=0.0)})
_INERTIA = _Kind({name: _Numbers(required=True) for name in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")})
_INERTIAL = _Kind({}, {"origin": _ORIGIN, "mass": _MASS, "inertia": _INERTIA}, required=("mass", "inertia"))
_LINK = _Kind({"name": _Text()}, {"inertial": _INERTIAL}, ignored=frozenset({"visual", "collision", "material"}))

_AXIS = _Kind({"xyz": _Numbers(3, required=True)})
# Left out, they are zero.
_POSITION_LIMIT = _Numbers(
    largest=math.inf, remedy='without limits, a joint that turns is type="continuous"; or give a large number, as 1e9'
)
_RATE_LIMIT = _Numbers(minimum=0.0, largest=math.inf)
_LIMIT = _Kind({"lower": _POSITION_LIMIT, "upper": _POSITION_LIMIT, "velocity": _RATE_LIMIT, "effort": _RATE_LIMIT})
_DYNAMICS = _Kind({"damping": _Numbers(minimum=0.0), "friction": _Numbers(minimum=0.0)})
_MIMIC = _Kind({"joint": _Text(), "multiplier": _Numbers(), "offset": _Numbers()})


def _joint(children: dict[str, _Kind], *ignored: str) -> _Kind:
    link = _Kind({"link": _Text()})
    placed = {"parent": link, "child": link, "origin": _ORIGIN, **children}
    return _Kind({"name": _Text(), "type": _Text()}, placed, required=("parent", "child"), ignored=frozenset(ignored))


_ONE_DOF = _joint({"axis": _AXIS, "limit": _LIMIT, "dynamics": _DYNAMICS, "mimic": _MIMIC})
_JOINTS = {
    "revolute": _ONE_DOF,
    "continuous": _ONE_DOF,
    "prismatic": _ONE_DOF,
    "fixed": _joint({}, "axis", "limit", "dynamics"),
    "floating": _joint({}, "axis"),
    "planar": _joint({"axis": _AXIS}),
    "spherical": _joint({"dynamics": _DYNAMICS}, "axis"),
}


def checked_robot(root: Element, report: Report) -> Element:
    """A copy of the `<robot>` element with what a model holds, and nothing else.

    **Raises:** `ValueError` that names the element and its line.
    """
    robot = root.makeelement("robot", name=root.get("name") or "robot")
    for element in _elements(root):
        tag = tag_of(element)
        if tag in ("link", "joint"):
            name = element.get("name")
            owner = f"{tag} {name!r}" if name else f"<{tag}> on line {element.sourceline}"
            kind = _LINK if tag == "link" else _joint_kind(element, owner)
            robot.append(_copied(element, kind, owner, report))
        elif tag != "material":
            label = element.get("name") or element.get("reference") or f"line {element.sourceline}"
            report.add(f"not modelled: <{tag}>", label)
    return robot


def _joint_kind(element: Element, owner: str) -> _Kind:
    kind = _JOINTS.get(element.get("type"))
    if kind is None:
        raise ValueError(f"{owner}: unknown type {element.get('type')!r}; known are {', '.join(_JOINTS)}.")
    return kind


def _described(element: Element) -> str:
    joint_type = element.get("type") if tag_of(element) == "joint" else None
    return tag_of(element) if joint_type is None else f'{tag_of(element)} type="{joint_type}"'


def _elements(element: Element) -> Iterator[Element]:
    """Children that are elements, not references to entities.

    **Raises:** `ValueError` for those of xacro.
    """
    for child in element:
        if isinstance(child.tag, str):
            tag = tag_of(child)
            if tag.startswith("xacro:"):
                raise ValueError(
                    f"line {child.sourceline}: <{tag}> belongs to xacro, a macro language; expand the file first "
                    "(`xacro robot.urdf.xacro > robot.urdf`)."
                )
            yield child


def _copied(element: Element, kind: _Kind, owner: str, report: Report) -> Element:
    tag = tag_of(element)
    copy = element.makeelement(tag, _attributes(element, kind, owner, report))
    present: set[str] = set()
    for child in _elements(element):
        child_tag = tag_of(child)
        if child_tag in kind.children and child_tag not in present:
            present.add(child_tag)
            copy.append(_copied(child, kind.children[child_tag], owner, report))
        elif child_tag in kind.children:
            report.add(f"repeated, of which the first counts: <{child_tag}>", owner)
        elif child_tag not in kind.ignored:
            report.add(f"not modelled: <{child_tag}> in <{_described(element)}>", owner)
    for child_tag in kind.required:
        if child_tag not in present:
            raise ValueError(f"{owner}: <{tag}> on line {element.sourceline} needs a <{child_tag}>; add it.")
    return copy


def _attributes(element: Element, kind: _Kind, owner: str, report: Report) -> dict[str, str]:
    tag = tag_of(element)
    where = f"{owner}, line {element.sourceline}"
    for name, content in kind.attributes.items():
        value = element.get(name)
        if value is None and content.required:
            raise ValueError(f"{where}: <{tag}> needs the attribute {name!r}; add it.")
        if isinstance(content, _Text) and not (value or "").strip():
            raise ValueError(f"{where}: the attribute {name!r} of <{tag}> is empty; give a name.")
        if isinstance(content, _Text) and re.search(r"\$[{(]", value):
            raise ValueError(f"{where}: {name}={value!r:.200} of <{tag}> is no name. Expand the file with xacro first.")
        if isinstance(content, _Numbers) and value is not None:
            problem = _problem(value, content)
            if problem:
                hint = " Expand the file with xacro first." if "$" in value else ""
                raise ValueError(f"{where}: {name}={value!r:.200} of <{tag}> {problem}.{hint}")
    unknown = [name for name in element.attrib if name not in kind.attributes]
    for name in unknown:
        report.add(f"not modelled: attribute {attribute_of(element, name)!r} of <{tag}>", owner)
    attributes = {name: value for name, value in element.attrib.items() if name in kind.attributes}
    if "quat_xyzw" in attributes:  # of URDF 1.2
        try:
            matrix = quaternion_rotation(element)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
        del attributes["quat_xyzw"]
        attributes["rpy"] = " ".join(map(repr, _roll_pitch_yaw(matrix)))
    return attributes


def quaternion_rotation(origin: Element) -> np.ndarray:
    """(3, 3): the rotation that the attribute `quat_xyzw` of an `<origin>` gives.

    **Raises:** `ValueError` where it is no quaternion, or `rpy` says something else.
    """
    text = origin.get("quat_xyzw")
    *vector, scalar = map(float, text.split())
    if len(vector) != 3 or not 0 < math.hypot(*vector, scalar) < math.inf:
        raise ValueError(f"quat_xyzw={text!r:.200} of <origin> must be four numbers that are not all zero.")
    if origin.get("rpy") is not None:
        raise ValueError("<origin> has both rpy and quat_xyzw; leave one of them out.")
    return rotation_matrix(np.array([scalar, *vector]))


def _roll_pitch_yaw(matrix: np.ndarray) -> tuple[float, float, float]:
    """Angles that give the rotation again, also where only the sum of roll and yaw matters."""
    yaw = math.atan2(matrix[1, 0], matrix[0, 0])
    s, c = math.sin(yaw), math.cos(yaw)
    pitch = math.atan2(-matrix[2, 0], math.hypot(matrix[0, 0], matrix[1, 0]))
    return math.atan2(s * matrix[0, 2] - c * matrix[1, 2], c * matrix[1, 1] - s * matrix[0, 1]), pitch, yaw


def _problem(value: str, content: _Numbers) -> str:
    """What is wrong with the value of an attribute; empty if nothing is."""
    words = value.split()
    plural = "s" if content.size > 1 else ""
    if len(words) != content.size or not all(_NUMBER.fullmatch(word) for word in words):
        remedy = "" if content.required else f" ({content.remedy})"
        return f"must be {content.size} finite number{plural}{remedy}"
    numbers = [float(word) for word in words]
    if not all(math.isfinite(number) and abs(number) <= content.largest for number in numbers):
        return f"is too large; correct the value{plural}"
    if any(number < content.minimum for number in numbers):
        return "must not be negative; correct the value"
    return ""
