"""The joints in composite joints, by names."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..joints import AbstractJoint, Composite
from ..numerics._options import quoted
from ._topology import Topology


class JointPart(NamedTuple):
    """A joint, or one of those that a `Composite` is made of.

    **Fields:** `name`; `body` that it moves; `place` in the composite joint, `None` for a joint as a whole; `q`, `v`:
    where its coordinates are.
    """

    name: str
    body: int
    place: int | None
    q: slice
    v: slice


def names_of_parts(name: str, count: int) -> list[str] | None:
    """The names of as many joints that one's name joins by plus signs; `None` if it does not tell them apart."""
    names = name.split("+")
    return names if len(names) == count and all(names) else None


def whole_joint(topology: Topology, body: int) -> JointPart:
    """The joint of a body as a whole."""
    q, v = int(topology.q_starts[body]), int(topology.v_starts[body])
    q_stop, v_stop = q + int(topology.nqs[body]), v + int(topology.nvs[body])
    return JointPart(topology.joint_names[body], body, None, slice(q, q_stop), slice(v, v_stop))


def parts_of_composites(joints: Sequence[AbstractJoint], topology: Topology) -> Iterator[JointPart]:
    """The parts of all composite joints. Those without a name of their own have a number, as in `hip[0]`."""
    for joint, bodies in zip(joints, topology.group_bodies, strict=True):
        if not isinstance(joint, Composite):
            continue
        for body in bodies.tolist():
            name, count = topology.joint_names[body], len(joint.joints)
            names = names_of_parts(name, count) or [f"{name}[{k}]" for k in range(count)]
            q, v = int(topology.q_starts[body]), int(topology.v_starts[body])
            for place, (own, part) in enumerate(zip(names, joint.joints, strict=True)):
                yield JointPart(own, body, place, slice(q, q + part.nq), slice(v, v + part.nv))
                q, v = q + part.nq, v + part.nv


def joint_parts(joints: Sequence[AbstractJoint], topology: Topology) -> list[JointPart]:
    """All joints in order, the parts of composite ones instead of these."""
    found: dict[int, list[JointPart]] = {}
    for part in parts_of_composites(joints, topology):
        found.setdefault(part.body, []).append(part)
    bodies = range(topology.nb)
    return [part for body in bodies for part in found.get(body) or [whole_joint(topology, body)]]


def part_named(joints: Sequence[AbstractJoint], topology: Topology, name: str) -> JointPart | None:
    """The part of a composite joint that has a name, or `None`; `ValueError` if parts of several joints have it."""
    found = [part for part in parts_of_composites(joints, topology) if part.name == name]
    if len(found) > 1:
        wholes = quoted([topology.joint_names[part.body] for part in found])
        raise ValueError(f"Several parts of joints are named {name!r}, those of {wholes}; give one of these joints.")
    return found[0] if found else None
