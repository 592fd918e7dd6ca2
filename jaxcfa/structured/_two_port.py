"""Series connection of two-ports: a matrix Riccati recursion as an associative operation."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._small import matmul, symmetrise, transpose
from ._small_spd import ldl_factor, ldl_solve


class TwoPort(eqx.Module):
    """`a_out = Phi a_in - C f_out`, `f_in = Lam a_in + Phi^T f_out`, with C and Lam positive semidefinite.

    Of a mechanism: accelerations at its two ends and the wrenches there; of a control problem, states and costates.

    **Fields:** `transfer` Phi, `compliance` C, `stiffness` Lam (k, k).
    """

    transfer: Float[Array, "*n k k"]
    compliance: Float[Array, "*n k k"]
    stiffness: Float[Array, "*n k k"]


def star_product(inner: TwoPort, outer: TwoPort) -> TwoPort:
    """The two-port of `inner` followed by `outer`, for one of each (Redheffer 1960).

    With `C1 = F F^T` all inverses are that of `1 + F^T Lam2 F`, which is symmetric and at least 1 whatever the ranks:

        Lam  = Phi1^T (Lam2 - V W V^T) Phi1 + Lam1,    V = Lam2 F,  W = (1 + F^T V)^-1
        C    = (Phi2 F) W (Phi2 F)^T + C2,             Phi = Phi2 (Phi1 - F W V^T Phi1).
    """
    k = inner.compliance.shape[-1]
    root = semidefinite_root(inner.compliance)
    resisted = matmul(outer.stiffness, root)
    pivot = ldl_factor(jnp.eye(k, dtype=root.dtype) + symmetrise(matmul(transpose(root), resisted)))
    carried = matmul(outer.transfer, root)
    felt = matmul(transpose(resisted), inner.transfer)
    solved = ldl_solve(pivot, jnp.concatenate([felt, transpose(carried)], axis=-1))
    yielding, compliance = solved[:, :k], matmul(carried, solved[:, k:])
    stiffness = matmul(transpose(inner.transfer), matmul(outer.stiffness, inner.transfer)) - matmul(
        transpose(felt), yielding
    )
    return TwoPort(
        matmul(outer.transfer, inner.transfer) - matmul(carried, yielding),
        symmetrise(compliance) + outer.compliance,
        symmetrise(stiffness) + inner.stiffness,
    )


def semidefinite_root(matrix: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """Lower triangular F with `F F^T = A` for positive semidefinite A.

    Columns of pivots that are zero but for rounding are zero. What they leave out is of the size of rounding too.
    """
    k = matrix.shape[-1]
    floor = 16 * jnp.finfo(matrix.dtype).eps * jnp.diagonal(matrix)
    rest, columns = matrix, []
    for i in range(k):
        positive = rest[i, i] > floor[i]
        scale = jnp.where(positive, 1 / jnp.sqrt(jnp.where(positive, rest[i, i], 1)), 0)
        column = jnp.where(jnp.arange(k) < i, 0, rest[:, i] * scale)
        columns.append(column)
        rest = rest - column[:, None] * column[None, :]
    return jnp.stack(columns, axis=-1)
