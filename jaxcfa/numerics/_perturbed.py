"""Helpers of derivative rules that look at which of their arguments are differentiated (`symbolic_zeros=True`)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, PyTree


def _is_zero(tangent: object) -> bool:
    return isinstance(tangent, SymbolicZero)


def is_perturbed(tangents: PyTree) -> bool:
    """Whether any of the tangents is not known to be zero."""
    return bool(perturbed(tangents))


def instantiate(tangents: PyTree) -> PyTree[Array]:
    """The tangents as arrays."""

    def one(tangent: Array | SymbolicZero) -> Array:
        return jnp.zeros(tangent.shape, tangent.dtype) if isinstance(tangent, SymbolicZero) else tangent

    return jax.tree.map(one, tangents, is_leaf=_is_zero)


def perturbed(tangents: PyTree) -> list[Array]:
    """The tangents that are not known to be zero."""
    return [x for x in jax.tree.leaves(tangents, is_leaf=_is_zero) if not _is_zero(x)]


def no_tangent(primals: PyTree[Array]) -> PyTree[SymbolicZero]:
    """Tangents of what has no derivatives, whatever its types."""
    return jax.tree.map(SymbolicZero.from_primal_value, primals)


def of_perturbed(
    function: Callable, primals: tuple, tangents: tuple
) -> tuple[Callable[[list[Array]], PyTree[Array]], list[Array], list[Array]]:
    """The function of those arrays alone whose tangents are not known to be zero; these arrays; their tangents."""
    leaves, treedef = jax.tree.flatten(primals)
    directions = jax.tree.leaves(tangents, is_leaf=_is_zero)
    moving = [i for i, t in enumerate(directions) if not _is_zero(t)]

    def of_moving(values: list[Array]) -> PyTree[Array]:
        all_leaves = list(leaves)
        for i, value in zip(moving, values, strict=True):
            all_leaves[i] = value
        return function(*jax.tree.unflatten(treedef, all_leaves))

    return of_moving, [leaves[i] for i in moving], [directions[i] for i in moving]


def jvp_of_perturbed(function: Callable, primals: tuple, tangents: tuple) -> tuple[PyTree[Array], PyTree[Array]]:
    """`jax.jvp` in which arguments with zero tangents are constants, so that nothing is computed for them."""
    of_moving, values, directions = of_perturbed(function, primals, tangents)
    if not values:
        value = function(*primals)
        return value, jax.tree.map(jnp.zeros_like, value)
    return jax.jvp(of_moving, (values,), (directions,))
