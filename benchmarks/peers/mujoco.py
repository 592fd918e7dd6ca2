"""MuJoCo's own engine in C, called from Python for one state after the other, or by its own pool of threads."""

import os
import time

import numpy as np

from ..case import COMPARED, Prepared, Unable
from ..problem import Problem
from ..quantities import CONSTRAINED, FORWARD, INVERSE, KINEMATICS, MASS
from .in_mujoco import Order, build, joint_names
from .one_by_one import one_by_one


def mujoco(problem: Problem, quantity: str) -> Prepared:
    started = time.perf_counter()
    import mujoco

    if quantity == CONSTRAINED:
        problem = problem.held()
    model = build(problem, held=quantity == CONSTRAINED)
    data, order = mujoco.MjData(model), Order(problem, joint_names(model))
    end = model.body(problem.ends[0]).id

    def forward(q, v, tau):
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, v, tau
        mujoco.mj_forward(model, data)
        return data.qacc.copy()

    def inverse(q, v, qdd):
        data.qpos[:], data.qvel[:], data.qacc[:] = q, v, qdd
        mujoco.mj_inverse(model, data)
        return data.qfrc_inverse.copy()

    def mass(q, v, x):
        data.qpos[:] = q
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_crb(model, data)
        found = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, found)
        return found

    def kinematics(q, v, x):
        data.qpos[:] = q
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        found = np.zeros((6, model.nv))
        mujoco.mj_jacBody(model, data, found[3:], found[:3], end)
        return found

    calls = {FORWARD: forward, CONSTRAINED: forward, INVERSE: inverse, MASS: mass, KINEMATICS: kinematics}
    turned = order.mass_matrix if quantity == MASS else order.jacobian

    def value(results: list) -> np.ndarray:
        found = turned(np.array(results))
        return found if problem.batched else found[0]

    return one_by_one(started, calls[quantity], order.of(*problem.rows()), value)


def rollout(problem: Problem, quantity: str) -> Prepared:
    """One step of all states by one call, on all cores: kinematics, forward dynamics and an Euler step."""
    if not problem.batched:
        raise Unable("one state")
    started = time.perf_counter()
    import mujoco
    from mujoco.rollout import Rollout

    model, cores = build(problem), os.cpu_count() or 1
    # Other forces would be taken implicitly.
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_EULERDAMP
    data, order = [mujoco.MjData(model) for _ in range(cores)], Order(problem, joint_names(model))
    q, v, x = order.of(*problem.rows())
    kind = mujoco.mjtState
    start = np.zeros((len(q), mujoco.mj_stateSize(model, kind.mjSTATE_FULLPHYSICS)))
    start[:, 1 : 1 + model.nq], start[:, 1 + model.nq : 1 + model.nq + model.nv] = q, v
    pool = Rollout(nthread=cores)
    seconds = {"model": time.perf_counter() - started}

    def run() -> np.ndarray:
        return pool.rollout(model, data, start, x[:, None], control_spec=kind.mjSTATE_QFRC_APPLIED.value)[0]

    def value(found: np.ndarray) -> np.ndarray:
        after = found[:COMPARED, 0, 1 + model.nq : 1 + model.nq + model.nv]
        return ((after - v[:COMPARED]) / model.opt.timestep)[:, order.v_back]

    return Prepared(run, seconds, value)
