"""Differentiable rigid-body dynamics in JAX, parallel along the mechanism as well as across a batch.

A robot is a `Model`: a pytree of arrays. Functions take a model and the state of one robot, `f(model, q, v, ...)`;
batch them with `jax.vmap`, compile them with `jax.jit`, differentiate them with `jax.grad`. Results have the
floating-point type to which JAX promotes those of the model and the arguments.

Conventions: spatial vectors are `[angular; linear]`, quaternions `[w, x, y, z]`; poses, velocities, wrenches and
Jacobians are in world axes where a function does not say otherwise (what is relative to a frame is in that frame's
axes, inertias and angular velocities in `v` are in those of the body); units are SI. `jaxcfa.convert` translates to and
from Pinocchio and MuJoCo. `jaxcfa.viz` is imported where it is first used.
"""

from typing import TYPE_CHECKING, Any

from . import (
    closed_chains as closed_chains,
    contacts as contacts,
    convert as convert,
    environments as environments,
    inverse_kinematics as inverse_kinematics,
    io as io,
    joints as joints,
    optimal_control as optimal_control,
    parallel as parallel,
    simulation as simulation,
    spatial as spatial,
    structured as structured,
)
from .actuation import actuator_forces as actuator_forces
from .backend import compiling_for as compiling_for
from .compilation import quick_compilation as quick_compilation
from .configuration import (
    difference as difference,
    integrate as integrate,
    neutral as neutral,
    random_configuration as random_configuration,
)
from .contacts import (
    body_contacts as body_contacts,
    contact_forces as contact_forces,
    contact_state as contact_state,
    ground_contacts as ground_contacts,
)
from .defaults import default_schedule as default_schedule
from .dynamics import (
    ABA as ABA,
    CFA as CFA,
    JSI as JSI,
    AbstractForwardDynamics as AbstractForwardDynamics,
    FactoredFD as FactoredFD,
    Loads as Loads,
    LogCholesky as LogCholesky,
    MassOperator as MassOperator,
    OperationalSpace as OperationalSpace,
    aba as aba,
    bias_forces as bias_forces,
    center_of_mass as center_of_mass,
    center_of_mass_jacobian as center_of_mass_jacobian,
    center_of_mass_velocity as center_of_mass_velocity,
    centroidal_momentum_bias as centroidal_momentum_bias,
    centroidal_momentum_matrix as centroidal_momentum_matrix,
    coriolis_matrix as coriolis_matrix,
    crba as crba,
    default_method as default_method,
    elastic_energy as elastic_energy,
    forward_dynamics as forward_dynamics,
    forward_dynamics_derivatives as forward_dynamics_derivatives,
    gravity_forces as gravity_forces,
    inertial_parameters as inertial_parameters,
    inverse_dynamics as inverse_dynamics,
    inverse_dynamics_derivatives as inverse_dynamics_derivatives,
    joint_reactions as joint_reactions,
    kinetic_energy as kinetic_energy,
    mass_matrix as mass_matrix,
    mass_operator as mass_operator,
    momentum as momentum,
    operational_space_inertia as operational_space_inertia,
    passive_forces as passive_forces,
    potential_energy as potential_energy,
    regressor as regressor,
    rnea as rnea,
    subtree_centers_of_mass as subtree_centers_of_mass,
    subtree_masses as subtree_masses,
    with_inertial_parameters as with_inertial_parameters,
)
from .io import (
    load_model as load_model,
    load_trajectory as load_trajectory,
    save_model as save_model,
    save_trajectory as save_trajectory,
)
from .kinematics import (
    body_accelerations as body_accelerations,
    body_velocities as body_velocities,
    forward_kinematics as forward_kinematics,
    frame_acceleration as frame_acceleration,
    frame_pose as frame_pose,
    frame_velocity as frame_velocity,
    generalized_forces as generalized_forces,
    jacobian as jacobian,
    jacobian_dot_v as jacobian_dot_v,
    relative_jacobian as relative_jacobian,
    relative_pose as relative_pose,
    relative_velocity as relative_velocity,
    wrench_at as wrench_at,
)
from .latency import enable_low_latency as enable_low_latency, low_latency as low_latency
from .memory import keep_memory as keep_memory
from .model import (
    Model as Model,
    ModelBuilder as ModelBuilder,
    add_frames as add_frames,
    add_keyframe as add_keyframe,
    add_motors as add_motors,
    add_payload as add_payload,
    add_servos as add_servos,
    add_thrusters as add_thrusters,
    add_velocity_servos as add_velocity_servos,
    attach as attach,
    chain as chain,
    combine as combine,
    lock_joints as lock_joints,
    random_tree as random_tree,
    rename as rename,
    scale as scale,
    subtree as subtree,
    with_body as with_body,
    with_joint as with_joint,
)
from .motion import BodyMotions as BodyMotions, body_motions as body_motions
from .one_function import one_kernel as one_kernel
from .parallel import batched as batched, device_mesh as device_mesh, spread as spread
from .simulation import (
    ExplicitEuler as ExplicitEuler,
    ImplicitMidpoint as ImplicitMidpoint,
    RungeKutta4 as RungeKutta4,
    SemiImplicitEuler as SemiImplicitEuler,
    linearize as linearize,
    rollout as rollout,
    step as step,
)
from .spatial import Transform as Transform

if TYPE_CHECKING:
    from . import viz as viz

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Imports `jaxcfa.viz` only where it is used."""
    if name != "viz":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return importlib.import_module(".viz", __name__)


def __dir__() -> list[str]:
    """Includes what is imported late."""
    return sorted({*globals(), "viz"})
