"""Contacts, by what a user says of them."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..model import WORLD, Model
from ..model._arguments import as_list, is_concrete, positive_integer, require_single
from ..model._given import Numbers, not_negative, not_negative_each, vector_of_each
from ..spatial import Transform
from ..typing import NameOrNumber
from ._composed import Placed
from ._point_contacts import PointContacts, check_carriers
from ._surfaces import AbstractSurface, FlatGround, as_surface

_GRAVITY, _PENETRATION = 9.81, 1e-3  # m/s^2, m: the weight of all on one point presses it in so far

Described = AbstractSurface | Callable[[Float[Array, "3"]], ArrayLike]


def ground_contacts(
    model: Model,
    frames: NameOrNumber | Sequence[NameOrNumber],
    points: Numbers | None = None,
    radius: Numbers = 0.0,
    *,
    ground: Described | None = None,
    friction: Numbers = 1.0,
    stiffness: Numbers | None = None,
    dissipation: Numbers = 20.0,
    stiction_velocity: ArrayLike = 1e-4,
    most: int | None = None,
    segments: Numbers | None = None,
    rims: Numbers | None = None,
) -> PointContacts:
    """Contacts of a robot with the ground, for the steps of `jaxcfa.simulation`.

        feet = jaxcfa.ground_contacts(model, ["FL_foot", "FR_foot", "RL_foot", "RR_foot"], radius=0.02)
        motion = jaxcfa.rollout(model, q, v, torques, dt=0.005, contacts=feet)

    **Arguments:**

    - `frames`: bodies or frames, one for each point, by names, or numbers, which are kept as names; they may repeat.
    - `points`: (n, 3), where the points are in these frames, or (3,) for all [m]; by default their origins.
    - `radius`: of spheres about the points [m].
    - `ground`: `FlatGround()`, z = 0, by default; `HeightField`, `Union` or another `AbstractSurface`, such as
      `viz.collision_surface` makes of a file; or a function that gives how far a point (3,) is above the ground [m].
      Arrays of an `AbstractSurface`, or of a callable `equinox.Module`, can be differentiated; what another function
      closes over cannot.
    - `friction`: coefficients mu; of `Rough` surfaces the larger one counts, this or theirs.
    - `stiffness` k [N/m]: by default the weight of the whole robot, at 9.81 m/s^2, on one point presses it in by a
      millimetre.
    - `dissipation` d [s/m]: what falls at the velocity u bounces off with about u - 2/3 d u^2 if d u is small, and
      with less than 1 / d, in time steps well below sqrt(m / k). Implicit steps take energy, too: with d = 0, 1 kg and
      the default stiffness, for which that is 10 ms, 0.99 of u is left in steps of 0.1 ms, 0.86 in steps of 1 ms, and
      0.47 in steps of 5 ms.
    - `stiction_velocity` [m/s]: how fast what is held by friction creeps at 0.7 of the largest friction. Its square
      must not vanish in the model's precision.
    - `most`: how many of the points push at a time, by default all; those that are deepest at the start of a step. Its
      cost grows with their number, by its cube where there are more degrees of freedom: of hundreds, 32 are enough.
    - `segments`: (n, 3), or (3,), what is no point but a line from `point - segment` to `point + segment` [m], or a
      capsule about that: it touches where it is nearest to the surface. Of what lies flat the place is towards the end
      `point + segment`: a limb is two contacts, with a segment and its reverse.
    - `rims`: (n, 3), or (3,), what is no point but a circle about it, as of a wheel: its axis, of any sign, times its
      radius [m]. It touches where it is nearest to the surface, so that wheels roll:
      `ground_contacts(model, wheels, rims=[0, 0.1, 0])`.

    Numbers that belong to points are one for all, or (n,).

    **Raises:** `ValueError` for a batch of models, unknown frames, those that are fixed to the world, wrong shapes,
    numbers that are negative or not finite, distances that are not one real number, and a default for the stiffness of
    what has no mass.
    """
    require_single(model, "ground_contacts")
    surface = FlatGround() if ground is None else as_surface("ground", ground, "FlatGround()")
    law = friction, stiffness, dissipation, stiction_velocity
    return _contacts(model, frames, (points, segments, rims), radius, surface, None, law, most)


def body_contacts(
    model: Model,
    frames: NameOrNumber | Sequence[NameOrNumber],
    body: NameOrNumber,
    shape: Described,
    points: Numbers | None = None,
    radius: Numbers = 0.0,
    *,
    friction: Numbers = 1.0,
    stiffness: Numbers | None = None,
    dissipation: Numbers = 20.0,
    stiction_velocity: ArrayLike = 1e-4,
    most: int | None = None,
    segments: Numbers | None = None,
    rims: Numbers | None = None,
) -> PointContacts:
    """Contacts of points, or spheres, on some bodies with the shape of another one, which feels the opposite forces.

        model = jaxcfa.combine([hand, cube])
        tips = jaxcfa.body_contacts(model, ["left_tip", "right_tip"], "cube", contacts.Box([0.03] * 3), radius=0.01)
        table = jaxcfa.ground_contacts(model, ["cube"] * 4, corners)
        motion = jaxcfa.rollout(model, q, v, torques, dt=0.002, contacts=tips + table)

    A body that is long or flat has several points, also for contacts with the edges of the shape: what touches is
    looked for at the points alone.

    **Arguments:**

    - `frames`: bodies or frames, one for each point, by names, or numbers, which are kept as names; they may repeat.
    - `body`: the body or frame in whose axes the shape is described. On what is fixed to the world, or the world
      itself, -1, it is ground, as of `ground_contacts`: `Placed` where the frame is in this model.
    - `shape`: `contacts.Sphere`, `Capsule`, `Cylinder`, `Box`, `Ellipsoid`, `ConvexHull`, `Placed`, `Union` or another
      `AbstractSurface`, such as `viz.collision_surface` makes of a file; or a function that gives how far a point (3,)
      is outside [m], as for `ground`.
    - `points`, `radius`, `friction`, `stiffness`, `dissipation`, `stiction_velocity`, `most`, `segments`, `rims`: as
      for `ground_contacts`; by default the weight of all robots of the model on one point presses it in by a
      millimetre.

    **Raises:** `ValueError` for a batch of models, unknown frames, those that are on the body themselves, wrong shapes,
    numbers that are negative or not finite, distances that are not one real number, and a default for the stiffness of
    what has no mass.
    """
    require_single(model, "body_contacts")
    surface = as_surface("shape", shape, "Box([0.1, 0.1, 0.2])")
    law = friction, stiffness, dissipation, stiction_velocity
    where = points, segments, rims
    carrier, placement = model.locate(body)
    if carrier != WORLD:
        return _contacts(model, frames, where, radius, surface, body, law, most)
    surface = surface if _is_identity(placement) else Placed(surface, placement)
    return _contacts(model, frames, where, radius, surface, None, law, most)


def _contacts(
    model: Model,
    frames: NameOrNumber | Sequence[NameOrNumber],
    where: tuple[Numbers | None, Numbers | None, Numbers | None],
    radius: Numbers,
    surface: AbstractSurface,
    carrier: NameOrNumber | None,
    law: tuple[Any, Any, Any, ArrayLike],
    most: int | None,
) -> PointContacts:
    if most is not None:
        positive_integer("most", most)
    names = tuple(_name(model, frame) for frame in as_list(frames))
    if not names:
        raise ValueError("frames must name the points that touch something, one or more, got none.")
    carrier = None if carrier is None else _name(model, carrier)
    check_carriers(model, names, carrier)
    count, dtype = len(names), model.dtype
    points, segments, rims = where
    places = vector_of_each("points", np.zeros(3) if points is None else points, count, dtype)
    segments, rims = _extents("segments", segments, count, dtype), _extents("rims", rims, count, dtype)
    friction, stiffness, dissipation, stiction_velocity = law
    if stiffness is None:
        stiffness = jnp.sum(model.mass) * _GRAVITY / _PENETRATION
        if is_concrete(stiffness) and not np.asarray(stiffness) > 0:
            raise ValueError("The model has no mass whose weight could say how stiff contacts are: give stiffness.")

    def each(name: str, value: Numbers) -> Float[Array, "n"]:
        return not_negative_each(name, value, count, "points", dtype)

    creep = not_negative("stiction_velocity", stiction_velocity).astype(dtype)
    # XLA takes numbers below the smallest normal one for zero.
    if creep.shape != () or (is_concrete(creep) and np.asarray(creep) ** 2 < np.finfo(dtype).tiny):
        raise ValueError(
            f"stiction_velocity must be one positive number, whose square does not vanish in {dtype}, got "
            f"{stiction_velocity}."
        )
    return PointContacts(
        names,
        places,
        each("radius", radius),
        each("friction", friction),
        each("stiffness", stiffness),
        each("dissipation", dissipation),
        creep,
        surface,
        carrier,
        None if most is None or most >= count else int(most),
        segments,
        rims,
    )


def _extents(name: str, value: Numbers | None, count: int, dtype: Any) -> Float[Array, "n 3"] | None:
    """Those about the points; `None` if it is known that all are zero."""
    vectors = None if value is None else vector_of_each(name, value, count, dtype)
    return None if vectors is None or (is_concrete(vectors) and not np.any(np.asarray(vectors))) else vectors


def _name(model: Model, frame: NameOrNumber) -> NameOrNumber:
    """The name of a frame or body, as numbers of other models are those of others; -1 for the world, which has none."""
    number = model.frame_number(frame)
    return number if number == WORLD else (*model.body_names, *model.frame_names)[number]


def _is_identity(placement: Transform) -> bool:
    """Whether it is known to be."""
    rotation, translation = placement.rotation, placement.translation
    return is_concrete(placement) and np.array_equal(rotation, np.eye(3)) and np.array_equal(translation, np.zeros(3))
