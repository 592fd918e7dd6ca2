"""Trees, and in which orders to visit them; computed once on the host."""

import functools

import numpy as np
from numpy.typing import ArrayLike

from . import _tree_tables
from ._chain_partition import ChainPartition, partition
from ._tree_tables import HeavyPaths, Levels, children_lists, subtree_sizes

_MAX_REGISTERS_IN_GIVEN_ORDER = 6


class TreeSchedule:
    """Visits every node after its parent, keeping in a few *registers* the values that later nodes still need.

    A sweep from the root needs the parent's value at each node. In depth-first order that is nearly always the value
    just computed. Only where a path *begins* at a node visited earlier is it another, which must have been *kept*:
    registers are assigned like those of a processor, from the node's visit to that of its last child. If heavy subtrees
    are visited last at most `1 + log2 n` are needed (Sethi & Ullman 1970): none for a chain, one or two for a humanoid.
    The state of the loop is thus small and independent of the number of nodes.

    **Fields:** `parents` (-1 for the base), `order` (nodes in order of visit; `None` if that is 0, 1, 2, ...). By
    visit: `begins`, whether the parent is not the node (at first the base) visited just before, and then the register
    `source` of its value; `keeps`, whether the node's own value is kept, and then the register `target`. `registers`,
    their number; where the base is kept, it is in register 0 from the start.
    """

    def __init__(self, parents: ArrayLike):
        parents = np.asarray(parents) if np.size(parents) else np.zeros(np.shape(parents), np.int64)
        fits = parents.ndim == 1 and np.issubdtype(parents.dtype, np.integer)
        if not fits or np.any((parents < -1) | (parents >= np.arange(len(parents)))):
            raise ValueError(
                "parents must be integers of shape (n,): for each node the number of one before it, or -1 for the "
                f"base; got {parents}."
            )
        self.parents = parents
        self.order = None
        given = _Visits(parents, np.arange(len(parents)))
        # In any depth-first order one path begins at every leaf but the first.
        fewest = len(parents) - len(np.unique(parents[parents >= 0])) - 1
        if given.registers > _MAX_REGISTERS_IN_GIVEN_ORDER or np.count_nonzero(given.begins) > max(fewest, 0):
            order = heavy_last_order(parents)
            other = _Visits(parents, order)
            if (other.registers, other.begins.sum()) < (given.registers, given.begins.sum()) or (
                given.registers <= _MAX_REGISTERS_IN_GIVEN_ORDER and other.begins.sum() < given.begins.sum()
            ):
                self.order, given = order, other
        self.begins, self.source = given.begins, given.source
        self.keeps, self.target = given.keeps, given.target
        self.registers = given.registers

    @functools.cached_property
    def inverse_order(self) -> np.ndarray | None:
        """Position in the order of visit of every node; `None` if equal to the node's number."""
        return None if self.order is None else np.argsort(self.order)

    @functools.cached_property
    def visits(self) -> np.ndarray:
        """Nodes in order of visit."""
        return np.arange(len(self.parents)) if self.order is None else self.order

    @functools.cached_property
    def is_chain(self) -> bool:
        """Whether every node hangs on the one before it, and the first on the base."""
        return bool(np.array_equal(self.parents, np.arange(-1, len(self.parents) - 1)))

    @functools.cached_property
    def depths(self) -> np.ndarray:
        """(n,): number of nodes between each node and the base, itself included."""
        return _tree_tables.node_depths(self.parents)

    @functools.cached_property
    def ancestors(self) -> np.ndarray:
        """(rounds, n): ancestors at distance 1, 2, 4, ... up to the depth of the tree; -1 beyond the roots."""
        return _tree_tables.doubling_ancestors(self.parents)

    @functools.cached_property
    def ancestor_mask(self) -> np.ndarray:
        """(n, n): whether the column's node is the row's or one of its ancestors."""
        return _tree_tables.ancestor_mask(self.parents)

    @functools.cached_property
    def levels(self) -> Levels:
        """The nodes by depth."""
        return _tree_tables.levels(self.parents)

    @functools.cached_property
    def heavy_paths(self) -> HeavyPaths:
        """The nodes by heavy path."""
        return _tree_tables.heavy_paths(self.parents)

    @functools.cached_property
    def chain_partition(self) -> ChainPartition:
        """The edges cut into chains and what is between them."""
        return partition(self.parents)


def heavy_last_order(parents: np.ndarray) -> np.ndarray:
    """Depth-first order (parents first) in which the child with the largest subtree is visited last."""
    sizes = subtree_sizes(parents).tolist()
    children = children_lists(parents)
    stack = sorted(children[-1], key=lambda node: -sizes[node])
    order = []
    while stack:
        node = stack.pop()
        order.append(node)
        stack.extend(sorted(children[node], key=lambda child: -sizes[child]))
    return np.array(order, dtype=np.int64)


class _Visits:
    """What the visits in an order do with registers; the fields are those of `TreeSchedule`."""

    def __init__(self, parents: np.ndarray, order: np.ndarray):
        n = len(order)
        self.begins = parents[order] != np.append(-1, order[:-1])[:n]
        waiting = np.bincount(parents[order][self.begins] + 1, minlength=n + 1).tolist()
        self.keeps = np.array([waiting[node + 1] > 0 for node in order.tolist()], dtype=bool)
        self.source, self.target = np.zeros(n, np.int32), np.zeros(n, np.int32)
        self.registers = int(waiting[0] > 0)
        register, free = {-1: 0}, []
        for visit, node in enumerate(order.tolist()):
            if self.begins[visit]:
                parent = int(parents[node])
                self.source[visit] = register[parent]
                waiting[parent + 1] -= 1
                if not waiting[parent + 1]:
                    free.append(register[parent])
            if self.keeps[visit]:
                if not free:
                    free.append(self.registers)
                    self.registers += 1
                self.target[visit] = register[node] = free.pop()
