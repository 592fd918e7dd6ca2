"""Order of visit and storage of a depth-first sweep over a tree, computed once on the host."""

import functools

import numpy as np

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


def children_lists(parents: np.ndarray) -> list[list[int]]:
    """Children of every node; those of the base come last, at index -1."""
    children: list[list[int]] = [[] for _ in range(len(parents) + 1)]
    for node, parent in enumerate(parents.tolist()):
        children[parent].append(node)
    return children


def subtree_sizes(parents: np.ndarray) -> np.ndarray:
    """Number of nodes in the subtree of each node, itself included."""
    sizes = [1] * len(parents)
    for node in range(len(parents) - 1, -1, -1):
        parent = int(parents[node])
        if parent >= 0:
            sizes[parent] += sizes[node]
    return np.array(sizes, dtype=np.int64)


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
