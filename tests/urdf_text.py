"""Small URDF texts."""

INERTIA = '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>'
INERTIAL = f'<inertial><mass value="1"/>{INERTIA}</inertial>'
LIMIT = '<limit lower="-1" upper="2" velocity="3" effort="4"/>'


def link(name: str, content: str = INERTIAL) -> str:
    return f'<link name="{name}">{content}</link>'


def joint(name: str, parent: str, child: str, content: str = LIMIT, kind: str = "revolute") -> str:
    return f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{content}</joint>'


def robot(*elements: str) -> str:
    return '<robot name="test">' + "\n".join(elements) + "</robot>"


def one_joint(content: str, kind: str = "revolute", child: str = INERTIAL) -> str:
    """A base and one body."""
    return robot(link("base"), link("body", child), joint("joint", "base", "body", content, kind))
