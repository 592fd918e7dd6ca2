"""Schedules made for trees."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PyTree

from ..numerics import add, transpose
from ._products import matmul
from ._scan import DOUBLING, SEQUENTIAL, AbstractSchedule, Combine, Element
from ._tree_scan import levels_inward, levels_outward
from ._tree_schedule import TreeSchedule


class Levels(AbstractSchedule):
    """Level by level, all nodes of equal depth at once: O(n) work, as many steps as the tree is deep.

    For wide and shallow trees. A sequence has one element in each level, and is scanned sequentially.
    """

    def prefix(self, combine: Combine, elements: Element) -> Element:
        return SEQUENTIAL.prefix(combine, elements)

    def outward(self, tree: TreeSchedule, combine: Combine, elements: Element) -> Element:
        return levels_outward(tree, combine, elements)

    def ancestor_sum(self, tree: TreeSchedule, x: PyTree[Array]) -> PyTree[Array]:
        return self.outward(tree, add, x)

    def subtree_sum(self, tree: TreeSchedule, x: PyTree[Array]) -> PyTree[Array]:
        return levels_inward(tree, lambda _, total: total, x)

    def inward(self, tree: TreeSchedule, a: Float[Array, "n k k"], x: Float[Array, "n k m"]) -> Float[Array, "n k m"]:
        return levels_inward(tree, lambda node, total: matmul(transpose(a[node]), total), x)


class AncestorMask(AbstractSchedule):
    """Sums by one product with the matrix that says which node carries which; all else as `Doubling`.

    O(n^2) work and no loop: for trees of up to some fifty nodes on accelerators. Zero times infinity or NaN is NaN, so
    sums with such values are NaN at all nodes.
    """

    def prefix(self, combine: Combine, elements: Element) -> Element:
        return DOUBLING.prefix(combine, elements)

    def outward(self, tree: TreeSchedule, combine: Combine, elements: Element) -> Element:
        return DOUBLING.outward(tree, combine, elements)

    def ancestor_sum(self, tree: TreeSchedule, x: PyTree[Array]) -> PyTree[Array]:
        return jax.tree.map(lambda x: _product(jnp.asarray(tree.ancestor_mask, x.dtype), x), x)

    def subtree_sum(self, tree: TreeSchedule, x: PyTree[Array]) -> PyTree[Array]:
        return jax.tree.map(lambda x: _product(jnp.asarray(tree.ancestor_mask.T, x.dtype), x), x)

    def inward(self, tree: TreeSchedule, a: Float[Array, "n k k"], x: Float[Array, "n k m"]) -> Float[Array, "n k m"]:
        return DOUBLING.inward(tree, a, x)


def _product(mask: Float[Array, "n n"], x: Float[Array, "n *rest"]) -> Float[Array, "n *rest"]:
    return jnp.tensordot(mask, x, axes=1, precision=lax.Precision.HIGHEST)
