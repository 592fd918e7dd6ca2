"""Dynamics of trees: inverse and forward dynamics, mass matrix, energy and momentum."""

from ._articulated_body import ABA as ABA
from ._constraint_force import CFA as CFA
from ._coriolis import coriolis_matrix as coriolis_matrix
from ._factored import FactoredFD as FactoredFD
from ._forward import (
    aba as aba,
    default_method as default_method,
    forward_dynamics as forward_dynamics,
    joint_reactions as joint_reactions,
)
from ._forward_derivatives import (
    ForwardDerivatives as ForwardDerivatives,
    forward_dynamics_derivatives as forward_dynamics_derivatives,
)
from ._inertial_parameters import (
    inertial_parameters as inertial_parameters,
    with_inertial_parameters as with_inertial_parameters,
)
from ._inverse import (
    bias_forces as bias_forces,
    gravity_forces as gravity_forces,
    inverse_dynamics as inverse_dynamics,
    rnea as rnea,
)
from ._inverse_derivatives import (
    InverseDerivatives as InverseDerivatives,
    inverse_dynamics_derivatives as inverse_dynamics_derivatives,
)
from ._joint_space_inertia import JSI as JSI
from ._log_cholesky import LogCholesky as LogCholesky
from ._mass_matrix import crba as crba, mass_matrix as mass_matrix
from ._mass_operator import MassOperator as MassOperator, mass_operator as mass_operator
from ._method import (
    AbstractForwardDynamics as AbstractForwardDynamics,
    AbstractMassSolver as AbstractMassSolver,
    Loads as Loads,
)
from ._operational_space import (
    OperationalSpace as OperationalSpace,
    operational_space_inertia as operational_space_inertia,
)
from ._passive import elastic_energy as elastic_energy, passive_forces as passive_forces
from ._regressor import regressor as regressor
from ._totals import (
    center_of_mass as center_of_mass,
    center_of_mass_jacobian as center_of_mass_jacobian,
    center_of_mass_velocity as center_of_mass_velocity,
    centroidal_momentum_bias as centroidal_momentum_bias,
    centroidal_momentum_matrix as centroidal_momentum_matrix,
    kinetic_energy as kinetic_energy,
    momentum as momentum,
    potential_energy as potential_energy,
    subtree_centers_of_mass as subtree_centers_of_mass,
    subtree_masses as subtree_masses,
)
