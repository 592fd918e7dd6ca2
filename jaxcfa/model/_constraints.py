"""Loop closures and couplings, as data.

A model carries those that its file declares. The tree dynamics does not apply them.
"""

import abc

import equinox as eqx
from jaxtyping import Array, Float

from ..spatial import Transform


class AbstractConstraint(eqx.Module):
    """A relation between the bodies or joints of a model. Bodies are numbers, -1 for the world."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Name in the file, or empty."""


class JointCoupling(AbstractConstraint):
    """`q[joint] = polynomial(q[reference])`, for one-degree-of-freedom joints (URDF mimic, MJCF `equality/joint`).

    With `x = q[reference] - reference_offset` and `y = q[joint] - joint_offset`, `y = sum_k coefficients[k] x^k`.
    `reference` -1 fixes the joint at the constant term.

    **Fields:** `joint`, `reference`: joint numbers. `coefficients` (k,), constant term first.
    """

    joint: int = eqx.field(static=True)
    reference: int = eqx.field(static=True)
    coefficients: Float[Array, "*batch k"]
    joint_offset: Float[Array, "*batch"]
    reference_offset: Float[Array, "*batch"]
    name: str = eqx.field(static=True, default="")


class Connect(AbstractConstraint):
    """Two points coincide: `point1` of `body1` and `point2` of `body2` (body axes, metres)."""

    body1: int = eqx.field(static=True)
    body2: int = eqx.field(static=True)
    point1: Float[Array, "*batch 3"]
    point2: Float[Array, "*batch 3"]
    name: str = eqx.field(static=True, default="")


class Weld(AbstractConstraint):
    """Two frames coincide: `frame1` in `body1` and `frame2` in `body2`."""

    body1: int = eqx.field(static=True)
    body2: int = eqx.field(static=True)
    frame1: Transform
    frame2: Transform
    name: str = eqx.field(static=True, default="")
