"""Symmetric positive definite systems on the edges of a tree."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..numerics import product, transpose
from ._products import matmul
from ._small_spd import STRICT, PivotRule
from ._tree_scan import from_parents, sum_of_children
from ._tree_schedule import TreeSchedule


class EdgeSystem(eqx.Module):
    """`A = W^T M^-1 W + E` with the weighted incidence matrix W of a tree.

    Edge i joins node i to its parent. Unknown `y_i` on it acts on node i by `G_i y_i`, and on the parent by
    `-B_i y_i`; the node's motion is `a = M^-1 (sum of what acts on it)`, and row i of A is `G_i^T a_i - B_i^T a_parent
    + E_i y_i`. So all edges that meet at a node are coupled. On a chain A is block tridiagonal.

    **Fields:** `tree`; `own` G and `carried` B (n, k, m); `mass` M and its inverse, `compliance` (n, k, k);
    `extra` E (n, m, m), block-diagonal and positive semidefinite. The base does not move.
    """

    tree: TreeSchedule = eqx.field(static=True)
    own: Float[Array, "n k m"]
    carried: Float[Array, "n k m"]
    mass: Float[Array, "n k k"]
    compliance: Float[Array, "n k k"]
    extra: Float[Array, "n m m"]

    def mv(self, y: Float[Array, "n m r"]) -> Float[Array, "n m r"]:
        """`A y`."""
        motion = matmul(self.compliance, matmul(self.own, y) - sum_of_children(self.tree, matmul(self.carried, y)))
        parent = from_parents(self.tree, motion, jnp.zeros((), motion.dtype))
        return matmul(transpose(self.own), motion) - matmul(transpose(self.carried), parent) + matmul(self.extra, y)

    def as_matrix(self) -> Float[Array, "nm nm"]:
        """The dense matrix (n m, n m)."""
        n, k, m = self.own.shape
        edge, parent = jnp.arange(n), jnp.asarray(self.tree.parents) % (n + 1)
        incidence = jnp.zeros((n + 1, k, n, m), self.own.dtype).at[edge, :, edge, :].set(self.own)
        incidence = incidence.at[parent, :, edge, :].add(-self.carried)[:n].reshape(n, k, n * m)
        motion = matmul(self.compliance, incidence).reshape(n * k, n * m)
        dense = product(incidence.reshape(n * k, n * m).T, motion)
        return dense.reshape(n, m, n, m).at[edge, :, edge, :].add(self.extra).reshape(n * m, n * m)

    def diagonal(self) -> Float[Array, "n m m"]:
        """The blocks `A_ii`."""
        at_parent = from_parents(self.tree, self.compliance, jnp.zeros((), self.compliance.dtype))
        return congruence(self.compliance, self.own) + congruence(at_parent, self.carried) + self.extra

    def with_unit_diagonal(self) -> tuple["EdgeSystem", Float[Array, "n m"]]:
        """The system for unknowns `z` in `y = scale z`, such that the diagonal of A is one; and `scale`."""
        scale = 1 / jnp.sqrt(jnp.diagonal(self.diagonal(), axis1=-2, axis2=-1))
        own, carried = self.own * scale[:, None, :], self.carried * scale[:, None, :]
        extra = self.extra * scale[:, None, :] * scale[:, :, None]
        return EdgeSystem(self.tree, own, carried, self.mass, self.compliance, extra), scale


class AbstractEdgeFactor(eqx.Module):
    """A factorised `EdgeSystem`."""

    @abc.abstractmethod
    def solve(self, b: Float[Array, "n m r"]) -> Float[Array, "n m r"]:
        """`A^-1 b`, for r columns."""


class AbstractEdgeSolver(eqx.Module):
    """A way of solving an `EdgeSystem`. Solvers are hashable and hold no arrays; a new one is a subclass."""

    @abc.abstractmethod
    def factor(self, system: EdgeSystem, pivots: PivotRule = STRICT) -> AbstractEdgeFactor:
        """Factorises a system of at least one edge. Where pivots are small blocks, they are subject to the rule."""


class Dense(AbstractEdgeSolver):
    """Cholesky factorisation of the dense matrix, O(n^3): for comparison."""

    def factor(self, system: EdgeSystem, pivots: PivotRule = STRICT) -> "DenseFactor":
        return DenseFactor(jnp.linalg.cholesky(system.as_matrix()))


class DenseFactor(AbstractEdgeFactor):
    """**Fields:** the lower triangular `root` L with `A = L L^T`."""

    root: Float[Array, "nm nm"]

    def solve(self, b: Float[Array, "n m r"]) -> Float[Array, "n m r"]:
        return cholesky_solve(self.root, b.reshape(-1, b.shape[-1])).reshape(b.shape)


def cholesky_solve(root: Float[Array, "n n"], b: Float[Array, "n r"]) -> Float[Array, "n r"]:
    """`A^-1 b` from the Cholesky factor of A."""
    x = lax.linalg.triangular_solve(root, b, left_side=True, lower=True)
    return lax.linalg.triangular_solve(root, x, left_side=True, lower=True, transpose_a=True)


def congruence(a: Float[Array, "n k k"], x: Float[Array, "n k m"]) -> Float[Array, "n m m"]:
    """`X^T A X`."""
    return matmul(transpose(x), matmul(a, x))
