"""Functions with derivative rules of their own, which also count in loops."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, PyTree

from .._private_jax import convert_constvars_jaxpr

Result = TypeVar("Result", bound=PyTree)


def with_rule(
    function: Callable[..., Result], rule: Callable[[tuple, tuple], tuple[Any, Any]]
) -> Callable[..., Result]:
    """`function` of pytrees of arrays with the derivatives of `rule`, as by `jax.custom_jvp` with symbolic zeros.

    Its own rules JAX forgets where the gradient of a loop is differentiated forward: to differentiate a `lax.scan`
    backward it splits the body, and what is known it takes apart on the assumption that nothing will be differentiated
    again (`JaxprTrace.process_custom_jvp_call`). Second derivatives are then those of how values were found: of
    iterations that stop, or zero, without a word. A primitive is not taken apart.
    """
    ruled = jax.custom_jvp(function)
    ruled.defjvp(rule, symbolic_zeros=True)

    @functools.wraps(function)
    def run(*arguments: PyTree) -> Result:
        leaves, structure = jax.tree.flatten(arguments)
        program, shapes = jax.make_jaxpr(lambda *x: ruled(*jax.tree.unflatten(structure, x)), return_shape=True)(
            *leaves
        )
        # What is closed over may be traced.
        own = ClosedJaxpr(convert_constvars_jaxpr(program.jaxpr), [])
        return jax.tree.unflatten(jax.tree.structure(shapes), _ruled_p.bind(*program.consts, *leaves, call_jaxpr=own))

    return run


def _run(*values: Array, call_jaxpr: ClosedJaxpr) -> list[Array]:
    return jaxpr_as_fun(call_jaxpr)(*values)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, call_jaxpr: ClosedJaxpr) -> tuple[list, list]:
    moving = [i for i, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero)]

    def of_moving(*values: Any) -> list[Array]:
        every = list(primals)
        for i, value in zip(moving, values, strict=True):
            every[i] = value
        return _run(*every, call_jaxpr=call_jaxpr)

    found, changes = jax.jvp(of_moving, [primals[i] for i in moving], [tangents[i] for i in moving])
    return found, [_with_zeros(x) for x in changes]


def _with_zeros(change: Any) -> Any:
    """Of whole numbers there is no change."""
    return ad.Zero(jax.typeof(change)) if change.dtype == jax.dtypes.float0 else change


def _batched(values: Sequence[Any], axes: Sequence[int | None], *, call_jaxpr: ClosedJaxpr) -> tuple[list, list[int]]:
    of_batch = jax.make_jaxpr(jax.vmap(jaxpr_as_fun(call_jaxpr), tuple(axes)))(*values)
    return _ruled_p.bind(*values, call_jaxpr=of_batch), [0] * len(of_batch.out_avals)


_ruled_p = Primitive("with_rule")
_ruled_p.multiple_results = True
_ruled_p.def_impl(_run)
_ruled_p.def_abstract_eval(lambda *_, call_jaxpr: call_jaxpr.out_avals)
mlir.register_lowering(_ruled_p, mlir.lower_fun(_run, multiple_results=True))
ad.primitive_jvps[_ruled_p] = _jvp
batching.primitive_batchers[_ruled_p] = _batched
