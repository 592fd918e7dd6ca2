"""One model attached to another."""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..spatial import Transform
from ..typing import NameOrNumber
from ._attachments import Keyframes
from ._carried import carried
from ._combine import combine
from ._given import Placement, as_placement
from ._joint_groups import free_roots, neutral_configuration
from ._layout import LAYOUT
from ._lock import lock_joints
from ._model import Model, require_single
from ._topology import WORLD


def attach(
    model: Model,
    frame: NameOrNumber,
    other: Model,
    placement: Placement | None = None,
    prefix: str = "",
    *,
    weld: bool = False,
) -> Model:
    """Another model on a frame of this one, like Pinocchio's `appendModel`: a gripper on a flange, an arm on a base.

    The world of the other becomes the frame: joints that hung on it hang on the body that carries the frame, and what
    was fixed to it, frames and constraints, is fixed there. `q` and `v` are those of `model`, then those of `other`.
    Gravity is that of `model`. Its keyframes are kept, with the coordinates of the other's keyframe of the same name,
    neutral ones if there is none.

    A model knows nothing of what is fixed to its world, not even the mass: that of a gripper's palm is lost when the
    gripper is loaded with a fixed base. To keep it, load the gripper with a floating base and weld that to the frame:

    ```python
    hand = jaxcfa.load_model("hand.urdf", floating_base=True)
    robot = jaxcfa.attach(arm, "flange", hand, prefix="hand_", weld=True)
    ```

    For a body without joints there is `add_payload`.

    **Arguments:** `frame`: name of a frame or body of `model`, or a body's number, -1 for the world. `placement`: pose
    of the other's world in the frame: a `Transform`, a 4 x 4 matrix, or a translation [m]; the identity by default.
    `prefix`: put before the names of all that `other` has but keyframes. `weld`: lock, at the identity, the free joints
    by which the other hangs on its world, so that those bodies become parts of the one that carries the frame. Leaves
    of the models and `placement` may be traced. Their floating-point types are promoted.

    **Returns:** a model whose bodies are those of `model`, then those of `other`.

    **Raises:** `ValueError` for an unknown frame, names that both models have, an invalid placement, `weld` without a
    free joint, batches of models, and constraints that name bodies in a way of their own.
    """
    require_single(model, "attach")
    require_single(other, "attach", "masses of the other")
    free = free_roots(other)
    if weld and not free:
        raise ValueError(
            "weld needs a model that hangs on its world by a free joint; load the other with floating_base=True."
        )
    body, pose = model.locate(frame)
    pose = pose @ as_placement(placement, pose.translation.dtype, "the other model")
    both = combine([model, dataclasses.replace(other, gravity=model.gravity)], ["", prefix])
    own = _Sizes(model.nb, len(model.frame_names), len(model.constraints))
    both = _hung(both, model.keyframes, other.keyframes, pose, body, own)
    return lock_joints(both, [model.nb + number for number in free]) if weld else both


class _Sizes(NamedTuple):
    """How much of two models side by side is the first's."""

    bodies: int
    frames: int
    constraints: int


@functools.partial(jax.jit, static_argnames=("body", "own"))
def _hung(both: Model, keyframes: Keyframes, others: Keyframes, pose: Transform, body: int, own: _Sizes) -> Model:
    """Two models side by side, of which the second's world becomes a part of a body."""
    topology, pose = both.topology, jax.tree.map(lambda x: x.astype(both.dtype), pose)
    roots = _in_world(topology.parents, own.bodies)
    frames = _in_world(topology.frame_bodies, own.frames)

    def place(number: int) -> tuple[int, Transform | None]:
        return (body, pose) if number == WORLD else (number, None)

    moved = (carried(constraint, place, "attach") for constraint in both.constraints[own.constraints :])
    return dataclasses.replace(
        both,
        placement=_moved(both.placement, roots, pose),
        frame_placement=_moved(both.frame_placement, frames, pose),
        constraints=(*both.constraints[: own.constraints], *(x for x in moved if x is not None)),
        keyframes=_extended(keyframes, others, both),
        topology=topology.replace(
            parents=np.where(roots, body, topology.parents),
            frame_bodies=np.where(frames, body, topology.frame_bodies),
        ),
    )


def _in_world(bodies: np.ndarray, start: int) -> np.ndarray:
    """Mask of what is fixed to the world, from the given row on."""
    return (np.arange(len(bodies)) >= start) & (bodies == WORLD)


def _moved(places: Transform, rows: np.ndarray, pose: Transform) -> Transform:
    index = np.flatnonzero(rows)
    return jax.tree.map(lambda x, y: x.at[index].set(y), places, pose @ places[index])


def _extended(keyframes: Keyframes, others: Keyframes, both: Model) -> Keyframes:
    """The keyframes of the first model, with the second's coordinates."""
    rows = [others.names.index(name) if name in others.names else len(others.names) for name in keyframes.names]
    index = np.array(rows, dtype=int)
    neutral = neutral_configuration(both)[keyframes.q.shape[1] :]

    def extended(name: str) -> Array:
        own, other = getattr(keyframes, name), getattr(others, name)
        rest = neutral if name == "q" else jnp.zeros(other.shape[1:], both.dtype)
        return jnp.concatenate([own, jnp.concatenate([other, rest[None]])[index]], axis=1).astype(both.dtype)

    return Keyframes(keyframes.names, *map(extended, LAYOUT["keyframes"]))
