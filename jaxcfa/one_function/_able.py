"""Operations that XLA:CPU has code for inside one function, and programs rewritten to need no others."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun, jaxprs_in_params
from jaxtyping import Array

from .._private_jax import operands_of_solve

# Not among it: sorting, scattering, and what XLA leaves to libraries, as products of matrices and sums of many numbers.
_NAMES = """
    abs acos add add_any and asin atan atan2 broadcast_in_dim ceil clamp concatenate cond convert_element_type copy cos
    custom_jvp_call div dynamic_slice dynamic_update_slice empty2 eq exp exp2 expm1 floor gather ge gt integer_pow iota
    is_finite jit le log log1p lt max min mul ne neg not optimization_barrier or pad pow reduce_precision rem
    reshape rev round rsqrt scan select_n sign sin slice split sqrt square squeeze stack stop_gradient sub tan tanh
    transpose unstack while with_rule xor
"""
_ABLE = frozenset(_NAMES.split())
# Of numbers: libraries take products of larger matrices.
_LARGEST_PRODUCT = 4096


def is_able(program: Iterable[Any]) -> bool:
    """Whether XLA has code for all of these steps, and for those in them."""
    return all(
        step.primitive.name in _ABLE and all(is_able(inner.eqns) for inner in jaxprs_in_params(step.params))
        for step in program
    )


def steps(program: Iterable[Any]) -> int:
    """How many operations these are, with those in them."""
    return sum(1 + sum(steps(inner.eqns) for inner in jaxprs_in_params(step.params)) for step in program)


def able_form(program: ClosedJaxpr) -> ClosedJaxpr:
    """The same program without calls, and without what XLA has no code for, as far as possible.

    XLA leaves sums to a library, or makes products of matrices of them, so they become sums of halves, and so do
    products of small matrices. The rules for the derivatives of calls are lost.
    """

    def run(*arguments: Array) -> list[Array]:
        known = zip([*program.jaxpr.constvars, *program.jaxpr.invars], [*program.consts, *arguments], strict=True)
        return evaluate(program.jaxpr.eqns, dict(known), program.jaxpr.outvars, _able_step)

    return jax.make_jaxpr(run)(*program.in_avals)


def _able_step(step: Any, given: Sequence[Any]) -> Sequence[Array]:
    name, params = step.primitive.name, step.params
    if name in ("jit", "custom_jvp_call", "with_rule"):
        return jaxpr_as_fun(able_form(params.get("jaxpr") or params["call_jaxpr"]))(*given)
    if name == "custom_linear_solve":
        return jaxpr_as_fun(able_form(params["jaxprs"].solve))(*operands_of_solve(params, given))
    if name == "scan":
        return bind(step, given, jaxpr=able_form(params["jaxpr"]))
    if name == "while":
        return bind(step, given, **{x: able_form(params[x]) for x in ("cond_jaxpr", "body_jaxpr")})
    if name == "reduce_sum":
        return [_sum(given[0], params["axes"])]
    if name == "dot_general":
        return _product(step, *given)
    return bind(step, given)


def _product(step: Any, a: Array, b: Array) -> Sequence[Array]:
    """A product of small matrices as a sum of products of numbers."""
    (of_a, of_b), (batch_a, batch_b) = step.params["dimension_numbers"]
    free_a = [i for i in range(a.ndim) if i not in (*of_a, *batch_a)]
    free_b = [i for i in range(b.ndim) if i not in (*of_b, *batch_b)]
    inner = math.prod(a.shape[i] for i in of_a)
    out = step.outvars[0].aval
    if not (a.size and b.size):
        return [jnp.zeros(out.shape, out.dtype)]
    if inner * out.size > _LARGEST_PRODUCT:
        return bind(step, [a, b])
    batch = math.prod(a.shape[i] for i in batch_a)
    a = lax.transpose(a.astype(out.dtype), (*batch_a, *free_a, *of_a)).reshape(batch, -1, inner, 1)
    b = lax.transpose(b.astype(out.dtype), (*batch_b, *of_b, *free_b)).reshape(batch, 1, inner, -1)
    return [_sum(a * b, [2]).reshape(out.shape)]


def _sum(x: Array, axes: Iterable[int]) -> Array:
    """The sum over axes, by halves."""
    if 0 in x.shape:
        return jnp.zeros([n for axis, n in enumerate(x.shape) if axis not in axes], x.dtype)
    for axis in axes:
        while (size := x.shape[axis]) > 1:
            half = -(-size // 2)
            first, second = (lax.slice_in_dim(x, *ends, axis=axis) for ends in ((0, half), (half, size)))
            missing = [(0, 2 * half - size if other == axis else 0, 0) for other in range(x.ndim)]
            x = first + lax.pad(second, jnp.zeros((), x.dtype), missing)
    return lax.squeeze(x, tuple(axes))


def bind(step: Any, given: Sequence[Any], **others: Any) -> Sequence[Array]:
    """The results of one step, as it stands but for other parameters."""
    found = step.primitive.bind(*given, **step.primitive.get_bind_params({**step.params, **others}))
    return found if step.primitive.multiple_results else [found]


def evaluate(
    program: Iterable[Any],
    known: dict[Any, Any],
    results: Iterable[Any],
    run: Callable[[Any, Sequence[Any]], Sequence[Array]] = bind,
) -> list[Array]:
    """The results of steps, each of which is evaluated by `run(step, its arguments)`; `known` receives all values."""
    for step in program:
        known.update(zip(step.outvars, run(step, values(step.invars, known)), strict=True))
    return values(results, known)


def values(atoms: Iterable[Any], known: dict[Any, Any]) -> list[Any]:
    """Values of variables and literals."""
    return [x.val if isinstance(x, Literal) else known[x] for x in atoms]
