"""Inverse kinematics: configurations in which frames are where they should be.

`solve` takes targets and preferences made of the same terms as costs of optimal control: `FramePose`,
`FramePosition`, `FrameOrientation`, `FrameDirection`, `FrameDistance`, `RelativePose`, `CenterOfMass`, `Posture`, or
any function of a stage. `velocity` takes the same targets and gives how joints shall move now: differential inverse
kinematics, for the loop of a controller. Batch both with `jax.vmap`, over targets, configurations and models, and
differentiate them with `jax.grad`.
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
from ._velocity import velocity as velocity
