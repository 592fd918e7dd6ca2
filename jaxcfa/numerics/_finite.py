"""Whether results can be used."""

import functools
import operator
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool


def all_finite(tree: Any) -> Bool[Array, ""]:
    """Whether no number in the tree is infinite or NaN."""
    return functools.reduce(operator.and_, (jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(tree)))
