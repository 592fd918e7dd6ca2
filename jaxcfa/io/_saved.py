"""Models and motions in files of jaxcfa's own."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .. import joints
from ..environments import Transition
from ..joints import AbstractJoint
from ..model import (
    WORLD,
    AbstractConstraint,
    Actuators,
    Connect,
    Distance,
    JointCoupling,
    Keyframes,
    Limits,
    LoopJoint,
    Model,
    Topology,
    Weld,
)
from ..model._carried import Carried, ends_of
from ..model._layout import PARAMETERS, PLACES, array_at, shape_of
from ..optimal_control import History, Solution
from ..optimal_control._local import Multipliers, Rows
from ..simulation import Linearization, State, Trajectory
from ..spatial import Transform
from ._archive import read_archive, types_by_name, with_own_types, write_archive
from ._source import PathOrText, read_file

_JOINTS = [kind for kind in vars(joints).values() if isinstance(kind, type) and issubclass(kind, AbstractJoint)]
_CONSTRAINTS = [Carried, Connect, Distance, JointCoupling, LoopJoint, Weld]
_PARTS = [Actuators, Keyframes, Limits, Model, Topology, Transform]
_OF_MODELS = types_by_name([*_JOINTS, *_CONSTRAINTS, *_PARTS])
_OF_MOTIONS = types_by_name(
    [Trajectory, State, Linearization, Transition, Solution, History, Multipliers, Rows, Transform]
)


def save_model(path: PathOrText, model: Model) -> None:
    """Write a model to a file, from which `load_model` reads it again bit by bit, so that nothing is compiled anew.

    The file holds arrays and JSON, all of the model (topology, joints, constraints, actuators, keyframes, limits,
    frames) and no code. Joints and constraints of your own types are stored by the name of the class, which
    `load_model` needs.

    **Arguments:** `path`: of the file, which is overwritten, in a folder that is made if need be; it must end with
    `.npz`. `model`: a model, or a batch.

    **Raises:** `ValueError` for another ending, a model that is traced, two types of one name, and types with fields
    other than arrays, numbers, strings, containers and dataclasses.
    """
    if not isinstance(model, Model):
        raise ValueError(f"save_model saves a Model, got {model!r:.200}.")
    write_archive(path, "model", model, _OF_MODELS, own=True)


def read_model(data: bytes, name: str, types: Sequence[type]) -> Model:
    """The model in a file that `save_model` wrote; `types` are those of the user's joints and constraints."""
    model = read_archive(data, name, "model", with_own_types(_OF_MODELS, types), _upgrade)
    try:
        _check(model)
    except Exception as error:  # whatever the parts of a damaged file do not have
        raise ValueError(f"{name}: damaged, its parts do not fit together ({error!s:.200}).") from error
    return model


def _upgrade(version: int, content: Any, arrays: dict[str, np.ndarray]) -> None:
    """What earlier formats did not have: how hard stops are (format 5), thrusters, controls of keyframes (format 4)."""
    if version < 5:
        limits = content["fields"]["limits"]["fields"]
        velocity = arrays[str(limits["velocity"]["array"])]
        arrays["stop_frequency"] = np.full_like(velocity, PARAMETERS["stop_frequency"].default)
        limits["stop_frequency"] = limits["velocity"] | {"array": "stop_frequency"}
    if version >= 4:
        return
    actuators, keyframes = (content["fields"][part]["fields"] for part in ("actuators", "keyframes"))
    gain, q = (arrays[str(node["array"])] for node in (actuators["gain"], keyframes["q"]))
    actuators["frames"] = {"tuple": [None] * gain.shape[-1]}
    arrays["wrench"] = np.zeros((*gain.shape, 6), gain.dtype)
    actuators["wrench"] = actuators["gain"] | {"array": "wrench"}
    arrays["control"] = np.zeros((*q.shape[:-1], gain.shape[-1]), q.dtype)
    keyframes["control"] = keyframes["q"] | {"array": "control"}


def _check(model: Model) -> None:
    """Raises for sizes and numbers that contradict one another. Leading axes may be a batch."""
    topology = model.topology
    sizes = topology.sizes | {"nu": len(model.actuators.names), "nk": len(model.keyframes.names)}
    for place, letters in PLACES.items():
        shape, found = shape_of(letters, sizes), array_at(model, place).shape
        _require(found[len(found) - len(shape) :] == shape, f"{place} has shape {found}")
    bodies = np.concatenate([np.zeros(0, dtype=int), *topology.group_bodies])
    _require(np.array_equal(np.sort(bodies), np.arange(model.nb)), "groups of joints")
    _require(len(topology.joint_names) == len(topology.body_names) == model.nb, "names of bodies or joints")
    _require(len(topology.frame_bodies) == sizes["nf"], "bodies of frames")
    _require(bool(np.all((topology.frame_bodies >= WORLD) & (topology.frame_bodies < model.nb))), "bodies of frames")
    for joint, group in zip(model.joints, topology.group_bodies, strict=True):
        _require(isinstance(joint, AbstractJoint), f"{joint!r:.100} is no joint")
        coordinates = np.array([topology.nqs[group], topology.nvs[group]]).T
        _require(bool(np.all(coordinates == (joint.nq, joint.nv))), f"coordinates of {type(joint).__name__}")
        _require(all(len(group) in x.shape for x in jax.tree.leaves(joint)), f"sizes of {type(joint).__name__}")
    for constraint in model.constraints:
        _require(isinstance(constraint, AbstractConstraint), f"{constraint!r:.100} is no constraint")
        ends = [getattr(constraint, field) for field in ends_of(constraint, "load_model")]
        _require(all(WORLD <= number < model.nb for number in ends), f"bodies of {type(constraint).__name__}")


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(what)


def save_trajectory(path: PathOrText, trajectory: Any) -> None:
    """Write a motion to a file, from which `load_trajectory` reads it again, bit by bit.

    **Arguments:** `path`: of the file, which is overwritten, in a folder that is made if need be; it must end with
    `.npz`. `trajectory`: what `rollout`, `step`, `linearize` or `optimal_control.solve` returns, or the `Transition` of
    `environments.unroll`, one or a batch; or dictionaries, tuples and lists of such, arrays, numbers and strings, for
    example `{"robot": "arm", "q": q, "forces": wrenches}`. Arrays are called after their places, as in
    `numpy.load(path)["q"]`.

    **Raises:** `ValueError` for another ending, for what is traced, and for what cannot be stored.
    """
    write_archive(path, "trajectory", trajectory, _OF_MOTIONS)


def load_trajectory(path: PathOrText) -> Any:
    """What `save_trajectory` wrote: the same types, with JAX arrays.

    Doubles become single precision where JAX's double precision is off. Nothing in the file is executed.

    **Raises:** `FileNotFoundError` for a wrong path; `ValueError` for a file that is damaged, of another kind, or
    written by a newer version.
    """
    source = read_file(path)
    return read_archive(source.data, source.name, "trajectory", _OF_MOTIONS)
