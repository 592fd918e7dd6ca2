"""Servos on the joints of robots whose files have no actuators."""

import dataclasses
from collections.abc import Iterator, Sequence

import jax.numpy as jnp
import numpy as np

from ..typing import NameOrNumber
from ._attachments import Actuators
from ._given import Numbers, as_list, not_negative_each
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
    in_q, count = rated_coordinates(model)[in_v], len(in_v)
    check_new_names(model, names, "servos", "rename a joint, or name those that need a servo")
    given = ("stiffness", stiffness), ("damping", damping)
    gain, resistance = (not_negative_each(*x, count, "servos", model.dtype) for x in given)
    zero, unlimited = jnp.zeros_like(gain), jnp.full_like(gain, jnp.inf)
    servos = Actuators(
        names=names,
        frames=(None,) * count,
        wrench=jnp.zeros((count, 6), model.dtype),
        moment=jnp.asarray(np.eye(model.nv)[in_v], model.dtype),
        length_gradient=jnp.asarray(np.eye(model.nq)[in_q], model.dtype),
        length_offset=zero,
        gain=gain,
        bias=jnp.stack([zero, -gain, zero], axis=1),
        control_lower=model.limits.lower[in_q],
        control_upper=model.limits.upper[in_q],
        force_lower=-unlimited,
        force_upper=unlimited,
    )
    return dataclasses.replace(
        with_actuators(model, servos, model.keyframes.q[:, in_q]),
        damping=jnp.asarray(model.damping).at[in_v].add(resistance),
    )


def driven_by_servos(
    model: Model, joints: NameOrNumber | Sequence[NameOrNumber] | None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Coordinates of the velocity (n,), and names of their servos, for the arguments of `add_servos`."""
    rates = (rated_coordinates(model) >= 0) & ~free_dofs(model)
    chosen: list[int] = []
    names: list[str] = []
    for part in _parts(model, joints):
        own = np.arange(part.v.start, part.v.stop)
        if joints is None:
            own = own[rates[own]]
        elif not rates[own].all():
            raise ValueError(f"Servos drive joints by their angles and lengths, which {part.name!r} has not.")
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
