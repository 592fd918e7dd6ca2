"""Mechanisms with closed loops: constraints, their forces, and arms that hold an object together."""

from ..model import (
    AbstractConstraint as AbstractConstraint,
    AbstractFrameConstraint as AbstractFrameConstraint,
    AbstractPointConstraint as AbstractPointConstraint,
    AbstractPoseConstraint as AbstractPoseConstraint,
    Connect as Connect,
    Distance as Distance,
    JointCoupling as JointCoupling,
    LoopJoint as LoopJoint,
    Weld as Weld,
)
from ._between import (
    connect as connect,
    couple as couple,
    distance as distance,
    loop_joint as loop_joint,
    weld as weld,
)
from ._delassus import (
    AbstractConstraintSolver as AbstractConstraintSolver,
    Direct as Direct,
    LeastNorm as LeastNorm,
    Proximal as Proximal,
)
from ._forward import (
    ConstrainedSolution as ConstrainedSolution,
    constrained_forward_dynamics as constrained_forward_dynamics,
)
from ._grasp import GraspSolution as GraspSolution, grasp_forward_dynamics as grasp_forward_dynamics
from ._grasp_algorithms import (
    RCCFD1 as RCCFD1,
    RCCFD2 as RCCFD2,
    RCCFD3 as RCCFD3,
    AbstractGraspAlgorithm as AbstractGraspAlgorithm,
)
from ._grasps import Grasp as Grasp, RigidObject as RigidObject
from ._impact import Impact as Impact, impulse as impulse
from ._inverse import (
    ConstrainedTorques as ConstrainedTorques,
    constrained_inverse_dynamics as constrained_inverse_dynamics,
)
from ._projection import (
    ProjectedConfiguration as ProjectedConfiguration,
    project_configuration as project_configuration,
    project_velocity as project_velocity,
)
from ._stabilization import (
    AbstractStabilization as AbstractStabilization,
    Baumgarte as Baumgarte,
    Projection as Projection,
)
from ._status import ConstraintStatus as ConstraintStatus
