"""Other names for the parts of a model."""

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Mapping

from ..numerics._options import quoted
from ._constraints import AbstractConstraint
from ._given import check_name
from ._joint_groups import part_names
from ._model import Model, check_model, suggestion

Names = Mapping[str, str] | Callable[[str], str]


def rename(model: Model, names: Names) -> Model:
    """The model with other names of bodies, joints, frames, actuators and constraints.

    ```python
    left = jaxcfa.rename(model, lambda name: "left_" + name)
    model = jaxcfa.rename(model, {"panda_hand": "hand", "panda_joint1": "base_yaw"})
    ```

    **Arguments:** `names`: a dictionary from old names to new ones (other names stay), or a function from every old
    name to the new one. The joints in a composite joint have names of their own, joined by plus signs; each is renamed.

    **Raises:** `ValueError` for old names that nothing has, and for new ones that are not unique, empty, or no strings.
    """
    check_model(model)
    if isinstance(names, Mapping):
        _check_known(model, names)
        table = dict(names)
        return _rename(model, lambda name: table.get(name, name))
    if not callable(names):
        raise ValueError(f"names must be a dictionary, from old names to new ones, or a function, got {names!r}.")
    return _rename(model, names)


def _rename(model: Model, function: Callable[[str], str]) -> Model:
    @functools.cache
    def new_name(old: str) -> str:
        new = function(old)
        check_name(f"The new name of {old!r}", new)
        return new

    # Bodies and frames are looked up together. (Of joints `Topology` finds out.)
    places = *model.body_names, *model.frame_names
    for kind, old in (("bodies or frames", places), ("actuators", model.actuators.names)):
        shared = [name for name, count in Counter(map(new_name, old)).items() if count > 1]
        if shared:
            raise ValueError(f"Several {kind} would be named {quoted(shared)}; names must be unique.")
    return renamed(model, new_name)


def renamed(model: Model, function: Callable[[str], str]) -> Model:
    """The model with `function(name)` for each name, without any checks."""
    topology, actuators = model.topology, model.actuators
    return dataclasses.replace(
        model,
        constraints=tuple(_renamed(constraint, function) for constraint in model.constraints),
        actuators=dataclasses.replace(
            actuators,
            names=tuple(map(function, actuators.names)),
            frames=tuple(None if frame is None else function(frame) for frame in actuators.frames),
        ),
        topology=topology.replace(
            body_names=[*map(function, topology.body_names)],
            joint_names=["+".join(map(function, parts)) for parts in part_names(model)],
            frame_names=[*map(function, topology.frame_names)],
        ),
    )


def _renamed(constraint: AbstractConstraint, function: Callable[[str], str]) -> AbstractConstraint:
    if not constraint.name:
        return constraint
    changes: dict = {"name": function(constraint.name)}
    return dataclasses.replace(constraint, **changes)


def _check_known(model: Model, names: Mapping[str, str]) -> None:
    joints = [part for parts in part_names(model) for part in parts]
    constraints = [constraint.name for constraint in model.constraints if constraint.name]
    known = (*model.body_names, *joints, *model.frame_names, *model.actuators.names, *constraints)
    for name in names:
        if name not in known:
            remedy = suggestion(name, known) if isinstance(name, str) else "names are strings."
            raise ValueError(f"Nothing in the model is named {name!r}; {remedy}")
