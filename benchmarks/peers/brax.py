"""Brax, its generalized pipeline."""

import time

import jax.numpy as jnp

from ..case import Prepared
from ..problem import Problem
from ..quantities import FORWARD, INVERSE, MASS
from .in_mujoco import Order, build, joint_names
from .mjx import on_states_in_order


def brax(problem: Problem, quantity: str) -> Prepared:
    started = time.perf_counter()
    from brax import kinematics
    from brax.generalized import dynamics, mass
    from brax.generalized.base import State
    from brax.io import mjcf

    in_c = build(problem)
    mjcf.validate_model(in_c)
    system, order = mjcf.load_model(in_c), Order(problem, joint_names(in_c))

    def placed(q, v):
        return dynamics.transform_com(system, State.init(q, v, *kinematics.forward(system, q, v)))

    def forward(q, v, tau):
        # What its pipeline does before contacts: the inverse of the mass matrix, times the forces.
        state = mass.matrix_inv(system, placed(q, v), 0)
        return jnp.matmul(state.mass_mx_inv, dynamics.forward(system, state, tau))

    def inverse(q, v, qdd):
        state = placed(q, v)
        return jnp.matmul(mass.matrix(system, state), qdd) + dynamics.inverse(system, state)

    functions = {FORWARD: forward, INVERSE: inverse, MASS: lambda q, v, x: mass.matrix(system, placed(q, v))}
    return on_states_in_order(problem, quantity, functions, order, started)
