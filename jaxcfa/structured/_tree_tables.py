"""Orders and groupings of the nodes of a tree, computed on the host. A tree is its nodes' parents, -1 for the base."""

from typing import NamedTuple

import numpy as np


class Levels(NamedTuple):
    """Nodes of equal depth side by side, in slots; levels with fewer nodes have empty ones.

    **Fields:** `nodes` (depth, width), -1 in empty slots; `parent_slots` (depth, width), the parent's slot in the level
    before (0 for roots and empty slots); `places` (n,), each node's place in the flattened table.
    """

    nodes: np.ndarray
    parent_slots: np.ndarray
    places: np.ndarray


class HeavyPaths(NamedTuple):
    """The tree cut into paths that follow the child with the largest subtree, and these sorted into layers.

    A path of layer k hangs on one of layer k - 1. There are at most `1 + log2 n` layers (Sleator & Tarjan 1983).

    **Fields:** `nodes` (layers, width), the paths of a layer one after the other, each from its head, -1 in empty
    slots; `heads` (layers, width), whether a slot begins a path (empty slots do); `longest`, nodes of the longest path.
    """

    nodes: np.ndarray
    heads: np.ndarray
    longest: int


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


def node_depths(parents: np.ndarray) -> np.ndarray:
    """(n,): number of nodes between each node and the base, itself included."""
    depths = [0] * len(parents)
    for node, parent in enumerate(parents.tolist()):
        depths[node] = 1 if parent < 0 else depths[parent] + 1
    return np.array(depths, dtype=np.int64)


def doubling_ancestors(parents: np.ndarray) -> np.ndarray:
    """(rounds, n): every node's ancestor at distance 1, 2, 4, ... up to the depth of the tree; -1 beyond the roots."""
    rows, row = [], parents
    while np.any(row >= 0):
        rows.append(row)
        row = np.where(row >= 0, row[row], -1)
    return np.array(rows, dtype=np.int32).reshape(len(rows), len(parents))


def ancestor_mask(parents: np.ndarray) -> np.ndarray:
    """(n, n): whether the column's node is the row's or one of its ancestors."""
    mask = np.eye(len(parents), dtype=bool)
    for node, parent in enumerate(parents.tolist()):
        if parent >= 0:
            mask[node] |= mask[parent]
    return mask


def levels(parents: np.ndarray) -> Levels:
    """The nodes by depth."""
    rows = node_depths(parents) - 1
    order = np.argsort(rows, kind="stable")
    counts = np.bincount(rows)
    slots = np.zeros(len(parents), dtype=np.int64)
    slots[order] = np.arange(len(parents)) - (np.cumsum(counts) - counts)[rows[order]]
    shape = len(counts), int(counts.max(initial=0))
    nodes, parent_slots = np.full(shape, -1), np.zeros(shape, dtype=np.int64)
    nodes[rows, slots] = np.arange(len(parents))
    parent_slots[rows, slots] = np.where(parents >= 0, slots[parents], 0)
    return Levels(nodes, parent_slots, rows * shape[1] + slots)


def heavy_paths(parents: np.ndarray) -> HeavyPaths:
    """The nodes by heavy path."""
    heavy = heavy_children(parents)
    layers: list[list[list[int]]] = []
    layer_of = [0] * len(parents)
    for head, parent in enumerate(parents.tolist()):
        if parent >= 0 and heavy[parent] == head:
            continue
        path, layer = _follow(heavy, head), 0 if parent < 0 else layer_of[parent] + 1
        for node in path:
            layer_of[node] = layer
        layers.extend([] for _ in range(layer + 1 - len(layers)))
        layers[layer].append(path)
    width = max((sum(map(len, paths)) for paths in layers), default=0)
    nodes, heads = np.full((len(layers), width), -1), np.ones((len(layers), width), dtype=bool)
    for row, paths in enumerate(layers):
        size = sum(map(len, paths))
        nodes[row, :size] = np.concatenate(paths)
        heads[row, :size] = np.isin(nodes[row, :size], [path[0] for path in paths])
    return HeavyPaths(nodes, heads, max((len(path) for paths in layers for path in paths), default=0))


def heavy_children(parents: np.ndarray) -> list[int]:
    """Every node's child with the largest subtree, -1 for leaves."""
    sizes = subtree_sizes(parents).tolist()
    heavy = [-1] * len(parents)
    for node, parent in enumerate(parents.tolist()):
        if parent >= 0 and (heavy[parent] < 0 or sizes[node] > sizes[heavy[parent]]):
            heavy[parent] = node
    return heavy


def _follow(heavy: list[int], head: int) -> list[int]:
    path = []
    while head >= 0:
        path.append(head)
        head = heavy[head]
    return path
