"""Solutions of linear equations whose derivatives are those of the equations."""

from collections.abc import Callable
from typing import TypeVar

from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

Vector = TypeVar("Vector", bound=PyTree[Array])
Prepared = TypeVar("Prepared", bound=PyTree[Array])


def linear_solution(
    matrix: Callable[[Vector], Vector],
    b: Vector,
    solve: Callable[[Prepared, Vector], Vector],
    prepared: Prepared,
    transpose_solve: Callable[[Prepared, Vector], Vector] | None = None,
) -> Vector:
    """`x = solve(prepared, b)`, with the derivatives of any order, in both modes, of the solution of `matrix(x) = b`.

    **Arguments:** `matrix`: a linear function, symmetric if there is no `transpose_solve`; `b`: a pytree of arrays, as
    x is; `prepared`: all that the solvers use, which has no derivatives.
    """
    # Here, not within the solvers: JAX fails on a solution if only what its solvers use is differentiated.
    found = lax.stop_gradient(prepared)
    # One array, because JAX fails as well where only a part of b is differentiated.
    flat, restore = ravel_pytree(b)

    def raveled(function: Callable[[Vector], Vector]) -> Callable[[Array], Array]:
        return lambda x: ravel_pytree(function(restore(x)))[0]

    backward = None
    if transpose_solve is not None:
        solve_transposed = raveled(lambda rhs: transpose_solve(found, rhs))
        backward = lambda _, rhs: solve_transposed(rhs)  # noqa: E731
    forward = raveled(lambda rhs: solve(found, rhs))
    x = lax.custom_linear_solve(
        raveled(matrix), flat, lambda _, rhs: forward(rhs), backward, symmetric=transpose_solve is None
    )
    return restore(x)
