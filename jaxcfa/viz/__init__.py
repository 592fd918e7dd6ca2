"""Robots as pictures, animations and curves, and a viewer in the browser.

Needs the extra `viz`: matplotlib for pictures, trimesh for files of meshes, viser for the viewer. Each is imported
where it is first needed, and nothing here is imported by `import jaxcfa`.
"""

from ._animation import animate as animate
from ._collision_contacts import collision_contacts as collision_contacts
from ._collision_points import CollisionPoints as CollisionPoints, collision_points as collision_points
from ._collision_surfaces import collision_surface as collision_surface
from ._curves import plot_trajectory as plot_trajectory
from ._default_visuals import default_visuals as default_visuals
from ._frames import Frames as Frames
from ._load import load_visuals as load_visuals
from ._picture import draw as draw, snapshot as snapshot
from ._robot import Robot as Robot
from ._shapes import (
    AbstractShape as AbstractShape,
    Box as Box,
    Capsule as Capsule,
    Cylinder as Cylinder,
    Ellipsoid as Ellipsoid,
    HeightField as HeightField,
    Mesh as Mesh,
    Plane as Plane,
    Sphere as Sphere,
    Triangles as Triangles,
    Visual as Visual,
)
from ._viewer import Viewer as Viewer
