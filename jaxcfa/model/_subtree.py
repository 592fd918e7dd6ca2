"""A body and what it carries."""

import dataclasses
import functools

import jax
import numpy as np

from ..typing import NameOrNumber
from ._carried import renumbered
from ._constraints import JointCoupling
from ._joint_groups import neutral_configuration
from ._model import Model, require_single
from ._select import acting, select
from ._topology import WORLD


def subtree(model: Model, body: NameOrNumber) -> Model:
    """A body and all that it carries, as a model of its own: one arm of a humanoid, say.

    The body keeps its joint. What it hung on becomes the world, so that the joint has the same placement in the world
    as it had there; `lock_joints` of it leaves a model with a fixed base. Gravity has the same components in the axes
    of the new world.

    Frames of these bodies and of what becomes the world, constraints among all of these, and the coordinates in
    keyframes come along. Actuators that act on none of the joints do not (where moments are traced all come, and those
    do nothing); in the lengths of others the joints that are left out rest at zero.

    **Arguments:** `body`: name or number. Leaves of the model may be traced.

    **Returns:** a model whose bodies are in the same order, the given one first.

    **Raises:** `ValueError` for unknown bodies, a batch of models, and constraints that name bodies in a way of their
    own.
    """
    require_single(model, "subtree")
    root = model.body_index(body)
    return _subtree(model, root, acting(model, model.topology.carried_by(root)))


@functools.partial(jax.jit, static_argnames=("root", "actuators"))
def _subtree(model: Model, root: int, actuators: tuple[int, ...]) -> Model:
    topology = model.topology
    # What the body hung on and the world change places; the latter's things are left out with all other bodies'.
    base = int(topology.parents[root])
    numbers = np.append(np.arange(model.nb), WORLD)
    numbers[[base, WORLD]] = WORLD, base
    whole = dataclasses.replace(
        model,
        constraints=tuple(
            c if isinstance(c, JointCoupling) else renumbered(c, numbers, "subtree") for c in model.constraints
        ),
        topology=topology.replace(
            parents=np.where(np.arange(model.nb) == root, WORLD, topology.parents),
            frame_bodies=numbers[topology.frame_bodies],
        ),
    )
    return select(whole, topology.carried_by(root), neutral_configuration(model), actuators, "subtree")
