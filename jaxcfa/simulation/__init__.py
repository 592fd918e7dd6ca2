"""Simulation: steps in time on the configuration manifold, trajectories of many steps, and their derivatives."""

from ._equation_of_motion import EquationOfMotion as EquationOfMotion
from ._integrators import (
    AbstractIntegrator as AbstractIntegrator,
    ExplicitEuler as ExplicitEuler,
    ImplicitMidpoint as ImplicitMidpoint,
    RungeKutta4 as RungeKutta4,
    SemiImplicitEuler as SemiImplicitEuler,
)
from ._linearize import Linearization as Linearization, linearize as linearize
from ._rollout import Trajectory as Trajectory, rollout as rollout
from ._step import State as State, step as step
from ._stops import Stops as Stops
