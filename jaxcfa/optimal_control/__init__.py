"""Optimal control."""

from ._dynamics import (
    AbstractDynamics as AbstractDynamics,
    FunctionDynamics as FunctionDynamics,
    RobotDynamics as RobotDynamics,
)
from ._fddp import FDDP as FDDP
from ._multiple_shooting import MultipleShooting as MultipleShooting
from ._problem import (
    Bounds as Bounds,
    Cost as Cost,
    Equality as Equality,
    Phase as Phase,
    Problem as Problem,
    SmoothCost as SmoothCost,
)
from ._solution import History as History, Solution as Solution, SolveStatus as SolveStatus
from ._solve import solve as solve
from ._solver import AbstractSolver as AbstractSolver
from ._stage import Stage as Stage
from ._terms import (
    AbstractTerm as AbstractTerm,
    CenterOfMass as CenterOfMass,
    Control as Control,
    FrameDistance as FrameDistance,
    FrameOrientation as FrameOrientation,
    FramePose as FramePose,
    FramePosition as FramePosition,
    JointTorques as JointTorques,
    Position as Position,
    Posture as Posture,
    StateDifference as StateDifference,
    Velocity as Velocity,
)
