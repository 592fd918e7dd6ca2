"""Cutting a tree into chains that meet at nodes, on the host."""

from dataclasses import dataclass

import numpy as np

from ._tree_tables import children_lists


@dataclass(frozen=True, eq=False)
class ChainPartition:
    """Edges that hang on a node with several children are *separators*; all others form chains, coupled only by them.

    A chain touches the separator above its first edge, if that hangs on a separator's node, and all separators that
    hang on its last node. At the other end of a separator is thus the base, a chain or another separator.

    **Fields:** `separators` (s,), edges; `interior` (i,), the other edges, chain after chain, each outwards;
    `continues` (i,), whether an interior edge hangs on the one before it; `chain` (i,), number of its chain;
    `first` and `last` (c,), places in `interior` of each chain's ends; `above` (c,), place in `separators` of the edge
    that the chain hangs on, -1 if none; `longest`, edges in the longest chain. For every separator: `parent` (s,), the
    node that it hangs on; `upper` (s,), place of the next separator inwards, -1 if none. `coupled` (p, 2), pairs of
    places of separators that hang on the same node, each with itself too.
    """

    separators: np.ndarray
    interior: np.ndarray
    continues: np.ndarray
    chain: np.ndarray
    first: np.ndarray
    last: np.ndarray
    above: np.ndarray
    longest: int
    parent: np.ndarray
    upper: np.ndarray
    coupled: np.ndarray

    @property
    def is_chain(self) -> bool:
        """Whether the whole tree is one chain, numbered outwards."""
        return not len(self.separators) and len(self.first) == 1 and np.array_equal(self.interior, range(self.longest))

    def above_or(self, nowhere: int) -> np.ndarray:
        """`above`, with another number where there is none."""
        return np.where(self.above >= 0, self.above, nowhere)


def partition(parents: np.ndarray) -> ChainPartition:
    """Cuts a tree given by its nodes' parents."""
    children = children_lists(parents)
    separates = np.array([p >= 0 and len(children[p]) > 1 for p in parents.tolist()], dtype=bool)
    place = np.cumsum(separates) - 1
    chains = [_descend(children, edge) for edge in _heads(parents, separates)]
    interior, first = [edge for chain in chains for edge in chain], np.cumsum([0, *map(len, chains)])
    lengths = np.diff(first)
    heads = np.array([parents[chain[0]] for chain in chains], dtype=np.int64)
    above = np.where(heads >= 0, place[heads], -1)
    bottom = {chain[-1]: int(above[number]) for number, chain in enumerate(chains)}
    separators = np.flatnonzero(separates)
    hung_on = parents[separators]
    upper = [int(place[node]) if separates[node] else bottom[node] for node in hung_on.tolist()]
    pairs = [(place[a], place[b]) for node in set(hung_on.tolist()) for a in children[node] for b in children[node]]
    return ChainPartition(
        separators,
        np.array(interior, dtype=np.int64),
        np.arange(len(interior)) != np.repeat(first[:-1], lengths),
        np.repeat(np.arange(len(chains)), lengths),
        first[:-1],
        first[1:] - 1,
        above,
        int(max(lengths, default=0)),
        hung_on,
        np.array(upper, dtype=np.int64),
        np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2),
    )


def _heads(parents: np.ndarray, separates: np.ndarray) -> list[int]:
    """First edges of all chains."""
    inner = ~separates
    return np.flatnonzero(inner & ((parents < 0) | separates[parents])).tolist()


def _descend(children: list[list[int]], edge: int) -> list[int]:
    chain = [edge]
    while len(children[edge]) == 1:
        edge = children[edge][0]
        chain.append(edge)
    return chain
