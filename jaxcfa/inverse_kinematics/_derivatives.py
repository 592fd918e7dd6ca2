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
from ..numerics import jvp_of_perturbed, linear_solution, product, with_rule, without_derivatives
from ._rows import Problem, residuals, rows_of
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
    def found(arrays: PyTree, q: Array, preferred: Array, reached: Array) -> Array:
        return q

    def rule(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
        function = lambda arrays, *found: _implicit(eqx.combine(arrays, static), *found)  # noqa: E731
        return jvp_of_perturbed(function, primals, tangents)

    return with_rule(found, rule)(arrays, *lax.stop_gradient((q, preferred, reached)))


def _implicit(
    problem: Problem, q: Float[Array, "nq"], preferred: Float[Array, "nq"], reached: Bool[Array, ""]
) -> Float[Array, "nq"]:
    """The configuration q as an implicit function of the problem."""
    near = _with_ends(problem, q)
    if problem.has_preferences:
        is_held, held_at = _is_held(problem, preferred, everything=True), _with_ends(problem, preferred)
        equations = _Stationary(problem, preferred, is_held, held_at, held_at, jnp.asarray(False), everything=True)
        low, high = at_ends(problem, preferred)
        near = held_at + _zero_of(equations, low | high)
    low, high = at_ends(problem, q)
    is_held = (low & high) | (~reached & _is_held(problem, q, everything=False))
    equations = _Stationary(problem, q, is_held, _with_ends(problem, q), near, reached, everything=False)
    moved = near + _zero_of(equations, low | high)
    return integrate(problem.model, lax.stop_gradient(q), jnp.where(is_held, equations.held_at, moved))


class _Stationary(eqx.Module):
    """The equations of a displacement at which the sum of squares is stationary.

    **Fields:** `problem`; `q` (nq,), which is displaced; `is_held` (nv,), coordinates that are `held_at` (nv,); `near`
    (nv,), from which the others are displaced; whether all rows `vanish`, but for their derivatives: their curvature
    would be weighted by what rounding has left of them; whether `everything` counts, or targets only.
    """

    problem: Problem
    q: Float[Array, "nq"]
    is_held: Bool[Array, "nv"]
    held_at: Float[Array, "nv"]
    near: Float[Array, "nv"]
    vanish: Bool[Array, ""]
    everything: bool = eqx.field(static=True)

    def gradient(self, correction: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """That of the sum of squares at `near` and the correction."""
        x = jnp.where(self.is_held, self.held_at, correction + self.near)
        values, pull = jax.vjp(self._rows, x)
        values = values - jnp.where(self.vanish, lax.stop_gradient(values), 0)
        return jnp.where(self.is_held, 0, pull(values)[0])

    def _rows(self, displacement: Float[Array, "nv"]) -> Float[Array, "k"]:
        hard, soft = residuals(self.problem, lax.stop_gradient(self.q), displacement)
        return jnp.concatenate([hard, last_weight(hard.dtype) * soft]) if self.everything else hard


def _zero_of(equations: _Stationary, stays: Bool[Array, "nv"]) -> Float[Array, "nv"]:
    """The correction, which is zero, with the derivatives of the least one that solves the equations.

    Coordinates that stay, if they can, are moved by what the others cannot do.
    """
    parts, static = eqx.partition(equations, eqx.is_array)

    # By `lax.custom_root` a Jacobian has half as many operations again.
    def nothing(parts: _Stationary, stays: Array) -> Array:
        return jnp.zeros_like(parts.near)

    def rule(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
        (parts, stays), (directions, _) = primals, tangents
        zero = correction(parts, stays)
        _, change = jvp_of_perturbed(lambda parts: eqx.combine(parts, static).gradient(zero), (parts,), (directions,))
        _, matrix = jax.linearize(eqx.combine(parts, static).gradient, zero)
        inverse = _inverse(matrix, stays, zero.dtype)
        return zero, -linear_solution(matrix, change, product, inverse, lambda found, b: product(b, found))

    correction = with_rule(nothing, rule)
    return correction(parts, stays)


def _inverse(matrix: Callable[[Array], Array], stays: Bool[Array, "nv"], dtype: jnp.dtype) -> Float[Array, "nv nv"]:
    """A generalised inverse of the matrix A, symmetric where it is taken.

    With the pseudo-inverses P of A and F of the part that does not stay: `F + P (1 - A F)`.
    """
    size = len(stays)
    values = lax.stop_gradient(jax.vmap(matrix)(jnp.eye(size, dtype=dtype)))
    values = 0.5 * (values + values.T)
    # Both by one call, since of a batch, or of two at a time, it may wait for ever (`structured/_small_spd.py`).
    both = block_diag(values, jnp.where(stays[:, None] | stays, 0, values))
    roots, vectors = jnp.linalg.eigh(both)
    absolute = jnp.abs(roots)
    significant = absolute > 10 * size * jnp.finfo(dtype).eps * jnp.max(absolute, initial=0)
    inverse = jnp.where(significant, 1 / jnp.where(significant, roots, 1), 0)
    inverse = product(vectors * inverse[None], vectors.T)
    every, free = inverse[:size, :size], inverse[size:, size:]
    return free + product(every, jnp.eye(size, dtype=dtype) - product(values, free))


def _is_held(problem: Problem, q: Float[Array, "nq"], everything: bool) -> Bool[Array, "nv"]:
    """The coordinates at an end of their range, beyond which the sum of squares would fall."""
    problem, q = without_derivatives((problem, q))
    rows = rows_of(problem, q)
    values, jacobian = rows.preferring(jnp.asarray(last_weight(q.dtype) if everything else 0, q.dtype))
    return held(problem, q, product(values, jacobian))


def _with_ends(problem: Problem, q: Float[Array, "nq"]) -> Float[Array, "nv"]:
    """Zero, with the derivatives of the ends of the ranges that coordinates have reached."""
    low, high = at_ends(problem, q)
    own = rated_coordinates(problem.model)
    end = jnp.where(low, problem.lower[own], jnp.where(high, problem.upper[own], 0))
    return end - lax.stop_gradient(end)
