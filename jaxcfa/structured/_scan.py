"""Cumulative products in any semigroup, by schedules from sequential to logarithmic depth."""

import abc
from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

Element = TypeVar("Element")
Combine = Callable[[Element, Element], Element]


class AbstractSchedule(eqx.Module):
    """An order of evaluation for `y[0] = x[0], y[i] = combine(y[i-1], x[i])` with an associative `combine`.

    Schedules are hashable and hold no arrays, so they can be static fields. A new one is a subclass with `prefix`.
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


class Sequential(AbstractSchedule):
    """One after the other by `lax.scan`: O(n) work and depth. The fastest on CPUs, and for large batches."""

    def prefix(self, combine: Combine, elements: Element) -> Element:
        def step(reached, element):
            reached = combine(reached, element)
            return reached, reached

        first = jax.tree.map(lambda x: x[0], elements)
        _, rest = lax.scan(step, first, jax.tree.map(lambda x: x[1:], elements))
        return jax.tree.map(lambda x, y: jnp.concatenate([x[None], y]), first, rest)


class Associative(AbstractSchedule):
    """`lax.associative_scan`: O(n) work, O(log n) depth, but a program that grows with log n and compiles slowly."""

    def prefix(self, combine: Combine, elements: Element) -> Element:
        return lax.associative_scan(jax.vmap(combine), elements)


class Doubling(AbstractSchedule):
    """Rounds in which element i takes in element i - 2^j (Hillis & Steele 1986).

    O(n log n) work and O(log n) depth. All rounds have the same shapes, so they are one loop body: the program does
    not grow with n.
    """

    def prefix(self, combine: Combine, elements: Element) -> Element:
        n = common_length(elements)

        def one_round(j, reached):
            distance = 1 << j
            before = jax.tree.map(lambda x: jnp.roll(x, distance, axis=0), reached)
            return select(jnp.arange(n) >= distance, jax.vmap(combine)(before, reached), reached)

        return lax.fori_loop(0, doubling_rounds(n), one_round, elements)


SEQUENTIAL = Sequential()
DOUBLING = Doubling()


class Chunked(AbstractSchedule):
    """Sequential inside chunks of `size` elements, all chunks at once, and by the schedule `across` between them.

    O(n) work and O(size + log(n / size)) depth: for long chains where n exceeds what the hardware does at once.
    """

    size: int = eqx.field(static=True, default=64)
    across: AbstractSchedule = DOUBLING

    def __check_init__(self):
        if self.size < 1:
            raise ValueError(f"Chunks must have one element or more, got size={self.size}.")

    def prefix(self, combine: Combine, elements: Element) -> Element:
        n = common_length(elements)
        # Repeating the last element fills the last chunk. Those products are cut off again, and no chunk follows.
        chunks = jax.tree.map(lambda x: _in_chunks(x, self.size), elements)
        inside = jax.vmap(lambda chunk: SEQUENTIAL.prefix(combine, chunk))(chunks)
        first, others = jax.tree.map(lambda x: x[:1], inside), jax.tree.map(lambda x: x[1:], inside)
        totals = jax.tree.map(lambda x: x[:-1, -1], inside)
        before = self.across.scan(combine, totals)
        others = jax.vmap(jax.vmap(combine, (None, 0)))(before, others)
        joined = jax.tree.map(lambda x, y: jnp.concatenate([x, y]), first, others)
        return jax.tree.map(lambda x: x.reshape(x.shape[0] * self.size, *x.shape[2:])[:n], joined)


def prefix_sum(x: PyTree[ArrayLike], schedule: AbstractSchedule = DOUBLING, reverse: bool = False) -> PyTree[Array]:
    """Cumulative sums along the leading axis, `y[i] = x[0] + ... + x[i]`; from the end if `reverse`."""
    return schedule.scan(lambda a, b: jax.tree.map(jnp.add, a, b), x, reverse)


def doubling_rounds(n: int) -> int:
    """Smallest r with `2^r >= n`: how often a distance of 1 doubles until it spans n elements."""
    return max(n - 1, 0).bit_length()


def common_length(elements: PyTree[Array]) -> int:
    """The leading axis of all leaves."""
    lengths = {x.shape[0] for x in jax.tree.leaves(elements)}
    if len(lengths) != 1:
        raise ValueError(f"The elements of a scan must have one leading axis in common, got lengths {sorted(lengths)}.")
    return lengths.pop()


def select(condition: Array, a: Element, b: Element) -> Element:
    """Per leading index, `a` where the condition holds and `b` elsewhere."""
    return jax.tree.map(lambda x, y: jnp.where(condition.reshape(-1, *[1] * (x.ndim - 1)), x, y), a, b)


def _flip(elements: Element) -> Element:
    return jax.tree.map(lambda x: x[::-1], elements)


def _in_chunks(x: Array, size: int) -> Array:
    """Reshaped to (chunks, size, ...), with copies of the last element to fill the last chunk."""
    filled = jnp.concatenate([x, jnp.broadcast_to(x[-1], (-len(x) % size, *x.shape[1:]))])
    return filled.reshape(len(filled) // size, size, *x.shape[1:])
