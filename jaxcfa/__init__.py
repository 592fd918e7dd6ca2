"""Differentiable rigid-body dynamics in JAX, parallel along the mechanism as well as across a batch.

A robot is a `Model`: a pytree of arrays. Functions take a model and the state of one robot, `f(model, q, v, ...)`;
batch them with `jax.vmap`, compile them with `jax.jit`, differentiate them with `jax.grad`. Results have the
floating-point type of the inputs.

Conventions: spatial vectors are `[angular; linear]`, quaternions `[w, x, y, z]`; poses, velocities, wrenches and
Jacobians are in world axes; units are SI. `jaxcfa.convert` translates to and from Pinocchio and MuJoCo.
"""

from . import (
    closed_chains as closed_chains,
    convert as convert,
    environments as environments,
    io as io,
    joints as joints,
    optimal_control as optimal_control,
    simulation as simulation,
    spatial as spatial,
    structured as structured,
)
from ._defaults import default_schedule as default_schedule
from .actuation import actuator_forces as actuator_forces
from .configuration import (
    difference as difference,
    integrate as integrate,
    neutral as neutral,
    random_configuration as random_configuration,
)
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
    crba as crba,
    default_method as default_method,
    forward_dynamics as forward_dynamics,
    forward_dynamics_derivatives as forward_dynamics_derivatives,
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
    with_inertial_parameters as with_inertial_parameters,
)
from .io import load_model as load_model
from .kinematics import (
    body_accelerations as body_accelerations,
    body_velocities as body_velocities,
    forward_kinematics as forward_kinematics,
    frame_pose as frame_pose,
    generalized_forces as generalized_forces,
    jacobian as jacobian,
    jacobian_dot_v as jacobian_dot_v,
)
from .latency import enable_low_latency as enable_low_latency
from .model import (
    Model as Model,
    ModelBuilder as ModelBuilder,
    chain as chain,
    combine as combine,
    random_tree as random_tree,
)
from .motion import BodyMotions as BodyMotions, body_motions as body_motions
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

__version__ = "0.1.0"
