"""Poses, velocities, accelerations and Jacobians of bodies and frames.

Every function takes a `schedule`, `Sequential()` or one that is parallel along the mechanism such as `Doubling()`; if
it is not given, `default_schedule` chooses. And every function takes `motions`, `body_motions` of the same state, if
these are known already, whose schedule is then the default.

Functions of `frames` take one or several: names of frames or bodies, or numbers (`Model.frame_number`: -1 is the world,
then come bodies, then frames). Several, as a sequence or an array of integers, give results a leading axis. Numbers may
be traced, so that one compiled program serves all frames; what is traced is not checked for its range. `axes` are
"world", the world's axes at the frame's origin (Pinocchio's `LOCAL_WORLD_ALIGNED`), or "local", the frame's own axes
(`LOCAL`).
"""

from ._bodies import (
    body_accelerations as body_accelerations,
    body_velocities as body_velocities,
    forward_kinematics as forward_kinematics,
)
from ._of_frames import (
    frame_acceleration as frame_acceleration,
    frame_pose as frame_pose,
    frame_velocity as frame_velocity,
    jacobian as jacobian,
    jacobian_dot_v as jacobian_dot_v,
)
from ._relative import (
    relative_jacobian as relative_jacobian,
    relative_pose as relative_pose,
    relative_velocity as relative_velocity,
)
from ._wrenches import generalized_forces as generalized_forces, wrench_at as wrench_at
