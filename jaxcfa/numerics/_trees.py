"""Functions of pytrees, leaf by leaf."""

import functools
import operator
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

Tree = TypeVar("Tree")


def choose(condition: Bool[Array, "*shape"], one: Tree, other: Tree) -> Tree:
    """`jnp.where` for all leaves."""
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), one, other)


def add(one: Tree, other: Tree) -> Tree:
    """Sums of all leaves."""
    return jax.tree.map(jnp.add, one, other)


def without_derivatives(tree: Tree) -> Tree:
    """The same values without derivatives; leaves that are no numeric arrays, such as functions, are kept."""
    return jax.tree.map(lambda x: jax.lax.stop_gradient(x) if eqx.is_inexact_array(x) else x, tree)


def all_finite(tree: Any) -> Bool[Array, ""]:
    """Whether no number in the tree is infinite or NaN."""
    return functools.reduce(operator.and_, (jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(tree)))
