"""Derivatives of solutions of inverse kinematics."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from .._precise import product
from ..configuration import integrate
from ._rows import Problem, residuals
from ._search import held


def attached(
    problem: Problem, q: Float[Array, "nq"], preferred: Float[Array, "nq"], reached: Bool[Array, ""]
) -> Float[Array, "nq"]:
    """The configuration q with its derivatives by all that is in the problem, by the implicit function theorem.

    The targets' gradient `J^T r` stays zero. Where that leaves directions open, the configuration moves as the one does
    in which preferences are least, `preferred`, or not at all. Coordinates that are pressed against the ends of their
    ranges stay there.
    """
    zero = jnp.zeros(problem.model.nv, q.dtype)

    def all_squares(x: Array) -> Array:
        return 0.5 * sum(jnp.sum(r * r) for r in residuals(problem, lax.stop_gradient(preferred), x))

    def squares(x: Array) -> Array:
        return 0.5 * jnp.sum(residuals(problem, lax.stop_gradient(q), x)[0] ** 2)

    drift = zero
    if problem.has_preferences:
        drift = _stationary(all_squares, ~_held(problem, preferred, all_squares), zero)
    moved = _stationary(squares, reached | ~_held(problem, q, squares), drift)
    return integrate(problem.model, lax.stop_gradient(q), moved)


def _held(problem: Problem, q: Float[Array, "nq"], cost: Callable) -> Bool[Array, "nv"]:
    gradient = jax.grad(cost)(jnp.zeros(problem.model.nv, q.dtype))
    return lax.stop_gradient(held(problem, q, gradient))


def _stationary(cost: Callable, free: Bool[Array, "nv"], near: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """The displacement nearest to `near` at which the cost's gradient vanishes: zero as `near` is, with derivatives."""

    def conditions(x: Array) -> Array:
        return jnp.where(free, jax.grad(cost)(jnp.where(free, x + near, 0)), 0)

    def nearest(linear: Callable, b: Array) -> Array:
        matrix = jax.vmap(linear)(jnp.eye(len(b), dtype=b.dtype))
        values, vectors = jnp.linalg.eigh(0.5 * (matrix + matrix.T))
        size = jnp.abs(values)
        significant = size > 10 * len(b) * jnp.finfo(b.dtype).eps * jnp.max(size)
        return product(
            vectors * jnp.where(significant, 1 / jnp.where(significant, values, 1), 0), product(vectors.T, b)
        )

    correction = lax.custom_root(conditions, jnp.zeros_like(near), lambda _, x: x, nearest)
    return jnp.where(free, correction + near, 0)
