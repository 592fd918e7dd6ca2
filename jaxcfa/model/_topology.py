"""The static part of a model: which body hangs on which, which coordinates belong to which joint, and the names."""

import functools
import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..structured._tree_schedule import TreeSchedule
from ..structured._tree_tables import subtree_sizes
from ._layout import LAYOUT, shape_of

WORLD = -1
TOPOLOGY_FIELDS = (
    *("parents", "nqs", "nvs", "group_bodies", "body_names", "joint_names"),
    *("frame_names", "frame_bodies"),
)
_MAX_SEGMENTS = 3


class JointGroup(NamedTuple):
    """Joints of equal structure, whose parameters are stacked.

    **Fields:** `bodies` (n,), their bodies; `q_index` (n, nq) and `v_index` (n, nv), their coordinates.
    """

    bodies: np.ndarray
    q_index: np.ndarray
    v_index: np.ndarray


class Segment(NamedTuple):
    """Consecutive visits `start:stop` of bodies treated as having `d` degrees of freedom each (fewer are padded)."""

    start: int
    stop: int
    d: int


class Topology:
    """Structure of a mechanism. Immutable; compared and hashed by a digest that is computed once.

    It is looked up at every call of a jitted function, so comparing two must not depend on the number of bodies.

    **Fields:** `parents` (nb,), -1 for the world, parents first; `nqs`, `nvs` (nb,), coordinates of each joint;
    `group_bodies`, bodies of each joint group, ascending; `body_names`, `joint_names`; `frame_names` and
    `frame_bodies` (nf,), the body that carries each frame, -1 for the world.
    """

    def __init__(
        self,
        parents: np.ndarray,
        nqs: np.ndarray,
        nvs: np.ndarray,
        group_bodies: Sequence[np.ndarray],
        body_names: Sequence[str],
        joint_names: Sequence[str],
        frame_names: Sequence[str] = (),
        frame_bodies: Sequence[int] | np.ndarray = (),
    ):
        self.parents = _frozen(parents)
        self.nqs, self.nvs = _frozen(nqs), _frozen(nvs)
        self.group_bodies = tuple(_frozen(bodies) for bodies in group_bodies)
        self.body_names, self.joint_names = tuple(body_names), tuple(joint_names)
        self.frame_names, self.frame_bodies = tuple(frame_names), _frozen(np.asarray(frame_bodies, dtype=np.int64))
        self._check()
        self._digest = self._compute_digest()

    def _check(self):
        nb = self.nb
        if np.any(self.parents >= np.arange(nb)) or np.any(self.parents < WORLD):
            raise ValueError("Bodies must be numbered after their parents, with -1 for the world.")
        for kind, names in (("body", self.body_names), ("joint", self.joint_names), ("frame", self.frame_names)):
            duplicate = first_duplicate(names)
            if duplicate is not None:
                raise ValueError(f"Duplicate {kind} name {duplicate!r}; names must be unique.")

    def _compute_digest(self) -> bytes:
        digest = hashlib.blake2b(digest_size=16)
        for array in (self.parents, self.nqs, self.nvs, *self.group_bodies, self.frame_bodies):
            digest.update(str(array.shape).encode())
            digest.update(array.tobytes())
        for names in (self.body_names, self.joint_names, self.frame_names):
            digest.update(repr(names).encode())
        return digest.digest()

    def __hash__(self) -> int:
        return int.from_bytes(self._digest[:8], "little")

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Topology) and self._digest == other._digest)

    def __repr__(self) -> str:
        return f"Topology(nb={self.nb}, nq={self.nq}, nv={self.nv})"

    def replace(self, **changes) -> "Topology":
        """The same with other fields."""
        return Topology(**{field: getattr(self, field) for field in TOPOLOGY_FIELDS} | changes)

    @property
    def nb(self) -> int:
        """Number of bodies."""
        return len(self.parents)

    @functools.cached_property
    def nq(self) -> int:
        """Number of configuration coordinates."""
        return int(self.nqs.sum())

    @functools.cached_property
    def nv(self) -> int:
        """Number of degrees of freedom."""
        return int(self.nvs.sum())

    @functools.cached_property
    def sizes(self) -> dict[str, int]:
        """Those that `LAYOUT` has letters for."""
        return {"nb": self.nb, "nq": self.nq, "nv": self.nv, "nf": len(self.frame_names)}

    @functools.cached_property
    def array_shapes(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """Those of a single model's arrays, by part of the model and name, without actuators and keyframes."""
        parts = ("", "limits", "placement", "frame_placement")
        return {part: {name: shape_of(x, self.sizes) for name, x in LAYOUT[part].items()} for part in parts}

    @functools.cached_property
    def q_starts(self) -> np.ndarray:
        """First configuration coordinate of each joint."""
        return np.cumsum(self.nqs) - self.nqs

    @functools.cached_property
    def v_starts(self) -> np.ndarray:
        """First velocity coordinate of each joint."""
        return np.cumsum(self.nvs) - self.nvs

    @functools.cached_property
    def dof_bodies(self) -> np.ndarray:
        """(nv,): the body moved by each velocity coordinate."""
        return np.repeat(np.arange(self.nb), self.nvs)

    @functools.cached_property
    def widest(self) -> int:
        """The most velocity coordinates of a joint, at least one."""
        return int(self.nvs.max(initial=1))

    @functools.cached_property
    def groups(self) -> tuple[JointGroup, ...]:
        """Joint groups with their coordinates."""

        def group(bodies: np.ndarray) -> JointGroup:
            nq, nv = int(self.nqs[bodies[0]]), int(self.nvs[bodies[0]])
            q_index = self.q_starts[bodies][:, None] + np.arange(nq)
            v_index = self.v_starts[bodies][:, None] + np.arange(nv)
            return JointGroup(bodies, q_index, v_index)

        return tuple(group(bodies) for bodies in self.group_bodies)

    def place_in_groups(self, body: int) -> tuple[int, int]:
        """The number of the group that a body's joint belongs to, and its place there."""
        for number, bodies in enumerate(self.group_bodies):
            place = int(np.searchsorted(bodies, body))
            if place < len(bodies) and bodies[place] == body:
                return number, place
        raise ValueError(f"No body number {body}.")

    @functools.cached_property
    def schedule(self) -> TreeSchedule:
        """Order and storage of sequential sweeps."""
        return TreeSchedule(self.parents)

    @functools.cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Runs of bodies, in order of visit, with equally many degrees of freedom; one padded run where they would be
        many.

        A free base followed by one-degree-of-freedom joints thus pays for six columns in one body only.
        """
        nvs = self.nvs[self.schedule.visits]
        whole = Segment(0, self.nb, self.widest)
        if self.nb == 0:
            return (whole,)
        cuts = [0, *(np.flatnonzero(np.diff(nvs)) + 1).tolist(), self.nb]
        runs = [Segment(a, b, max(1, int(nvs[a]))) for a, b in pairwise(cuts)]
        if len(runs) <= _MAX_SEGMENTS:
            return tuple(runs)
        rest = Segment(runs[0].stop, self.nb, max(run.d for run in runs[1:]))
        return (runs[0], rest) if runs[0].d > rest.d else (whole,)

    @functools.cached_property
    def roots(self) -> np.ndarray:
        """(nb,): the first body of the tree that each body belongs to."""
        roots = list(range(self.nb))
        for body, parent in enumerate(self.parents.tolist()):
            if parent != WORLD:
                roots[body] = roots[parent]
        return np.array(roots, dtype=np.int64)

    @functools.cached_property
    def intervals(self) -> tuple[np.ndarray, np.ndarray]:
        """(nb,), (nb,): `first`, `last` such that j is i or an ancestor of i iff first[j] <= first[i] < last[j]."""
        sizes = subtree_sizes(self.parents)
        next_free = np.zeros(self.nb + 1, dtype=np.int64).tolist()
        first = [0] * self.nb
        for body, parent in enumerate(self.parents.tolist()):
            first[body] = next_free[parent]
            next_free[parent] += int(sizes[body])
            next_free[body] = first[body] + 1
        first_array = np.array(first, dtype=np.int64)
        return first_array, first_array + sizes

    def carried_by(self, body: int) -> np.ndarray:
        """(nb,) mask of the bodies that `body` carries, itself included."""
        first, last = self.intervals
        return (first[body] <= first) & (first < last[body])

    @functools.cached_property
    def body_indices(self) -> dict[str, int]:
        """Number of each body by name."""
        return {name: i for i, name in enumerate(self.body_names)}

    @functools.cached_property
    def joint_indices(self) -> dict[str, int]:
        """Number of each joint (of the body it moves) by name."""
        return {name: i for i, name in enumerate(self.joint_names)}

    @functools.cached_property
    def frame_indices(self) -> dict[str, int]:
        """Number of each frame by name."""
        return {name: i for i, name in enumerate(self.frame_names)}


def first_duplicate(names: Sequence[str]) -> str | None:
    """The first name that occurs a second time."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _frozen(array: np.ndarray) -> np.ndarray:
    copy = np.array(array)
    copy.flags.writeable = False
    return copy
