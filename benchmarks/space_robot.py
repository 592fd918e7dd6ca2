"""A free-floating robot with two arms of six joints (after Liu, Hu & Zhang 2016, section 4)."""

import numpy as np

from jaxcfa import Model, ModelBuilder
from jaxcfa.joints import Free, Revolute

SIDE, LENGTH = 0.8, 1.2  # of the hexagonal prism [m]; the rest is not in the paper
BODY_MASS = 500.0  # kg
# Axis, length along x [m], mass [kg] and radius [m] of the links of an arm, from shoulder to hand.
ARM = (
    ((0.0, 0.0, 1.0), 0.15, 8.0, 0.08),
    ((0.0, 1.0, 0.0), 1.0, 16.0, 0.06),
    ((0.0, 1.0, 0.0), 1.0, 12.0, 0.05),
    ((1.0, 0.0, 0.0), 0.15, 4.0, 0.05),
    ((0.0, 1.0, 0.0), 0.15, 4.0, 0.05),
    ((1.0, 0.0, 0.0), 0.2, 5.0, 0.05),
)


def space_robot() -> Model:
    """A hexagonal prism that floats without gravity, with two equal arms on opposite sides, 18 degrees of freedom.

    The prism's axis is z. The arms point along x and -x from the midpoints of opposite side faces.
    """
    builder = ModelBuilder()
    across = BODY_MASS * (5 * SIDE**2 / 24 + LENGTH**2 / 12)
    along = BODY_MASS * 5 * SIDE**2 / 12
    builder.add_body("body", joint=Free(), joint_name="root_joint", mass=BODY_MASS, inertia=(across, across, along))
    for name, direction in (("right", 1.0), ("left", -1.0)):
        _add_arm(builder, name, direction)
    return builder.build(gravity=(0.0, 0.0, 0.0))


def _add_arm(builder: ModelBuilder, name: str, direction: float) -> None:
    parent, start = "body", direction * SIDE * np.sqrt(3) / 2
    for number, (axis, length, mass, radius) in enumerate(ARM, start=1):
        body = f"{name}{number}"
        axial, transverse = mass * radius**2 / 2, mass * (3 * radius**2 + length**2) / 12
        builder.add_body(
            body,
            parent,
            Revolute(axis),
            (start, 0.0, 0.0),
            mass=mass,
            com=(direction * length / 2, 0.0, 0.0),
            inertia=(axial, transverse, transverse),
        )
        parent, start = body, direction * length
    builder.add_frame(f"{name}_hand", parent, (start, 0.0, 0.0))
