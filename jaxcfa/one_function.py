"""Parts of programs that XLA:CPU compiles into one function, and batches of them in pieces that stay in the cache.

XLA:CPU starts a small function for nearly every operation, and each of them goes through the whole batch. A call that
bears the attribute by which it marks small loops itself becomes one function instead, which nothing is started in; and
what some hundred states work on stays in the processor's cache.

How large a batch is must be known where the program is written. Rules of primitives know it, so a primitive stands for
such a part. Derivatives are those of the function itself, outside of any call.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax._src import sharding_impls
from jax._src.core import jaxprs_in_params
from jax._src.interpreters.partial_eval import convert_constvars_jaxpr, dce_jaxpr
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, Literal, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array

from .backend import backend

Result = TypeVar("Result")

# What XLA:CPU marks small loops with itself, and what keeps the marked call from being taken apart before.
_ATTRIBUTES = {"xla_cpu_small_call": "true", "inlineable": "false"}
# Fewer states than this are computed as one is. So many are a piece: what they work on fits into the cache.
_FEW, _PIECE = 16, 128
# XLA's time to compile one function grows faster than the function. Larger ones are left in parts, loop by loop.
_MOST_STEPS = 3500
# What XLA has code for in such a function. Not among it: sorting, scattering, and what XLA leaves to libraries, such as
# products of matrices, into which it makes sums as well.
_NAMES = """
    abs acos add add_any and asin atan atan2 broadcast_in_dim ceil clamp concatenate cond convert_element_type copy cos
    custom_jvp_call div dynamic_slice dynamic_update_slice eq exp exp2 expm1 floor gather ge gt integer_pow iota
    is_finite jit le log log1p lt max min mul ne neg not optimization_barrier or pad pow reduce_precision rem reshape
    rev round rsqrt scan select_n sign sin slice split sqrt square squeeze stack stop_gradient sub tan tanh transpose
    unstack while xor
"""
_ABLE = frozenset(_NAMES.split())

# Whether the program that is being traced gets no marks, because it is one function as a whole, or should compile soon.
_unmarked = jax.make_user_context(False)


def without_marks() -> AbstractContextManager[None]:
    """Inside this context, functions are traced as they stand."""
    return _unmarked(True)


def as_one_function(function: Callable[..., Result], pieces: bool = True) -> Callable[..., Result]:
    """`function`, in a form that runs fast on CPUs, for one state and for batches; for use in compiled functions.

    **Arguments:** `function` of pytrees, whose results are pytrees of arrays; `pieces`: whether batches are visited
    piece by piece, or left as they are.
    """

    @functools.wraps(function)
    def run(*arguments: Any) -> Result:
        if backend() != "cpu" or _unmarked.value:
            return function(*arguments)
        arrays, fixed = eqx.partition(arguments, eqx.is_array)
        leaves, structure = jax.tree.flatten(arrays)

        def of_leaves(leaves: list[Array]) -> Result:
            with without_marks():
                return function(*eqx.combine(jax.tree.unflatten(structure, leaves), fixed))

        program, shapes = jax.make_jaxpr(of_leaves, return_shape=True)(leaves)
        return jax.tree.unflatten(
            jax.tree.structure(shapes), _bind(program, leaves, [False] * len(leaves), None, pieces)
        )

    return run


def whole_program(function: Callable[..., Result]) -> Callable[..., Result]:
    """`function` as a call that is all of a program, which XLA:CPU compiles into one function, or refuses to."""

    def run(*arguments: Any, **named: Any) -> Result:
        given, fixed = eqx.partition((arguments, named), eqx.is_array)

        def of_arrays(given: Any) -> Result:
            arguments, named = eqx.combine(given, fixed)
            with without_marks():
                return function(*arguments, **named)

        return _marked(of_arrays, given)

    return run


def _marked(function: Callable[[Any], Result], given: Any) -> Result:
    """`function(given)` as a call that XLA:CPU does not take apart.

    XLA stops the process at an argument of such a call that nothing in it uses, if only after its own simplifications.
    So all of them are given back, through a barrier, and come through another one, behind which it finds no constants.
    """

    @jax.jit
    def one_function(given: Any) -> tuple[Result, Any]:
        return function(given), lax.optimization_barrier(given)

    result, given = one_function(lax.optimization_barrier(given))
    result = jax.tree.map(lambda x: set_xla_metadata(x, **_ATTRIBUTES), result)
    return lax.optimization_barrier((result, given))[0]


# The primitive. Its parameters: `program`, for one state; `varies`, which arguments have a leading axis of the batch;
# `size` of the batch, if there is one, of which all results then have an axis; `pieces` as above.

one_function_p = Primitive("one_function")
one_function_p.multiple_results = True


def _bind(
    program: ClosedJaxpr, arguments: Sequence[Array], varies: Sequence[bool], size: int | None, pieces: bool
) -> list[Array]:
    """A call with those arguments that the program uses."""
    inner, used = dce_jaxpr(convert_constvars_jaxpr(program.jaxpr), [True] * len(program.jaxpr.outvars))
    arguments, varies = [*program.consts, *arguments], [False] * len(program.consts) + list(varies)
    arguments, varies = (list(itertools.compress(x, used)) for x in (arguments, varies))
    return one_function_p.bind(
        *arguments, program=ClosedJaxpr(inner, ()), varies=tuple(varies), size=size, pieces=pieces
    )


def _over_states(*arguments: Array, program: ClosedJaxpr, varies: Sequence[bool], size: int | None, **_: Any):
    """The results without any marks."""
    one = jaxpr_as_fun(program)
    if any(varies):
        return jax.vmap(one, [0 if own else None for own in varies])(*arguments)
    found = one(*arguments)
    return found if size is None else [jnp.broadcast_to(x, (size, *x.shape)) for x in found]


@one_function_p.def_impl
def _evaluate(*arguments: Array, **params: Any) -> list[Array]:
    return jax.jit(functools.partial(_over_states, **params))(*arguments)


@one_function_p.def_abstract_eval
def _shapes(*_: Any, program: ClosedJaxpr, size: int | None, **__: Any) -> list[Any]:
    return [x if size is None else x.update(shape=(size, *x.shape)) for x in program.out_avals]


def _jvp(primals: Sequence[Array], tangents: Sequence[Any], **params: Any) -> tuple[list[Array], list[Array]]:
    moves = [not isinstance(x, ad.Zero) for x in tangents]

    def of_moved(*moved: Array) -> list[Array]:
        new = iter(moved)
        return _over_states(*(next(new) if own else x for x, own in zip(primals, moves, strict=True)), **params)

    return jax.jvp(of_moved, list(itertools.compress(primals, moves)), list(itertools.compress(tangents, moves)))


def _batch(arguments: Sequence[Array], axes: Sequence[int | None], **params: Any) -> tuple[list[Array], list[int]]:
    program, varies, size, pieces = (params[name] for name in ("program", "varies", "size", "pieces"))
    own = tuple(axis is not None for axis in axes)
    arguments = [x if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(arguments, axes, strict=True)]
    new = len(next(itertools.compress(arguments, own)))
    if size is None:
        found = _bind(program, arguments, own, new, pieces)
    elif own == varies:  # two batches of the same arguments are one
        joined = [x.reshape(new * size, *x.shape[2:]) if both else x for x, both in zip(arguments, own, strict=True)]
        found = [x.reshape(new, size, *x.shape[1:]) for x in _bind(program, joined, own, new * size, pieces)]
    else:  # what varies with one of them only must not be repeated for the other
        shapes = zip(program.in_avals, varies, strict=True)
        avals = [x.update(shape=(size, *x.shape)) if varied else x for x, varied in shapes]
        inner = jax.make_jaxpr(functools.partial(_over_states, **params))(*avals)
        found = _bind(inner, arguments, own, new, pieces)
    return found, [0] * len(found)


ad.primitive_jvps[one_function_p] = _jvp
batching.primitive_batchers[one_function_p] = _batch


# Its form on CPUs.


def _on_cpu(*arguments: Array, **params: Any) -> list[Array]:
    varies, size = params["varies"], params["size"]
    if size is None or size < _FEW or not any(varies):
        return _at_once(*arguments, **params)
    if not params["pieces"]:
        return _over_states(*arguments, **params)
    number = -(-size // _PIECE)
    length = -(-size // number)

    def pieces(x: Array) -> Array:
        """The last one is filled with copies of the last state."""
        missing = number * length - size
        if missing:
            x = jnp.concatenate([x, jnp.broadcast_to(x[-1:], (missing, *x.shape[1:]))])
        return x.reshape(number, length, *x.shape[1:])

    def one_piece(own: list[Array]) -> list[Array]:
        new = iter(own)
        return _at_once(*(next(new) if varied else x for x, varied in zip(arguments, varies, strict=True)), **params)

    found = lax.map(one_piece, [pieces(x) for x in itertools.compress(arguments, varies)])
    return [x.reshape(number * length, *x.shape[2:])[:size] for x in found]


def _at_once(*arguments: Array, **params: Any) -> list[Array]:
    """One state, a few, or one piece of a batch."""
    whole = jax.make_jaxpr(functools.partial(_over_states, **params))(*arguments)
    if _steps(whole.jaxpr) <= _MOST_STEPS and _is_able(whole.jaxpr):
        return _marked(lambda given: jaxpr_as_fun(whole)(*given), list(arguments))
    return _with_marked_loops(whole)(*arguments)


def _with_marked_loops(program: ClosedJaxpr) -> Callable[..., list[Array]]:
    """The program, each of whose outermost loops is one function."""

    def run(*arguments: Array) -> list[Array]:
        known: dict[Any, Any] = dict(zip(program.jaxpr.constvars, program.consts, strict=True))
        known.update(zip(program.jaxpr.invars, arguments, strict=True))

        def value(atom: Any) -> Any:
            return atom.val if isinstance(atom, Literal) else known[atom]

        for step in program.eqns:
            given = [value(x) for x in step.invars]
            compute = functools.partial(step.primitive.bind, **step.primitive.get_bind_params(step.params))
            if step.primitive.name in ("jit", "custom_jvp_call"):
                inner = step.params.get("jaxpr") or step.params["call_jaxpr"]
                found = _with_marked_loops(inner)(*given)
            elif step.primitive.name == "scan" and _is_able(step.params["jaxpr"].jaxpr):
                found = _marked(lambda given, compute=compute: compute(*given), given)
            else:
                found = compute(*given)
            known.update(zip(step.outvars, found if step.primitive.multiple_results else [found], strict=True))
        return [value(x) for x in program.jaxpr.outvars]

    return run


def _steps(program: Any) -> int:
    """How many operations it has."""
    return sum(1 + sum(map(_steps, jaxprs_in_params(step.params))) for step in program.eqns)


def _is_able(program: Any) -> bool:
    return all(
        step.primitive.name in _ABLE and all(map(_is_able, jaxprs_in_params(step.params))) for step in program.eqns
    )


def _lower_on_cpu(context: mlir.LoweringRuleContext, *arguments: Any, **params: Any) -> Any:
    axes = context.module_context.axis_context
    # A loop over pieces of an array that is spread over devices would gather it.
    spread = isinstance(axes, sharding_impls.ShardingContext) and axes.num_devices > 1
    function = functools.partial(_over_states if spread else _on_cpu, **params)
    return mlir.lower_fun(function, multiple_results=True)(context, *arguments)


mlir.register_lowering(one_function_p, _lower_on_cpu, platform="cpu")
mlir.register_lowering(one_function_p, mlir.lower_fun(_over_states, multiple_results=True))
