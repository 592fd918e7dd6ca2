"""Joints that no longer move."""

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..numerics import matmul, transpose
from ..spatial import Transform
from ..typing import NameOrNumber
from ._add import with_parts
from ._arguments import as_arrays, is_concrete
from ._carried import carried, with_held_joints
from ._constraints import JointCoupling
from ._given import Numbers, as_list
from ._joint_groups import map_joints, neutral_configuration
from ._model import Model, joint_part, require_single
from ._ranges import coupled_coordinates
from ._select import acting, select
from ._topology import WORLD


def lock_joints(model: Model, joints: NameOrNumber | Sequence[NameOrNumber], q: Numbers | None = None) -> Model:
    """The model with some joints held where they are in a configuration, like Pinocchio's `buildReducedModel`.

    The bodies that they move become parts of the bodies they hang on (mass, centre of mass, inertia), or of the world,
    which has no mass. They stay available as frames under their own names, after the other frames. What hung on them
    hangs on the body that carries them now. The coordinates of the joints are gone from `q`, `v` and keyframes, and so
    are their armature, springs, friction and limits. A composite joint is locked as a whole.

    - Constraints then relate the bodies that carry the former ones; those within one body are dropped. In a coupling of
      joints the position of a locked one is a constant; if both are locked it is dropped.
    - Actuators that acted on locked joints only are dropped (where moments are traced, they stay and do nothing). In
      the lengths of the others, locked joints keep their positions.

    **Arguments:** `joints`: one name or number, or several. `q` (nq,): where they are held (other coordinates are not
    used); neutral by default. Leaves of the model and `q` may be traced.

    **Returns:** a model with fewer bodies, numbered in the same order.

    **Raises:** `ValueError` for unknown joints, a wrong shape, positions that are not finite, zero quaternions, a batch
    of models, and constraints that name bodies in a way of their own.
    """
    require_single(model, "lock_joints")
    locked = tuple(sorted({_whole(model, joint) for joint in as_list(joints)}))
    if not locked:
        return model
    kept = np.ones(model.nb, dtype=bool)
    kept[list(locked)] = False
    given = None if q is None else as_arrays(model, q=q)[0].astype(model.dtype)
    _check_finite(model, given, locked)
    return _locked(model, given, locked, acting(model, kept))


def _whole(model: Model, joint: NameOrNumber) -> int:
    """The number of a joint that is no part of another."""
    part = joint_part(model, joint)
    if part.place is not None:
        raise ValueError(
            f"{joint!r} is part of the joint {model.joint_names[part.body]!r}, which is locked as a whole. "
            f"Lock that, or hold {joint!r} by a constraint, closed_chains.couple(model, {joint!r}, None, position)."
        )
    return part.body


def _check_finite(model: Model, q: Float[Array, "nq"] | None, locked: tuple[int, ...]) -> None:
    """Raises `ValueError` for joints that would be held nowhere; not where q is traced."""
    if q is None or not is_concrete(q):
        return
    for joint in locked:
        place = np.asarray(q)[model.q_slice(joint)]
        if not np.all(np.isfinite(place)):
            name = model.joint_names[joint]
            raise ValueError(f"q must be finite where joints are locked, but it has {place.tolist()} for {name!r}.")


@functools.partial(jax.jit, static_argnames=("locked", "actuators"))
def _locked(model: Model, q: Float[Array, "nq"] | None, locked: tuple[int, ...], actuators: tuple[int, ...]) -> Model:
    q = neutral_configuration(model) if q is None else q
    topology, moving = model.topology, np.ones(model.nb, dtype=bool)
    moving[list(locked)] = False
    gone = np.array(locked)
    carriers, poses = _carriers(model, moving, q)

    def carry(places: Transform, bodies: np.ndarray) -> tuple[Transform, np.ndarray]:
        """Poses in bodies as poses in what carries these, and its number."""
        index = np.flatnonzero((bodies != WORLD) & ~moving[bodies])
        changed = poses[bodies[index]] @ places[index]
        both = jax.tree.map(lambda x, y: x.at[index].set(y), places, changed) if len(index) else places
        return both, np.where(bodies == WORLD, WORLD, carriers[bodies])

    placement, parents = carry(model.placement, topology.parents)
    frame_placement, frame_bodies = carry(model.frame_placement, topology.frame_bodies)
    parts = gone[carriers[gone] != WORLD]
    turn = poses.rotation[parts]
    model = with_parts(
        model,
        carriers[parts],
        model.mass[parts],
        poses[parts].apply(model.com[parts]),
        matmul(matmul(turn, model.inertia[parts]), transpose(turn)),
    )

    def place(body: int) -> tuple[int, Transform | None]:
        return (body, None) if body == WORLD or moving[body] else (int(carriers[body]), poses[body])

    constraints = (
        with_held_joints(x, ~moving, q, coupled_coordinates(model, x)) if isinstance(x, JointCoupling) else x
        for x in (carried(constraint, place, "lock_joints") for constraint in model.constraints)
    )
    whole = dataclasses.replace(
        model,
        placement=placement,
        frame_placement=jax.tree.map(lambda x, y: jnp.concatenate([x, y[gone]]), frame_placement, poses),
        constraints=tuple(x for x in constraints if x is not None),
        topology=topology.replace(
            parents=parents,
            frame_names=(*topology.frame_names, *(topology.body_names[body] for body in locked)),
            frame_bodies=np.concatenate([frame_bodies, carriers[gone]]),
        ),
    )
    return select(whole, moving, q, actuators, "lock_joints")


def _carriers(model: Model, moving: np.ndarray, q: Float[Array, "nq"]) -> tuple[np.ndarray, Transform]:
    """The body that carries each one (itself if it moves), and the poses there of those that do not move.

    Runs of locked joints are composed by doubling, so that the program is small for any number of them.
    """
    parents = model.topology.parents
    poses = model.placement @ map_joints(model, lambda joint, x: joint.transform(x), ("q", q))
    above = np.where(moving, np.arange(model.nb), parents)
    while len(index := np.flatnonzero(~moving & (above != WORLD) & ~moving[above])):
        longer = poses[above[index]] @ poses[index]
        poses = jax.tree.map(lambda x, y, index=index: x.at[index].set(y), poses, longer)
        above[index] = above[above[index]]
    return above, poses
