"""A long loop whose reverse-mode derivative needs little memory."""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..numerics import choose, cut, joined

Carry = TypeVar("Carry", bound=PyTree[Array])


def checkpointed_scan(
    body: Callable[[Carry, PyTree[Array]], tuple[Carry, PyTree[Array]]],
    start: Carry,
    xs: PyTree[Array],
    steps: int,
    length: int,
) -> tuple[Carry, PyTree[Array]]:
    """`lax.scan(body, start, xs)` in segments of at most `length` steps, of which reverse mode stores the beginnings.

    Differentiating computes one segment after the other anew, if there is more than one, so that it stores
    `steps / length` carries and what the derivatives of `length` steps need (Griewank & Walther, Evaluating
    Derivatives, 2008, chapter 12, with two levels). With segments of one step the latter never leave a loop's body.
    """
    if length >= steps:
        return jax.lax.scan(body, start, xs)
    if length == 1:
        return jax.lax.scan(_computed_anew(body), start, xs)
    segments = -(-steps // length)
    # As short as this number of segments allows: fewer than `segments` steps are left over.
    length = -(-steps // segments)
    left_over = segments * length - steps

    def masked(carry: Carry, x: tuple[Array, PyTree[Array]]) -> tuple[Carry, PyTree[Array]]:
        active, x = x
        # Steps that are left over start where the first one does: there the body and its derivatives are finite, which
        # after the last step they need not be, and zero times infinity would not be zero.
        after, y = body(choose(active, carry, start), x)
        return choose(active, after, carry), y

    def segment(carry: Carry, x: PyTree[Array]) -> tuple[Carry, PyTree[Array]]:
        return jax.lax.scan(masked if left_over else body, carry, x)

    if left_over:
        xs = (jnp.arange(steps + left_over) < steps, jax.tree.map(lambda x: _padded(x, left_over), xs))
    xs = jax.tree.map(lambda x: cut(x, length), xs)
    end, ys = jax.lax.scan(_computed_anew(segment), start, xs)
    return end, jax.tree.map(lambda y: joined(y, steps), ys)


def _computed_anew(body: Callable) -> Callable:
    """The body of a loop, of which reverse mode stores the arguments alone."""
    # Inside a loop nothing can be shared with the first evaluation, so XLA need not be kept from trying.
    return jax.checkpoint(body, prevent_cse=False)


def _padded(x: Array, count: int) -> Array:
    """The array extended by `count` copies of its first element."""
    return jnp.concatenate([x, jnp.broadcast_to(x[:1], (count, *x.shape[1:]))])
