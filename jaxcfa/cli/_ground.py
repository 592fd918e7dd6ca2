"""`jaxcfa simulate --ground`: what the ground is, which points touch it, where a robot begins, what holds it up."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.markup import escape

from ..contacts import (
    AbstractContacts,
    AbstractSurface,
    AllContacts,
    FlatGround,
    PointContacts,
    contact_state,
    ground_contacts,
)
from ..contacts._surfaces import height_above
from ..io._source import is_archive
from ..model import WORLD, Model
from ..model._joint_groups import free_roots
from ..numerics._options import positive_number
from ..viz import CollisionPoints
from ..viz._collision_contacts import contacts_of
from ..viz._collision_points import points_of_each, points_of_shapes
from ..viz._collision_surfaces import on_body, surface_of
from ..viz._files import Directories
from ..viz._poses import body_poses, carried_frames
from ..viz._shapes import Collisions
from ._view import collisions_of

_MOST = 32  # contacts that push at a time: what lies still needs no more, and a step takes some milliseconds
_COARSE, _FINE = 8, 32  # points of a mesh, and of one to stand on: of eight, one may be on a sole that is not flat
_LOW = 0.02  # of the robot's size: how far above its lowest point others are that it may stand on
_CLEARLY = 1e-3  # [m], how deep a point begins in the ground that could not have been meant to touch it
_STEPS_UP = 20  # of lifting, on ground that is not flat
_THERE = 1e-12  # [m]: as high as it is to be
_SHOWN = 6  # names


class Ground(NamedTuple):
    """How a robot meets the ground, that of its file or else z = 0: by frames, separated by commas, or, for `None`, by
    all shapes that collide; and how high [m] the lowest of them begins above it, for `None` where it is, or on the
    ground if that is higher."""

    feet: str | None = None
    drop: float | None = None


def on_ground(
    console: Console, file: Path, model: Model, q: jax.Array, ground: Ground, package_dirs: Directories
) -> tuple[AbstractContacts, jax.Array]:
    """The contacts of a robot, and the configuration (nq,), lifted from the ground; says both.

    **Raises:** `ValueError` for a file without shapes that collide where no frames are named, for unknown names, and
    for a robot in the ground that cannot be lifted.
    """
    if ground.drop is not None:
        positive_number("--drop", ground.drop, or_zero=True)
    collisions = collisions_of(console, file, model, package_dirs)
    is_ground = _ground_of(model, collisions)
    of_pairs = bool(collisions.has_own_friction[is_ground].any())
    coarse, fine = (points_of_each(collisions.shapes, model, most) for most in (_COARSE, _FINE))
    others, standing = list[PointContacts](), fine
    if ground.feet is None:
        standing = _with_feet(model, coarse, fine, q)
        others = contacts_of(file.name, model, collisions, coarse, _COARSE, without=is_ground)
    if of_pairs:
        largest = collisions.friction[is_ground].max(axis=0)
        standing = [x.with_friction(mu) for x, mu in zip(standing, largest, strict=True)]
    points = points_of_shapes(standing)
    if ground.feet is not None:
        points = _named(model, points, ground.feet)
    if not points.frames:
        raise ValueError(
            f"{file.name} has no shapes that collide, or none that can be read, on bodies that move: name the frames "
            "that touch the ground, by --feet left_foot,right_foot."
        )
    surface, what = _surface(file, model, collisions, is_ground, rough=not of_pairs)
    text = f"{what}; {len(points.frames)} contacts, on {_names([str(x) for x in points.frames])}"
    if others:
        names = [str(frame) for x in others for frame in x.frames]
        text += f"; {len(names)} with other bodies, on {_names(names)}"
    console.print(f"Ground: {escape(text)}", highlight=False)
    feet = ground_contacts(model, points.frames, ground=surface, most=_MOST, **points.arguments)
    lifted = _lifted(console, file, model, q, feet, ground.drop)
    return AllContacts((feet, *others), _MOST) if others else feet, lifted


def say_what_holds(console: Console, model: Model, contacts: AbstractContacts, q: jax.Array, v: jax.Array) -> None:
    """Says how many contacts with the ground push in a state, and how much of the weight they carry."""
    state = contact_state(model, contacts, q, v)
    pushes = np.sum(np.asarray(state.normal) * np.asarray(state.force), axis=1)
    pushes = pushes[: contacts.parts[0].count]  # others are between bodies
    weight = float(jnp.sum(model.mass) * jnp.linalg.norm(model.gravity))
    of_weight = f", of a weight of {weight:.4g} N" if free_roots(model) else ""  # which a base that is fixed carries
    count, speed = np.count_nonzero(pushes > 1e-6 * pushes.sum()), float(jnp.max(jnp.abs(v)))
    console.print(
        f"In the end {count} of {len(pushes)} contacts push, with {pushes.sum():.4g} N in all{of_weight}; nothing "
        f"moves faster than {speed:.2g} rad/s or m/s"
    )


def _ground_of(model: Model, collisions: Collisions) -> np.ndarray:
    """(n,): which shapes are ground: those that do not move, unless they are a robot's own base."""
    still = np.array([on_body(model, x)[0] == WORLD for x in collisions.shapes], bool)
    return still & ~np.isin(collisions.robots, collisions.robots[~still])


def _surface(
    file: Path, model: Model, collisions: Collisions, is_ground: np.ndarray, rough: bool
) -> tuple[AbstractSurface, str]:
    """The ground, `rough` if it has a friction of its own, and what it is."""
    placed = [(shape, *on_body(model, shape), own) for shape, own in zip(collisions.shapes, is_ground, strict=True)]
    bases = [str(shape.carrier) for shape, body, _, own in placed if body == WORLD and not own]
    without = f" (without {_names(bases)}, which is fixed)" if bases else ""
    own = [(shape, place) for shape, _, place, own in placed if own]
    if not own:
        return FlatGround(), f"z = 0{without}"
    kinds = Counter(type(shape.shape).__name__.lower() for shape, _ in own)
    what = ", ".join(kind if count == 1 else f"{count} x {kind}" for kind, count in kinds.items())
    return surface_of(f"{file.name}, what does not move", own, friction=rough), f"{what} of the file{without}"


def _named(model: Model, found: CollisionPoints, names: str) -> CollisionPoints:
    """The points of these frames or bodies, and the origins of those without any."""
    chosen = []
    for name in dict.fromkeys(x.strip() for x in names.split(",")):
        model.locate(name)
        own = [i for i, frame in enumerate(found.frames) if frame == name]
        none = np.zeros((1, 3))
        chosen.append(
            CollisionPoints((name,) * len(own), *(x[own] for x in found[1:]))
            if own
            else CollisionPoints((name,), none, np.zeros(1), np.ones(1), none, none)
        )
    return points_of_shapes(chosen)


def _with_feet(
    model: Model, coarse: Sequence[CollisionPoints], fine: Sequence[CollisionPoints], q: jax.Array
) -> list[CollisionPoints]:
    """Coarse points of each shape, but of the frames that are lowest in a configuration (nq,), which have fine ones."""
    together = points_of_shapes(coarse)
    if not together.frames:
        return list(coarse)
    places = _places(model, together, q)
    heights = places[:, 2] - together.radius
    low = heights < heights.min() + _LOW * np.linalg.norm(np.ptp(places, axis=0))
    feet = {together.frames[i] for i in np.flatnonzero(low)}
    return [y if feet.intersection(y.frames) else x for x, y in zip(coarse, fine, strict=True)]


def _places(model: Model, points: CollisionPoints | PointContacts, q: jax.Array) -> np.ndarray:
    """(n, 3): where points are in a configuration (nq,)."""
    poses = carried_frames(model, points.frames).at(body_poses(model, np.asarray(q)[None]))
    return (np.einsum("knij,nj->kni", poses.rotation, points.points) + poses.translation)[0]


def _lifted(
    console: Console, file: Path, model: Model, q: jax.Array, contacts: PointContacts, drop: float | None
) -> jax.Array:
    """The configuration with free bodies so high that no point is in the ground, or the lowest at that height."""
    places, heights_above = _places(model, contacts, q), jax.jit(jax.vmap(partial(height_above, contacts.surface)))
    if contacts.rims is not None:  # whose lowest places depend on the ground
        state = contact_state(model, contacts, q, jnp.zeros(model.nv, q.dtype))
        places = np.asarray(state.position + contacts.radius[:, None] * state.normal)
    bodies = np.array([model.locate(frame)[0] for frame in contacts.frames])
    roots = free_roots(model)
    free = np.any([model.topology.carried_by(root) for root in roots], axis=0)[bodies] if roots else bodies < 0

    def heights(rise: float) -> np.ndarray:
        return np.asarray(heights_above(jnp.asarray(places + np.array([0, 0, rise]), model.dtype), contacts.radius))

    first = heights(0.0)
    _check_not_in_ground(file, contacts, np.where(free, np.inf, first))
    if not free.any():
        if drop is not None:
            raise ValueError(f"--drop is for what moves freely, and the base of {file.name} is fixed.")
        return q
    rise, now, above = 0.0, first, drop or 0.0
    for _ in range(_STEPS_UP):  # one, if the ground is flat
        lowest = int(np.argmin(np.where(free, now, np.inf)))
        step = float(above - now[lowest])
        if not np.isfinite(step) or abs(step) < _THERE or (drop is None and step < 0):
            break
        rise += step
        now = heights(rise)
    for root in roots:
        up = jnp.asarray(model.placement.rotation[root])[2] * rise  # in the axes of the joint
        start = model.q_slice(root).start
        q = q.at[start : start + 3].add(up)
    if abs(rise) > _CLEARLY:
        way, end = "Lifted" if rise > 0 else "Lowered", f"is {_length(drop)} above" if drop else "touches"
        text = f"{way} by {_length(abs(rise))}, so that {contacts.frames[lowest]} {end} the ground"
        console.print(escape(text), highlight=False)
    return q


def _check_not_in_ground(file: Path, points: PointContacts, heights: np.ndarray) -> None:
    """Raises `ValueError` for a robot on a fixed base with points at negative heights (n,) [m]."""
    deepest = int(np.argmin(heights))
    if heights[deepest] > -_CLEARLY:
        return
    kept = " (but a saved model keeps its base)" if is_archive(file) else ""
    raise ValueError(
        f"{np.count_nonzero(heights < -_CLEARLY)} of {len(heights)} contacts begin in the ground, "
        f"{points.frames[deepest]!r} {_length(-heights[deepest])} deep, and the base is fixed: --floating-base "
        f"lets it be lifted{kept}, --start or --seed begins elsewhere, and --feet names the frames that touch."
    )


def _names(frames: Sequence[str]) -> str:
    names = list(dict.fromkeys(frames))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _length(x: float) -> str:
    return f"{1e3 * x:.0f} mm" if abs(x) < 0.0995 else f"{x:.3g} m"
