"""JaxSim: its algorithms in one sweep, and parallel over levels of the tree."""

import logging
import time
import warnings
from functools import partial

import jax.numpy as jnp
import numpy as np

from jaxcfa.spatial import quaternion_to_matrix

from ..case import Prepared, Unable
from ..problem import Problem
from ..quantities import FORWARD, GRADIENT, INVERSE, KINEMATICS, MASS, MATRICES
from ..sdf import to_sdf
from .on_jax import on_states, with_derivatives


def jaxsim(problem: Problem, quantity: str, parallel: bool = False) -> Prepared:
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable()
        import jaxsim.api as js

        model = js.model.JaxSimModel.build_from_model_description(
            to_sdf(problem.model), is_urdf=False, gravity=-float(problem.model.gravity[2])
        )
    floating, names = problem.floating_base, problem.model.joint_names[problem.floating_base :]
    if model.floating_base() != floating or sorted(model.joint_names()) != sorted(names):
        raise Unable("it has another base or other joints")
    there = np.array([names.index(name) for name in model.joint_names()])  # ours, in its order
    here = np.argsort(there)
    n = 6 * floating

    def data(q, v):
        if not floating:
            return js.data.JaxSimModelData.build(model, joint_positions=q[there], joint_velocities=v[there])
        # Linear and angular velocity in world axes; ours has the angular one in the body's.
        return js.data.JaxSimModelData.build(
            model,
            base_position=q[:3],
            base_quaternion=q[3:7],
            joint_positions=q[7:][there],
            base_linear_velocity=v[:3],
            base_angular_velocity=quaternion_to_matrix(q[3:7]) @ v[3:6],
            joint_velocities=v[6:][there],
        )

    def turned(q, base):
        return jnp.concatenate([base[:3], quaternion_to_matrix(q[3:7]).T @ base[3:]]) if floating else base[:0]

    def forward(q, v, tau):
        pushed = {}
        if floating:
            force = jnp.concatenate([tau[:3], quaternion_to_matrix(q[3:7]) @ tau[3:6]])
            pushed["link_forces"] = jnp.zeros((model.number_of_links(), 6), q.dtype).at[0].set(force)
        base, joints = js.model.forward_dynamics_aba(
            model, data(q, v), joint_forces=tau[n:][there], parallel=parallel, **pushed
        )
        return jnp.concatenate([turned(q, base), joints[here]])

    def inverse(q, v, qdd):
        pushed = {}
        if floating:
            pushed["base_acceleration"] = jnp.concatenate([qdd[:3], quaternion_to_matrix(q[3:7]) @ qdd[3:6]])
        base, joints = js.model.inverse_dynamics(model, data(q, v), joint_accelerations=qdd[n:][there], **pushed)
        return jnp.concatenate([turned(q, base), joints[here]])

    def mass(q, v, x):
        return js.model.free_floating_mass_matrix(model, data(q, v))[6 - n :, 6 - n :]

    def kinematics(q, v, x):
        state = data(q, v)
        end = js.link.name_to_idx(model, link_name=problem.ends[0])
        found = js.link.jacobian(model, state, link_index=end)[:, 6 - n :]
        return js.model.forward_kinematics(model, state), jnp.concatenate([found[3:], found[:3]])

    functions = {FORWARD: forward, INVERSE: inverse, MASS: mass, KINEMATICS: kinematics}
    if parallel:
        functions = {FORWARD: forward}
    return on_states(problem, quantity, with_derivatives(functions), _back(problem, quantity, here, floating), started)


jaxsim_parallel = partial(jaxsim, parallel=True)


def _back(problem: Problem, quantity: str, here: np.ndarray, floating: bool):
    """Columns and rows in our order, and the base's angular velocity in its own axes."""
    if quantity in (FORWARD, INVERSE, GRADIENT, MATRICES):
        return None
    order = np.concatenate([np.arange(6 * floating), here + 6 * floating])
    turn = np.broadcast_to(np.eye(problem.model.nv), (1, *np.eye(problem.model.nv).shape)).copy()
    if floating:
        q = np.atleast_2d(np.asarray(problem.q))
        turn = np.repeat(turn, len(q), axis=0)
        turn[:, 3:6, 3:6] = np.asarray(quaternion_to_matrix(q[:, 3:7]))

    def mass_matrix(found):
        part = turn[: len(found)]
        return np.swapaxes(part, -1, -2) @ found[..., order, :][..., order] @ part

    return mass_matrix if quantity == MASS else lambda found: found[..., order] @ turn[: len(found)]
