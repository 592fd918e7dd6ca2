"""Points of a robot that touch the ground, or bodies of it."""

import abc
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from ..model import WORLD, Model
from ..model._arguments import check_instance
from ..numerics._options import positive_integer
from ..typing import NameOrNumber
from ._surfaces import AbstractSurface

Which = Int[Array | np.ndarray, "k"]  # numbers of contacts, NumPy's where they are known


class AbstractContacts(eqx.Module):
    """Contacts for the steps of `jaxcfa.simulation`. `feet + hands` are those of both, in this order."""

    @property
    @abc.abstractmethod
    def parts(self) -> tuple["PointContacts", ...]:
        """Those whose points share a surface, in order."""

    @property
    def count(self) -> int:
        """How many points there are."""
        return sum(len(part.frames) for part in self.parts)

    @abc.abstractmethod
    def pushing(self, depth: Float[Array, "n"]) -> Which:
        """Numbers of those that push, which are as deep as is said [m]; NumPy's if these do not matter."""

    @property
    def grounds(self) -> tuple[AbstractSurface, ...]:
        """The surfaces that the world carries, in order."""
        return tuple(part.surface for part in self.parts if part.carrier is None)

    @property
    def ground(self) -> AbstractSurface | None:
        """The first surface that the world carries, if there is one."""
        return next(iter(self.grounds), None)

    def __add__(self, other: object) -> "AllContacts":
        if not isinstance(other, AbstractContacts):
            return NotImplemented
        return AllContacts((*self._summands, *other._summands))

    def __radd__(self, other: object) -> "AbstractContacts":  # for `sum`
        return self if isinstance(other, int) and other == 0 else NotImplemented

    @property
    def _summands(self) -> tuple["AbstractContacts", ...]:
        return self.groups if isinstance(self, AllContacts) and self.most is None else (self,)


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
    `carrier`, or of the world if that is `None`; how many push at a time at `most`, `None` for all; `segments` (n, 3)
    to both sides of the points, and `rims` (n, 3) about them, as of `ground_contacts`, in their frames; `None` for
    none.
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
    segments: Float[Array, "n 3"] | None = None
    rims: Float[Array, "n 3"] | None = None

    @property
    def parts(self) -> tuple["PointContacts", ...]:
        """These alone."""
        return (self,)

    def pushing(self, depth: Float[Array, "n"]) -> Which:
        """All, or the deepest."""
        return _deepest(depth, np.arange(len(self.frames)), self.most)

    def in_type(self, dtype: jnp.dtype) -> "PointContacts":
        """The same with all floating-point numbers of this type."""

        def one(x: Any) -> Any:
            return jnp.asarray(x, dtype) if isinstance(x, float) or eqx.is_inexact_array(x) else x

        return jax.tree.map(one, self)


class AllContacts(AbstractContacts):
    """Several contacts together. **Fields:** `groups` of them; how many of all push at a time at `most`, `None` for
    all that do in their groups."""

    groups: tuple[AbstractContacts, ...] = eqx.field(converter=tuple)
    most: int | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        for group in self.groups:
            check_instance("Each group of contacts", group, AbstractContacts, "those of ground_contacts, or others")
        if self.most is not None:
            positive_integer("most", self.most)

    @property
    def parts(self) -> tuple[PointContacts, ...]:
        """Those of the groups."""
        return tuple(part for group in self.groups for part in group.parts)

    def pushing(self, depth: Float[Array, "n"]) -> Which:
        """Those that push in their groups, and of these the deepest."""
        ends = np.cumsum([group.count for group in self.groups])
        found = [
            group.pushing(depth[end - group.count : end]) + (end - group.count)
            for group, end in zip(self.groups, ends, strict=True)
        ]
        which = np.concatenate(found) if all(isinstance(x, np.ndarray) for x in found) else jnp.concatenate(found)
        return _deepest(depth, which, self.most)


def _deepest(depth: Float[Array, "n"], which: Which, most: int | None) -> Which:
    """The deepest of some contacts, all of them if there are no more."""
    if most is None or most >= len(which):
        return which
    return jnp.asarray(which)[lax.top_k(depth[which], most)[1]]


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
        extents = [x for x in ("segments", "rims") if getattr(part, x) is not None]
        shapes = {**dict.fromkeys(["points", *extents], (n, 3)), "stiction_velocity": (), **dict.fromkeys(each, (n,))}
        for name, shape in shapes.items():
            found = jnp.shape(getattr(part, name))
            if found != shape:
                raise ValueError(
                    f"{name} of contacts must have shape {shape}, got {found}. Batches are made by jax.vmap."
                )
        check_carriers(model, part.frames, part.carrier)


def check_carriers(model: Model, frames: Sequence[NameOrNumber], carrier: NameOrNumber | None) -> None:
    """**Raises:** `ValueError` for frames on the body that carries the surface, relative to which they never move."""
    bodies = bodies_of(model, frames)
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


def bodies_of(model: Model, frames: Sequence[NameOrNumber]) -> tuple[int, ...]:
    """Numbers of the bodies that carry frames, -1 for the world."""
    carriers = {frame: model.locate(frame)[0] for frame in dict.fromkeys(frames)}
    return tuple(carriers[frame] for frame in frames)
