"""MuJoCo XLA (MJX), without contacts."""

import time

import jax.numpy as jnp
import numpy as np

from ..case import Prepared
from ..problem import Problem
from ..quantities import CONSTRAINED, FORWARD, GRADIENT, INVERSE, KINEMATICS, MASS, MATRICES
from .in_mujoco import Order, build, joint_names
from .on_jax import StateFunction, on_states, with_derivatives


def mjx(problem: Problem, quantity: str) -> Prepared:
    started = time.perf_counter()
    from mujoco import mjx

    if quantity == CONSTRAINED:
        problem = problem.held()
    in_c = build(problem, held=quantity == CONSTRAINED)
    order = Order(problem, joint_names(in_c))
    model, end = mjx.put_model(in_c), in_c.body(problem.ends[0]).id

    def forward(q, v, tau):
        data = mjx.make_data(model).replace(qpos=q, qvel=v, qfrc_applied=tau)
        return mjx.forward(model, data).qacc

    def inverse(q, v, qdd):
        return mjx.inverse(model, mjx.make_data(model).replace(qpos=q, qvel=v, qacc=qdd)).qfrc_inverse

    def placed(q):
        return mjx.com_pos(model, mjx.kinematics(model, mjx.make_data(model).replace(qpos=q)))

    def mass(q, v, x):
        return mjx.full_m(model, mjx.crb(model, placed(q)))

    def kinematics(q, v, x):
        data = placed(q)
        linear, angular = mjx.jac(model, data, data.xpos[end], end)
        return data.xpos, data.xquat, jnp.concatenate([angular.T, linear.T])

    functions = {FORWARD: forward, CONSTRAINED: forward, INVERSE: inverse, MASS: mass, KINEMATICS: kinematics}
    return on_states_in_order(problem, quantity, functions, order, started)


def on_states_in_order(
    problem: Problem, quantity: str, functions: dict[str, StateFunction], order: Order, started: float
) -> Prepared:
    """`on_states` of functions in the order of a MuJoCo model, and their derivatives."""
    states = order.of(problem.q, problem.v, problem.x)
    return on_states(problem, quantity, with_derivatives(functions), _back(order, quantity), started, states)


def _back(order: Order, quantity: str):
    """From the other package's order; derivatives side by side are by q, v and tau."""
    if quantity == MASS:
        return order.mass_matrix
    if quantity not in (GRADIENT, MATRICES):
        return order.jacobian
    columns = np.concatenate([order.v_back + i * len(order.v_back) for i in range(3)])
    if quantity == GRADIENT:
        return lambda found: found[..., columns]
    return lambda found: found[..., order.v_back, :][..., columns]
