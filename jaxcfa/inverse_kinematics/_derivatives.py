"""Derivatives of solutions of inverse kinematics."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, PyTree

from ..configuration import integrate
from ..model._ranges import rated_coordinates
from ..numerics import jvp_of_perturbed, linear_solution, product
from ._rows import Problem, residuals
from ._search import held, last_weight


def attached(
    problem: Problem, q: Float[Array, "nq"], preferred: Float[Array, "nq"], reached: Bool[Array, ""]
) -> Float[Array, "nq"]:
    """The configuration q with its derivatives by all that is in the problem, by the implicit function theorem.

    The targets' gradient `J^T r` stays zero. Where that leaves directions open, the configuration moves as the one does
    in which preferences are least, `preferred`, or not at all. Coordinates that are pressed against the ends of their
    ranges move with these.
    """
    arrays, static = eqx.partition(problem, eqx.is_inexact_array)

    # So that nothing of this is traced where only values are asked for.
    @jax.custom_jvp
    def solution(arrays: PyTree, q: Array, preferred: Array, reached: Array) -> Array:
        return q

    def rule(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
        function = lambda arrays, *found: _implicit(eqx.combine(arrays, static), *found)  # noqa: E731
        return jvp_of_perturbed(function, primals, tangents)

    solution.defjvp(rule, symbolic_zeros=True)
    return solution(arrays, *lax.stop_gradient((q, preferred, reached)))


def _implicit(
    problem: Problem, q: Float[Array, "nq"], preferred: Float[Array, "nq"], reached: Bool[Array, ""]
) -> Float[Array, "nq"]:
    """The configuration q as an implicit function of the problem."""
    size, weight = problem.model.nv, last_weight(q.dtype)

    def all_rows(x: Array) -> Array:
        hard, soft = residuals(problem, lax.stop_gradient(preferred), x)
        return jnp.concatenate([hard, weight * soft])

    def targets(x: Array) -> Array:
        return residuals(problem, lax.stop_gradient(q), x)[0]

    drift = jnp.zeros(size, q.dtype)
    if problem.has_preferences:
        is_held = _held(problem, preferred, all_rows)
        drift = _stationary(all_rows, preferred, is_held, _with_ends(problem, preferred), drift, jnp.asarray(False))
    is_held = ~reached & _held(problem, q, targets)
    moved = _stationary(targets, q, is_held, _with_ends(problem, q), drift, reached)
    return integrate(problem.model, lax.stop_gradient(q), moved)


def _held(problem: Problem, q: Float[Array, "nq"], rows: Callable) -> Bool[Array, "nv"]:
    values, pull = jax.vjp(rows, jnp.zeros(problem.model.nv, q.dtype))
    return lax.stop_gradient(held(problem, q, pull(values)[0]))


def _with_ends(problem: Problem, q: Float[Array, "nq"]) -> Float[Array, "nv"]:
    """Zero, with the derivatives of the ends of the ranges that coordinates have reached."""
    end = jnp.where(q <= problem.lower, problem.lower, problem.upper)
    end = jnp.where(jnp.isfinite(end), end, 0)
    own = rated_coordinates(problem.model)
    return jnp.where(own < 0, 0, (end - lax.stop_gradient(end))[own])


def _stationary(
    rows: Callable,
    q: Float[Array, "nq"],
    is_held: Bool[Array, "nv"],
    held_at: Float[Array, "nv"],
    near: Float[Array, "nv"],
    vanish: Bool[Array, ""],
) -> Float[Array, "nv"]:
    """Zero, with the derivatives of the displacement nearest to `near` at which the sum of squares is stationary.

    Where all rows `vanish`, their curvature would be weighted by what rounding has left of them, and is left out.
    """

    def gradient(x: Array) -> Array:
        x = jnp.where(is_held, held_at, x + near)
        _, pull = jax.vjp(rows, jnp.where(vanish, 0, x))
        return jnp.where(is_held, 0, pull(rows(x))[0])

    def inverse(linear: Callable) -> Float[Array, "nv nv"]:
        """The pseudo-inverse, symmetric where it is taken; its changes are those of the equations."""
        matrix = lax.stop_gradient(jax.vmap(linear)(jnp.eye(len(near), dtype=near.dtype)))
        values, vectors = jnp.linalg.eigh(0.5 * (matrix + matrix.T))
        size = jnp.abs(values)
        significant = size > 10 * len(near) * jnp.finfo(near.dtype).eps * jnp.max(size, initial=0)
        inverse = jnp.where(significant, 1 / jnp.where(significant, values, 1), 0)
        return product(vectors * inverse[None], vectors.T)

    def nearest(linear: Callable, b: Array) -> Array:
        return linear_solution(linear, b, product, inverse(linear), product)

    # Batched if anything is: JAX batches roots by their first guess.
    zero = jnp.zeros_like(near) + 0 * lax.stop_gradient(q[:1])
    correction = lax.custom_root(gradient, zero, lambda _, x: x, nearest)
    return jnp.where(is_held, held_at, correction + near)
