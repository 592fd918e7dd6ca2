"""URDF for packages that read files: of mechanisms of revolute joints, and of robots, without shapes."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from jaxcfa import Model
from jaxcfa.joints import Free, Revolute

_LINK = """<link name="{name}"><inertial><origin xyz="{com}"/><mass value="{mass!r}"/>
<inertia ixx="{xx!r}" iyy="{yy!r}" izz="{zz!r}" ixy="{xy!r}" ixz="{xz!r}" iyz="{yz!r}"/></inertial></link>"""
_JOINT = """<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/>
<origin xyz="{origin}"/><axis xyz="{axis}"/><limit lower="-100" upper="100" effort="1e6" velocity="1e6"/></joint>"""
_BASE = "world_base"
# It does not move, but some readers ask for its inertia.
_BASE_LINK = _LINK.format(name=_BASE, com="0 0 0", mass=1.0, xx=1.0, yy=1.0, zz=1.0, xy=0.0, xz=0.0, yz=0.0)


def to_urdf(model: Model) -> str:
    """The model as URDF. Its joints are revolute, with frames parallel to their parents'; the first may be free."""
    if not np.allclose(model.placement.rotation, np.eye(3)):
        raise ValueError("Only joints whose frames are parallel to their parents' can be written.")
    axes = {}
    for joint, group in zip(model.joints, model.topology.groups, strict=True):
        if isinstance(joint, Revolute):
            axes |= dict(zip(group.bodies.tolist(), np.asarray(joint.axis), strict=True))
        elif not (isinstance(joint, Free) and group.bodies.tolist() == [0]):
            raise ValueError(f"Joints must be revolute, but one is a {type(joint).__name__}.")
    links = [_link(model, i) for i in range(model.nb)]
    joints = [_joint(model, i, axis) for i, axis in axes.items()]
    base = [_BASE_LINK] if 0 in axes else []
    return "\n".join(['<robot name="robot">', *base, *links, *joints, "</robot>\n"])


def _link(model: Model, i: int) -> str:
    inertia = np.asarray(model.inertia[i], dtype=float).tolist()
    return _LINK.format(
        name=model.body_names[i],
        com=_numbers(model.com[i]),
        mass=float(model.mass[i]),
        xx=inertia[0][0],
        yy=inertia[1][1],
        zz=inertia[2][2],
        xy=inertia[0][1],
        xz=inertia[0][2],
        yz=inertia[1][2],
    )


def _joint(model: Model, i: int, axis: np.ndarray) -> str:
    parent = int(model.topology.parents[i])
    return _JOINT.format(
        name=model.joint_names[i],
        parent=_BASE if parent < 0 else model.body_names[parent],
        child=model.body_names[i],
        origin=_numbers(model.placement.translation[i]),
        axis=_numbers(axis),
    )


def _numbers(values) -> str:
    return " ".join(repr(float(x)) for x in values)


def without_shapes(file: Path) -> str:
    """The text of a URDF file without what only pictures and contacts need, whose files may be elsewhere."""
    root = ElementTree.parse(file).getroot()
    for child in list(root):
        if child.tag not in ("link", "joint"):
            root.remove(child)
        for shape in child.findall("visual") + child.findall("collision"):
            child.remove(shape)
    return ElementTree.tostring(root, encoding="unicode")
