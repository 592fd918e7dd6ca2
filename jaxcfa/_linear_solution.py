"""Solutions of linear equations whose derivatives are those of the equations."""

from collections.abc import Callable

from jax import lax
from jaxtyping import Array, PyTree


def linear_solution(
    matrix: Callable[[Array], Array],
    b: Array,
    solve: Callable[[PyTree[Array], Array], Array],
    prepared: PyTree[Array],
    transpose_solve: Callable[[PyTree[Array], Array], Array] | None = None,
) -> Array:
    """`x = solve(prepared, b)`, with the derivatives of any order, in both modes, of the solution of `matrix(x) = b`.

    **Arguments:** `matrix`: a linear function, symmetric if there is no `transpose_solve`; `prepared`: all that the
    solvers use, which has no derivatives.
    """
    # Here, not within the solvers: JAX fails on a solution if only what its solvers use is differentiated.
    found = lax.stop_gradient(prepared)
    backward = None if transpose_solve is None else lambda _, rhs: transpose_solve(found, rhs)
    return lax.custom_linear_solve(
        matrix, b, lambda _, rhs: solve(found, rhs), backward, symmetric=transpose_solve is None
    )
