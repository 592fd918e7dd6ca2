"""Inverse kinematics: configurations in which frames are where they should be.

`solve` takes targets and preferences made of the same terms as costs of optimal control: `FramePose`,
`FramePosition`, `FrameOrientation`, `FrameDirection`, `FrameDistance`, `RelativePose`, `CenterOfMass`, `Posture`, or
any function of a stage. Batch it with `jax.vmap`, over targets, starts and models; differentiate it with `jax.grad`.
"""

from ..optimal_control import (
    CenterOfMass as CenterOfMass,
    Cost as Cost,
    FrameDirection as FrameDirection,
    FrameDistance as FrameDistance,
    FrameOrientation as FrameOrientation,
    FramePose as FramePose,
    FramePosition as FramePosition,
    Posture as Posture,
    RelativePose as RelativePose,
    SolveStatus as SolveStatus,
)
from ._solve import Solution as Solution, solve as solve
