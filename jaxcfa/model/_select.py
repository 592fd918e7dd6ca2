"""Some bodies of a model as a model of their own."""

import dataclasses

import jax
import numpy as np
from jaxtyping import Array, Float

from ..numerics import picked, product
from ._carried import ends_of, renumbered
from ._constraints import AbstractConstraint
from ._given import is_concrete
from ._layout import PLACES, array_at, with_arrays
from ._model import Model, carrier
from ._topology import WORLD

_GONE = -2


def acting(model: Model, bodies: np.ndarray) -> tuple[int, ...]:
    """Numbers of the actuators that still act once only some joints are left (nb,): those that acted on others only are
    dropped, and those on frames that none of the joints moves. Where moments are traced, all count as acting."""
    actuators = model.actuators
    if not is_concrete(actuators.moment):
        return tuple(range(len(actuators.names)))
    moment = np.asarray(actuators.moment) != 0
    on_joints = moment[:, bodies[model.topology.dof_bodies]].any(axis=1)
    on_frames = [frame is not None and _is_moved(model, bodies, frame) for frame in actuators.frames]
    idle = ~moment.any(axis=1) & np.array([frame is None for frame in actuators.frames], bool)
    return tuple(np.flatnonzero(on_joints | np.array(on_frames, bool) | idle).tolist())


def _is_moved(model: Model, bodies: np.ndarray, frame: str) -> bool:
    """Whether one of some joints (nb,) moves a frame."""
    body = carrier(model, frame)
    while body != WORLD and not bodies[body]:
        body = int(model.topology.parents[body])
    return body != WORLD


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
        (jax.tree.map(lambda x, own=own: picked(x, own), joint), numbers[group[own]])
        for joint, group in zip(model.joints, topology.group_bodies, strict=True)
        if len(own := np.flatnonzero(bodies[group]))
    ]
    groups.sort(key=lambda group: int(group[1][0]))
    places = {topology.body_names[body] for body in kept} | {topology.frame_names[frame] for frame in frames}
    on_frames = [model.actuators.frames[row] for row in actuators]
    index = {"nb": kept, "nq": q_index, "nv": v_index, "nf": frames, "nu": np.array(actuators, dtype=int)}
    whole = _with_lengths_at_rest(model, np.flatnonzero(~q_mask), q)
    part = with_arrays(whole, {place: _taken(array_at(whole, place), x.split(), index) for place, x in PLACES.items()})
    return dataclasses.replace(
        part,
        joints=tuple(joint for joint, _ in groups),
        constraints=_constraints(model.constraints, numbers, function),
        actuators=dataclasses.replace(
            part.actuators,
            names=tuple(model.actuators.names[row] for row in actuators),
            frames=tuple(frame if frame in places else None for frame in on_frames),
        ),
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


def _with_lengths_at_rest(model: Model, still: np.ndarray, q: Float[Array, "nq"]) -> Model:
    """The model whose actuators' lengths count with some coordinates where they rest."""
    actuators = model.actuators
    at_rest = product(actuators.length_gradient[:, still], q[still]) if len(still) else 0
    offset = actuators.length_offset + at_rest
    return dataclasses.replace(model, actuators=dataclasses.replace(actuators, length_offset=offset))


def _taken(x: Array, letters: list[str], index: dict[str, np.ndarray]) -> Array:
    """What is left of an array along its first axis, and the second."""
    first, *others = letters
    x = picked(x, index[first]) if first in index else x
    return x[:, index[others[0]]] if others and others[0] in index else x
