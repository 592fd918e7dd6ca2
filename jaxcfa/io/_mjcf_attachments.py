"""Actuators and keyframes of a compiled MuJoCo model."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from ..model import Actuators, Keyframes
from ..model._attachments import INITIAL
from ._mjcf_dofs import adds_inertia_or_damping, enum_name, gear, is_disabled, joint_transmission, transmission
from ._mjcf_layout import (
    BALL,
    FREE,
    HINGE,
    SLIDE,
    Layout,
    MjModel,
    actuator_names,
    all_names,
    control_of,
    is_fixed_tendon,
    joint_of,
    joints_of_tendon,
    unique_name,
)
from ._report import Report


class _Actuator(NamedTuple):
    """One row of `Actuators`."""

    frame: str | None
    moment: np.ndarray
    wrench: np.ndarray
    length_gradient: np.ndarray
    gain: float
    bias: np.ndarray
    control_range: np.ndarray
    force_range: np.ndarray


def read_actuators(mj: MjModel, layout: Layout, dtype: np.dtype, report: Report) -> Actuators:
    """The actuators with an affine law that act on joints, fixed tendons or sites; the others are reported."""
    names: list[str] = []
    rows: list[_Actuator] = []
    for number, name in enumerate(actuator_names(mj)):
        obstacle = _obstacle(mj, number)
        if obstacle is not None:
            report.add(f"actuators {obstacle}", name)
            continue
        if getattr(mj, "actuator_delay", np.zeros(number + 1))[number]:
            report.add("delay of actuators", name)
        if joint_transmission(mj, number) is None and adds_inertia_or_damping(mj, number):
            report.add("armature and damping of actuators on tendons and sites", name)
        names.append(name)
        rows.append(_read_actuator(mj, layout, number))

    def column(field: str, size: int) -> np.ndarray:
        return np.array([getattr(row, field) for row in rows], dtype=dtype).reshape(len(rows), size)

    control, force = column("control_range", 2), column("force_range", 2)
    return Actuators(
        names=tuple(names),
        frames=tuple(row.frame for row in rows),
        wrench=jnp.asarray(column("wrench", 6)),
        moment=jnp.asarray(layout.extended_v(column("moment", mj.nv))),
        length_gradient=jnp.asarray(_with_zeros_for_freed(layout, column("length_gradient", mj.nq))),
        length_offset=jnp.zeros(len(rows), dtype),
        gain=jnp.asarray(column("gain", 1)[:, 0]),
        bias=jnp.asarray(column("bias", 3)),
        control_lower=jnp.asarray(control[:, 0]),
        control_upper=jnp.asarray(control[:, 1]),
        force_lower=jnp.asarray(force[:, 0]),
        force_upper=jnp.asarray(force[:, 1]),
    )


def _with_zeros_for_freed(layout: Layout, gradient: np.ndarray) -> np.ndarray:
    return gradient if layout.freed is None else np.pad(gradient, ((0, 0), (7, 0)))


def _obstacle(mj: MjModel, number: int) -> str | None:
    """Why an actuator cannot be taken over, if so."""
    gain, bias = enum_name("mjtGain", mj.actuator_gaintype[number]), enum_name("mjtBias", mj.actuator_biastype[number])
    variable_gain = gain == "AFFINE" and np.any(mj.actuator_gainprm[number, 1:3])
    group = int(mj.actuator_group[number])
    kind, target = transmission(mj, number)
    if is_disabled(mj, "ACTUATION") or (0 <= group <= 30 and mj.opt.disableactuator & (1 << group)):
        return "that are disabled"
    if kind == "SO3":
        return "that servo the orientation of ball joints"
    if kind not in ("JOINT", "JOINTINPARENT", "TENDON", "SITE"):
        return "that act on bodies or by slider-cranks"
    if kind == "TENDON" and not is_fixed_tendon(mj, target):
        return "that act on spatial tendons"
    if kind == "TENDON" and _limits_forces(mj, target) and _pulling(mj, target) > 1:
        return "that share a limit of force, that of their tendon"
    if kind == "SITE" and mj.actuator_trnid[number, 1] >= 0:
        return "that act between two sites"
    if enum_name("mjtDyn", mj.actuator_dyntype[number]) != "NONE":
        return "with activation dynamics (muscles, filters, integrators)"
    if getattr(mj, "actuator_plugin", np.full(number + 1, -1))[number] >= 0:
        return "implemented by plugins"
    if gain not in ("FIXED", "AFFINE") or bias not in ("NONE", "AFFINE") or variable_gain:
        return "whose force is not affine with a constant gain"
    joint = joint_transmission(mj, number)
    if joint is not None and joint_of(mj, joint).kind in (FREE, BALL):
        return _obstacle_of_quaternions(mj, number, joint)
    return None


def _limits_forces(mj: MjModel, tendon: int) -> bool:
    """Whether a tendon limits the sum of the forces of the actuators that pull it (before MuJoCo 3.3 none does)."""
    return hasattr(mj, "tendon_actfrclimited") and bool(mj.tendon_actfrclimited[tendon])


def _pulling(mj: MjModel, tendon: int) -> int:
    """How many actuators pull a tendon."""
    return [transmission(mj, number) for number in range(len(mj.actuator_trntype))].count(("TENDON", tendon))


def _obstacle_of_quaternions(mj: MjModel, number: int, joint: int) -> str | None:
    """Moment arms must be constant, and the length, which depends on the quaternion, must not matter."""
    kind = joint_of(mj, joint).kind
    in_parent = enum_name("mjtTrn", mj.actuator_trntype[number]) == "JOINTINPARENT"
    turning = gear(mj, number)[:3] if kind == BALL else gear(mj, number)[3:]
    if in_parent and np.any(turning):
        return "that turn ball or free joints about axes of the parent"
    if kind == BALL and _bias(mj, number)[1]:
        return "that servo the angle of ball joints"
    return None


def _bias(mj: MjModel, number: int) -> np.ndarray:
    affine = enum_name("mjtBias", mj.actuator_biastype[number]) == "AFFINE"
    return mj.actuator_biasprm[number, :3] if affine else np.zeros(3)


def _read_actuator(mj: MjModel, layout: Layout, number: int) -> _Actuator:
    kind, target = transmission(mj, number)
    moment, gradient, wrench = np.zeros(mj.nv), np.zeros(mj.nq), np.zeros(6)
    if kind == "SITE":
        wrench[:] = np.roll(gear(mj, number), 3)  # MuJoCo's begin with the force
    elif kind == "TENDON":
        for joint, coefficient in joints_of_tendon(mj, target):
            moment[joint.v] += gear(mj, number)[0] * coefficient
            gradient[joint.q] += gear(mj, number)[0] * coefficient
    else:
        joint = joint_of(mj, target)
        moment[joint.v] = gear(mj, number)[: joint.v.stop - joint.v.start]
        if joint.kind in (SLIDE, HINGE):
            gradient[joint.q] = gear(mj, number)[0]
    control = control_of(mj, number)
    clamped = mj.actuator_ctrllimited[control] and not is_disabled(mj, "CLAMPCTRL")
    unlimited = np.array([-np.inf, np.inf])
    force = mj.actuator_forcerange[number] if mj.actuator_forcelimited[number] else unlimited
    if kind == "TENDON" and _limits_forces(mj, target):
        force = np.clip(force, *mj.tendon_actfrcrange[target])
    return _Actuator(
        frame=layout.sites[target] if kind == "SITE" else None,
        moment=moment,
        wrench=wrench,
        length_gradient=gradient,
        gain=mj.actuator_gainprm[number, 0],
        bias=_bias(mj, number),
        control_range=mj.actuator_ctrlrange[control] if clamped else unlimited,
        force_range=force,
    )


def read_keyframes(mj: MjModel, layout: Layout, actuators: tuple[str, ...], dtype: np.dtype) -> Keyframes:
    """The initial configuration, under the name `INITIAL`, and the stored ones, with controls of some actuators."""
    taken = {INITIAL}
    names = [INITIAL, *(unique_name(name, taken) for name in all_names(mj.key, mj.nkey, "key", taken))]
    q = layout.extended_q(mj, np.concatenate([mj.qpos0[None], mj.key_qpos]))
    v = layout.extended_v(np.concatenate([np.zeros((1, mj.nv)), mj.key_qvel]))
    every = actuator_names(mj)
    control = np.concatenate([np.zeros((1, mj.key_ctrl.shape[1])), mj.key_ctrl])
    own = [control_of(mj, every.index(name)) for name in actuators]
    return Keyframes(tuple(names), *(jnp.asarray(x, dtype) for x in (q, v, control[:, own])))
