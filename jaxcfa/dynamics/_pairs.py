"""What matrices have in common whose entries are formed pair by pair from composites of subtrees."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model import Model
from ..numerics import matmul, skew, transpose


def twice_b(
    inertia: Float[Array, "nb 6 6"], velocity: Float[Array, "nb 6"], momentum: Float[Array, "nb 6"]
) -> Float[Array, "nb 6 6"]:
    """`2 B nu = nu x* (I V) + V x* (I nu) + I (nu x V)`."""
    w, u, n, f = (skew(x) for x in (velocity[:, :3], velocity[:, 3:], momentum[:, :3], momentum[:, 3:]))
    zero = jnp.zeros_like(w)
    cross = jnp.concatenate([jnp.concatenate([w, zero], -1), jnp.concatenate([u, w], -1)], -2)
    of_momentum = jnp.concatenate([jnp.concatenate([n, f], -1), jnp.concatenate([f, zero], -1)], -2)
    product = matmul(inertia, cross)
    return -(of_momentum + transpose(product) + product)


def ancestors(model: Model) -> tuple[Array, Array]:
    """(nv, nv): whether the column's body is the row's or carries it; whether the row's body carries the column's."""
    first, last = (jnp.asarray(x[model.topology.dof_bodies]) for x in model.topology.intervals)
    within = (first[None, :] <= first[:, None]) & (first[:, None] < last[None, :])
    return within, within.T & ~within
