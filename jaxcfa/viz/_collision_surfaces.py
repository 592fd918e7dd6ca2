"""Surfaces that points touch, from the shapes that collide in a file."""

from collections.abc import Mapping, Sequence

import numpy as np

from .. import contacts
from ..io._source import FileOrCompiled, read_source
from ..model import WORLD, Model
from ..model._arguments import check_instance
from ..numerics._options import check_flag, quoted
from ..spatial._host import pose_matrix
from ._files import Directories
from ._load import load_visuals
from ._shapes import AbstractShape, Box, Capsule, Cylinder, Ellipsoid, HeightField, Plane, Sphere, Visual

_THIN = 1e-3  # half the thickness of a flat mesh, by its size


def collision_surface(
    path_or_text: FileOrCompiled,
    model: Model,
    frame: str | None = None,
    *,
    package_dirs: Directories = (),
    friction: bool = False,
    assets: Mapping[str, bytes] | None = None,
) -> contacts.AbstractSurface:
    """What a URDF or MJCF file lets collide on one link, or of all that does not move, as contacts take it.

        stairs = viz.collision_surface("scene.xml", model)
        feet = jaxcfa.ground_contacts(model, names, radius=0.02, ground=stairs)
        cup = viz.collision_surface("scene.xml", model, "cup")
        tips = jaxcfa.body_contacts(model, fingers, "cup", cup, radius=0.01)

    Shapes are those of `load_visuals(..., collisions=True)`. Planes go on without end, and meshes count as convex: a
    cup of one mesh is full to its rim, one of several boxes can be filled. Points touch the nearest shape. The base of
    a robot that is fixed does not move, either.

    **Arguments:**

    - `path_or_text`, `model`, `package_dirs`, `assets`: as for `load_visuals`.
    - `frame`: name of the link or body, in whose axes the surface is; by default all that does not move, in world axes.
    - `friction`: whether each shape is `contacts.Rough`, as its geom in MJCF, 1 in URDF; else contacts alone say it.

    **Raises:** what `load_visuals` does; `ValueError` if nothing collides there.
    """
    check_flag("friction", friction)
    check_instance("frame", frame, (str, type(None)), "the name of a link or body, or None for what does not move")
    shapes = load_visuals(path_or_text, model, package_dirs=package_dirs, collisions=True, assets=assets)
    where = "of what does not move" if frame is None else f"of {frame!r}"
    if frame is None:
        own = [(x, placement) for x in shapes for body, placement in [on_body(model, x)] if body == WORLD]
    else:
        own = [(x, x.placement) for x in shapes if x.carrier == frame]
    name = read_source(path_or_text).name
    if own:
        return surface_of(f"{name}, shapes {where}", own, friction=friction)
    others = quoted(sorted({x.carrier for x in shapes if x.carrier is not None}))
    raise ValueError(
        f"{name}: no shape {where} collides and can be read. The frame must be one that has some: "
        f"{others or 'there is none'}."
    )


def surface_of(
    what: str, shapes: Sequence[tuple[Visual, np.ndarray]], *, friction: bool = True, exact: bool = True
) -> contacts.AbstractSurface:
    """The surface of some shapes at their placements (4, 4), with the friction of each or without; hulls are `exact` or
    for points alone.

    **Raises:** `ValueError`, naming `what` they are, for what has no hull.
    """
    try:
        found = [_placed(*x, friction, exact) for x in shapes]
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error
    return contacts.Union(found) if len(found) > 1 else found[0]


def on_body(model: Model, visual: Visual) -> tuple[int, np.ndarray]:
    """The body that carries a shape, -1 for the world, and where the shape is in its axes (4, 4)."""
    if visual.carrier is None:
        return WORLD, visual.placement
    body, frame = model.locate(visual.carrier)
    place = pose_matrix(np.asarray(frame.rotation, float), np.asarray(frame.translation, float))
    return body, place @ visual.placement


def _placed(visual: Visual, placement: np.ndarray, friction: bool, exact: bool) -> contacts.AbstractSurface:
    surface = _surface(visual.shape, exact)
    surface = surface if np.array_equal(placement, np.eye(4)) else contacts.Placed(surface, placement)
    return contacts.Rough(surface, visual.friction) if friction else surface


def _surface(shape: AbstractShape, exact: bool) -> contacts.AbstractSurface:
    match shape:
        case Box():
            return contacts.Box(np.array(shape.size) / 2)
        case Sphere():
            return contacts.Sphere(shape.radius)
        case Capsule():
            half = np.array([0, 0, shape.length / 2])
            return contacts.Capsule(-half, half, shape.radius)
        case Cylinder():
            return contacts.Cylinder(shape.radius, shape.length / 2)
        case Ellipsoid():
            return contacts.Ellipsoid(shape.radii)
        case HeightField():
            half = np.array(shape.size) / 2
            return contacts.HeightField(shape.heights, -half, half, bounded=True)
        case Plane():
            return contacts.FlatGround()
    return contacts.ConvexHull(_with_volume(shape.triangles().vertices), exact=exact)


def _with_volume(vertices: np.ndarray) -> np.ndarray:
    """The vertices (n, 3), on both sides of what is flat a little further out, so that they have a hull."""
    _, lengths, axes = np.linalg.svd(vertices - vertices.mean(axis=0), full_matrices=False)
    size = np.ptp(vertices, axis=0).max()
    for axis in axes[lengths < 1e-6 * lengths[0]]:
        vertices = np.concatenate([vertices - _THIN * size * axis, vertices + _THIN * size * axis])
    return vertices
