"""Derivatives of solutions of inverse kinematics."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import block_diag
from jaxtyping import Array, Bool, Float, PyTree

from ..configuration import integrate
from ..model._ranges import rated_coordinates
from ..numerics import jvp_of_perturbed, linear_solution, product
from ._rows import Problem, residuals
from ._search import at_ends, held, last_weight


def attached(
    problem: Problem, q: Float[Array, "nq"], preferred: Float[Array, "nq"], reached: Bool[Array, ""]
) -> Float[Array, "nq"]:
    """The configuration q with its derivatives by all that is in the problem, by the implicit function theorem.

    The targets' gradient `J^T r` stays zero. Where that leaves directions open, the configuration moves as the one does
    in which preferences are least, `preferred`, or not at all. Coordinates that are pressed against the ends of their
    ranges move with these, and so do all at an end, as far as the others can do what is left alone.
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
    weight = last_weight(q.dtype)

    def all_rows(x: Array) -> Array:
        hard, soft = residuals(problem, lax.stop_gradient(preferred), x)
        return jnp.concatenate([hard, weight * soft])

    def targets(x: Array) -> Array:
        return residuals(problem, lax.stop_gradient(q), x)[0]

    near = _with_ends(problem, q)
    if problem.has_preferences:
        held_at, is_held = _with_ends(problem, preferred), _held(problem, preferred, all_rows)
        near = _stationary(all_rows, is_held, _stays(problem, preferred), held_at, held_at, jnp.asarray(False))
    low, high = at_ends(problem, q)
    is_held = (low & high) | (~reached & _held(problem, q, targets))
    moved = _stationary(targets, is_held, _stays(problem, q), _with_ends(problem, q), near, reached)
    return integrate(problem.model, lax.stop_gradient(q), moved)


def _held(problem: Problem, q: Float[Array, "nq"], rows: Callable) -> Bool[Array, "nv"]:
    values, pull = jax.vjp(rows, jnp.zeros(problem.model.nv, q.dtype))
    return lax.stop_gradient(held(problem, q, pull(values)[0]))


def _stays(problem: Problem, q: Float[Array, "nq"]) -> Bool[Array, "nv"]:
    """Which coordinates are at an end of their range: one of two opposite displacements would take them beyond."""
    low, high = at_ends(problem, q)
    return low | high


def _with_ends(problem: Problem, q: Float[Array, "nq"]) -> Float[Array, "nv"]:
    """Zero, with the derivatives of the ends of the ranges that coordinates have reached."""
    low, high = at_ends(problem, q)
    own = rated_coordinates(problem.model)
    end = jnp.where(low, problem.lower[own], jnp.where(high, problem.upper[own], 0))
    return end - lax.stop_gradient(end)


def _stationary(
    rows: Callable,
    is_held: Bool[Array, "nv"],
    stays: Bool[Array, "nv"],
    held_at: Float[Array, "nv"],
    near: Float[Array, "nv"],
    vanish: Bool[Array, ""],
) -> Float[Array, "nv"]:
    """Zero, with the derivatives of the displacement nearest to `near` at which the sum of squares is stationary.

    Coordinates that stay, if they can, are moved by what the others cannot do. Where all rows `vanish`, their curvature
    would be weighted by what rounding has left of them, and is left out.
    """
    size = len(near)

    def gradient(x: Array) -> Array:
        x = jnp.where(is_held, held_at, x + near)
        _, pull = jax.vjp(rows, jnp.where(vanish, 0, x))
        return jnp.where(is_held, 0, pull(rows(x))[0])

    def inverse(linear: Callable) -> Float[Array, "nv nv"]:
        """A generalised inverse of the matrix A, symmetric where it is taken; its changes are those of the equations.

        With the pseudo-inverses P of A and F of the part that does not stay: `F + P (1 - A F)`.
        """
        matrix = lax.stop_gradient(jax.vmap(linear)(jnp.eye(size, dtype=near.dtype)))
        matrix = 0.5 * (matrix + matrix.T)
        # Both by one call, since of a batch, or of two at a time, it may wait for ever (`structured/_small_spd.py`).
        both = block_diag(matrix, jnp.where(stays[:, None] | stays, 0, matrix))
        values, vectors = jnp.linalg.eigh(both)
        absolute = jnp.abs(values)
        significant = absolute > 10 * size * jnp.finfo(near.dtype).eps * jnp.max(absolute, initial=0)
        inverse = jnp.where(significant, 1 / jnp.where(significant, values, 1), 0)
        inverse = product(vectors * inverse[None], vectors.T)
        every, free = inverse[:size, :size], inverse[size:, size:]
        return free + product(every, jnp.eye(size, dtype=near.dtype) - product(matrix, free))

    def nearest(linear: Callable, b: Array) -> Array:
        return linear_solution(linear, b, product, inverse(linear), lambda solve, b: product(b, solve))

    # Batched if anything is: JAX batches roots by their first guess.
    zero = jnp.zeros_like(near) + 0 * lax.stop_gradient(held_at)
    correction = lax.custom_root(gradient, zero, lambda _, x: x, nearest)
    return jnp.where(is_held, held_at, correction + near)
