"""Solutions of linear equations whose derivatives are those of the equations."""

from collections.abc import Callable
from typing import TypeVar

import jax
from jax import lax
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
    backward = None if transpose_solve is None else lambda _, rhs: transpose_solve(found, rhs)
    x = lax.custom_linear_solve(
        matrix, _together(b), lambda _, rhs: solve(found, rhs), backward, symmetric=transpose_solve is None
    )
    return _together(x)


def _together(x: Vector) -> Vector:
    """The same, all of whose parts are differentiated if one is: JAX fails on solutions where some are not.

    The barrier does that, and leaves arrays as they are spread over devices, which one array of all would not.
    """
    return lax.optimization_barrier(x) if len(jax.tree.leaves(x)) > 1 else x
