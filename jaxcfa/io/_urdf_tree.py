"""The tree of links in a URDF file."""

from typing import Any

from ..model._topology import first_duplicate
from ..numerics._options import quoted

# yourdfpy's classes: the package is optional.
Robot = Any
Link = Any
Joint = Any


def ordered_links(robot: Robot) -> list[tuple[Link, Joint | None]]:
    """The root link, and every other link after its parent, with the joint that carries it.

    The order is depth first with the joints of one link sorted by name (by code points), as Pinocchio's.

    **Raises:** `ValueError` if names are not unique, a joint refers to no link, or the links form no single tree.
    """
    for kind, elements in (("link", robot.links), ("joint", robot.joints)):
        duplicate = first_duplicate([element.name for element in elements])
        if duplicate is not None:
            raise ValueError(f"there are several {kind}s called {duplicate!r}; rename all but one.")
    links = {link.name: link for link in robot.links}
    children = _children(robot, links)
    roots = sorted(set(links) - {joint.child for joint in robot.joints})
    if not links:
        raise ValueError("there is no <link> in <robot>, so there is nothing to model; check how the file was made.")
    if len(roots) > 1:
        raise ValueError(
            f"there are {len(roots)} root links ({quoted(roots)}), which no joint has as child; a robot has one. "
            "Connect the others with joints."
        )
    order: list[tuple[Link, Joint | None]] = []
    pending: list[tuple[str, Joint | None]] = [(root, None) for root in roots]
    while pending:
        name, joint = pending.pop()
        order.append((links[name], joint))
        pending.extend((child.child, child) for child in reversed(children[name]))
    if len(order) < len(links):
        cut_off = sorted(set(links) - {link.name for link, _ in order})
        raise ValueError(f"the joints form a cycle at links {quoted(cut_off)}; remove one joint of the cycle.")
    return order


def _children(robot: Robot, links: dict[str, Link]) -> dict[str, list[Joint]]:
    """The joints below each link, sorted by name."""
    children: dict[str, list[Joint]] = {name: [] for name in links}
    carried_by: dict[str, str] = {}
    for joint in sorted(robot.joints, key=lambda joint: joint.name):
        for role, link in (("parent", joint.parent), ("child", joint.child)):
            if link not in links:
                raise ValueError(
                    f"joint {joint.name!r}: the {role} link {link!r} is not in the file; add or correct it."
                )
        if joint.child in carried_by:
            raise ValueError(
                f"link {joint.child!r} is the child of the joints {carried_by[joint.child]!r} and {joint.name!r}; "
                "a link has one parent. Remove one of them."
            )
        carried_by[joint.child] = joint.name
        children[joint.parent].append(joint)
    return children
