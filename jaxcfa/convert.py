"""Coordinates of other packages: maps of q, v, accelerations, torques, Jacobians, mass matrices, MuJoCo's controls.

```python
pin_model = pinocchio.buildModelFromUrdf(path)
coordinates = jaxcfa.convert.Pinocchio(model, pin_model)
tau_pin = pinocchio.rnea(pin_model, data, coordinates.q_to(q), coordinates.v_to(q, v), coordinates.qdd_to(q, v, qdd))
tau = coordinates.tau_from(q, tau_pin)
```

The conventions differ as follows.

|                       | jaxcfa                          | MuJoCo  | Pinocchio                                  |
|-----------------------|---------------------------------|---------|--------------------------------------------|
| quaternions           | `[w, x, y, z]`                  | same    | `[x, y, z, w]`                             |
| free joint, velocity  | linear in parent's, angular in body axes | same | linear, angular, both in body axes |
| planar joint          | `[x, y, angle]` and its rates   | none    | `[x, y, cos, sin]`; linear velocity in body axes |
| unlimited revolute    | angle                           | same    | `[cos, sin]`                               |
| rows of Jacobians     | angular first                   | linear first | linear first                          |
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .configuration import integrate
from .io._mjcf_layout import actuator_names, control_of, joint_of, joints_of, read_layout
from .joints import AbstractJoint, Anchored, Composite, Free, Planar, Revolute, Spherical
from .joints._elements import elements
from .model import Model
from .model._arguments import as_array, check_model, check_quaternions
from .model._joint_groups import joints_of_bodies
from .model._model import stacked_joint
from .model._parts import joint_parts
from .numerics import product, transpose
from .spatial import quaternion_to_matrix, unit
from .typing import Configuration, ConfigurationLike, Velocity, VelocityLike


class _Slot(NamedTuple):
    """Where a joint's coordinates are in the other package, and how many it has there."""

    q: int
    v: int
    nq: int


@dataclasses.dataclass
class _Layout:
    """Pairs of indices (here, there) that relate the coordinates of the two packages.

    **Fields:** `q`, `v`: coordinates that are copied (velocities after turning). `angles`: coordinate here, its cosine
    there (the sine follows). `quaternions`, `planes`: start of a quaternion, or an angle, in q, and of the three or
    two components of v here which there are in the axes turned by it. `unit`: starts of the quaternions in q that have
    length one there.
    """

    nq: int
    q: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    v: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    angles: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    quaternions: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    planes: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    unit: list[int] = dataclasses.field(default_factory=list)


class AbstractCoordinates:
    """Maps between the coordinates of a model and those of another package. All can be traced by JAX.

    `*_to` maps to the other package, `*_from` back. Velocities are related by `v_other = T(q) v` with an orthogonal
    matrix T, from which everything else follows.
    """

    _layout: _Layout
    _model: Model

    def q_to(self, q: ConfigurationLike) -> Float[Array, "nq_other"]:
        """Configuration in the other package's coordinates."""
        q = self._checked(q, (self._model.nq,), "q")
        if self._layout.unit:
            check_quaternions(self._model, "q", q)
            rows = np.array(self._layout.unit)[:, None] + np.arange(4)
            q = q.at[rows].set(unit(q[rows]))
        here, there = _columns(self._layout.q)
        angle, cosine = _columns(self._layout.angles)
        result = jnp.zeros(self._layout.nq, q.dtype).at[there].set(q[here])
        return result.at[cosine].set(jnp.cos(q[angle])).at[cosine + 1].set(jnp.sin(q[angle]))

    def q_from(self, q_other: ArrayLike) -> Configuration:
        """Configuration from the other package's coordinates. **Raises:** `ValueError` for zero quaternions."""
        q_other = self._checked(q_other, (self._layout.nq,), "q_other")
        here, there = _columns(self._layout.q)
        angle, cosine = _columns(self._layout.angles)
        result = jnp.zeros(self._model.nq, q_other.dtype).at[here].set(q_other[there])
        result = result.at[angle].set(jnp.arctan2(q_other[cosine + 1], q_other[cosine]))
        check_quaternions(self._model, "the result q", result)
        return result

    def velocity_map(self, q: ConfigurationLike) -> Float[Array, "nv nv"]:
        """The orthogonal matrix `T(q)` with `v_other = T v`."""
        q = self._checked(q, (self._model.nq,), "q")
        check_quaternions(self._model, "q", q)
        here, there = _columns(self._layout.v)
        turned = jnp.eye(self._model.nv, dtype=q.dtype)
        q_start, v_start = _columns(self._layout.quaternions)
        rotations = quaternion_to_matrix(q[q_start[:, None] + np.arange(4)])
        turned = _set_blocks(turned, v_start, transpose(rotations))
        angle, v_start = _columns(self._layout.planes)
        c, s = jnp.cos(q[angle]), jnp.sin(q[angle])
        turned = _set_blocks(turned, v_start, jnp.stack([jnp.stack([c, s], -1), jnp.stack([-s, c], -1)], -2))
        return jnp.zeros_like(turned).at[there].set(turned[here])

    def v_to(self, q: ConfigurationLike, v: VelocityLike) -> Velocity:
        """Velocity in the other package's coordinates."""
        return product(self.velocity_map(q), self._checked_v(v, "v"))

    def v_from(self, q: ConfigurationLike, v_other: VelocityLike) -> Velocity:
        """Velocity from the other package's coordinates; `q` is the model's."""
        return product(self.velocity_map(q).T, self._checked_v(v_other, "v_other"))

    def qdd_to(self, q: ConfigurationLike, v: VelocityLike, qdd: VelocityLike) -> Velocity:
        """Acceleration in the other package's coordinates: `T qdd + (dT/dt) v`."""
        v, qdd = self._checked_v(v, "v"), self._checked_v(qdd, "qdd")
        return product(self.velocity_map(q), qdd) + product(self._velocity_map_rate(q, v), v)

    def qdd_from(self, q: ConfigurationLike, v: VelocityLike, qdd_other: VelocityLike) -> Velocity:
        """Acceleration from the other package's coordinates; `q` and `v` are the model's."""
        v, qdd_other = self._checked_v(v, "v"), self._checked_v(qdd_other, "qdd_other")
        return product(self.velocity_map(q).T, qdd_other - product(self._velocity_map_rate(q, v), v))

    def tau_to(self, q: ConfigurationLike, tau: VelocityLike) -> Velocity:
        """Joint torques in the other package's coordinates (of equal power)."""
        return product(self.velocity_map(q), self._checked_v(tau, "tau"))

    def tau_from(self, q: ConfigurationLike, tau_other: VelocityLike) -> Velocity:
        """Joint torques from the other package's coordinates; `q` is the model's."""
        return product(self.velocity_map(q).T, self._checked_v(tau_other, "tau_other"))

    def jacobian_to(self, q: ConfigurationLike, jacobian: ArrayLike) -> Float[Array, "6 nv"]:
        """Jacobian with linear rows first, for the other package's velocities."""
        jacobian = self._checked(jacobian, (6, self._model.nv), "jacobian")
        return product(_swap_rows(jacobian), self.velocity_map(q).T)

    def jacobian_from(self, q: ConfigurationLike, jacobian_other: ArrayLike) -> Float[Array, "6 nv"]:
        """Jacobian with angular rows first, from one with linear rows first for the other package's velocities.

        With one degree of freedom also from (6,), as Pinocchio returns it.
        """
        if self._model.nv == 1 and np.shape(jacobian_other) == (6,):
            jacobian_other = as_array("jacobian_other")(jacobian_other)[:, None]
        jacobian_other = self._checked(jacobian_other, (6, self._model.nv), "jacobian_other")
        return product(_swap_rows(jacobian_other), self.velocity_map(q))

    def mass_matrix_to(self, q: ConfigurationLike, mass_matrix: ArrayLike) -> Float[Array, "nv nv"]:
        """Mass matrix for the other package's velocities."""
        t, nv = self.velocity_map(q), self._model.nv
        return product(product(t, self._checked(mass_matrix, (nv, nv), "mass_matrix")), t.T)

    def mass_matrix_from(self, q: ConfigurationLike, mass_matrix_other: ArrayLike) -> Float[Array, "nv nv"]:
        """Mass matrix from the one for the other package's velocities; `q` is the model's."""
        t, nv = self.velocity_map(q), self._model.nv
        return product(product(t.T, self._checked(mass_matrix_other, (nv, nv), "mass_matrix_other")), t)

    def _velocity_map_rate(self, q: ConfigurationLike, v: Velocity) -> Float[Array, "nv nv"]:
        q = self._checked(q, (self._model.nq,), "q")
        zero = jnp.zeros((), jnp.result_type(q))
        return jax.jvp(lambda t: self.velocity_map(integrate(self._model, q, v, t)), (zero,), (zero + 1,))[1]

    def _checked_v(self, x: ArrayLike, name: str) -> Velocity:
        return self._checked(x, (self._model.nv,), name)

    def _checked(self, x: ArrayLike, shape: tuple[int, ...], name: str) -> Array:
        array = as_array(name)(x)
        if array.shape != shape:
            batch = array.shape[-len(shape) :] == shape
            remedy = " Functions are for one state; batch them with jax.vmap." if batch else ""
            raise ValueError(f"{name} must have shape {shape}, got {array.shape}.{remedy}")
        return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(self._model.dtype)


class Pinocchio(AbstractCoordinates):
    """Coordinates of a Pinocchio model with the same joints, matched by name.

    The joints in a `Composite` have the same order there, and unlimited revolute ones among them are angles; it has the
    same name, or "Composite_" and that of the first of them, as Pinocchio reads MJCF. The frame of an `Anchored` joint
    is at its anchor. Quaternions become unit ones, as Pinocchio takes them for such.

    **Arguments:** `pin_model`: a `pinocchio.Model`, whose joints may come in another order.

    **Raises:** `ValueError` for joints that are in one model only, or have different sizes, and for quaternions of
    joints of other types than `Free` and `Spherical`, and planar joints whose normal is not z or whose first axis is
    not x: for these Pinocchio reads another mechanism from the same file.
    """

    def __init__(self, model: Model, pin_model):
        check_model(model)
        if not all(hasattr(pin_model, name) for name in ("names", "joints", "nq")):
            raise ValueError(f"pin_model must be a pinocchio.Model, got {pin_model!r:.200}.")
        joints = zip(pin_model.names, pin_model.joints, strict=True)
        slots = {name: _Slot(joint.idx_q, joint.idx_v, joint.nq) for name, joint in joints if name != "universe"}
        own = dict(zip(model.joint_names, joints_of_bodies(model), strict=True))
        for name, joint in own.items():
            if isinstance(joint, Composite) and name not in slots:
                # Plus signs are between the parts' names, and may be in the first of them.
                parts = name.split("+")
                firsts = (f"Composite_{'+'.join(parts[:k])}" for k in range(1, len(parts)))
                found = next((first for first in firsts if first in slots), None)
                if found is not None:
                    slots[name] = slots.pop(found)
        _check_names(model.joint_names, slots, "Pinocchio")
        for body, (name, joint) in enumerate(own.items()):
            _check_planes(name, joint, model.topology.place_in_groups(body)[1])
        self._model = model
        self._layout = _Layout(pin_model.nq)
        for name, joint in own.items():
            size = self._add(joint, model.q_slice(name).start, model.v_slice(name).start, slots[name])
            _check_size(name, joint, size, slots[name].nq)

    def _add(self, joint: AbstractJoint, q: int, v: int, slot: _Slot) -> int:
        """Relate the coordinates of a joint, which start at `q` and `v`, and say how many should be in its slot."""
        if isinstance(joint, Anchored):
            return self._add(joint.joint, q, v, slot)
        if isinstance(joint, Composite):
            return self._add_parts(joint, q, v, slot)
        layout, size = self._layout, joint.nq
        order: Sequence[int] = range(joint.nq)
        if isinstance(joint, Free):
            order = (0, 1, 2, 4, 5, 6, 3)
            layout.quaternions.append((q + 3, v))
            layout.unit.append(q + 3)
        elif isinstance(joint, Spherical):
            order = (1, 2, 3, 0)
            layout.unit.append(q)
        elif isinstance(joint, Planar):
            order, size = (0, 1), 4
            layout.planes.append((q + 2, v))
            layout.angles.append((q + 2, slot.q + 2))
        elif isinstance(joint, Revolute) and slot.nq == 2:
            order, size = (), 2
            layout.angles.append((q, slot.q))
        elif joint.quaternions:
            raise ValueError(
                f"The quaternions of a joint of type {type(joint).__name__} cannot be converted; only those of Free "
                "and Spherical can, on their own or inside of Anchored and Composite."
            )
        layout.q += [(q + i, slot.q + k) for k, i in enumerate(order)]
        layout.v += [(v + i, slot.v + i) for i in range(joint.nv)]
        return size

    def _add_parts(self, joint: Composite, q: int, v: int, slot: _Slot) -> int:
        start = slot.q
        for part in joint.joints:
            size = self._add(part, q, v, _Slot(slot.q, slot.v, part.nq))
            slot = _Slot(slot.q + size, slot.v + part.nv, slot.nq)
            q, v = q + part.nq, v + part.nv
        return slot.q - start


def _check_planes(name: str, joint: AbstractJoint, place: int) -> None:
    """Raises `ValueError` for planar joints in other planes than Pinocchio's; `place`: of the joint in its group."""
    for element, _, _ in elements(joint):
        if isinstance(element, Planar):
            normal, x = (np.asarray(axis)[..., place, :] for axis in (element.normal, element.axis_x))
            if not (np.allclose(normal, (0, 0, 1), atol=1e-6) and np.allclose(x, (1, 0, 0), atol=1e-6)):
                raise ValueError(
                    f"The planar joint {name!r} has the normal {normal.tolist()} and the first axis {x.tolist()}; "
                    "Pinocchio's have z and x whatever the file says, so that it is another mechanism there. Turn the "
                    "joint's frame instead of its axis."
                )


class MuJoCo(AbstractCoordinates):
    """Coordinates of a MuJoCo model with the same joints, matched by name.

    A model read from MJCF has MuJoCo's coordinates already; one read from URDF may have another order. Its controls are
    fewer where actuators are not modelled: `control_to` and `control_from` match them by name. Joints and actuators
    without a name in the file are called as `load_mjcf` calls them.

    **Arguments:** `mj_model`: a `mujoco.MjModel`, or `None` for the same coordinates, without maps of controls.

    **Raises:** `ValueError` for joints that are in one model only, or have different sizes.
    """

    def __init__(self, model: Model, mj_model=None):
        check_model(model)
        if mj_model is not None and not (hasattr(mj_model, "nq") and hasattr(mj_model, "njnt")):
            raise ValueError(f"mj_model must be a mujoco.MjModel or None, got {mj_model!r:.200}.")
        self._model = model
        self._layout = _Layout(model.nq if mj_model is None else mj_model.nq)
        parts = list(_elementary_joints(model))
        names = [name for name, *_ in parts]
        if mj_model is None:
            slots = {name: _Slot(q, v, joint.nq) for name, joint, q, v in parts}
        else:
            places = (joint_of(mj_model, number) for number in range(mj_model.njnt))
            found = [_Slot(place.q.start, place.v.start, place.q.stop - place.q.start) for place in places]
            slots = dict(zip(_names_in_mujoco(mj_model, model.joint_names), found, strict=True))
        _check_names(names, slots, "MuJoCo")
        for name, joint, q, v in parts:
            slot = slots[name]
            _check_size(name, joint, joint.nq, slot.nq)
            self._layout.q += [(q + i, slot.q + i) for i in range(joint.nq)]
            self._layout.v += [(v + i, slot.v + i) for i in range(joint.nv)]
        self._controls = None if mj_model is None else _Controls.of(model, mj_model)

    def control_to(self, control: ArrayLike, others: ArrayLike | None = None) -> Float[Array, "nu_other"]:
        """Controls of MuJoCo's actuators, `data.ctrl`, from those of the model's (nu,).

        Actuators that are not modelled have those of `others` (nu_other,), such as `data.ctrl`, by default zero.

        **Raises:** `ValueError` for wrong shapes, without `mj_model`, and for actuators that are not in it.
        """
        controls = self._checked_controls()
        control = self._checked(control, (len(controls.places),), "control")
        if others is None:
            result = jnp.zeros(controls.size, control.dtype)
        else:
            result = self._checked(others, (controls.size,), "others").astype(control.dtype)
        return result.at[controls.places].set(control)

    def control_from(self, control_other: ArrayLike) -> Float[Array, "nu"]:
        """Controls of the model's actuators from those of MuJoCo's, `data.ctrl`, whose others are left out.

        **Raises:** `ValueError` as `control_to`.
        """
        controls = self._checked_controls()
        return self._checked(control_other, (controls.size,), "control_other")[controls.places]

    def _checked_controls(self) -> "_Controls":
        if self._controls is None:
            raise ValueError(
                "Which controls MuJoCo has is not in the model, where actuators that are not modelled are left out: "
                "give the MuJoCo model, too, convert.MuJoCo(model, mj_model)."
            )
        if self._controls.missing:
            raise ValueError(
                f"The actuators {self._controls.missing} are not in the MuJoCo model, so that there are no controls of "
                f"theirs; that has {self._controls.there}. Actuators are matched by name."
            )
        return self._controls


class _Controls(NamedTuple):
    """Where the controls of a model's actuators are among MuJoCo's, of which there are `size`.

    `missing`: actuators that are not there, whose places are left out; `there`: those that are.
    """

    places: np.ndarray
    size: int
    missing: list[str]
    there: list[str]

    @classmethod
    def of(cls, model: Model, mj_model) -> "_Controls":
        there = actuator_names(mj_model)
        places = {name: control_of(mj_model, number) for number, name in enumerate(there)}
        names = model.actuators.names
        found = np.array([places[name] for name in names if name in places], np.int64)
        return cls(found, mj_model.nu, [name for name in names if name not in places], there)


def _elementary_joints(model: Model) -> Iterator[tuple[str, AbstractJoint, int, int]]:
    """Name, joint and first coordinates of all joints, composite ones taken apart."""
    joints = joints_of_bodies(model)
    for part in joint_parts(model.joints, model.topology):
        yield part.name, stacked_joint(joints[part.body], part), part.q.start, part.v.start


def _names_in_mujoco(mj_model, known: Sequence[str]) -> list[str]:
    """Names of MuJoCo's joints, called as `_elementary_joints` calls them: by their number where they are a composite
    joint whose name, which is `known`, does not tell the parts, since a plus sign is in one of theirs."""
    names = read_layout(mj_model, floating_base=False).joints
    for body in range(mj_model.nbody):
        own = [joint.number for joint in joints_of(mj_model, body)]
        whole = "+".join(names[number] for number in own)
        if len(own) > 1 and whole.count("+") >= len(own) and whole in known:
            for k, number in enumerate(own):
                names[number] = f"{whole}[{k}]"
    return names


def _check_names(names: Sequence[str], slots: dict[str, _Slot], package: str) -> None:
    missing, unknown = sorted(set(names) - set(slots)), sorted(set(slots) - set(names))
    if missing or unknown:
        raise ValueError(
            f"The joints of the two models differ: {missing} are not in the {package} model, {unknown} only there."
        )


def _check_size(name: str, joint: AbstractJoint, expected: int, given: int) -> None:
    if given != expected:
        raise ValueError(
            f"Joint {name!r}, a {type(joint).__name__}, should have {expected} configuration coordinates in the other "
            f"package, but has {given}."
        )


def _columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    here, there = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return here, there


def _set_blocks(matrix: Array, start: np.ndarray, blocks: Float[Array, "n k k"]) -> Array:
    """The matrix with diagonal blocks replaced, from the given rows on."""
    index = start[:, None] + np.arange(blocks.shape[-1])
    return matrix.at[index[:, :, None], index[:, None, :]].set(blocks)


def _swap_rows(jacobian: Float[Array, "6 nv"]) -> Float[Array, "6 nv"]:
    return jnp.concatenate([jacobian[3:], jacobian[:3]])
