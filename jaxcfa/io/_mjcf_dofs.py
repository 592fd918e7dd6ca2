"""Parameters of the degrees of freedom of a compiled MuJoCo model."""

from typing import NamedTuple

import numpy as np

from ._mjcf_compile import import_mujoco
from ._mjcf_layout import Layout, MjModel, joint_of
from ._report import Report


class DofParameters(NamedTuple):
    """Parameters (nv,), in MuJoCo's order, called as the arguments of `ModelBuilder.add_body`."""

    armature: np.ndarray
    damping: np.ndarray
    friction_loss: np.ndarray
    stiffness: np.ndarray
    effort_limit: np.ndarray
    stop_frequency: np.ndarray


def read_dofs(mj: MjModel, layout: Layout, report: Report) -> DofParameters:
    """The parameters, zero where the file switches their effect off, and with what actuators add."""
    armature, damping = _added_by_actuators(mj)
    friction = not is_disabled(mj, "FRICTIONLOSS", "CONSTRAINT")
    return DofParameters(
        armature=mj.dof_armature + armature,
        damping=(mj.dof_damping + damping) * (not is_disabled(mj, "DAMPER", "PASSIVE")),
        friction_loss=mj.dof_frictionloss * friction,
        stiffness=mj.jnt_stiffness[mj.dof_jntid] * (not is_disabled(mj, "SPRING", "PASSIVE")),
        effort_limit=_effort_limits(mj, layout, report),
        stop_frequency=_stop_frequencies(mj)[mj.dof_jntid],
    )


def is_disabled(mj: MjModel, *features: str) -> bool:
    """Whether the file switches off any of the features, called as in `mujoco.mjtDisableBit`."""
    bits = import_mujoco().mjtDisableBit.__members__  # they differ between versions
    known = [int(bits[f"mjDSBL_{feature}"]) for feature in features if f"mjDSBL_{feature}" in bits]
    return any(mj.opt.disableflags & bit for bit in known)


def enum_name(enum: str, value: int | np.integer) -> str:
    """Name of a value of one of MuJoCo's enumerations, without its prefix."""
    return getattr(import_mujoco(), enum)(int(value)).name.split("_", 1)[1]


def transmission(mj: MjModel, actuator: int) -> tuple[str, int]:
    """On what an actuator acts, "JOINT", "TENDON" and so on, and the number of that."""
    return enum_name("mjtTrn", mj.actuator_trntype[actuator]), int(mj.actuator_trnid[actuator, 0])


def joint_transmission(mj: MjModel, actuator: int) -> int | None:
    """The joint on which an actuator acts, or `None`."""
    kind, target = transmission(mj, actuator)
    return target if kind in ("JOINT", "JOINTINPARENT") else None


def adds_inertia_or_damping(mj: MjModel, actuator: int) -> bool:
    """Whether an actuator has armature or damping of its own (before MuJoCo 4 there is none)."""
    return any(
        np.any(getattr(mj, f"actuator_{x}")[actuator]) for x in ("armature", "damping") if hasattr(mj, f"actuator_{x}")
    )


def gear(mj: MjModel, actuator: int) -> np.ndarray:
    """The gear (6,) of an actuator's first force."""
    first = getattr(mj, "actuator_outadr", None)  # one force for each actuator before MuJoCo 4
    return mj.actuator_gear[actuator if first is None else first[actuator]]


def _added_by_actuators(mj: MjModel) -> tuple[np.ndarray, np.ndarray]:
    """Armature and damping (nv,) of actuators, seen by the joints."""
    armature, damping = np.zeros(mj.nv), np.zeros(mj.nv)
    none = np.zeros(len(mj.actuator_trntype))  # before MuJoCo 4
    for actuator in range(len(mj.actuator_trntype)):
        number = joint_transmission(mj, actuator)
        if number is None:
            continue
        joint = joint_of(mj, number)
        scale = gear(mj, actuator)[0] ** 2  # for joints of all types
        armature[joint.v] += scale * getattr(mj, "actuator_armature", none)[actuator]
        damping[joint.v] += scale * getattr(mj, "actuator_damping", none)[actuator]
    return armature, damping


def _stop_frequencies(mj: MjModel) -> np.ndarray:
    """(number of joints,): w of stops `f = m w^2 x` that hold a load as MuJoCo's do [rad/s].

    At rest those push with `f = m k d^2 x / (1 - d)`: d is the impedance, taken as its last value, and k the stiffness
    of the reference acceleration, `solreflimit`'s own if that is negative, else that of an oscillator with its time
    constant and damping ratio, both over d^2.
    """
    mixed = np.sum(mj.jnt_solref > 0, axis=1) == 1  # for which MuJoCo takes its defaults
    reference = np.where(mixed[:, None], (0.02, 1.0), mj.jnt_solref)
    time, ratio = reference.T
    impedance = np.clip(mj.jnt_solimp[:, 1], 1e-4, 1 - 1e-4)
    if not is_disabled(mj, "REFSAFE"):
        time = np.maximum(time, 2 * mj.opt.timestep)
    stiffness = np.where(reference[:, 0] > 0, 1 / np.maximum((time * ratio) ** 2, 1e-15), -reference[:, 0])
    return np.sqrt(stiffness / (1 - impedance))


def _effort_limits(mj: MjModel, layout: Layout, report: Report) -> np.ndarray:
    limits = np.full(mj.nv, np.inf)
    for number in np.flatnonzero(mj.jnt_actfrclimited).tolist():
        low, high = mj.jnt_actfrcrange[number]
        if low != -high:
            report.add("actuatorfrcrange that is not symmetric; the larger bound is used", layout.joints[number])
        limits[joint_of(mj, number).v] = max(abs(low), abs(high))
    return limits
