"""Equality constraints of a compiled MuJoCo model."""

import jax.numpy as jnp
import numpy as np

from ..model import WORLD, AbstractConstraint, AbstractFrameConstraint, Connect, JointCoupling, Model, Weld
from ..spatial import Transform
from ..spatial._host import rotation_matrix
from ._mjcf_dofs import enum_name, is_disabled
from ._mjcf_layout import Layout, MjModel, all_names
from ._report import Report


def read_equalities(mj: MjModel, layout: Layout, model: Model, report: Report) -> tuple[AbstractConstraint, ...]:
    """The active connect, weld and joint constraints; the others are reported."""
    readers = {"CONNECT": _connect, "WELD": _weld, "JOINT": _coupling}
    off = is_disabled(mj, "EQUALITY", "CONSTRAINT")
    constraints = []
    for i, name in enumerate(all_names(mj.equality, mj.neq, "equality", set())):
        reader = readers.get(enum_name("mjtEq", mj.eq_type[i]))
        if off or not mj.eq_active0[i]:
            report.add("equality constraints that are not active", name)
        elif reader is None:
            report.add("equality constraints other than connect, weld and joint", name)
        else:
            constraint = reader(mj, layout, model, i, name)
            if isinstance(constraint, AbstractFrameConstraint) and constraint.body1 == constraint.body2:
                report.add("equality constraints within one body", name)
            else:
                constraints.append(constraint)
    return tuple(constraints)


def _places(mj: MjModel, layout: Layout, model: Model, i: int) -> list[tuple[int, Transform]]:
    """Body and pose of the two sites or bodies that a constraint relates."""
    numbers = (int(mj.eq_obj1id[i]), int(mj.eq_obj2id[i]))
    if _acts_at_sites(mj, i):
        return [model.locate(layout.sites[number]) for number in numbers]
    return [model.locate(layout.bodies[number] if number else WORLD) for number in numbers]


def _connect(mj: MjModel, layout: Layout, model: Model, i: int, name: str) -> Connect:
    (body1, pose1), (body2, pose2) = _places(mj, layout, model, i)
    points = jnp.asarray(mj.eq_data[i, :6].reshape(2, 3) * (not _acts_at_sites(mj, i)), model.dtype)
    return Connect(body1, body2, pose1.apply(points[0]), pose2.apply(points[1]), name)


def _weld(mj: MjModel, layout: Layout, model: Model, i: int, name: str) -> Weld | Connect:
    (body1, frame1), (body2, frame2) = _places(mj, layout, model, i)
    data = mj.eq_data[i]  # anchor in body 2, then the same point in body 1 and the orientation of body 2 in it
    if not _acts_at_sites(mj, i):
        dtype = model.dtype
        frame1 = frame1 @ Transform(jnp.asarray(rotation_matrix(data[6:10]), dtype), jnp.asarray(data[3:6], dtype))
        frame2 = frame2 @ Transform(jnp.eye(3, dtype=dtype), jnp.asarray(data[:3], dtype))
    if data[10] == 0:  # the scale of torques: the frames may turn
        return Connect(body1, body2, frame1.translation, frame2.translation, name)
    return Weld(body1, body2, frame1, frame2, name)


def _acts_at_sites(mj: MjModel, i: int) -> bool:
    """Whether the sites say where, instead of numbers in the frames of bodies."""
    return enum_name("mjtObj", mj.eq_objtype[i]) == "SITE"


def _coupling(mj: MjModel, layout: Layout, model: Model, i: int, name: str) -> JointCoupling:
    dtype = model.dtype
    numbers = (int(mj.eq_obj1id[i]), int(mj.eq_obj2id[i]))
    joint, reference = (_joint_and_coordinate(mj, layout, model, number) for number in numbers)
    offsets = [mj.qpos0[mj.jnt_qposadr[number]] if number >= 0 else 0.0 for number in numbers]
    coefficients = np.array(mj.eq_data[i, :5])
    return JointCoupling(
        joint[0],
        reference[0],
        jnp.asarray(coefficients, dtype),
        jnp.asarray(offsets[0], dtype),
        jnp.asarray(offsets[1], dtype),
        name,
        joint[1],
        reference[1],
    )


def _joint_and_coordinate(mj: MjModel, layout: Layout, model: Model, number: int) -> tuple[int, int]:
    """The joint that has a slide or hinge, which shares its body with others or not, and which coordinate it is."""
    if number < 0:
        return -1, 0
    body = int(mj.jnt_bodyid[number])
    return model.body_index(layout.bodies[body]), int(mj.jnt_dofadr[number] - mj.body_dofadr[body])
