"""Bodies, joints and sites of a compiled MuJoCo model."""

import numpy as np

from ..joints import AbstractJoint, Anchored, Composite, Fixed, Free, Prismatic, Revolute, Spherical
from ..model import ModelBuilder
from ..spatial._host import pose_matrix, rotation_matrix
from ._mjcf_dofs import DofParameters, is_disabled
from ._mjcf_layout import BALL, FREE, HINGE, SLIDE, Joint, Layout, MjModel, joints_of, unique_name
from ._report import Report


def add_bodies(builder: ModelBuilder, mj: MjModel, layout: Layout, dofs: DofParameters, report: Report) -> None:
    """Add all bodies and sites, in MuJoCo's order."""
    joint_names = {*layout.joints}
    for body in range(1, mj.nbody):
        parent = int(mj.body_parentid[body])
        own = list(joints_of(mj, body))
        joint, placement = _joint_and_placement(mj, body, own)
        if body == layout.freed:
            joint, placement, name = Free(), np.eye(4), unique_name("root_joint", joint_names)
        elif len(own) == 1:
            name = layout.joints[own[0].number]
        elif own:
            name = unique_name("+".join(layout.joints[part.number] for part in own), joint_names)
        else:
            name = unique_name(f"{layout.bodies[body]}_fixed", joint_names)
        axes = rotation_matrix(mj.body_iquat[body])
        builder.add_body(
            layout.bodies[body],
            layout.bodies[parent] if parent else None,
            joint,
            placement,
            mass=mj.body_mass[body],
            com=mj.body_ipos[body],
            inertia=axes @ np.diag(mj.body_inertia[body]) @ axes.T,
            joint_name=name,
            **_coordinates(mj, own, dofs, report, layout),
        )
    for site, name in enumerate(layout.sites):
        body = int(mj.site_bodyid[site])
        pose = pose_matrix(rotation_matrix(mj.site_quat[site]), mj.site_pos[site])
        builder.add_frame(name, layout.bodies[body] if body else None, pose)


def _joint_and_placement(mj: MjModel, body: int, own: list[Joint]) -> tuple[AbstractJoint, np.ndarray]:
    """The joint between a body and its parent, in MuJoCo's coordinates, and the joint frame's pose.

    MuJoCo moves a body by `T_1(q_1 - ref_1) ... T_n(q_n - ref_n)`. With constant `C_i = T_i(-ref_i)` and
    `D_i = C_{i+1} ... C_n` that is `C_1 ... C_n (D_1^-1 T_1(q_1) D_1) ... T_n(q_n)`: a constant pose and the same
    joints elsewhere. (Ball joints come last but for slides, so `D` never turns them.)
    """
    if own and own[0].kind == FREE:
        return Free(), np.eye(4)
    joints: list[AbstractJoint] = []
    moved = np.eye(4)
    for part in reversed(own):
        axis = moved[:3, :3].T @ mj.jnt_axis[part.number]
        anchor = moved[:3, :3].T @ (mj.jnt_pos[part.number] - moved[:3, 3])
        joints.insert(0, _elementary(part.kind, axis, anchor))
        moved = _displacement(mj, part, -mj.qpos0[part.q]) @ moved
    placement = pose_matrix(rotation_matrix(mj.body_quat[body]), mj.body_pos[body]) @ moved
    if not joints:
        return Fixed(), placement
    return (joints[0] if len(joints) == 1 else Composite(tuple(joints))), placement


def _elementary(kind: int, axis: np.ndarray, anchor: np.ndarray) -> AbstractJoint:
    if kind == SLIDE:
        return Prismatic(axis)
    joint = Spherical() if kind == BALL else Revolute(axis)
    return Anchored(joint, anchor) if np.any(anchor) else joint


def _displacement(mj: MjModel, joint: Joint, q: np.ndarray) -> np.ndarray:
    """Motion of the body by a slide or hinge at `q` (1,); none for others, which have no reference."""
    axis, anchor = mj.jnt_axis[joint.number], mj.jnt_pos[joint.number]
    if joint.kind == SLIDE:
        return pose_matrix(np.eye(3), q * axis)
    if joint.kind == HINGE and q[0]:
        turned = rotation_matrix(np.concatenate([np.cos(q / 2), np.sin(q / 2) * axis]))
        return pose_matrix(turned, anchor - turned @ anchor)
    return np.eye(4)


def _coordinates(mj: MjModel, own: list[Joint], dofs: DofParameters, report: Report, layout: Layout) -> dict:
    """Arguments of `add_body` that are for each coordinate of the joints."""
    if not own:
        return {}
    lower, upper, unlimited = [], [], is_disabled(mj, "LIMIT", "CONSTRAINT")
    for joint in own:
        size = joint.q.stop - joint.q.start
        limits = np.array([-np.inf, np.inf])
        if mj.jnt_limited[joint.number] and not unlimited:
            if joint.kind == BALL:
                report.add("limits of ball joints", layout.joints[joint.number])
            else:
                limits = mj.jnt_range[joint.number]
        lower.append(np.full(size, limits[0]))
        upper.append(np.full(size, limits[1]))
    v = slice(own[0].v.start, own[-1].v.stop)
    return {
        **{name: values[v] for name, values in dofs._asdict().items()},
        "spring_reference": mj.qpos_spring[own[0].q.start : own[-1].q.stop],
        "lower": np.concatenate(lower),
        "upper": np.concatenate(upper),
    }
