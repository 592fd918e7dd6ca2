"""Points of a robot that touch the ground."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..kinematics._frames import place_frames
from ..model import WORLD, Model
from ..model._arguments import as_frames, as_list, is_concrete, positive_integer, require_single
from ..model._given import Numbers, any_numbers, not_negative, not_negative_each
from ..motion import BodyMotions
from ..motion._jacobians import point_jacobians
from ..numerics import matvec
from ..typing import NameOrNumber
from ._ground import AbstractGround, FlatGround, as_ground

_GRAVITY, _PENETRATION = 9.81, 1e-3  # m/s^2, m: the robot's weight on one point presses it in so far


class GroundContacts(eqx.Module):
    """Points of a robot, or spheres, that the ground holds up, with friction. `ground_contacts` makes them.

    A point that is pressed into the ground by x, and moves with the normal velocity u, feels the normal force
    `k x max(0, 1 - d u)` (Hunt & Crossley 1975), and against its sliding the force of friction, of at most mu times
    that. About the stiction velocity s friction is smaller, so that a robot on a slope creeps: with
    `s r / sqrt(1 - r^2)`, where that takes a part r of the largest friction.

    **Fields:** `frames`, of n names or numbers; `points` (n, 3), in these frames [m]; `radius` (n,) of the spheres
    about them [m]; coefficients of `friction` mu (n,); `stiffness` k (n,) [N/m]; `dissipation` d (n,) [s/m];
    `stiction_velocity` [m/s]; the `ground`; how many push at a time at `most`, `None` for all.
    """

    frames: tuple[NameOrNumber, ...] = eqx.field(static=True)
    points: Float[Array, "n 3"]
    radius: Float[Array, "n"]
    friction: Float[Array, "n"]
    stiffness: Float[Array, "n"]
    dissipation: Float[Array, "n"]
    stiction_velocity: Float[Array, ""]
    ground: AbstractGround
    most: int | None = eqx.field(static=True, default=None)

    def in_type(self, dtype: jnp.dtype) -> "GroundContacts":
        """The same with all floating-point numbers of this type."""

        def one(x: Any) -> Any:
            return jnp.asarray(x, dtype) if isinstance(x, float) or eqx.is_inexact_array(x) else x

        return jax.tree.map(one, self)


def ground_contacts(
    model: Model,
    frames: NameOrNumber | Sequence[NameOrNumber],
    points: Numbers | None = None,
    radius: Numbers = 0.0,
    *,
    ground: AbstractGround | Callable[[Float[Array, "3"]], ArrayLike] | None = None,
    friction: Numbers = 1.0,
    stiffness: Numbers | None = None,
    dissipation: Numbers = 20.0,
    stiction_velocity: ArrayLike = 1e-4,
    most: int | None = None,
) -> GroundContacts:
    """Contacts of a robot with the ground, for the steps of `jaxcfa.simulation`.

        feet = jaxcfa.ground_contacts(model, ["FL_foot", "FR_foot", "RL_foot", "RR_foot"], radius=0.02)
        motion = jaxcfa.rollout(model, q, v, torques, dt=0.005, contacts=feet)

    **Arguments:**

    - `frames`: names or numbers of bodies or frames, one for each point; they may repeat.
    - `points`: (n, 3), where the points are in these frames, or (3,) for all [m]; by default their origins.
    - `radius`: of spheres about the points [m].
    - `ground`: `FlatGround()`, z = 0, by default; another `AbstractGround`, or a function that gives how far a point
      (3,) is above the ground [m]. Only arrays of an `AbstractGround` can be differentiated.
    - `friction`: coefficients mu.
    - `stiffness` k [N/m]: by default the weight of the whole robot on one point presses it in by a millimetre.
    - `dissipation` d [s/m]: what falls at the velocity u bounces off with about u - 2/3 d u^2 if d u is small, and
      with less than 1 / d.
    - `stiction_velocity` [m/s]: how fast what is held by friction creeps at 0.7 of the largest friction.
    - `most`: how many of the points push at a time, by default all; those that are deepest at the start of a step. Its
      cost grows with the cube of their number, so that hundreds of points can be given with a `most` of 32.

    Numbers that belong to points are one for all, or (n,).

    **Raises:** `ValueError` for a batch of models, unknown frames, those that are fixed to the world, wrong shapes, and
    numbers that are negative or not finite.
    """
    require_single(model, "ground_contacts")
    if most is not None:
        positive_integer("most", most)
    names = tuple(as_list(frames))
    if not names:
        raise ValueError("frames must name the points that touch the ground, one or more, got none.")
    _bodies(model, names)
    count, dtype = len(names), model.dtype
    places = any_numbers("points", np.zeros(3) if points is None else points).astype(dtype)
    if places.shape not in ((3,), (count, 3)):
        raise ValueError(f"points must have shape (n, 3) = ({count}, 3), one for each frame, got {places.shape}.")
    if is_concrete(places) and not np.all(np.isfinite(places)):
        raise ValueError(f"points must be finite, got {points}.")
    if stiffness is None:
        stiffness = jnp.sum(model.mass) * _GRAVITY / _PENETRATION

    def each(name: str, value: Numbers) -> Float[Array, "n"]:
        return not_negative_each(name, value, count, "points", dtype)

    creep = not_negative("stiction_velocity", stiction_velocity).astype(dtype)
    if creep.shape != () or (is_concrete(creep) and creep == 0):
        raise ValueError(f"stiction_velocity must be one positive number, got {stiction_velocity}.")
    return GroundContacts(
        names,
        jnp.broadcast_to(places, (count, 3)),
        each("radius", radius),
        each("friction", friction),
        each("stiffness", stiffness),
        each("dissipation", dissipation),
        creep,
        FlatGround() if ground is None else as_ground(ground),
        None if most is None or most >= count else int(most),
    )


class PlacedContacts(eqx.Module):
    """Contacts in a configuration, in world axes.

    **Fields:** `position` (n, 3) of the points, on spheres those nearest to the ground [m]; unit `normal` (n, 3) of the
    ground; `gap` (n,) to it [m], negative in it; `jacobian` (n, 3, nv): `J v` are the velocities of the points.
    """

    position: Float[Array, "n 3"]
    normal: Float[Array, "n 3"]
    gap: Float[Array, "n"]
    jacobian: Float[Array, "n 3 nv"]


def place_contacts(model: Model, contacts: GroundContacts, motions: BodyMotions) -> PlacedContacts:
    """The contacts where the bodies are."""
    numbers, bodies = jnp.asarray(as_frames(model, contacts.frames)), _bodies(model, contacts.frames)
    contacts = contacts.in_type(motions.q.dtype)
    frames, origins = place_frames(model, motions, numbers), motions.origins
    center = frames.lever + matvec(frames.rotation, contacts.points)
    at_origins = motions.poses.translation[bodies]
    distance, normal = jax.vmap(contacts.ground.clearance)(at_origins + center)
    lever = center - contacts.radius[:, None] * normal
    jacobian = point_jacobians(model, motions.subspace_columns, origins, origins[bodies] + lever, bodies)[:, 3:]
    return PlacedContacts(at_origins + lever, normal, distance - contacts.radius, jacobian)


def check_contacts(model: Model, contacts: Any) -> None:
    """Raises `ValueError` for what are no contacts of this model."""
    if not isinstance(contacts, GroundContacts):
        raise ValueError(f"contacts must be those of ground_contacts(model, frames, ...), got {contacts!r}.")
    n = len(contacts.frames)
    each = ("radius", "friction", "stiffness", "dissipation")
    for name, shape in {"points": (n, 3), "stiction_velocity": (), **dict.fromkeys(each, (n,))}.items():
        found = jnp.shape(getattr(contacts, name))
        if found != shape:
            raise ValueError(f"{name} of contacts must have shape {shape}, got {found}. Batches are made by jax.vmap.")
    _bodies(model, contacts.frames)


def _bodies(model: Model, frames: Sequence[NameOrNumber]) -> np.ndarray:
    """Numbers of the bodies that carry frames. **Raises:** `ValueError` for frames that the world carries."""
    bodies = np.array([model.locate(frame)[0] for frame in frames], np.int32)
    if np.any(bodies == WORLD):
        fixed = [frame for frame, body in zip(frames, bodies, strict=True) if body == WORLD]
        raise ValueError(
            f"Contacts must be on bodies that move, but {fixed} are fixed to the world. A robot that is to stand on "
            "the ground needs a floating base: load_model(file, floating_base=True)."
        )
    return bodies
