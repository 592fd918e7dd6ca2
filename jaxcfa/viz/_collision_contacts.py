"""All contacts between the shapes that collide in a file."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from .. import contacts
from ..contacts._make import Described
from ..io._source import FileOrCompiled, read_source
from ..model import WORLD, Model
from ..model._given import Numbers, as_list
from ..numerics._options import check_flag
from ..typing import NameOrNumber
from ._collision_points import CollisionPoints, check_most, points_of_each, points_of_shapes, points_on_faces
from ._collision_surfaces import on_body, surface_of
from ._files import Directories
from ._load import load_collisions
from ._shapes import AbstractShape, Capsule, Collisions, Cylinder, Plane, Sphere

_ROUND = Sphere, Capsule  # which look for all others themselves
_SLIDING = Sphere, Capsule, Cylinder  # which touch where they are nearest
_LARGER = 1.01  # so many times as large is what others may get into without being met by its own points


def collision_contacts(
    path_or_text: FileOrCompiled,
    model: Model,
    *,
    package_dirs: Directories = (),
    ground: Described | None = None,
    bodies: NameOrNumber | Sequence[NameOrNumber] | None = None,
    self_collisions: bool = False,
    points: int = 8,
    stiffness: Numbers | None = None,
    dissipation: Numbers = 20.0,
    stiction_velocity: ArrayLike = 1e-4,
    most: int | None = 32,
    assets: Mapping[str, bytes] | None = None,
) -> contacts.AbstractContacts:
    """Contacts between all that collides in a URDF or MJCF file: robots, objects, and what does not move.

        scene = jaxcfa.load_model("scene.xml")
        touching = viz.collision_contacts("scene.xml", scene)
        motion = jaxcfa.rollout(scene, q, v, torques, dt=0.005, contacts=touching)

    Points of each shape (see `collision_points`) touch the surfaces of the others (see `collision_surface`): corners of
    boxes, rims of cylinders, which roll, outermost points of meshes, and, but for planes, four on each large flat face,
    and capsules and long cylinders where along their length they are nearest. Edges of boxes and meshes that cross are
    not found, so that what lies on edges, between all these points, falls through: a plank across two beams, or a box
    that hangs over the edge of a table by more than its outermost points. What does not move has points, too, for
    larger shapes that it might get into. In MJCF `contype`,
    `conaffinity`, `<exclude>` and `<pair>` say what touches what, and bodies that a joint connects do not. Friction is
    that of the pair, or of the geom with the higher `priority`, or else the larger one; where `condim` is 1 there is
    none. In URDF bodies that a joint connects do not, and friction is 1.

    **Arguments:**

    - `path_or_text`: path of a file, or its content; or a `mujoco.MjModel` or `mujoco.MjSpec`.
    - `model`: the model that `load_model` makes of it, with fixed or floating base.
    - `package_dirs`: folders of packages, or folders that hold packages.
    - `ground`: what all that moves touches besides, as of `jaxcfa.ground_contacts`, which URDF never has.
    - `bodies`: those that alone touch each other, and what does not move; by default all. Each one more makes the
      program longer.
    - `self_collisions`: whether parts of a robot touch each other. A robot is what hangs from one body of the world, or
      is in one URDF file. Shapes that are always in each other, as those near a joint may be, push without end: such
      pairs are for `<exclude>`.
    - `points`: how many a cylinder, an ellipsoid or a mesh has at most, six or more.
    - `stiffness`, `dissipation`, `stiction_velocity`: as for `jaxcfa.ground_contacts`, of all.
    - `most`: how many points push at a time, of all; `None` for no limit.
    - `assets`: contents of the files that MJCF text names, by these names, as of `load_model`.

    **Raises:** what `load_visuals` does; `ValueError` if nothing that moves touches anything, for unknown bodies, and
    what `jaxcfa.ground_contacts` refuses.
    """
    check_flag("self_collisions", self_collisions)
    check_most("points", points)
    name, found = read_source(path_or_text).name, load_collisions(path_or_text, model, package_dirs, assets)
    law: dict[str, Any] = {"stiffness": stiffness, "dissipation": dissipation, "stiction_velocity": stiction_velocity}
    if bodies is not None:
        kept = {WORLD, *(model.locate(body)[0] for body in as_list(bodies))}
        found = _some_of(found, np.array([on_body(model, x)[0] in kept for x in found.shapes], bool))
    each = points_of_each(found.shapes, model, points)
    groups = contacts_of(name, model, found, each, points, self_collisions=self_collisions, **law)
    if not (ground is None or isinstance(ground, contacts.FlatGround)):
        each = points_of_each(found.shapes, model, points, flat=False)
    moving = points_of_shapes(each)
    if ground is not None and moving.frames:
        groups.append(contacts.ground_contacts(model, moving.frames, ground=ground, **moving.arguments, **law))
    if groups:
        return contacts.AllContacts(tuple(groups), most)
    raise ValueError(
        f"{name}: nothing that moves touches anything. It has {len(found.shapes)} shapes that collide and can be read, "
        f"{sum(len(x.frames) > 0 for x in each)} of them on bodies that move. Give ground=contacts.FlatGround() for a "
        "floor, and self_collisions=True for parts of one robot."
    )


def contacts_of(
    file: str,
    model: Model,
    collisions: Collisions,
    points: Sequence[CollisionPoints],
    most: int,
    *,
    self_collisions: bool = False,
    without: np.ndarray | None = None,
    **law: Any,
) -> list[contacts.PointContacts]:
    """Contacts of points of each shape with the other shapes that it meets, by the body that has these.

    **Arguments:** `points` of each shape for what is flat, at `most` so many; `without` (n,): shapes that none meets.
    """

    @functools.cache
    def on_no_plane(shape: int) -> list[CollisionPoints]:
        """The points of a shape for surfaces that are not flat."""
        alone = collisions.shapes[shape : shape + 1]
        known = points[shape].frames and not isinstance(alone[0].shape, Capsule | Cylinder)
        corners = [points[shape]] if known else points_of_each(alone, model, most, flat=False, still=True)
        return corners + points_on_faces(alone, model, still=True)

    placed = [on_body(model, x) for x in collisions.shapes]
    bodies, robots = np.array([body for body, _ in placed], int), collisions.robots
    meet = collisions.meet & (bodies[:, None] != bodies)
    if not self_collisions:
        meet &= (robots[:, None] != robots) | (robots == WORLD)
    # What does not move has points for what it might get into. What is smaller, or round, looks for it itself.
    slides, is_round = ([isinstance(x.shape, kinds) for x in collisions.shapes] for kinds in (_SLIDING, _ROUND))
    sizes = np.array([_size(x.shape) for x in collisions.shapes])
    into = (sizes[:, None] > _LARGER * sizes) | np.array(slides, bool)
    into &= (bodies != WORLD)[:, None] & ~np.array(is_round, bool)[:, None]
    into &= np.array([not isinstance(x.shape, Plane) for x in collisions.shapes], bool)
    meet &= np.array([len(x.frames) > 0 for x in points], bool) | into
    if without is not None:
        meet &= ~without[:, None]  # (shape, shape with points)
    own = collisions.has_own_friction & meet
    # Shapes whose contacts are alike: that meet the same ones, and with the same friction if that is not their own.
    kinds = np.where(meet, np.where(own.any(axis=1)[:, None], collisions.friction, np.inf), -1.0)
    found = []
    for body in np.unique(bodies):
        here = np.flatnonzero((bodies == body) & meet.any(axis=1))
        for kind in np.unique(kinds[here], axis=0):
            alike = [i for i in here if np.array_equal(kinds[i], kind)]
            others = np.flatnonzero(kind >= 0).tolist()
            of_pairs = own[alike].any()
            what = f"{file}, shapes of {'what does not move' if body == WORLD else repr(model.body_names[body])}"
            planes = all(isinstance(collisions.shapes[i].shape, Plane) for i in alike)
            met = [(i, x) for i in others for x in ([points[i]] if planes else on_no_plane(i))]
            together = points_of_shapes([x.with_friction(kind[i]) if of_pairs else x for i, x in met])
            own_shapes = [(collisions.shapes[i], placed[i][1]) for i in alike]
            surface = surface_of(what, own_shapes, friction=not of_pairs, exact=bool(together.radius.any()))
            carrier = WORLD if body == WORLD else model.body_names[body]
            arguments = together.arguments | law
            found.append(contacts.body_contacts(model, together.frames, carrier, surface, **arguments))
    return found


def _size(shape: AbstractShape) -> float:
    return (
        float("inf") if isinstance(shape, Plane) else float(np.linalg.norm(np.ptp(shape.triangles().vertices, axis=0)))
    )


def _some_of(collisions: Collisions, which: np.ndarray) -> Collisions:
    """Those shapes for which `which` (n,) is true."""
    kept = np.flatnonzero(which).tolist()
    shapes = [collisions.shapes[i] for i in kept]
    both = np.ix_(kept, kept)
    return Collisions(shapes, collisions.meet[both], collisions.friction[both], collisions.robots[kept])
