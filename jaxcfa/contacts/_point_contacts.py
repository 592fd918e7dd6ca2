"""Points of a robot that touch the ground, or bodies of it."""

import abc
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..kinematics._frames import place_frames
from ..model import WORLD, Model
from ..model._arguments import as_frames, check_instance
from ..motion import BodyMotions
from ..motion._jacobians import point_jacobians
from ..numerics import matvec, transpose
from ..typing import NameOrNumber
from ._surfaces import AbstractSurface


class AbstractContacts(eqx.Module):
    """Contacts for the steps of `jaxcfa.simulation`. `feet + hands` are those of both, in this order."""

    @property
    @abc.abstractmethod
    def parts(self) -> tuple["PointContacts", ...]:
        """Those whose points share a surface, in order."""

    @property
    def grounds(self) -> tuple[AbstractSurface, ...]:
        """The surfaces that the world carries, in order."""
        return tuple(part.surface for part in self.parts if part.carrier is None)

    @property
    def ground(self) -> AbstractSurface | None:
        """The first surface that the world carries, if there is one."""
        return next(iter(self.grounds), None)

    def __add__(self, other: object) -> "AllContacts":
        return AllContacts((*self.parts, *other.parts)) if isinstance(other, AbstractContacts) else NotImplemented

    def __radd__(self, other: object) -> "AbstractContacts":  # for `sum`
        return self if isinstance(other, int) and other == 0 else NotImplemented


class PointContacts(AbstractContacts):
    """Points or spheres that a surface keeps outside, with friction. By `ground_contacts` or `body_contacts`.

    A point that is pressed into the surface by x, and moves outwards with the velocity u, feels the normal force
    `k x max(0, 1 - d u)` (Hunt & Crossley 1975), and against its sliding the force of friction, of at most mu times
    that. About the stiction velocity s friction is smaller, so that a robot on a slope creeps: with
    `s r / sqrt(1 - r^2)`, where that takes a part r of the largest friction. Velocities are those relative to the
    body that carries the surface, on which opposite forces act.

    **Fields:** `frames`, n names, and -1 for the world; `points` (n, 3), in these frames [m]; `radius` (n,) of the
    spheres about them [m]; coefficients of `friction` mu (n,), or larger ones that the surface has; `stiffness` k (n,)
    [N/m]; `dissipation` d (n,) [s/m]; `stiction_velocity` [m/s]; the `surface`, in the axes of the frame that is its
    `carrier`, or of the world if that is `None`; how many push at a time at `most`, `None` for all.
    """

    frames: tuple[NameOrNumber, ...] = eqx.field(static=True)
    points: Float[Array, "n 3"]
    radius: Float[Array, "n"]
    friction: Float[Array, "n"]
    stiffness: Float[Array, "n"]
    dissipation: Float[Array, "n"]
    stiction_velocity: Float[Array, ""]
    surface: AbstractSurface
    carrier: NameOrNumber | None = eqx.field(static=True, default=None)
    most: int | None = eqx.field(static=True, default=None)

    @property
    def parts(self) -> tuple["PointContacts", ...]:
        """These alone."""
        return (self,)

    def in_type(self, dtype: jnp.dtype) -> "PointContacts":
        """The same with all floating-point numbers of this type."""

        def one(x: Any) -> Any:
            return jnp.asarray(x, dtype) if isinstance(x, float) or eqx.is_inexact_array(x) else x

        return jax.tree.map(one, self)


class AllContacts(AbstractContacts):
    """Contacts with several surfaces. **Fields:** `groups`, one for each."""

    groups: tuple[PointContacts, ...]

    @property
    def parts(self) -> tuple[PointContacts, ...]:
        """The groups."""
        return self.groups


class PlacedContacts(eqx.Module):
    """Contacts in a configuration, in world axes.

    **Fields:** `position` (n, 3) of the points, on spheres those nearest to the surface [m]; unit `normal` (n, 3) of
    that; `gap` (n,) to it [m], negative in it; `jacobian` (n, 3, nv): `J v` are velocities relative to the surface;
    coefficients of `friction` (n,).
    """

    position: Float[Array, "n 3"]
    normal: Float[Array, "n 3"]
    gap: Float[Array, "n"]
    jacobian: Float[Array, "n 3 nv"]
    friction: Float[Array, "n"]


class _Carriers(eqx.Module):
    """Bodies that carry frames, in world axes.

    **Fields:** their numbers `bodies` (m,); `at` (m, 3), where their origins are in the world, and `origins` (m, 3),
    from the first body of each tree [m]; `lever` (m, 3) from these to the frames [m], and the frames' `axes` (m, 3, 3).
    """

    bodies: tuple[int, ...] = eqx.field(static=True)
    at: Float[Array, "m 3"]
    origins: Float[Array, "m 3"]
    lever: Float[Array, "m 3"]
    axes: Float[Array, "m 3 3"]

    @staticmethod
    def of(model: Model, motions: BodyMotions, frames: Sequence[NameOrNumber]) -> "_Carriers":
        placed = place_frames(model, motions, jnp.asarray(as_frames(model, frames)))
        at, origins = placed.rows(motions.poses.translation), placed.rows(motions.origins)
        return _Carriers(_bodies(model, frames), at, origins, placed.lever, placed.rotation)

    def jacobian(self, model: Model, motions: BodyMotions, lever: Float[Array, "n 3"]) -> Float[Array, "n 3 nv"]:
        """J, of which `J v` are the velocities of points on the bodies, or on the one body."""
        points, bodies = self.origins + lever, np.broadcast_to(self.bodies, len(lever))
        return point_jacobians(model, motions.subspace_columns, motions.origins, points, bodies)[:, 3:]


def place_contacts(model: Model, contacts: PointContacts, motions: BodyMotions) -> PlacedContacts:
    """The contacts where the bodies are."""
    contacts = contacts.in_type(motions.q.dtype)
    own = _Carriers.of(model, motions, contacts.frames)
    center = own.lever + matvec(own.axes, contacts.points)
    touch = jax.vmap(contacts.surface.touch)
    if contacts.carrier is None:
        distance, normal, friction = touch(own.at + center)
    else:
        other = _Carriers.of(model, motions, [contacts.carrier])
        distance, normal, friction = touch(matvec(transpose(other.axes), own.at + center - other.at - other.lever))
        normal = matvec(other.axes, normal)
    lever = center - contacts.radius[:, None] * normal
    position, jacobian = own.at + lever, own.jacobian(model, motions, lever)
    if contacts.carrier is not None:
        jacobian = jacobian - other.jacobian(model, motions, position - other.at)
    friction = contacts.friction if friction is None else jnp.maximum(contacts.friction, friction)
    return PlacedContacts(position, normal, distance - contacts.radius, jacobian, friction)


def check_contacts(model: Model, contacts: Any) -> None:
    """Raises `ValueError` for what are no contacts of this model."""
    if not isinstance(contacts, AbstractContacts):
        raise ValueError(
            "contacts must be those of ground_contacts(model, frames, ...) or body_contacts(model, frames, body, ...), "
            f"or their sum, got {contacts!r}."
        )
    if not contacts.parts:
        raise ValueError("contacts must be one or more; None stands for none.")
    for part in contacts.parts:
        check_instance("surface", part.surface, AbstractSurface, "a surface, such as contacts.FlatGround()")
        n = len(part.frames)
        each = ("radius", "friction", "stiffness", "dissipation")
        for name, shape in {"points": (n, 3), "stiction_velocity": (), **dict.fromkeys(each, (n,))}.items():
            found = jnp.shape(getattr(part, name))
            if found != shape:
                raise ValueError(
                    f"{name} of contacts must have shape {shape}, got {found}. Batches are made by jax.vmap."
                )
        check_carriers(model, part.frames, part.carrier)


def check_carriers(model: Model, frames: Sequence[NameOrNumber], carrier: NameOrNumber | None) -> None:
    """**Raises:** `ValueError` for frames on the body that carries the surface, relative to which they never move."""
    bodies = _bodies(model, frames)
    body = WORLD if carrier is None else model.locate(carrier)[0]
    together = [frame for frame, own in zip(frames, bodies, strict=True) if own == body]
    if together and body == WORLD:
        raise ValueError(
            f"Contacts must be on bodies that move, but {together} are fixed to the world. A robot that is to stand on "
            "the ground needs a floating base: load_model(file, floating_base=True)."
        )
    if together:
        raise ValueError(
            f"Contacts must be between two bodies, but {together} are on the body that carries the surface, "
            f"{model.body_names[body]!r}."
        )


def _bodies(model: Model, frames: Sequence[NameOrNumber]) -> tuple[int, ...]:
    """Numbers of the bodies that carry frames, -1 for the world."""
    return tuple(model.locate(frame)[0] for frame in frames)
