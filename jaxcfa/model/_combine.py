"""Several models side by side as one."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..joints import AbstractJoint
from ..numerics._options import quoted
from ._assemble import group_key
from ._attachments import Keyframes
from ._carried import ends_of
from ._constraints import AbstractConstraint
from ._given import check_name
from ._layout import LAYOUT, PLACES, array_at, with_arrays
from ._model import Model, require_single
from ._parts import parts_of_composites
from ._rename import renamed
from ._topology import WORLD, Topology

_NOT_JOINED = ("gravity", *(f"keyframes.{name}" for name in LAYOUT["keyframes"]))


def combine(models: Iterable[Model], prefixes: Iterable[str] | None = None) -> Model:
    """Several models side by side in one world, as one model: a forest.

    Bodies, joints, frames, actuators and constraints are those of all models, in their order, and `q` and `v` are the
    concatenated coordinates. Nothing connects the models; constraints between frames of the result may. The forest's
    programs are about as large as those of one model, whatever their number.

    A keyframe that every model has is kept, under its own name; the others say nothing about the whole and are left
    out. Bodies are padded to the largest number of degrees of freedom in the forest, or nearly so.

    **Arguments:** `models`: one or more, whose leaves may be traced. Their floating-point types are promoted.
    `prefixes`: one for each model, put before the names of all it has but keyframes; none by default.

    **Raises:** `ValueError` for names that occur in several models, different gravity, batched models, and
    constraints that name bodies in a way of their own. Where gravity is traced the result's is NaN if it differs.
    """
    given, names = _checked(models, prefixes)
    dtype = jnp.result_type(*(model.dtype for model in given))
    gravity = _common_gravity([model.gravity for model in given])
    models = _prefixed([model.astype(dtype) for model in given], names)
    starts = np.cumsum([0, *(model.nb for model in models)]).tolist()
    joints, group_bodies = _join_groups(models, starts)
    topology = Topology(
        _join_numbers([model.topology.parents for model in models], starts),
        np.concatenate([model.topology.nqs for model in models]),
        np.concatenate([model.topology.nvs for model in models]),
        group_bodies,
        [name for model in models for name in model.body_names],
        [name for model in models for name in model.joint_names],
        [name for model in models for name in model.frame_names],
        _join_numbers([model.topology.frame_bodies for model in models], starts).tolist(),
    )
    places = [place for place in PLACES if place not in _NOT_JOINED]
    arrays = {place: _joined([array_at(model, place) for model in models], PLACES[place]) for place in places}
    joined = with_arrays(models[0], arrays)
    return dataclasses.replace(
        joined,
        joints=joints,
        gravity=gravity.astype(dtype),
        constraints=tuple(
            _renumbered(constraint, start)
            for model, start in zip(models, starts[:-1], strict=True)
            for constraint in model.constraints
        ),
        actuators=dataclasses.replace(
            joined.actuators,
            names=tuple(name for model in models for name in model.actuators.names),
            frames=tuple(frame for model in models for frame in model.actuators.frames),
        ),
        keyframes=_join_keyframes([model.keyframes for model in models]),
        topology=topology,
    )


def _checked(models: Iterable[Model], prefixes: Iterable[str] | None) -> tuple[list[Model], list[str]]:
    given = [] if isinstance(models, Model) or not isinstance(models, Iterable) else list(models)
    if not given:
        raise ValueError("combine needs a sequence of one model or more: combine([left, right]).")
    names = [""] * len(given) if prefixes is None else []
    if isinstance(prefixes, Iterable) and not isinstance(prefixes, str):
        names = prefixes = list(prefixes)
    if len(names) != len(given):
        raise ValueError(f"combine needs one prefix for each of the {len(given)} models, got {prefixes!r}.")
    for prefix in names:
        check_name("The prefix of a model", prefix, or_empty=True)
    for number, model in enumerate(given):
        require_single(model, "combine", f"masses of model {number}")
    return given, names


def _prefixed(models: Sequence[Model], prefixes: Sequence[str]) -> list[Model]:
    """Models with prefixed names; `ValueError` for names that occur in several of them."""
    pairs = zip(models, prefixes, strict=True)
    models = [renamed(model, prefix.__add__) if prefix else model for model, prefix in pairs]
    parts = {
        # Bodies and frames are looked up together.
        "bodies or frames": [{*model.body_names, *model.frame_names} for model in models],
        "joints": [{*model.joint_names, *_names_of_parts(model)} for model in models],
        "actuators": [set(model.actuators.names) for model in models],
    }
    for kind, each in parts.items():
        shared = [name for name, count in Counter(chain.from_iterable(each)).items() if count > 1]
        if shared:
            names = quoted(sorted(shared))
            raise ValueError(f"Several models have {kind} named {names}. Give each model a prefix of its own.")
    return models


def _names_of_parts(model: Model) -> list[str]:
    return [part.name for part in parts_of_composites(model.joints, model.topology)]


def _join_numbers(parts: list[np.ndarray], starts: list[int]) -> np.ndarray:
    """Numbers of bodies, of which the world keeps its own."""
    pairs = zip(parts, starts[:-1], strict=True)
    return np.concatenate([np.where(part == WORLD, WORLD, part + start) for part, start in pairs])


def _join_groups(models: Sequence[Model], starts: list[int]) -> tuple[tuple[AbstractJoint, ...], list[np.ndarray]]:
    """Stacked joints of equal structure, and the bodies of each group, ascending."""
    groups: dict = {}
    for model, start in zip(models, starts[:-1], strict=True):
        for joint, bodies in zip(model.joints, model.topology.group_bodies, strict=True):
            structure, shapes = group_key(joint)
            key = structure, tuple(shape[1:] for shape in shapes)
            groups.setdefault(key, []).append((joint, bodies + start))
    stacked, group_bodies = [], []
    for members in groups.values():
        bodies = np.concatenate([numbers for _, numbers in members])
        order = np.argsort(bodies)
        joint = jax.tree.map(lambda *x: jnp.concatenate(x), *(joint for joint, _ in members))
        if np.any(np.diff(order) < 0):
            joint = jax.tree.map(lambda x, order=order: x[order], joint)
        stacked.append(joint)
        group_bodies.append(bodies[order])
    return tuple(stacked), group_bodies


def _common_gravity(parts: Sequence[Float[Array, "3"]]) -> Float[Array, "3"]:
    """The gravity of the widest floating-point type; the others are compared with it in their own types."""
    widest = max(parts, key=lambda gravity: jnp.finfo(gravity.dtype).bits)
    common = widest
    for number, gravity in enumerate(parts):
        if gravity is widest:
            continue
        if isinstance(gravity, jax.core.Tracer) or isinstance(widest, jax.core.Tracer):
            common = jnp.where(widest.astype(gravity.dtype) == gravity, common, jnp.nan)
        elif not np.array_equal(np.asarray(widest).astype(gravity.dtype), gravity):
            raise ValueError(
                f"The models must have the same gravity, but that of model {number} is {np.asarray(gravity).tolist()} "
                f"and another's is {np.asarray(widest).tolist()}. Replace one of them, e.g. by equinox.tree_at."
            )
    return common


def _renumbered(constraint: AbstractConstraint, start: int) -> AbstractConstraint:
    fields = ends_of(constraint, "combine")
    numbers = {field: getattr(constraint, field) for field in fields}
    changes: dict = {field: number if number == WORLD else number + start for field, number in numbers.items()}
    return dataclasses.replace(constraint, **changes)


def _joined(blocks: Sequence[Array], letters: str) -> Array:
    """Arrays one after the other; as a block diagonal where columns are coordinates, too."""
    if letters not in ("nu nv", "nu nq"):
        return jnp.concatenate(blocks)
    stops = np.cumsum([block.shape[1] for block in blocks]).tolist()
    return jnp.concatenate(
        [jnp.pad(x, ((0, 0), (stop - x.shape[1], stops[-1] - stop))) for x, stop in zip(blocks, stops, strict=True)]
    )


def _join_keyframes(parts: Sequence[Keyframes]) -> Keyframes:
    names = tuple(name for name in parts[0].names if all(name in part.names for part in parts))
    rows = [np.array([part.names.index(name) for name in names], dtype=np.int64) for part in parts]
    pairs = list(zip(parts, rows, strict=True))
    return Keyframes(
        names, *(jnp.concatenate([getattr(part, x)[row] for part, row in pairs], axis=1) for x in LAYOUT["keyframes"])
    )
