"""How the bodies of a mechanism are placed and move, as one value on which kinematics and dynamics are built."""

from ._arrays import BodyArrays as BodyArrays, body_arrays as body_arrays
from ._body_motions import (
    BodyMotions as BodyMotions,
    Link as Link,
    body_motions as body_motions,
    check_motions as check_motions,
    motions_at as motions_at,
    schedule_for as schedule_for,
)
from ._of_motions import of_motions as of_motions
from ._recurrences import (
    accelerations as accelerations,
    carried_motions as carried_motions,
    drifts as drifts,
    fictitious_acceleration as fictitious_acceleration,
    joint_motions as joint_motions,
    joint_torques as joint_torques,
    resting_world as resting_world,
    scan_velocities as scan_velocities,
    scan_wrenches as scan_wrenches,
    total_forces as total_forces,
)
