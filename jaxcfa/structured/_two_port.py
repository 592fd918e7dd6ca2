"""Series connection of two-ports: a matrix Riccati recursion as an associative operation."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import symmetrise, transpose
from ._products import matmul_of_stacks as matmul
from ._small_spd import LDL, ldl_factor, ldl_solve, lower_root, spd_solve


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

    Where C1 is singular its root has no derivatives, and what JAX makes of them is wrong: differentiate the equations
    that a solution satisfies instead, as `steady_riccati` does. So with `star_product_by_roots`, and Lam2 too.

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


def star_product_by_roots(inner: TwoPort, outer: TwoPort) -> TwoPort:
    """`star_product` for a stiffness that is many orders larger than what is left of it in series.

    With roots of both, `C1 = F F^T`, `Lam2 = G G^T` and `N = G^T F`, compliance and stiffness are sums of semidefinite
    matrices, so that no digits cancel. Problems of optimal control where little but the end counts need it. Inertias of
    long chains do not: their roots lose more than that difference (float32, 1024 links: 5e-5 instead of 8e-6).

        Lam = (G^T Phi1)^T (1 + N N^T)^-1 (G^T Phi1) + Lam1,    C = (Phi2 F) (1 + N^T N)^-1 (Phi2 F)^T + C2,
        Phi = Phi2 (Phi1 - F (1 + N^T N)^-1 N^T G^T Phi1).
    """
    identity = jnp.eye(inner.compliance.shape[-1], dtype=inner.compliance.dtype)
    yields, resists = semidefinite_root(inner.compliance), semidefinite_root(outer.stiffness)
    coupling = matmul(transpose(resists), yields)
    carried, felt = matmul(outer.transfer, yields), matmul(transpose(resists), inner.transfer)
    pivot = ldl_factor(identity + symmetrise(matmul(transpose(coupling), coupling)))
    solved = ldl_solve(pivot, jnp.concatenate([matmul(transpose(coupling), felt), transpose(carried)], axis=-1))
    k = identity.shape[-1]
    resisted = spd_solve(identity + symmetrise(matmul(coupling, transpose(coupling))), felt)
    return TwoPort(
        matmul(outer.transfer, inner.transfer) - matmul(carried, solved[:, :k]),
        symmetrise(matmul(carried, solved[:, k:])) + outer.compliance,
        symmetrise(matmul(transpose(felt), resisted)) + inner.stiffness,
    )


def semidefinite_root(matrix: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """Lower triangular F with `F F^T = A` for positive semidefinite A.

    Columns of pivots that are zero but for rounding are zero. What they leave out is of the size of rounding too.
    """
    floor = 16 * jnp.finfo(matrix.dtype).eps * jnp.diagonal(matrix)
    # Nothing is left of a column that an infinite pivot divides.
    factor = ldl_factor(matrix, floor, instead=jnp.inf)
    return lower_root(LDL(factor.lower, jnp.where(factor.pivots < jnp.inf, factor.pivots, 0)))
