"""What a compiled MuJoCo model holds and is not modelled."""

import math
from collections.abc import Iterable, Iterator

import numpy as np

from ._mjcf_layout import Layout, MjModel, actuator_names, all_names, is_fixed_tendon
from ._report import Report


def note_unsupported(mj: MjModel, layout: Layout, report: Report) -> None:
    """Report features other than those that every file has (geoms, contacts, options of the solver, visuals)."""
    for feature, elements in _features(mj, layout):
        names = list(elements)
        if names:
            report.add(feature, names)
    if mj.opt.density or mj.opt.viscosity:
        report.add("forces of the surrounding fluid (density, viscosity, wind)")


def _features(mj: MjModel, layout: Layout) -> Iterator[tuple[str, Iterable[str]]]:
    mocap = np.flatnonzero(mj.body_mocapid >= 0)
    # Attributes of newer versions of MuJoCo are looked up with a default.
    joints = {
        "springs that are not linear": "jnt_stiffnesspoly",
        "springs that yield": "jnt_springyield",
    }
    damping = getattr(mj, "dof_dampingpoly", np.zeros(mj.nv))
    actuators = actuator_names(mj)
    of_actuators = getattr(mj, "actuator_dampingpoly", np.zeros(len(actuators)))
    yield "gravity compensation", (layout.bodies[i] for i in np.flatnonzero(mj.body_gravcomp))
    yield "mocap bodies, which are fixed to the world instead", (layout.bodies[i] for i in mocap)
    for feature, attribute in joints.items():
        yield feature, (layout.joints[i] for i in _nonzero(getattr(mj, attribute, np.zeros(mj.njnt))))
    yield "damping that is not linear", dict.fromkeys(layout.joints[mj.dof_jntid[i]] for i in _nonzero(damping))
    yield "damping that is not linear", (actuators[i] for i in _nonzero(of_actuators))
    tendons = all_names(mj.tendon, mj.ntendon, "tendon", set())
    yield "spatial tendons", (name for i, name in enumerate(tendons) if not is_fixed_tendon(mj, i))
    yield (
        "forces, armature and limits of tendons",
        (tendons[i] for i in _nonzero(_own_forces(mj)) if is_fixed_tendon(mj, i)),
    )
    yield "flexes", (f"flex{i}" for i in range(mj.nflex))
    yield "sensors", all_names(mj.sensor, mj.nsensor, "sensor", set())
    yield "plugins", (f"plugin{i}" for i in range(mj.nplugin))
    keys = all_names(mj.key, mj.nkey, "key", {"qpos0"})
    yield "activations and mocap poses of keyframes", (keys[i] for i in _nonzero(_inputs_of_keyframes(mj)))


def _inputs_of_keyframes(mj: MjModel) -> np.ndarray:
    """(nkey, k): what keyframes have beside configurations and velocities, without what they have by default."""
    mocap = np.argsort(mj.body_mocapid)[-mj.nmocap :] if mj.nmocap else np.zeros(0, int)
    moved = mj.key_mpos - mj.body_pos[mocap].reshape(-1), mj.key_mquat - mj.body_quat[mocap].reshape(-1)
    return np.concatenate([mj.key_act, *moved], axis=1)


def _own_forces(mj: MjModel) -> np.ndarray:
    """(ntendon, k): what tendons have by themselves, beside those that actuators pull."""
    names = "stiffness", "stiffnesspoly", "damping", "dampingpoly", "armature", "frictionloss", "limited"
    parts = (getattr(mj, f"tendon_{name}", None) for name in names)
    none = np.zeros((mj.ntendon, 1))
    return np.concatenate([none, *(x.reshape(len(x), math.prod(x.shape[1:])) for x in parts if x is not None)], axis=1)


def _nonzero(values: np.ndarray) -> np.ndarray:
    return np.flatnonzero(np.any(values.reshape(len(values), -1), axis=1)) if len(values) else np.zeros(0, int)
