"""Sliders that move a robot."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .._optional import optional_module
from ..model import Model
from ..model._parts import joint_parts
from ._poses import body_poses, initial

_MOST = 60
_STEPS = 100  # of a slider, at least; they are of a thousandth (rad, m) at most
_HALF_TURN = (3.141, 1.57, 3.141)  # of roll, pitch, yaw, in whole steps


class Control(NamedTuple):
    """A number that a slider sets.

    **Fields:** `label`; `lower`, `upper` [rad, m]; `start`: the coordinate in q, or where a quaternion starts; `angle`:
    of roll, pitch and yaw, 0 to 2, or `None` for a plain coordinate; `digits` behind the point that its steps have.
    """

    label: str
    lower: float
    upper: float
    start: int
    angle: int | None = None
    digits: int = 3


def controls(model: Model) -> Iterator[Control]:
    """One for each coordinate, with the range of the model, or half a turn or one metre both ways; quaternions are set
    by roll, pitch and yaw.
    """
    lower, upper = (np.asarray(x, dtype=float) for x in (model.limits.lower, model.limits.upper))
    q = initial(model)
    quaternions = _quaternions(model)
    for name, i, _, own, _ in joint_parts(model.joints, model.topology):
        several = own.stop - own.start > 1
        k = own.start
        while k < own.stop:
            if k in quaternions:
                for angle, title in enumerate(("roll", "pitch", "yaw")):
                    yield Control(f"{name} {title}", -_HALF_TURN[angle], _HALF_TURN[angle], k, angle)
                k += 4
                continue
            reach = _HALF_TURN[0] if _turns(model, q, i, k) else 1.0
            low, high, digits = _finite(lower[k], upper[k], reach)
            yield Control(f"{name}[{k - own.start}]" if several else name, low, high, k, digits=digits)
            k += 1


def value_of(control: Control, q: np.ndarray) -> float:
    """What the slider shows at a configuration (nq,)."""
    if control.angle is None:
        return float(q[control.start])
    quaternion = np.asarray(q[control.start : control.start + 4], dtype=float)
    return float(_rotations()(quaternion).normalize().as_rpy_radians()[control.angle])


def _shown(control: Control, q: np.ndarray) -> float:
    return round(float(np.clip(value_of(control, q), control.lower, control.upper)), control.digits)


class Sliders:
    """Sliders for the coordinates of a model, of the first sixty at most, and a button that sets those of the file.

    **Arguments:** `gui`: viser's; `moved`: called with the configuration (nq,) after a slider or the button was moved.
    """

    def __init__(self, gui: Any, model: Model, moved: Callable[[np.ndarray], None]):
        self._q, self._moved = np.array(initial(model)), moved
        self._behind: np.ndarray | None = None
        self._silent = False
        found = [control for control, _ in zip(controls(model), range(_MOST + 1), strict=False)]
        with gui.add_folder("Joints"):
            button = gui.add_button("Reset")
            button.on_click(lambda _: self._reset(model))
            self._sliders = [(control, self._add(gui, control)) for control in found[:_MOST]]
            if len(found) > _MOST:
                gui.add_markdown(f"The first {_MOST} coordinates of {model.nq}.")

    def set(self, q: np.ndarray) -> None:
        """Show a configuration (nq,), clipped to the ranges of the sliders, without moving anything."""
        self._q, self._behind = np.array(q), None
        self._silent = True
        try:
            for control, slider in self._sliders:
                slider.value = _shown(control, q)
        finally:
            self._silent = False

    def follow(self, q: np.ndarray) -> None:
        """The robot has moved to a configuration (nq,), which is shown when a slider is touched next."""
        self._behind = q

    def _add(self, gui: Any, control: Control) -> Any:
        step, start = 10.0**-control.digits, _shown(control, self._q)
        slider = gui.add_slider(control.label, control.lower, control.upper, step, start)
        slider.on_update(lambda _: self._slide(control, slider))
        return slider

    def _slide(self, control: Control, moved: Any) -> None:
        if self._silent:
            return
        if self._behind is not None:
            value = moved.value
            self.set(self._behind)
            self._silent = True
            moved.value = value
            self._silent = False
        values = {(each.start, each.angle): slider.value for each, slider in self._sliders}
        if control.angle is None:
            self._q[control.start] = values[control.start, None]
        elif all((control.start, k) in values for k in range(3)):
            rotation = _rotations().from_rpy_radians(*(values[control.start, k] for k in range(3)))
            self._q[control.start : control.start + 4] = rotation.wxyz
        self._moved(self._q)

    def _reset(self, model: Model) -> None:
        start = initial(model)
        self.set(start)
        self._moved(start)


def _quaternions(model: Model) -> set[int]:
    """Where quaternions start in q."""
    return {
        int(k)
        for joint, group in zip(model.joints, model.topology.groups, strict=True)
        for start in joint.quaternions
        for k in group.q_index[:, start]
    }


def _turns(model: Model, q: np.ndarray, body: int, k: int) -> bool:
    """Whether coordinate k is an angle: whether it turns its body."""
    moved = np.stack([q, q])
    moved[1, k] += 0.1
    rotation = np.concatenate([body_poses(model, x[None]).rotation[:, body] for x in moved])
    return bool(np.linalg.norm(rotation[1] - rotation[0]) > 1e-3)


def _finite(lower: float, upper: float, reach: float) -> tuple[float, float, int]:
    """A range that can be shown, for limits that may be infinite, absurdly large, or equal, and the digits of it."""
    low, high = max(lower, -1e3), min(upper, 1e3)
    if low <= -1e3 and high >= 1e3:
        return -reach, reach, 3
    if low <= -1e3:
        low = high - 2 * reach
    if high >= 1e3:
        high = low + 2 * reach
    if high <= low:
        low, high = low - reach, low + reach
    digits = max(3, math.ceil(math.log10(_STEPS / (high - low)) - 0.01))
    # Rounded inward, to the steps of the slider.
    scale = 10**digits
    return math.ceil(low * scale - 0.01) / scale, math.floor(high * scale + 0.01) / scale, digits


def _rotations() -> Any:
    return optional_module("viser.transforms", "viz").SO3
