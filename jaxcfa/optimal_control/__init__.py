"""Optimal control: motions that minimise a cost under dynamics and constraints, and the feedback that keeps to them.

A `Problem` has dynamics (`RobotDynamics`, `RobotInverseDynamics`, `FunctionDynamics`, or your own), costs (`Cost`,
`SmoothCost`) and constraints (`Bounds`, `Equality`) made of terms: ready-made ones such as `FramePose`, or any function
of a `Stage`. `solve` finds a `Solution` by `MultipleShooting`, `FDDP` or `Shooting`, the first two also in
single precision first, by `MixedPrecision`; `mpc_step` goes on from one; `lqr` is for equilibria.
"""

from ._costs_and_bounds import Bounds as Bounds, Cost as Cost, Equality as Equality, SmoothCost as SmoothCost
from ._dynamics import AbstractDynamics as AbstractDynamics, FunctionDynamics as FunctionDynamics
from ._fddp import FDDP as FDDP
from ._lqr import Regulator as Regulator, lqr as lqr
from ._mixed_precision import MixedPrecision as MixedPrecision
from ._mpc import mpc_step as mpc_step
from ._multiple_shooting import MultipleShooting as MultipleShooting
from ._problem import Phase as Phase, Problem as Problem
from ._robot_dynamics import (
    AbstractRobotDynamics as AbstractRobotDynamics,
    RobotDynamics as RobotDynamics,
    RobotInverseDynamics as RobotInverseDynamics,
)
from ._shooting import Shooting as Shooting
from ._solution import History as History, Solution as Solution, SolveStatus as SolveStatus
from ._solve import solve as solve
from ._solver import AbstractSolver as AbstractSolver
from ._stage import Stage as Stage
from ._terms import (
    AbstractTerm as AbstractTerm,
    CenterOfMass as CenterOfMass,
    ContactForce as ContactForce,
    Control as Control,
    Duration as Duration,
    FrameDirection as FrameDirection,
    FrameDistance as FrameDistance,
    FrameOrientation as FrameOrientation,
    FramePose as FramePose,
    FramePosition as FramePosition,
    FrameVelocity as FrameVelocity,
    FrictionPyramid as FrictionPyramid,
    JointTorques as JointTorques,
    PointVelocity as PointVelocity,
    Position as Position,
    Posture as Posture,
    RelativePose as RelativePose,
    StateDifference as StateDifference,
    Velocity as Velocity,
)
