"""Motors and servos on the joints of robots whose files have no actuators."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..typing import NameOrNumber
from ._attachments import Actuators
from ._given import Numbers, as_list, is_concrete, not_negative_each
from ._joint_groups import free_dofs
from ._model import Model, joint_part, require_single
from ._parts import JointPart, joint_parts
from ._ranges import rated_coordinates
from ._with_actuators import check_new_names, with_actuators


def add_servos(
    model: Model,
    stiffness: Numbers,
    damping: Numbers = 0.0,
    *,
    joints: NameOrNumber | Sequence[NameOrNumber] | None = None,
) -> Model:
    """The model with position servos: actuators whose controls are where joints shall be.

    Each drives one coordinate with the torque `stiffness (control - q)`, of at most the joint's limit of effort. The
    damping is added to that of the joint, beyond that limit, and acts where passive forces do; steps of
    `SemiImplicitEuler` take it at their end, so that it is stable at every time step. Controls are clipped to the
    limits that the joint has now; `with_joint` does not change those of its servo.

        model = jaxcfa.add_servos(jaxcfa.load_model("go2.urdf", floating_base=True), stiffness=40.0, damping=1.0)
        state = jaxcfa.step(model, q, v, targets, dt=0.005, actuated="actuators", contacts=feet)

    **Arguments:** `stiffness` [N m/rad, N/m] and `damping` [N m s/rad, N s/m], one number for all servos, or one for
    each; `joints`: names or numbers, by default all joints of one or more coordinates that are rates of angles and
    lengths, so not free and spherical ones. Servos are named after their joints, also those in a composite joint, and
    come after the model's actuators.

    **Raises:** `ValueError` for a batch of models, unknown joints, joints whose velocities are not the rates of
    coordinates, such as spherical ones, names that actuators or two servos have, wrong shapes, and numbers that are
    negative or not finite.
    """
    require_single(model, "add_servos")
    in_v, names = driven_by_servos(model, joints)
    in_q = rated_coordinates(model)[in_v]
    given = ("stiffness", stiffness), ("damping", damping)
    gain, resistance = (not_negative_each(*x, len(in_v), "servos", model.dtype) for x in given)
    zero = jnp.zeros_like(gain)
    law = _Law(gain, jnp.stack([zero, -gain, zero], axis=1), model.limits.lower[in_q], model.limits.upper[in_q])
    return dataclasses.replace(
        _driven(model, "servo", in_v, names, law, model.keyframes.q[:, in_q]),
        damping=jnp.asarray(model.damping).at[in_v].add(resistance),
    )


def add_velocity_servos(
    model: Model, gain: Numbers, *, joints: NameOrNumber | Sequence[NameOrNumber] | None = None
) -> Model:
    """The model with velocity servos: actuators whose controls are how fast joints shall move, such as wheels.

    Each drives one coordinate of the velocity with the torque `gain (control - v)`, of at most the joint's limit of
    effort. Steps of `SemiImplicitEuler` take it at their end, so that it is stable at every time step. Controls are
    clipped to the limits of velocity that the joint has now.

        rover = jaxcfa.add_velocity_servos(rover, gain=5.0, joints=["left_wheel", "right_wheel"])
        rover = jaxcfa.add_servos(rover, stiffness=40.0, damping=2.0, joints=["mast"])

    **Arguments:** `gain` [N m s/rad, N s/m], one number for all servos, or one for each; `joints`: names or numbers, by
    default all joints but free ones. Of a spherical joint there are three, for the velocities about its axes. Names and
    order are as those of `add_servos`.

    **Raises:** `ValueError` as `add_servos`, and for free joints.
    """
    require_single(model, "add_velocity_servos")
    in_v, names = _driven_by_motors(model, joints)
    each = not_negative_each("gain", gain, len(in_v), "servos", model.dtype)
    zero, fastest = jnp.zeros_like(each), model.limits.velocity[in_v]
    law = _Law(each, jnp.stack([zero, zero, -each], axis=1), -fastest, fastest)
    return _driven(model, "servo", in_v, names, law)


def add_motors(
    model: Model, gear: Numbers = 1.0, *, joints: NameOrNumber | Sequence[NameOrNumber] | None = None
) -> Model:
    """The model with motors: actuators whose controls are torques.

    Each drives one coordinate of the velocity with the torque `gear control`. Controls are clipped to what makes the
    limits of effort that the joint has now.

        robot = jaxcfa.add_motors(jaxcfa.load_model("panda.urdf"), gear=87.0)  # controls from -1 to 1

    **Arguments:** `gear`, torque for a control of one [N m, N], one number for all motors, or one for each; `joints`:
    names or numbers, by default all joints but free ones. Of a spherical joint there are three, about its axes. Names
    and order are as those of `add_servos`.

    **Raises:** `ValueError` as `add_servos`, and for free joints and gears that are not positive.
    """
    require_single(model, "add_motors")
    in_v, names = _driven_by_motors(model, joints)
    each = not_negative_each("gear", gear, len(in_v), "motors", model.dtype)
    if is_concrete(each) and not np.all(np.asarray(each) > 0):
        raise ValueError(f"gear must be positive, got {gear}.")
    most = model.limits.effort[in_v] / each
    law = _Law(each, jnp.zeros((len(in_v), 3), model.dtype), -most, most)
    return _driven(model, "motor", in_v, names, law)


class _Law(NamedTuple):
    """How the forces of n actuators follow from controls, as in `Actuators`, and the ends of the controls."""

    gain: Float[Array, "n"]
    bias: Float[Array, "n 3"]
    lower: Float[Array, "n"]
    upper: Float[Array, "n"]


def _driven(
    model: Model,
    kind: str,
    in_v: np.ndarray,
    names: tuple[str, ...],
    law: _Law,
    told: Float[Array, "nk n"] | None = None,
) -> Model:
    """The model with an actuator for each of these coordinates of the velocity, `told` something in keyframes."""
    check_new_names(model, names, f"{kind}s", f"rename a joint, or name those that need a {kind}")
    in_q, count = rated_coordinates(model)[in_v], len(in_v)
    # Laws of what has no length have none of it either.
    length = np.where(in_q[:, None] >= 0, np.eye(model.nq)[in_q], 0)
    zero, unlimited = jnp.zeros_like(law.gain), jnp.full_like(law.gain, jnp.inf)
    actuators = Actuators(
        names=names,
        frames=(None,) * count,
        wrench=jnp.zeros((count, 6), model.dtype),
        moment=jnp.asarray(np.eye(model.nv)[in_v], model.dtype),
        length_gradient=jnp.asarray(length, model.dtype),
        length_offset=zero,
        gain=law.gain,
        bias=law.bias,
        control_lower=law.lower,
        control_upper=law.upper,
        force_lower=-unlimited,
        force_upper=unlimited,
    )
    return with_actuators(model, actuators, told)


def driven_by_servos(
    model: Model, joints: NameOrNumber | Sequence[NameOrNumber] | None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Coordinates of the velocity (n,), and names of their servos, for the arguments of `add_servos`."""
    able = (rated_coordinates(model) >= 0) & ~free_dofs(model)
    return _of_joints(model, joints, able, "Servos drive joints by their angles and lengths, which {!r} has not.")


def _driven_by_motors(
    model: Model, joints: NameOrNumber | Sequence[NameOrNumber] | None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The same of `add_motors` and `add_velocity_servos`."""
    return _of_joints(model, joints, ~free_dofs(model), "Nothing drives the free joint {!r}.")


def _of_joints(
    model: Model, joints: NameOrNumber | Sequence[NameOrNumber] | None, able: np.ndarray, refusal: str
) -> tuple[np.ndarray, tuple[str, ...]]:
    chosen: list[int] = []
    names: list[str] = []
    for part in _parts(model, joints):
        own = np.arange(part.v.start, part.v.stop)
        if joints is None:
            own = own[able[own]]
        elif not able[own].all():
            raise ValueError(refusal.format(part.name))
        names += [part.name] if len(own) == 1 else [f"{part.name}_{i}" for i in range(len(own))]
        chosen += own.tolist()
    if not chosen or len(set(chosen)) < len(chosen):
        given = "none" if joints is None else joints
        raise ValueError(f"joints must name one that can be driven or more, each once, got {given}.")
    return np.array(chosen), tuple(names)


def _parts(model: Model, joints: NameOrNumber | Sequence[NameOrNumber] | None) -> Iterator[JointPart]:
    """The joints that are meant, in order, and those in composite ones."""
    every = joint_parts(model.joints, model.topology)
    if joints is None:
        yield from every
        return
    for joint in as_list(joints):
        given = joint_part(model, joint)
        yield from (part for part in every if part.body == given.body) if given.place is None else [given]
