"""Robot models: the static `Topology`, the pytree `Model`, and ways to build one."""

from ._assemble import STANDARD_GRAVITY as STANDARD_GRAVITY
from ._attachments import Actuators as Actuators, Keyframes as Keyframes
from ._builder import ModelBuilder as ModelBuilder
from ._combine import combine as combine
from ._constraints import (
    AbstractConstraint as AbstractConstraint,
    AbstractFrameConstraint as AbstractFrameConstraint,
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
    joint_of_body as joint_of_body,
    joints_of_segments as joints_of_segments,
    map_joints as map_joints,
    motion_subspace_blocks as motion_subspace_blocks,
    pad_dofs as pad_dofs,
    split_bodies as split_bodies,
    split_dofs as split_dofs,
    unpad_dofs as unpad_dofs,
)
from ._mechanisms import chain as chain, random_tree as random_tree
from ._model import Limits as Limits, Model as Model
from ._topology import WORLD as WORLD, Topology as Topology
