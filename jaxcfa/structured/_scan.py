"""Schedules: cumulative products along sequences and trees, from sequential to logarithmic depth."""

import abc
from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from ..compilation import jit_alone
from ..numerics import add, choose, cut, joined, transpose
from ..numerics._options import check_instance, positive_integer
from ._arguments import Blocks, Columns
from ._products import following, matmul
from ._rounds import rounds
from ._tree_scan import doubling_inward, doubling_outward, doubling_sum, levels_inward, levels_outward, select
from ._tree_schedule import TreeSchedule
from ._tree_sweep import sweep_inward, sweep_outward

Element = TypeVar("Element")
Combine = Callable[[Element, Element], Element]


class AbstractSchedule(eqx.Module):
    """An order of evaluation for `y[0] = x[0], y[i] = combine(y[i-1], x[i])` with an associative `combine`.

    On a tree y[i-1] is replaced by y at the parent of i. Schedules are hashable and hold no arrays, so they can be
    static fields. A new one is a subclass with `prefix`, which serves sequences, and the four methods for trees;
    `AbstractParallelSchedule` has these already.
    """

    def scan(self, combine: Combine, elements: Element, reverse: bool = False) -> Element:
        """All the cumulative products.

        **Arguments:** `combine`: associative function of two single elements, the one that comes first in the order
        of the scan as the first argument; `elements`: pytree of arrays with a common leading axis n; `reverse`: from
        the last to the first, `y[i] = combine(y[i+1], x[i])`.

        **Returns:** a pytree like `elements`.

        **Raises:** `ValueError` if the leading axes differ.
        """
        elements = jax.tree.map(jnp.asarray, elements)
        if common_length(elements) == 0:
            return elements
        return _flip(self.prefix(combine, _flip(elements))) if reverse else self.prefix(combine, elements)

    @abc.abstractmethod
    def prefix(self, combine: Combine, elements: Element) -> Element:
        """The cumulative products, from the first to the last of at least one element."""

    @abc.abstractmethod
    def outward(self, tree: TreeSchedule, combine: Combine, elements: Element) -> Element:
        """`y[i] = combine(y[parent of i], x[i])`, and `y[i] = x[i]` at roots."""

    @abc.abstractmethod
    def ancestor_sum(self, tree: TreeSchedule, x: PyTree[Array]) -> PyTree[Array]:
        """Sums over each node and its ancestors."""

    @abc.abstractmethod
    def subtree_sum(self, tree: TreeSchedule, x: PyTree[Array]) -> PyTree[Array]:
        """Sums over each node and all that it carries: the transpose of `ancestor_sum`."""

    @abc.abstractmethod
    def inward(self, tree: TreeSchedule, a: Blocks, x: Columns) -> Columns:
        """`y[i] = x[i] + sum of A[c]^T y[c]` over the children c of i: the transpose of an affine recurrence.

        A is (n, k, k), x and y are (n, k, m).
        """


class Sequential(AbstractSchedule):
    """One after the other by `lax.scan`: O(n) work and depth. The fastest on CPUs, and for large batches."""

    def prefix(self, combine: Combine, elements: Element) -> Element:
        def step(reached, element):
            reached = combine(reached, element)
            return reached, reached

        first = jax.tree.map(lambda x: x[0], elements)
        _, rest = lax.scan(step, first, jax.tree.map(lambda x: x[1:], elements))
        return jax.tree.map(lambda x, y: jnp.concatenate([x[None], y]), first, rest)

    def outward(self, tree: TreeSchedule, combine: Combine, elements: Element) -> Element:
        def step(parent, x):
            is_root, element = x
            value = choose(is_root, element, combine(parent, element))
            return value, value

        if tree.is_chain or common_length(elements) == 0:
            return self.scan(combine, elements)
        # Beside roots, whose products with it are not used; of zeros these might have no derivatives.
        some = jax.tree.map(lambda x: jnp.asarray(x)[0], elements)
        return sweep_outward(tree, step, some, [(jnp.asarray(tree.parents < 0), elements)])[0]

    def ancestor_sum(self, tree: TreeSchedule, x: PyTree[Array]) -> PyTree[Array]:
        def step(parent, x):
            total = add(parent, x)
            return total, total

        return sweep_outward(tree, step, _zero_of(x), [x])[0]

    def subtree_sum(self, tree: TreeSchedule, x: PyTree[Array]) -> PyTree[Array]:
        def step(children, x):
            total = add(children, x)
            return total, total

        return sweep_inward(tree, step, _zero_of(x), [x])[0]

    def inward(self, tree: TreeSchedule, a: Blocks, x: Columns) -> Columns:
        def step(children, x):
            a, own = x
            total = children + own
            return matmul(transpose(a), total), total

        return sweep_inward(tree, step, _zero_of(x), [(a, x)])[0]


class AbstractParallelSchedule(AbstractSchedule):
    """Schedules that serve chains, and do pointer doubling on trees that branch."""

    def outward(self, tree: TreeSchedule, combine: Combine, elements: Element) -> Element:
        return self.scan(combine, elements) if tree.is_chain else doubling_outward(tree, combine, elements)

    def ancestor_sum(self, tree: TreeSchedule, x: PyTree[Array]) -> PyTree[Array]:
        return self.outward(tree, add, x)

    def subtree_sum(self, tree: TreeSchedule, x: PyTree[Array]) -> PyTree[Array]:
        return prefix_sum(x, self, reverse=True) if tree.is_chain else doubling_sum(tree, x)

    def inward(self, tree: TreeSchedule, a: Blocks, x: Columns) -> Columns:
        if not tree.is_chain:
            return doubling_inward(tree, a, x)
        return self.scan(compose_affine, (transpose(following(a)), x), reverse=True)[1]


class Associative(AbstractParallelSchedule):
    """`lax.associative_scan`: O(n) work, O(log n) depth, but a program that grows with log n and compiles slowly."""

    def prefix(self, combine: Combine, elements: Element) -> Element:
        return lax.associative_scan(jax.vmap(combine), elements)


class Doubling(AbstractParallelSchedule):
    """Rounds in which element i takes in element i - 2^j (Hillis & Steele 1986), on trees its 2^j-th ancestor.

    O(n log n) work and O(log n) depth, on trees the logarithm of the depth. All rounds have the same shapes, so they
    are one loop body: the program does not grow with n.
    """

    def prefix(self, combine: Combine, elements: Element) -> Element:
        return doubled(combine, elements, common_length(elements))


def doubled(combine: Combine, elements: Element, longest: int, reverse: bool = False) -> Element:
    """The scan of `Doubling`, of elements of which `combine` starts anew after `longest` at most."""
    if reverse:
        return _flip(doubled(combine, _flip(elements), longest))
    n = common_length(elements)

    def one_round(j, reached):
        distance = 1 << j
        before = jax.tree.map(lambda x: jnp.roll(x, distance, axis=0), reached)
        return select(jnp.arange(n) >= distance, jax.vmap(combine)(before, reached), reached)

    return rounds(doubling_rounds(min(longest, n)), one_round, elements)


SEQUENTIAL = Sequential()
DOUBLING = Doubling()


class Chunked(AbstractParallelSchedule):
    """Sequential inside chunks of `size` elements, all chunks at once, and by the schedule `across` between them.

    O(n) work and O(size + log(n / size)) depth: for long chains where n exceeds what the hardware does at once.
    """

    size: int = eqx.field(static=True, default=64)
    across: AbstractSchedule = DOUBLING

    def __check_init__(self):
        positive_integer("size", self.size)
        check_schedule(self.across, "across")

    def prefix(self, combine: Combine, elements: Element) -> Element:
        n = common_length(elements)
        # Repeating the last element fills the last chunk. Those products are cut off again, and no chunk follows.
        chunks = jax.tree.map(lambda x: cut(x, self.size), elements)
        inside = jax.vmap(lambda chunk: SEQUENTIAL.prefix(combine, chunk))(chunks)
        first, others = jax.tree.map(lambda x: x[:1], inside), jax.tree.map(lambda x: x[1:], inside)
        totals = jax.tree.map(lambda x: x[:-1, -1], inside)
        before = self.across.scan(combine, totals)
        others = jax.vmap(jax.vmap(combine, (None, 0)))(before, others)
        return jax.tree.map(lambda x, y: joined(jnp.concatenate([x, y]), n), first, others)


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

    def inward(self, tree: TreeSchedule, a: Blocks, x: Columns) -> Columns:
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

    def inward(self, tree: TreeSchedule, a: Blocks, x: Columns) -> Columns:
        return DOUBLING.inward(tree, a, x)


def prefix_sum(x: PyTree[ArrayLike], schedule: AbstractSchedule = DOUBLING, reverse: bool = False) -> PyTree[Array]:
    """Cumulative sums along the leading axis, `y[i] = x[0] + ... + x[i]`; from the end if `reverse`.

    Booleans are counted.
    """
    check_schedule(schedule)
    return _sums(schedule, jax.tree.map(_countable, x), bool(reverse))


@jit_alone
def _sums(schedule: AbstractSchedule, x: PyTree[Array], reverse: bool) -> PyTree[Array]:
    return schedule.scan(add, x, reverse)


def check_schedule(schedule: object, name: str = "schedule") -> None:
    """Raises `ValueError` for what is no schedule."""
    check_instance(name, schedule, AbstractSchedule, "one of jaxcfa.structured, such as Doubling()")


def compose_affine(
    first: tuple[Float[Array, "k k"], Float[Array, "k m"]], second: tuple[Float[Array, "k k"], Float[Array, "k m"]]
) -> tuple[Float[Array, "k k"], Float[Array, "k m"]]:
    """The affine map `x -> A x + b` that applies `first`, then `second`, both given as (A, b)."""
    (a1, b1), (a2, b2) = first, second
    return matmul(a2, a1), matmul(a2, b1) + b2


def doubling_rounds(n: int) -> int:
    """Smallest r with `2^r >= n`: how often a distance of 1 doubles until it spans n elements."""
    return max(n - 1, 0).bit_length()


def common_length(elements: PyTree[Array]) -> int:
    """The leading axis of all leaves."""
    shapes = [x.shape for x in jax.tree.leaves(elements)]
    if () in shapes or len({shape[0] for shape in shapes}) != 1:
        raise ValueError(
            "The elements of a scan must be arrays with one leading axis in common, got "
            f"{'shapes ' + ', '.join(map(str, shapes)) if shapes else 'none'}."
        )
    return shapes[0][0]


def _countable(x: ArrayLike) -> Array:
    array = jnp.asarray(x)
    return array.astype(int) if array.dtype == bool else array


def _product(mask: Float[Array, "n n"], x: Float[Array, "n *rest"]) -> Float[Array, "n *rest"]:
    return jnp.tensordot(mask, x, axes=1, precision=lax.Precision.HIGHEST)


def _zero_of(elements: Element) -> Element:
    """One element of zeros."""
    return jax.tree.map(lambda x: jnp.zeros(x.shape[1:], x.dtype), elements)


def _flip(elements: Element) -> Element:
    return jax.tree.map(lambda x: x[::-1], elements)
