"""Splitting motions and forces into what a constraint leaves free and what it takes."""

from typing import Annotated

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import cho_factor, cho_solve
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..numerics import product
from ..numerics._options import floating_numbers


class ReciprocalBases(eqx.Module):
    """Bases of motions `[S1 S2]` and forces `[T1 T2]` with `[S1 S2]^T [T1 T2] = 1`, which a mass matrix M decouples.

    `[S1 S2]^T M [S1 S2] = diag(S1^T M S1, (T2^T M^-1 T2)^-1)`. Motions in the range of S1 are free; forces in the range
    of T2 constrain them and do no work on them. Neither space needs an inner product, so nothing depends on units.

    **Fields:** `free` S1 (n, r), `active` T1 (n, r), `blocked` S2 and `constraint` T2 (n, n - r).
    """

    free: Float[Array, "n r"]
    active: Float[Array, "n r"]
    blocked: Float[Array, "n m"]
    constraint: Float[Array, "n m"]


def change_of_basis(mass: Annotated[ArrayLike, "n n"], free: Annotated[ArrayLike, "n r"]) -> ReciprocalBases:
    """Reciprocal bases that decouple a mass matrix (Featherstone & Fijany 1999, eqs. 1-10).

    They are the two sides of "constrained = unconstrained - immobilised": the accelerations that forces give under the
    constraint are

        S1 (S1^T M S1)^-1 S1^T = M^-1 - M^-1 T2 (T2^T M^-1 T2)^-1 T2^T M^-1.

    Algorithms with a mass matrix come from the left side, constraint force algorithms from the right.

    **Arguments:** `mass` M, symmetric positive definite (n, n); `free` S1, a basis of the motions that the constraint
    allows (n, r).

    **Returns:** the bases. T2 is orthonormal, and one of many choices; as S1 changes it moves with the constraint
    space, and no further within that.

    **Raises:** `ValueError` for shapes that do not fit.
    """
    mass, free = floating_numbers("mass", mass), floating_numbers("free", free)
    n = mass.shape[0] if mass.ndim else 0
    if mass.shape != (n, n) or free.ndim != 2 or len(free) != n or free.shape[1] > n:
        raise ValueError(
            f"mass must be square (n, n), and free (n, r) with r <= n columns; got {mass.shape} and {free.shape}."
        )
    r = free.shape[1]
    constraint = _complement(free)
    momentum = product(mass, free)
    active = cho_solve(cho_factor(product(free.T, momentum)), momentum.T).T if r else momentum
    mobility = cho_solve(cho_factor(mass), constraint)
    blocked = cho_solve(cho_factor(product(constraint.T, mobility)), mobility.T).T if r < n else mobility
    return ReciprocalBases(free, active, blocked, constraint)


def _complement(free: Float[Array, "n r"]) -> Float[Array, "n m"]:
    """An orthonormal basis of what is perpendicular to all columns.

    Its derivative is that of its projection. That of the QR decomposition is NaN where the columns are unit vectors.
    """
    basis = jnp.linalg.qr(lax.stop_gradient(free), mode="complete")[0][:, free.shape[1] :]
    if not (free.shape[1] and basis.shape[1]):
        return basis
    gram = cho_factor(product(free.T, free))
    return basis - product(free, cho_solve(gram, product(free.T, basis)))
