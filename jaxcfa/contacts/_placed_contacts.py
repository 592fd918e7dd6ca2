"""Contacts where the bodies are, and the velocities of their points."""

import dataclasses
from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..kinematics._frames import place_frames
from ..model import WORLD, Model
from ..model._arguments import as_frames
from ..motion import BodyMotions
from ..motion._jacobians import moving_dofs, point_jacobian, point_jacobians
from ..numerics import matvec, transpose
from ..typing import NameOrNumber
from ._nearest_places import nearest_on_rim, nearest_on_segment
from ._point_contacts import AbstractContacts, PointContacts, Which, bodies_of


class PointsOnBodies(eqx.Module):
    """Points on `bodies` (n,), -1 for the world, given by `points` (n, 3) from the first body of each tree [m]."""

    bodies: Int[Array | np.ndarray, "n"]
    points: Float[Array, "n 3"]


class PlacedContacts(eqx.Module):
    """Contacts in a configuration, in world axes.

    **Fields:** `position` (n, 3) of the points, on spheres those nearest to the surface [m]; unit `normal` (n, 3) of
    that; `gap` (n,) to it [m], negative in it; coefficients of `friction` (n,), also that of the surface; `stiffness`
    (n,), `dissipation` (n,) and `stiction_velocity` (n,) of the contacts; the points on their bodies, `own`, and on
    those that carry the surfaces, `others`; `None` if the world carries all.
    """

    position: Float[Array, "n 3"]
    normal: Float[Array, "n 3"]
    gap: Float[Array, "n"]
    friction: Float[Array, "n"]
    stiffness: Float[Array, "n"]
    dissipation: Float[Array, "n"]
    stiction_velocity: Float[Array, "n"]
    own: PointsOnBodies
    others: PointsOnBodies | None

    def only(self, which: Which) -> "PlacedContacts":
        """Some of them."""
        if isinstance(which, np.ndarray) and np.array_equal(which, np.arange(len(self.gap))):
            return self
        return jax.tree.map(lambda x: jnp.asarray(x)[which], self)

    def jacobian(self, model: Model, motions: BodyMotions) -> Float[Array, "n 3 nv"]:
        """J, of which `J v` are the velocities of the points relative to the surfaces."""
        columns, origins = motions.subspace_columns, motions.origins
        if self.others is None:
            return point_jacobians(model, columns, origins, self.own.points, self.own.bodies)[:, 3:]

        def relative(
            own: Float[Array, "3"], other: Float[Array, "3"], moves: Bool[Array, "nv"], carries: Bool[Array, "nv"]
        ) -> Float[Array, "3 nv"]:
            points = jnp.where(moves[:, None], own, other)
            found = point_jacobian(model, columns, origins, points, moves != carries)[3:]
            return jnp.where(carries, -found, found)

        moves, carries = (jnp.asarray(moving_dofs(model.topology, x.bodies)) for x in (self.own, self.others))
        return jax.vmap(relative)(self.own.points, self.others.points, moves, carries)


class _Carriers(eqx.Module):
    """Bodies that carry frames, in world axes.

    **Fields:** `at` (m, 3), where their origins are in the world, and `origins` (m, 3), from the first body of each
    tree [m]; `lever` (m, 3) from these to the frames [m], and the frames' `axes` (m, 3, 3).
    """

    at: Float[Array, "m 3"]
    origins: Float[Array, "m 3"]
    lever: Float[Array, "m 3"]
    axes: Float[Array, "m 3 3"]

    @staticmethod
    def of(model: Model, motions: BodyMotions, frames: Sequence[NameOrNumber]) -> "_Carriers":
        placed = place_frames(model, motions, jnp.asarray(as_frames(model, frames)))
        at, origins = placed.rows(motions.poses.translation), placed.rows(motions.origins)
        return _Carriers(at, origins, placed.lever, placed.rotation)


def place_contacts(model: Model, contacts: AbstractContacts, motions: BodyMotions) -> PlacedContacts:
    """The contacts where the bodies are, in order."""
    placed = [_place_part(model, part, motions) for part in contacts.parts]
    if any(x.others is not None for x in placed):
        placed = [x if x.others is not None else _by_the_world(x) for x in placed]
    return jax.tree.map(_joined, *placed)


def _place_part(model: Model, contacts: PointContacts, motions: BodyMotions) -> PlacedContacts:
    contacts = contacts.in_type(motions.q.dtype)
    own = _Carriers.of(model, motions, contacts.frames)
    center = own.lever + matvec(own.axes, contacts.points)
    other = None if contacts.carrier is None else _Carriers.of(model, motions, [contacts.carrier])

    def seen(x: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
        """Vectors in the axes of the surface."""
        return x if other is None else matvec(transpose(other.axes), x)

    origin = own.at if other is None else own.at - other.at - other.lever
    surface = contacts.surface
    for extents, nearest in ((contacts.segments, nearest_on_segment), (contacts.rims, nearest_on_rim)):
        if extents is not None:
            extents = seen(matvec(own.axes, extents))
            place = jax.vmap(partial(nearest, surface))(seen(origin + center), extents)
            center += place if other is None else matvec(other.axes, place)
    distance, normal, friction = jax.vmap(surface.touch)(seen(origin + center))
    if other is not None:
        normal = matvec(other.axes, normal)
    lever = center - contacts.radius[:, None] * normal
    position, others = own.at + lever, None
    if other is not None and contacts.carrier is not None:
        carriers = np.repeat(bodies_of(model, [contacts.carrier]), contacts.count)
        others = PointsOnBodies(carriers, other.origins + (position - other.at))
    return PlacedContacts(
        position,
        normal,
        distance - contacts.radius,
        contacts.friction if friction is None else jnp.maximum(contacts.friction, friction),
        contacts.stiffness,
        contacts.dissipation,
        jnp.broadcast_to(contacts.stiction_velocity, distance.shape),
        PointsOnBodies(np.array(bodies_of(model, contacts.frames)), own.origins + lever),
        others,
    )


def _by_the_world(placed: PlacedContacts) -> PlacedContacts:
    """The same where others are carried by bodies."""
    nobody = np.full(len(placed.own.bodies), WORLD)
    return dataclasses.replace(placed, others=PointsOnBodies(nobody, placed.own.points))


def _joined(first: Array | np.ndarray, *others: Array | np.ndarray) -> Array | np.ndarray:
    if not others:
        return first
    return (np if isinstance(first, np.ndarray) else jnp).concatenate([first, *others])
