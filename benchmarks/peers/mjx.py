"""MuJoCo XLA (MJX), without contacts and constraints."""

import jax
import jax.numpy as jnp
import numpy as np

from ..contestant import Prepared, Unable, compiled
from ..problem import Problem


def mjx(problem: Problem, quantity: str) -> Prepared:
    if problem.floating_base:
        raise Unable("not measured with a floating base")
    import mujoco
    from mujoco import mjx

    in_c = mujoco.MjModel.from_xml_path(str(problem.urdf()))
    in_c.opt.gravity[:] = np.asarray(problem.model.gravity, dtype=float)
    in_c.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT | mujoco.mjtDisableBit.mjDSBL_CONTACT
    model = mjx.put_model(in_c)
    names = [mujoco.mj_id2name(in_c, mujoco.mjtObj.mjOBJ_JOINT, i) for i in range(in_c.njnt)]
    if names != list(problem.model.joint_names):
        raise Unable("it orders the joints in another way")

    def forward(q, v, tau):
        data = mjx.make_data(model).replace(qpos=q, qvel=v, qfrc_applied=tau)
        return mjx.forward(model, data).qacc

    def inverse(q, v, qdd):
        return mjx.inverse(model, mjx.make_data(model).replace(qpos=q, qvel=v, qacc=qdd)).qfrc_inverse

    def gradient(q, v, tau):
        return jnp.concatenate(jax.grad(lambda *state: jnp.sum(forward(*state)), (0, 1, 2))(q, v, tau))

    function = {"forward dynamics": forward, "inverse dynamics": inverse, "gradient": gradient}[quantity]
    return compiled(jax.vmap(function) if problem.batched else function, problem.q, problem.v, problem.x)
