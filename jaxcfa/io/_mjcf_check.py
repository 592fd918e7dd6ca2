"""Numbers that MuJoCo's compiler lets through and no model can have."""

from typing import Any

import numpy as np

from ._mjcf_layout import MjModel

_FINITE = {
    "body": ("pos", "quat", "ipos", "iquat", "mass", "inertia"),
    "site": ("pos", "quat"),
    "jnt": ("pos", "axis", "stiffness"),
    "dof": ("armature", "damping", "frictionloss"),
    "actuator": ("gainprm", "biasprm", "gear"),
    "eq": ("data",),
    "key": ("qpos", "qvel"),
}
_NOT_NAN = {"jnt": ("range", "actfrcrange"), "actuator": ("ctrlrange", "forcerange")}
_LARGEST = 1e100  # so that products of a few numbers stay finite
_ACCESSORS = {"jnt": "joint", "eq": "equality"}


def check_numbers(mj: MjModel) -> None:
    """`ValueError` naming the element and the quantity where one is infinite or not a number."""
    for kind, quantities in _FINITE.items():
        for quantity in quantities:
            _check(mj, kind, quantity, _is_finite)
    for kind, quantities in _NOT_NAN.items():
        for quantity in quantities:
            _check(mj, kind, quantity, lambda values: ~np.isnan(values))
    for name, values in {"option gravity": mj.opt.gravity, "ref": mj.qpos0, "springref": mj.qpos_spring}.items():
        if not np.all(_is_finite(values)):
            raise ValueError(f"{name}: numbers must be finite, got {values.tolist()}. Correct the file.")


def _is_finite(values: np.ndarray) -> np.ndarray:
    return np.abs(values) < _LARGEST


def _check(mj: MjModel, kind: str, quantity: str, is_right: Any) -> None:
    values = getattr(mj, f"{kind}_{quantity}")
    right = is_right(values).reshape(len(values), -1).all(axis=1) if len(values) else np.ones(0, bool)
    for number in np.flatnonzero(~right)[:1].tolist():
        element = f"{_ACCESSORS.get(kind, kind)} {_name_of(mj, kind, number)!r}"
        value = values[number].tolist()
        raise ValueError(f"{element}: {quantity} must be finite, got {value}. Correct the file.")


def _name_of(mj: MjModel, kind: str, number: int) -> str:
    if kind == "dof":
        kind, number = "jnt", int(mj.dof_jntid[number])
    if kind == "actuator" and number >= len(mj.actuator_trntype):  # the range of an actuator's second control
        return f"{kind}{number}"
    return getattr(mj, _ACCESSORS.get(kind, kind))(number).name or f"{kind}{number}"
