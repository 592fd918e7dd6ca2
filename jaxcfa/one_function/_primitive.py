"""A primitive that stands for a function of one state, or of a batch: its rules, and how functions become such."""

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax._src import sharding_impls
from jax._src.core import JaxprEqn
from jax._src.interpreters.partial_eval import convert_constvars_jaxpr, dce_jaxpr, dce_rules
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from ..backend import backend
from ._marks import has_marks, inside_one_function
from ._on_cpu import in_pieces

Result = TypeVar("Result")

# Derivatives by more arguments than this, such as all of a model, are those of the function as it stands: in a form of
# their own they compile two to three times as long, and are no faster in batches.
_MOST_DIRECTIONS = 8


def as_one_function(
    function: Callable[..., Result], *, single: bool = True, derivatives: bool = True
) -> Callable[..., Result]:
    """`function`, in a form that runs fast on CPUs, for one state and for batches; for use in compiled functions.

    **Arguments:** `function` of pytrees, whose results are pytrees of arrays; `single`: whether single states, and few
    of them, have that form, or batches only; `derivatives`: whether derivatives by a few arguments are of that form
    too, for which they compute anew what they need, or those of the function as it stands.
    """

    @functools.wraps(function)
    def run(*arguments: Any) -> Result:
        if backend() != "cpu" or not has_marks():
            return function(*arguments)
        arrays, fixed = eqx.partition(arguments, eqx.is_array)
        leaves, structure = jax.tree.flatten(arrays)

        def of_leaves(leaves: list[Any]) -> Result:
            with inside_one_function():
                return function(*eqx.combine(jax.tree.unflatten(structure, leaves), fixed))

        program, shapes = jax.make_jaxpr(of_leaves, return_shape=True)(leaves)
        if program.effects:  # such as what a user prints
            return function(*arguments)
        found = _bind(
            leaves,
            program=program,
            varies=(False,) * len(leaves),
            size=None,
            width=1,
            linear=0,
            single=single,
            derivatives=derivatives,
        )
        return jax.tree.unflatten(jax.tree.structure(shapes), found)

    return run


# Parameters: `program`; `varies`, which arguments have a leading axis of the batch; `size` of the batch, if there is
# one, of which all results then have an axis; `width`, how many states the program itself computes; `linear`: in the
# last so many arguments the program is linear; `single` and `derivatives` as above.

one_function_p = Primitive("one_function")
one_function_p.multiple_results = True


# A function that becomes one in batches, and is left as it stands for single states.
in_batches = functools.partial(as_one_function, single=False)


def _bind(
    arguments: Sequence[Any], *, program: ClosedJaxpr, varies: Sequence[bool], linear: int, **params: Any
) -> list[Any]:
    """A call with those arguments that the program uses."""
    inner, used = dce_jaxpr(convert_constvars_jaxpr(program.jaxpr), [True] * len(program.jaxpr.outvars))
    constants = len(program.consts)
    arguments, varies = [*program.consts, *arguments], [False] * constants + list(varies)
    return one_function_p.bind(
        *itertools.compress(arguments, used),
        program=ClosedJaxpr(inner, ()),
        varies=tuple(itertools.compress(varies, used)),
        linear=sum(used[len(used) - linear :]),
        **params,
    )


def over_states(*arguments: Any, program: ClosedJaxpr, varies: Sequence[bool], size: int | None, **_: Any):
    """The results without any marks."""
    one = jaxpr_as_fun(program)
    if any(varies):
        return jax.vmap(one, [0 if own else None for own in varies])(*arguments)
    found = one(*arguments)
    return found if size is None else [jnp.broadcast_to(x, (size, *x.shape)) for x in found]


@one_function_p.def_impl
def _evaluate(*arguments: Any, **params: Any) -> list[Any]:
    return jax.jit(functools.partial(over_states, **params))(*arguments)


@one_function_p.def_abstract_eval
def _shapes(*_: Any, program: ClosedJaxpr, size: int | None, **__: Any) -> list[Any]:
    return [x if size is None else x.update(shape=(size, *x.shape)) for x in program.out_avals]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    program, varies = params["program"], params["varies"]
    moves = [not isinstance(x, ad.Zero) for x in tangents]
    directions = list(itertools.compress(tangents, moves))
    smooth = all(np.issubdtype(x.dtype, np.inexact) for x in program.out_avals)
    if params["linear"] or len(directions) > _MOST_DIRECTIONS or not (params["derivatives"] and smooth):
        evaluate = functools.partial(over_states, **params)
        return jax.jvp(_of_some(evaluate, moves, primals), list(itertools.compress(primals, moves)), directions)

    def along(*given: Any) -> Sequence[Any]:
        primals, directions = given[: len(moves)], given[len(moves) :]
        with inside_one_function():
            one = _of_some(jaxpr_as_fun(program), moves, primals)
            return jax.jvp(one, list(itertools.compress(primals, moves)), list(directions))[1]

    avals = [*program.in_avals, *itertools.compress(program.in_avals, moves)]
    new = {"varies": [*varies, *itertools.compress(varies, moves)], "linear": len(directions)}
    found = one_function_p.bind(*primals, **params)
    return found, _bind([*primals, *directions], **{**params, **new, "program": jax.make_jaxpr(along)(*avals)})


def _transpose(cotangents: Sequence[Any], *arguments: Any, **params: Any) -> list[Any]:
    program, varies, size = params["program"], params["varies"], params["size"]
    moves = [ad.is_undefined_primal(x) for x in arguments]
    counts = [not isinstance(x, ad.Zero) for x in cotangents]
    if not any(counts):
        return [ad.Zero(x.aval) if moved else None for x, moved in zip(arguments, moves, strict=True)]
    inner = ClosedJaxpr(dce_jaxpr(program.jaxpr, counts, instantiate=True)[0], program.consts)
    stays = [not moved for moved in moves]
    moved_avals = list(itertools.compress(program.in_avals, moves))

    def backward(*given: Any) -> Sequence[Any]:
        known, weights = given[: sum(stays)], given[sum(stays) :]
        everything = _merged(stays, known, [None] * len(moves))
        with inside_one_function():
            return jax.linear_transpose(_of_some(jaxpr_as_fun(inner), moves, everything), *moved_avals)(list(weights))

    known, weights = list(itertools.compress(arguments, stays)), list(itertools.compress(cotangents, counts))
    avals = [*itertools.compress(program.in_avals, stays), *inner.out_avals]
    new = {"varies": [*itertools.compress(varies, stays), *[size is not None] * len(weights)], "linear": len(weights)}
    found = _bind([*known, *weights], **{**params, **new, "program": jax.make_jaxpr(backward)(*avals)})
    shared = [size is not None and not own for own in itertools.compress(varies, moves)]
    return _merged(moves, [x.sum(0) if all_ else x for x, all_ in zip(found, shared, strict=True)], [None] * len(moves))


def _batch(arguments: Sequence[Any], axes: Sequence[int | None], **params: Any) -> tuple[list[Any], list[int]]:
    program, varies, size = params["program"], params["varies"], params["size"]
    own = tuple(axis is not None for axis in axes)
    arguments = [x if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(arguments, axes, strict=True)]
    new = len(next(itertools.compress(arguments, own)))
    if size is None:
        found = _bind(arguments, **{**params, "varies": own, "size": new})
    elif own == varies:  # two batches of the same arguments are one
        joined = [x.reshape(new * size, *x.shape[2:]) if both else x for x, both in zip(arguments, own, strict=True)]
        found = _bind(joined, **{**params, "size": new * size})
        found = [x.reshape(new, size, *x.shape[1:]) for x in found]
    else:  # what varies with one of them only must not be repeated for the other
        shapes = zip(program.in_avals, varies, strict=True)
        avals = [x.update(shape=(size, *x.shape)) if varied else x for x, varied in shapes]
        inner = jax.make_jaxpr(functools.partial(over_states, **params))(*avals)
        width = params["width"] * size
        found = _bind(arguments, **{**params, "program": inner, "varies": own, "size": new, "width": width})
    return found, [0] * len(found)


def _without_unused(used: list[bool], step: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
    """The step with those results alone that are used, and with what these need."""
    params = step.params
    if not any(used):
        return [False] * len(step.invars), None
    inner, kept = dce_jaxpr(params["program"].jaxpr, used)
    new = {
        "program": ClosedJaxpr(inner, ()),
        "varies": tuple(itertools.compress(params["varies"], kept)),
        "linear": sum(kept[len(kept) - params["linear"] :]),
    }
    operands, results = list(itertools.compress(step.invars, kept)), list(itertools.compress(step.outvars, used))
    return kept, step.replace(invars=operands, outvars=results, params={**params, **new})


def _merged(own: Iterable[bool], some: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """`others` with `some` in the place of those that are their own."""
    new = iter(some)
    return [next(new) if chosen else x for x, chosen in zip(others, own, strict=True)]


def _of_some(function: Callable[..., Any], chosen: Sequence[bool], arguments: Sequence[Any]) -> Callable[..., Any]:
    """`function` of the chosen arguments alone."""
    return lambda *some: function(*_merged(chosen, some, arguments))


ad.primitive_jvps[one_function_p] = _jvp
ad.primitive_transposes[one_function_p] = _transpose
batching.primitive_batchers[one_function_p] = _batch
dce_rules[one_function_p] = _without_unused


def _on_cpu(*arguments: Any, **params: Any) -> list[Any]:
    names = "varies", "size", "width", "single"
    by_vmap = functools.partial(over_states, **params)
    return in_pieces(params["program"], by_vmap, arguments, *(params[name] for name in names))


def _lower_on_cpu(context: mlir.LoweringRuleContext, *arguments: Any, **params: Any) -> Any:
    axes = context.module_context.axis_context
    # A loop over pieces of an array that is spread over devices would gather it.
    spread = isinstance(axes, sharding_impls.ShardingContext) and axes.num_devices > 1
    function = functools.partial(over_states if spread else _on_cpu, **params)
    return mlir.lower_fun(function, multiple_results=True)(context, *arguments)


mlir.register_lowering(one_function_p, _lower_on_cpu, platform="cpu")
mlir.register_lowering(one_function_p, mlir.lower_fun(over_states, multiple_results=True))
