"""Solving for the forces that close loops: `A lambda = b` with Delassus' matrix `A = J M^-1 J^T`.

A is positive semidefinite, and singular where constraints repeat one another, or in singular configurations. Then the
motion is unique still, but the forces are not: some do no work on anything.
"""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from ..model._arguments import check_instance, positive_integer, positive_number
from ..numerics import product
from ..structured import LDL, ldl_factor, ldl_solve
from ..structured._semidefinite import reduce_semidefinite


class AbstractDelassus(eqx.Module):
    """Delassus' matrix, prepared for right-hand sides."""

    matrix: eqx.AbstractVar[Float[Array, "k k"]]

    @abc.abstractmethod
    def solve(self, b: Float[Array, "k"]) -> Float[Array, "k"]:
        """Multipliers; linear in b, and symmetric."""

    @abc.abstractmethod
    def internal(self, multipliers: Float[Array, "k"]) -> Float[Array, "k"]:
        """The part of multipliers that no motion feels."""

    @property
    @abc.abstractmethod
    def is_singular(self) -> Bool[Array, ""]:
        """Whether the matrix has no inverse and the solver needs one."""


class AbstractConstraintSolver(eqx.Module):
    """How multipliers are found."""

    @abc.abstractmethod
    def factor(self, matrix: Float[Array, "k k"], scale: Float[Array, "k"]) -> AbstractDelassus:
        """Prepares Delassus' matrix. `scale` (positive): the size that its diagonal would have in general position."""


class Direct(AbstractConstraintSolver):
    """Factorises Delassus' matrix. No result where that is singular: redundant constraints, singular configurations."""

    def factor(self, matrix: Float[Array, "k k"], scale: Float[Array, "k"]) -> AbstractDelassus:
        s = 1 / jnp.sqrt(scale)
        floor = 16 * len(matrix) * float(jnp.finfo(matrix.dtype).eps)
        return _Factored(matrix, s, ldl_factor(_scaled(matrix, s), floor))


class LeastNorm(AbstractConstraintSolver):
    """The pseudo-inverse of Delassus' matrix: the multipliers of least (Euclidean) norm, by least squares.

    Its rank is that of the matrix with rows and columns scaled to order one, by elimination of the largest pivots
    first. Note that pivots are squares: a loop that should be redundant but is open by a relative `1e-5` has one of
    `1e-10`.

    **Fields:** `rank_tolerance`: pivots up to this count as zero; by default `eps^0.7`, 1e-11 in float64.
    """

    rank_tolerance: float | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        if self.rank_tolerance is not None and not positive_number("rank_tolerance", self.rank_tolerance) < 1:
            raise ValueError(f"rank_tolerance must be between 0 and 1, got {self.rank_tolerance!r}.")

    def factor(self, matrix: Float[Array, "k k"], scale: Float[Array, "k"]) -> AbstractDelassus:
        s = 1 / jnp.sqrt(scale)
        tolerance = float(jnp.finfo(matrix.dtype).eps) ** 0.7 if self.rank_tolerance is None else self.rank_tolerance
        found = reduce_semidefinite(_scaled(matrix, s), tolerance)
        # Internal forces, in the original units; columns that there are not become those of an identity.
        null = (s / jnp.max(s, initial=0))[:, None] * found.null_space()
        gram = product(null.T, null) + jnp.diag(found.chosen.astype(null.dtype))
        unfelt = product(product(null, reduce_semidefinite(gram, 0.0).inverse), null.T)
        felt = jnp.eye(len(matrix), dtype=matrix.dtype) - unfelt
        return _Reduced(matrix, product(product(felt, _scaled(found.inverse, s)), felt), unfelt)


LEAST_NORM = LeastNorm()


def check_solver(solver: Any) -> None:
    """Raises `ValueError` for what is no solver."""
    check_instance("solver", solver, AbstractConstraintSolver, "LeastNorm(), Direct() or Proximal()")


class Proximal(AbstractConstraintSolver):
    """The proximal-point iteration `(A + mu) lambda' = b + mu lambda` (Carpentier, Budhiraja & Mansard 2021).

    It starts from zero and converges where A is singular as well, to the multipliers of least (Euclidean) norm. After m
    iterations a direction of eigenvalue s has an error of `(mu / (mu + s))^m`, and noise of `m eps / mu` is left
    in internal forces. It needs no rank, but `LeastNorm` is more accurate.

    **Fields:** `regularization` mu, relative to the matrix; by default a tenth of the root of the machine epsilon.
    `iterations` m.
    """

    regularization: float | None = eqx.field(
        static=True,
        default=None,
        converter=lambda x: None if x is None else positive_number("regularization", x),
    )
    iterations: int = eqx.field(static=True, default=12, converter=lambda x: positive_integer("iterations", x))

    def factor(self, matrix: Float[Array, "k k"], scale: Float[Array, "k"]) -> AbstractDelassus:
        eps = float(jnp.finfo(matrix.dtype).eps)
        mu = 0.1 * eps**0.5 if self.regularization is None else self.regularization
        shift = mu * jnp.max(scale, initial=0) * jnp.eye(len(matrix), dtype=matrix.dtype)
        return _Regularised(matrix, ldl_factor(matrix + shift), self.iterations)


class _Factored(AbstractDelassus):
    matrix: Float[Array, "k k"]
    scale: Float[Array, "k"]
    factor: LDL

    def solve(self, b: Float[Array, "k"]) -> Float[Array, "k"]:
        def improve(_, x: Array) -> Array:
            return x + self.scale * ldl_solve(self.factor, self.scale * (b - product(self.matrix, x)))

        return lax.fori_loop(0, 2, improve, jnp.zeros_like(b))

    def internal(self, multipliers: Float[Array, "k"]) -> Float[Array, "k"]:
        return jnp.zeros_like(multipliers)

    @property
    def is_singular(self) -> Bool[Array, ""]:
        return ~jnp.all(jnp.isfinite(self.factor.pivots))


class _Reduced(AbstractDelassus):
    """Solves by the pseudo-inverse `P E P`, with E the inverse of as many rows and columns as the rank, zero elsewhere.

    **Fields:** the pseudo-`inverse`; `unfelt`, the projector `1 - P = N (N^T N)^-1 N^T` onto forces N that no motion
    feels.
    """

    matrix: Float[Array, "k k"]
    inverse: Float[Array, "k k"]
    unfelt: Float[Array, "k k"]

    def solve(self, b: Float[Array, "k"]) -> Float[Array, "k"]:
        multipliers = product(self.inverse, b)
        return multipliers + product(self.inverse, b - product(self.matrix, multipliers))

    def internal(self, multipliers: Float[Array, "k"]) -> Float[Array, "k"]:
        return product(self.unfelt, multipliers)

    @property
    def is_singular(self) -> Bool[Array, ""]:
        return jnp.zeros((), bool)


class _Regularised(AbstractDelassus):
    matrix: Float[Array, "k k"]
    factor: LDL
    iterations: int = eqx.field(static=True)

    def solve(self, b: Float[Array, "k"]) -> Float[Array, "k"]:
        def improve(_, x: Array) -> Array:
            return x + ldl_solve(self.factor, b - product(self.matrix, x))

        return lax.fori_loop(0, self.iterations, improve, jnp.zeros_like(b))

    def internal(self, multipliers: Float[Array, "k"]) -> Float[Array, "k"]:
        return multipliers - self.solve(product(self.matrix, multipliers))

    @property
    def is_singular(self) -> Bool[Array, ""]:
        return jnp.zeros((), bool)


def _scaled(matrix: Float[Array, "k k"], scale: Float[Array, "k"]) -> Float[Array, "k k"]:
    return matrix * scale[:, None] * scale[None]
