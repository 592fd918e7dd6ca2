"""MuJoCo's own engine in C, called from Python for one state after the other, without contacts and constraints."""

import time

import numpy as np

import jaxcfa

from ..contestant import Prepared, Unable
from ..problem import Problem
from .one_by_one import mapped, one_by_one


def mujoco(problem: Problem, quantity: str) -> Prepared:
    if problem.floating_base or quantity == "gradient":
        raise Unable("not measured with a floating base, and it has no gradients")
    import mujoco

    started = time.perf_counter()
    model = mujoco.MjModel.from_xml_path(str(problem.urdf()))
    model.opt.gravity[:] = np.asarray(problem.model.gravity, dtype=float)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT | mujoco.mjtDisableBit.mjDSBL_CONTACT
    data = mujoco.MjData(model)
    seconds = time.perf_counter() - started
    coordinates = jaxcfa.convert.MuJoCo(problem.model, model)
    q, v, x = problem.rows()
    rows = mapped(coordinates.q_to, q), mapped(coordinates.v_to, q, v), mapped(coordinates.tau_to, q, x)

    def forward(q, v, tau):
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, v, tau
        mujoco.mj_forward(model, data)
        return data.qacc.copy()

    def inverse(q, v, qdd):
        data.qpos[:], data.qvel[:], data.qacc[:] = q, v, qdd
        mujoco.mj_inverse(model, data)
        return data.qfrc_inverse.copy()

    def value(results: list) -> np.ndarray:
        back = mapped(coordinates.tau_from, q, np.array(results))
        return back if problem.batched else back[0]

    return one_by_one(seconds, forward if quantity == "forward dynamics" else inverse, rows, value)
