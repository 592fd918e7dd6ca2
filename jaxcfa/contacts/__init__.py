"""Contacts with the ground and between bodies: compliant, with friction, solved implicitly in each step."""

from ._composed import HeightField as HeightField, Placed as Placed, Rough as Rough, Union as Union
from ._make import body_contacts as body_contacts, ground_contacts as ground_contacts
from ._point_contacts import (
    AbstractContacts as AbstractContacts,
    AllContacts as AllContacts,
    PointContacts as PointContacts,
)
from ._searched_shapes import ConvexHull as ConvexHull, Ellipsoid as Ellipsoid
from ._shapes import (
    Box as Box,
    Capsule as Capsule,
    Cylinder as Cylinder,
    Sphere as Sphere,
)
from ._state import ContactState as ContactState, contact_forces as contact_forces, contact_state as contact_state
from ._surfaces import AbstractSurface as AbstractSurface, FlatGround as FlatGround, Touch as Touch
