"""Models of MuJoCo, for its own engine, for MJX and for Brax."""

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxcfa.joints import Free

from ..case import Unable
from ..problem import Problem


class Order:
    """Where this package's coordinates are in a MuJoCo model, whose conventions are the same.

    **Fields:** `q`, `v`: numbers of this package's coordinates, in the other's order. `q_back`, `v_back`: the inverse.
    """

    def __init__(self, problem: Problem, names: list[str]):
        model = problem.model
        if sorted(names) != sorted(model.joint_names):
            raise Unable("it has other joints")
        bodies = [model.joint_names.index(name) for name in names]
        self.q = np.concatenate([np.r_[model.q_slice(body)] for body in bodies])
        self.v = np.concatenate([np.r_[model.v_slice(body)] for body in bodies])
        self.q_back, self.v_back = np.argsort(self.q), np.argsort(self.v)

    def of(self, q, v, x) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """States (..., n) in the other's order."""
        q, v, x = (np.asarray(a) for a in (q, v, x))
        return q[..., self.q], v[..., self.v], x[..., self.v]

    def jacobian(self, found: np.ndarray) -> np.ndarray:
        return found[..., self.v_back]

    def mass_matrix(self, found: np.ndarray) -> np.ndarray:
        return found[..., self.v_back, :][..., self.v_back]


def build(problem: Problem, held: bool = False, change: Callable[[Any], None] = lambda spec: None):
    """The `MjModel` of a problem, without contacts; constrained only by the ends that are `held`.

    `change` is called with the `MjSpec` before it is compiled.
    """
    import mujoco

    with problem.urdf() as path:
        spec = mujoco.MjSpec.from_file(str(path))
    for joint in spec.joints:
        joint.limited = mujoco.mjtLimited.mjLIMITED_FALSE
    for equality in list(spec.equalities):
        spec.delete(equality)
    if problem.floating_base:
        root = problem.model.body_names[_free_body(problem)]
        spec.body(root).add_freejoint(name=problem.model.joint_names[_free_body(problem)])
    # Brax reads the properties of the first shape, whatever it is.
    spec.compiler.discardvisual = False
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.01, 0, 0], contype=0, conaffinity=0)
    for end in problem.ends if held else ():
        spec.add_equality(
            name=end, type=mujoco.mjtEq.mjEQ_CONNECT, objtype=mujoco.mjtObj.mjOBJ_BODY, name1=end, name2="world"
        )
    change(spec)
    model = spec.compile()
    model.opt.gravity[:] = np.asarray(problem.model.gravity, dtype=float)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    if held:
        data = mujoco.MjData(model)
        data.qpos[:] = problem.rows()[0][0][Order(problem, joint_names(model)).q]
        mujoco.mj_kinematics(model, data)
        for number, end in enumerate(problem.ends):
            model.eq_data[number, :3] = 0.0
            model.eq_data[number, 3:6] = data.body(end).xpos
    else:
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    model.dof_damping[:] = 0.0
    model.dof_frictionloss[:] = 0.0
    return model


def joint_names(model) -> list[str]:
    return [model.joint(i).name for i in range(model.njnt)]


def _free_body(problem: Problem) -> int:
    groups = zip(problem.model.joints, problem.model.topology.groups, strict=True)
    return next(int(group.bodies[0]) for joint, group in groups if isinstance(joint, Free))
