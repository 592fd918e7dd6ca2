"""Trees, and in which orders to visit them; computed once on the host."""

import functools

import numpy as np

from . import _tree_tables
from ._chain_partition import ChainPartition, partition
from ._tree_tables import HeavyPaths, Levels, children_lists, subtree_sizes

_MAX_REGISTERS_IN_GIVEN_ORDER = 6


class TreeSchedule:
    """Visits every node after its parent, keeping in a few *registers* the values that later nodes still need.

    A sweep from the root needs the parent's value at each node. In depth-first order that is nearly always the value
    just computed; only where the tree branches must one be kept for longer. Registers are assigned like those of a
    processor: a node's value lives from its visit to that of its last child. If heavy subtrees are visited last at
    most `1 + log2 n` are needed (Sethi & Ullman 1970): one for a chain, two or three for a humanoid. The state of the
    loop is thus small and independent of the number of nodes.

    **Fields:** `parents` (-1 for the base), `order` (nodes in order of visit; `None` if that is 0, 1, 2, ...),
    `source` and `target` (per visit, register of the parent's and of the own value; the base is in register 0),
    `registers` (their number).
    """

    def __init__(self, parents: np.ndarray):
        self.parents = parents
        identity = np.arange(len(parents))
        self.source, self.target, self.registers = _assign_registers(parents, identity)
        self.order = None
        if self.registers > _MAX_REGISTERS_IN_GIVEN_ORDER:
            order = heavy_last_order(parents)
            source, target, registers = _assign_registers(parents, order)
            if registers < self.registers:
                self.source, self.target, self.registers, self.order = source, target, registers, order

    @functools.cached_property
    def inverse_order(self) -> np.ndarray | None:
        """Position in the order of visit of every node; `None` if equal to the node's number."""
        return None if self.order is None else np.argsort(self.order)

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


def _assign_registers(parents: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    remaining = np.bincount(parents + 1, minlength=len(parents) + 1).tolist()
    register = [0] * (len(parents) + 1)
    free: list[int] = []
    count = 1
    source, target = np.zeros(len(parents), np.int32), np.zeros(len(parents), np.int32)
    for visit, node in enumerate(order.tolist()):
        parent = int(parents[node]) + 1
        source[visit] = register[parent]
        remaining[parent] -= 1
        if remaining[parent] == 0:
            free.append(register[parent])
        if not free:
            free.append(count)
            count += 1
        own = free[-1]
        target[visit] = register[node + 1] = own
        if remaining[node + 1]:
            free.pop()
    return source, target, count
