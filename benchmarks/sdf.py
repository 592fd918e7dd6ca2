"""SDF of a model, for packages that would have Gazebo convert URDF."""

from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from jaxcfa import Model
from jaxcfa.joints import Free, Prismatic, Revolute

_BASE = "fixed_base"


def to_sdf(model: Model) -> str:
    """Links and joints: revolute, prismatic, and a free one first, or a base that is fixed to the world."""
    sdf = Element("sdf", version="1.7")
    root = SubElement(sdf, "model", name="robot")
    joints = _joints(model)
    if 0 in joints:
        _add_link(root, _BASE, None, 1.0, np.zeros(3), np.eye(3))
        joint = SubElement(root, "joint", name="to_world", type="fixed")
        SubElement(joint, "parent").text = "world"
        SubElement(joint, "child").text = _BASE
    for body, name in enumerate(model.body_names):
        above = model.joint_names[body] if body in joints else None
        _add_link(root, name, above, *(np.asarray(x[body], float) for x in (model.mass, model.com, model.inertia)))
    for body, (kind, axis) in joints.items():
        _add_joint(root, model, body, kind, axis)
    return ElementTree.tostring(sdf, encoding="unicode")


def _joints(model: Model) -> dict[int, tuple[str, np.ndarray]]:
    """Kinds and axes of the joints by body; a free one is left out."""
    kinds, found = {Revolute: "revolute", Prismatic: "prismatic"}, {}
    for joint, group in zip(model.joints, model.topology.groups, strict=True):
        if not isinstance(joint, Free):
            axes = zip(group.bodies.tolist(), np.asarray(joint.axis, float), strict=True)
            found |= {body: (kinds[type(joint)], axis) for body, axis in axes}
    return dict(sorted(found.items()))


def _add_link(root: Element, name: str, joint: str | None, mass, com: np.ndarray, inertia: np.ndarray) -> None:
    link = SubElement(root, "link", name=name)
    SubElement(link, "pose", {} if joint is None else {"relative_to": joint}).text = "0 0 0 0 0 0"
    inertial = SubElement(link, "inertial")
    SubElement(inertial, "pose").text = _numbers(*com, 0, 0, 0)
    SubElement(inertial, "mass").text = _numbers(mass)
    part = SubElement(inertial, "inertia")
    for name, i, j in (("ixx", 0, 0), ("ixy", 0, 1), ("ixz", 0, 2), ("iyy", 1, 1), ("iyz", 1, 2), ("izz", 2, 2)):
        SubElement(part, name).text = _numbers(inertia[i, j])


def _add_joint(root: Element, model: Model, body: int, kind: str, axis: np.ndarray) -> None:
    parent = int(model.topology.parents[body])
    above = _BASE if parent < 0 else model.body_names[parent]
    joint = SubElement(root, "joint", name=model.joint_names[body], type=kind)
    rotation = np.asarray(model.placement.rotation[body], float)
    place = np.asarray(model.placement.translation[body], float)
    SubElement(joint, "pose", relative_to=above).text = _numbers(*place, *_roll_pitch_yaw(rotation))
    SubElement(joint, "parent").text = above
    SubElement(joint, "child").text = model.body_names[body]
    part = SubElement(joint, "axis")
    SubElement(part, "xyz").text = _numbers(*axis)
    limit = SubElement(part, "limit")
    SubElement(limit, "lower").text, SubElement(limit, "upper").text = "-1e16", "1e16"


def _roll_pitch_yaw(r: np.ndarray) -> tuple[float, float, float]:
    pitch = np.arctan2(-r[2, 0], np.hypot(r[0, 0], r[1, 0]))
    if np.hypot(r[0, 0], r[1, 0]) < 1e-9:  # upright: the yaw is free
        return np.arctan2(-r[1, 2], r[1, 1]), pitch, 0.0
    return np.arctan2(r[2, 1], r[2, 2]), pitch, np.arctan2(r[1, 0], r[0, 0])


def _numbers(*values) -> str:
    return " ".join(repr(float(x)) for x in values)
