"""Recurrences over trees without a loop over nodes: by pointer doubling, and level by level.

Outward: `y[i] = combine(y[parent[i]], x[i])`, with `y[i] = x[i]` at roots. Inward, its transpose for affine maps:
`y[i] = x[i] + sum over children c of A[c]^T y[c]`.
"""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, PyTree

from ..numerics import transpose
from ._arguments import Blocks, Columns
from ._products import filled, following, matmul, previous
from ._tree_schedule import TreeSchedule

Element = TypeVar("Element")


def doubling_outward(tree: TreeSchedule, combine: Callable[[Element, Element], Element], elements: Element) -> Element:
    """Rounds in which every node takes in its ancestor at distance 1, 2, 4, ... (Wyllie 1979), in one loop body."""

    def one_round(reached: Element, ancestor: Array) -> tuple[Element, None]:
        before = jax.tree.map(lambda x: x[ancestor], reached)
        return select(ancestor >= 0, jax.vmap(combine)(before, reached), reached), None

    return lax.scan(one_round, elements, jnp.asarray(tree.ancestors))[0]


def doubling_sum(tree: TreeSchedule, x: PyTree[Array]) -> PyTree[Array]:
    """Sums over subtrees: the same rounds transposed, every node gives to its ancestors.

    The order of the rounds does not matter: with Q the map to the parents, they multiply by `1 + Q^(2^j)`.
    """

    def one_round(total: PyTree[Array], ancestor: Array) -> tuple[PyTree[Array], None]:
        given = _kept(ancestor >= 0, total)
        return jax.tree.map(lambda y, g: y.at[ancestor].add(g), total, given), None

    return lax.scan(one_round, x, jnp.asarray(tree.ancestors))[0]


def doubling_inward(tree: TreeSchedule, a: Blocks, x: Columns) -> Columns:
    """The inward recurrence: `doubling_sum` with the products of the maps on the way."""

    def one_round(state: tuple[Array, Array], ancestor: Array) -> tuple[tuple[Array, Array], None]:
        way, total = state
        # Beyond the roots is the last node's place, of perhaps another tree: no sums go there, not even zero times NaN.
        given = _kept(ancestor >= 0, matmul(transpose(way), total))
        return (_kept(ancestor >= 0, matmul(way, way[ancestor])), total.at[ancestor].add(given)), None

    return lax.scan(one_round, (a, x), jnp.asarray(tree.ancestors))[0][1]


def levels_outward(tree: TreeSchedule, combine: Callable[[Element, Element], Element], elements: Element) -> Element:
    """Level by level from the roots."""
    nodes, parent_slots, places = tree.levels
    if not len(nodes):
        return elements

    def one_level(above: Element, x: tuple[Array, Array, Array]) -> tuple[Element, Element]:
        own, parent_slot, is_root = x
        element = jax.tree.map(lambda x: x[own], elements)
        parent = jax.tree.map(lambda x: x[parent_slot], above)
        reached = select(is_root, element, jax.vmap(combine)(parent, element))
        return reached, reached

    start = jax.tree.map(lambda x: x[jnp.maximum(nodes[0], 0)], elements)
    is_root = jnp.zeros(nodes.shape, bool).at[0].set(True)
    _, reached = lax.scan(one_level, start, (jnp.asarray(nodes), jnp.asarray(parent_slots), is_root))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[places], reached)


def levels_inward(tree: TreeSchedule, message: Callable[[Array, Element], Element], x: Element) -> Element:
    """Level by level from the leaves: `y[i] = x[i] + sum of message(c, y[c])` for the children, by their numbers c."""
    nodes, parent_slots, places = tree.levels
    if not len(nodes):
        return x

    def one_level(received: Element, row: tuple[Array, Array]) -> tuple[Element, Element]:
        own, parent_slot = row
        total = jax.tree.map(lambda r, x: r + x[own], received, x)
        given = message(own, _kept(own >= 0, total))
        # In empty slots by the last node's number, whose map may be NaN.
        given = _kept(own >= 0, given)
        return jax.tree.map(lambda g: jnp.zeros_like(g).at[parent_slot].add(g), given), total

    zero = jax.tree.map(lambda x: jnp.zeros((nodes.shape[1], *x.shape[1:]), x.dtype), x)
    _, totals = lax.scan(one_level, zero, (jnp.asarray(nodes), jnp.asarray(parent_slots)), reverse=True)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[places], totals)


def from_parents(tree: TreeSchedule, x: Element, base: Element) -> Element:
    """`x[parent[i]]`, and `base` for roots."""

    def one(x: Array, base: Array) -> Array:
        if tree.is_chain:
            return filled(previous(x), 0, base)
        extended = jnp.concatenate([x, jnp.broadcast_to(base, x.shape[1:])[None]])
        return extended[np.where(tree.parents < 0, len(x), tree.parents)]

    return jax.tree.map(one, x, base)


def sum_of_children(tree: TreeSchedule, x: Element) -> Element:
    """The sum of `x[c]` over the children c of every node."""

    def one(x: Array) -> Array:
        if tree.is_chain:
            return following(x)
        return jnp.zeros((len(x) + 1, *x.shape[1:]), x.dtype).at[tree.parents].add(x)[:-1]

    return jax.tree.map(one, x)


def select(condition: Bool[Array, "n"], a: Element, b: Element) -> Element:
    """Per leading index, `a` where the condition holds and `b` elsewhere."""
    return jax.tree.map(lambda x, y: jnp.where(condition.reshape(-1, *[1] * (x.ndim - 1)), x, y), a, b)


def _kept(condition: Bool[Array, "n"], x: Element) -> Element:
    """Per leading index, `x` where the condition holds and zero elsewhere."""
    return select(condition, x, jax.tree.map(jnp.zeros_like, x))
