"""Some bodies of a model as a model of their own."""

import dataclasses

import jax
import numpy as np
from jaxtyping import Array, Float

from ..numerics import product
from ._attachments import Actuators, Keyframes
from ._carried import ends_of, renumbered
from ._constraints import AbstractConstraint
from ._given import is_concrete
from ._joint_groups import take
from ._model import Limits, Model
from ._topology import WORLD

_GONE = -2
_OF_DOFS = ("armature", "damping", "friction_loss", "stiffness")


def acting(model: Model, bodies: np.ndarray) -> tuple[int, ...]:
    """Numbers of the actuators that still act once only some joints are left (nb,): those that acted on others only are
    dropped. Where moments are traced, all count as acting."""
    actuators = model.actuators
    if not is_concrete(actuators.moment):
        return tuple(range(len(actuators.names)))
    moment = np.asarray(actuators.moment) != 0
    kept = moment[:, bodies[model.topology.dof_bodies]].any(axis=1)
    return tuple(np.flatnonzero(kept | ~moment.any(axis=1)).tolist())


def select(model: Model, bodies: np.ndarray, q: Float[Array, "nq"], actuators: tuple[int, ...], function: str) -> Model:
    """The model of the given bodies, none of which hangs on any of the others.

    Frames of other bodies and constraints that need them are left out, those of the world kept. The other joints rest
    at `q`, which counts for the lengths of actuators only.

    **Arguments:** `bodies` (nb,): a mask. `actuators`: numbers of those that are kept.
    """
    topology = model.topology
    kept = np.flatnonzero(bodies)
    # The last entry is the world's.
    numbers = np.full(model.nb + 1, _GONE)
    numbers[kept], numbers[WORLD] = np.arange(len(kept)), WORLD
    q_mask = np.repeat(bodies, topology.nqs)
    q_index, v_index = np.flatnonzero(q_mask), np.flatnonzero(bodies[topology.dof_bodies])
    frames = np.flatnonzero(numbers[topology.frame_bodies] != _GONE)
    groups = [
        (jax.tree.map(lambda x, own=own: take(x, own), joint), numbers[group[own]])
        for joint, group in zip(model.joints, topology.group_bodies, strict=True)
        if len(own := np.flatnonzero(bodies[group]))
    ]
    groups.sort(key=lambda group: int(group[1][0]))
    limits = model.limits
    return Model(
        joints=tuple(joint for joint, _ in groups),
        placement=jax.tree.map(lambda x: take(x, kept), model.placement),
        mass=take(model.mass, kept),
        com=take(model.com, kept),
        inertia=take(model.inertia, kept),
        **{name: take(getattr(model, name), v_index) for name in _OF_DOFS},
        spring_reference=take(model.spring_reference, q_index),
        limits=Limits(
            take(limits.lower, q_index),
            take(limits.upper, q_index),
            take(limits.velocity, v_index),
            take(limits.effort, v_index),
        ),
        gravity=model.gravity,
        frame_placement=jax.tree.map(lambda x: take(x, frames), model.frame_placement),
        constraints=_constraints(model.constraints, numbers, function),
        actuators=_actuators(model.actuators, np.array(actuators, dtype=int), q_mask, v_index, q),
        keyframes=Keyframes(model.keyframes.names, model.keyframes.q[:, q_index], model.keyframes.v[:, v_index]),
        topology=topology.replace(
            parents=numbers[topology.parents[kept]],
            nqs=topology.nqs[kept],
            nvs=topology.nvs[kept],
            group_bodies=[group for _, group in groups],
            body_names=[topology.body_names[body] for body in kept],
            joint_names=[topology.joint_names[body] for body in kept],
            frame_names=[topology.frame_names[frame] for frame in frames],
            frame_bodies=numbers[topology.frame_bodies[frames]],
        ),
    )


def _constraints(
    constraints: tuple[AbstractConstraint, ...], numbers: np.ndarray, function: str
) -> tuple[AbstractConstraint, ...]:
    remaining = []
    for constraint in constraints:
        ends = [numbers[getattr(constraint, field)] for field in ends_of(constraint, function)]
        if _GONE not in ends:
            remaining.append(renumbered(constraint, numbers, function))
    return tuple(remaining)


def _actuators(
    actuators: Actuators, rows: np.ndarray, q_mask: np.ndarray, v_index: np.ndarray, q: Float[Array, "nq"]
) -> Actuators:
    gradient = actuators.length_gradient
    at_rest = product(gradient[:, ~q_mask], q[~q_mask]) if (~q_mask).any() else 0
    whole = dataclasses.replace(
        actuators,
        names=(),
        moment=actuators.moment[:, v_index],
        length_gradient=gradient[:, q_mask],
        length_offset=actuators.length_offset + at_rest,
    )
    chosen = jax.tree.map(lambda x: take(x, rows), whole)
    return dataclasses.replace(chosen, names=tuple(actuators.names[row] for row in rows))
