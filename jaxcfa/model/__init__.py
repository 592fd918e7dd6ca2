"""Robot models: the static `Topology`, the pytree `Model`, and ways to build one."""

from ._add import add_frames as add_frames, add_keyframe as add_keyframe, add_payload as add_payload
from ._assemble import STANDARD_GRAVITY as STANDARD_GRAVITY
from ._attach import attach as attach
from ._attachments import Actuators as Actuators, Keyframes as Keyframes
from ._builder import ModelBuilder as ModelBuilder
from ._combine import combine as combine
from ._constraints import (
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
from ._inertia_checks import inertia_problems as inertia_problems, massless_subtrees as massless_subtrees
from ._joint_groups import (
    join_bodies as join_bodies,
    join_dofs as join_dofs,
    joints_of_segments as joints_of_segments,
    map_joints as map_joints,
    motion_subspace_blocks as motion_subspace_blocks,
    neutral_configuration as neutral_configuration,
    pad_dofs as pad_dofs,
    split_bodies as split_bodies,
    split_dofs as split_dofs,
    unpad_dofs as unpad_dofs,
)
from ._lock import lock_joints as lock_joints
from ._mechanisms import chain as chain, random_tree as random_tree
from ._model import Limits as Limits, Model as Model
from ._motors import add_motors as add_motors, add_servos as add_servos, add_velocity_servos as add_velocity_servos
from ._parameters import with_body as with_body, with_joint as with_joint
from ._rename import rename as rename
from ._scale import scale as scale
from ._subtree import subtree as subtree
from ._thrusters import add_thrusters as add_thrusters
from ._topology import WORLD as WORLD, Topology as Topology
from ._views import BodyView as BodyView, JointView as JointView
