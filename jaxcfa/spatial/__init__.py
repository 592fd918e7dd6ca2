"""Six-dimensional algebra: rotations, transforms, spatial vectors and inertias. Knows nothing of robots.

Functions of arrays take lists and integers, too, as `jax.numpy` does not.
"""

from ._algebra import Matrix as Matrix, Symmetric as Symmetric, Vector as Vector, ZeroVector as ZeroVector
from ._inertia import Inertia as Inertia, inverse_inertia as inverse_inertia, steiner as steiner
from ._quantities import (
    AbstractSpatialVector as AbstractSpatialVector,
    ArticulatedInertia as ArticulatedInertia,
    Force as Force,
    Motion as Motion,
    Pose as Pose,
    RigidInertia as RigidInertia,
    TurnedForces as TurnedForces,
)
from ._rotation import (
    axis_angle_to_matrix as axis_angle_to_matrix,
    matrix_to_axis_angle as matrix_to_axis_angle,
    matrix_to_quaternion as matrix_to_quaternion,
    matrix_to_rpy as matrix_to_rpy,
    quaternion_conjugate as quaternion_conjugate,
    quaternion_exp as quaternion_exp,
    quaternion_log as quaternion_log,
    quaternion_multiply as quaternion_multiply,
    quaternion_to_matrix as quaternion_to_matrix,
    quaternion_velocity as quaternion_velocity,
    random_quaternion as random_quaternion,
    rotation_exp as rotation_exp,
    rotation_log as rotation_log,
    rpy_to_matrix as rpy_to_matrix,
    unit as unit,
)
from ._transform import Transform as Transform
from ._vectors import (
    force_cross as force_cross,
    motion_cross as motion_cross,
    motion_transform as motion_transform,
    pack as pack,
    rotate as rotate,
    rotate_columns as rotate_columns,
    shift_force as shift_force,
    shift_force_columns as shift_force_columns,
    shift_motion as shift_motion,
)
