"""Series connection of two-ports: a matrix Riccati recursion as an associative operation."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import symmetrise, transpose
from ._elimination import general_solve
from ._products import matmul_of_stacks as matmul
from ._small_spd import LDL, ldl_factor, ldl_solve, lower_root


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
    that a solution satisfies instead, as `steady_riccati` does.

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


def general_star_product(inner: TwoPort, outer: TwoPort) -> TwoPort:
    """`star_product` where compliance and stiffness need not be semidefinite, and may be of very different size.

    Problems of optimal control may have pieces whose costs have no minimum on their own, although the whole has one.
    And where little but the end counts, stiffness is many orders larger than what is left of it in series: no term is
    subtracted from one that large, so that no digits cancel. Inertias of long chains keep more of them by roots.

        X = (1 + C1 Lam2)^-1,    Lam = Phi1^T Lam2 X Phi1 + Lam1,    C = Phi2 X C1 Phi2^T + C2,    Phi = Phi2 X Phi1.
    """
    k = inner.compliance.shape[-1]
    identity = jnp.eye(k, dtype=inner.compliance.dtype)
    yields = matmul(inner.compliance, transpose(outer.transfer))
    solved = general_solve(
        identity + matmul(inner.compliance, outer.stiffness), jnp.concatenate([inner.transfer, yields], axis=-1)
    )
    carried = matmul(outer.transfer, solved)
    resisted = matmul(transpose(inner.transfer), matmul(outer.stiffness, solved[:, :k]))
    return TwoPort(
        carried[:, :k],
        symmetrise(carried[:, k:]) + outer.compliance,
        symmetrise(resisted) + inner.stiffness,
    )


def semidefinite_root(matrix: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """Lower triangular F with `F F^T = A` for positive semidefinite A.

    Columns of pivots that are zero but for rounding are zero. What they leave out is of the size of rounding too.
    """
    floor = 16 * jnp.finfo(matrix.dtype).eps * jnp.diagonal(matrix)
    # Nothing is left of a column that an infinite pivot divides.
    factor = ldl_factor(matrix, floor, instead=jnp.inf)
    return lower_root(LDL(factor.lower, jnp.where(factor.pivots < jnp.inf, factor.pivots, 0)))
