"""A primitive that stands for a function of one state, or of a batch: its rules, and how functions become such."""

import contextlib
import functools
import itertools
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import export
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir
from jax.interpreters.partial_eval import dce_jaxpr

from .._private_jax import convert_constvars_jaxpr, set_without_unused
from ..backend import backend, is_gpu
from ._marks import has_marks, inside_one_function, without_marks
from ._on_cpu import batch_shape, in_pieces
from ._on_gpu import by_kernel, is_spread, line_of, may_be_kernel, with_known_constants

Result = TypeVar("Result")

# Derivatives by more arguments than this, such as all of a model, are those of the function as it stands: in a form of
# their own they compile two to three times as long, and are no faster in batches.
_MOST_DIRECTIONS = 8


class Shared(eqx.Module):
    """An argument that only saves work: with None in its place, a function finds again what this holds.

    Functions do so themselves in batches on CPUs, where that takes less time than reading it: then each of them is one
    function of little, whose numbers stay in the cache. In kernels of GPUs they stay in registers.
    """


def as_one_function(
    function: Callable[..., Result],
    *,
    derivatives: bool = True,
    handed_on: bool = False,
    alike: bool = True,
) -> Callable[..., Result]:
    """`function`, in a form that runs fast, for one state and for batches; for use in compiled functions.

    On CPUs that is one function; on GPUs one kernel, if what is known while tracing, such as a model that is closed
    over, leaves few enough operations on numbers to compile it soon. Other backends have the function as it stands.

    **Arguments:** `function` of pytrees, whose results are pytrees of arrays; `derivatives`: whether derivatives by a
    few arguments are of that form too, for which they compute anew what they need, or those of the function as it
    stands; `handed_on`: whether results mostly go to other such functions: then their last axis is that of a batch,
    which need not be moved there and back. (On GPUs these find them again, and a kernel would only write what is not
    read.) `alike`: whether single states have the program of batches, or one that is traced as it stands, with products
    for loops that XLA compiles.

    Arguments that are `Shared` are used by single states alone. Those that are results are handed through.
    """

    @functools.wraps(function)
    def run(*arguments: Any) -> Result:
        if not has_marks():
            return function(*arguments)
        if is_gpu() and not handed_on:
            return _as_one_kernel(function, arguments, derivatives)
        if backend() != "cpu":
            return function(*arguments)
        some_are_shared = any(isinstance(x, Shared) for x in arguments)
        arrays, fixed = eqx.partition(arguments, eqx.is_array)
        leaves, structure = jax.tree.flatten(arrays)

        def of_leaves(leaves: list[Any]) -> Result:
            with inside_one_function() if alike else contextlib.nullcontext():
                return function(*eqx.combine(jax.tree.unflatten(structure, leaves), fixed))

        def in_a_batch(leaves: list[Any]) -> Result:
            own = eqx.combine(jax.tree.unflatten(structure, leaves), fixed)
            with inside_one_function():
                return function(*(None if isinstance(x, Shared) else x for x in own))

        program, shapes = jax.make_jaxpr(of_leaves, return_shape=True)(leaves)
        if program.effects:  # such as what a user prints
            return function(*arguments)
        given = dict(zip(program.jaxpr.invars, leaves, strict=True))
        handed_through = [None if isinstance(x, Literal) else given.get(x) for x in program.jaxpr.outvars]
        own = [x is None for x in handed_through]
        other = some_are_shared or not alike
        found = _bind(
            leaves,
            program=_with_results(program, own),
            axes=(None,) * len(leaves),
            results=(-1 if handed_on else 0,) * sum(own),
            size=None,
            width=1,
            linear=0,
            derivatives=derivatives,
            of_batches=_traced_later(in_a_batch, program.in_avals, own) if other else None,
        )
        return jax.tree.unflatten(jax.tree.structure(shapes), _merged(own, found, handed_through))

    return run


def _as_one_kernel(function: Callable[..., Result], arguments: Sequence[Any], derivatives: bool) -> Result:
    """`function(*arguments)` as a part that becomes one kernel, or as it stands."""
    some_are_shared = any(isinstance(x, Shared) for x in arguments)
    own = tuple(None if isinstance(x, Shared) else x for x in arguments)
    traced, known = eqx.partition(own, lambda x: isinstance(x, jax.core.Tracer))
    leaves, structure = jax.tree.flatten(traced)
    if not leaves:
        return function(*arguments)

    def of_leaves(leaves: list[Any]) -> Result:
        with without_marks():
            return function(*eqx.combine(jax.tree.unflatten(structure, leaves), known))

    program, shapes = jax.make_jaxpr(of_leaves, return_shape=True)(leaves)
    program = with_known_constants(program)
    if program.effects or line_of(program) is None:
        if some_are_shared:
            return function(*arguments)
        return jax.tree.unflatten(jax.tree.structure(shapes), jaxpr_as_fun(program)(*leaves))
    found = _bind(
        leaves,
        program=program,
        axes=(None,) * len(leaves),
        results=(0,) * len(program.out_avals),
        size=None,
        width=1,
        linear=0,
        derivatives=derivatives,
        kernel=True,
    )
    return jax.tree.unflatten(jax.tree.structure(shapes), found)


# Parameters: `program`; `axes`, where the arguments have that of the batch: 0, -1, or None if they do not vary; `size`
# of the batch, if there is one, of which all results then have an axis, where `results` says; `width`, how many states
# the program itself computes; `linear`: in the last so many arguments the program is linear; `derivatives` as above;
# `of_batches` returns the program of batches if that is another, without shared arguments; `kernel`: whether
# it is to be a kernel of a GPU, for which constants stay parts of the program, instead of one function of a CPU.

one_function_p = Primitive("one_function")
one_function_p.multiple_results = True


def _traced_later(
    function: Callable[[list[Any]], Any], avals: Sequence[Any], used: list[bool]
) -> Callable[[], ClosedJaxpr]:
    """The program of `function` for those results that are used, once it is asked for."""
    return functools.cache(lambda: _with_results(jax.make_jaxpr(function)(list(avals)), used))


def _bind(
    arguments: Sequence[Any],
    *,
    program: ClosedJaxpr,
    axes: Sequence[int | None],
    linear: int,
    of_batches: Callable[[], ClosedJaxpr] | None = None,
    kernel: bool = False,
    **params: Any,
) -> list[Any]:
    """A call with those arguments that the program uses, or all if the one in batches may use others."""
    if kernel:
        program = with_known_constants(program)
    flat = convert_constvars_jaxpr(program.jaxpr)
    inner, used = dce_jaxpr(flat, [True] * len(flat.outvars), instantiate=of_batches is not None)
    constants = len(program.consts)
    arguments, axes = [*program.consts, *arguments], [None] * constants + list(axes)
    return one_function_p.bind(
        *itertools.compress(arguments, used),
        program=ClosedJaxpr(inner, ()),
        axes=tuple(itertools.compress(axes, used)),
        linear=sum(used[len(used) - linear :]),
        of_batches=of_batches,
        kernel=kernel,
        **params,
    )


def over_states(
    *arguments: Any,
    program: ClosedJaxpr,
    axes: Sequence[int | None],
    results: Sequence[int],
    size: int | None,
    **_: Any,
) -> list[Any]:
    """The results without any marks."""
    one = jaxpr_as_fun(program)
    if any(axis is not None for axis in axes):
        return jax.vmap(one, list(axes), list(results))(*arguments)
    found = one(*arguments)
    return found if size is None else [_repeated(x, size, axis) for x, axis in zip(found, results, strict=True)]


def _repeated(x: Any, size: int, axis: int) -> Any:
    return jnp.broadcast_to(jnp.expand_dims(x, axis), batch_shape(x.shape, size, axis))


@one_function_p.def_impl
def _evaluate(*arguments: Any, **params: Any) -> list[Any]:
    return jax.jit(functools.partial(over_states, **params))(*arguments)


@one_function_p.def_abstract_eval
def _shapes(*_: Any, program: ClosedJaxpr, results: Sequence[int], size: int | None, **__: Any) -> list[Any]:
    return _of_batch(program.out_avals, results, size)


def _of_batch(avals: Sequence[Any], axes: Sequence[int | None], size: int | None) -> list[Any]:
    """Shapes and types with the batch's axis, where they have one."""
    pairs = zip(avals, axes, strict=True)
    if size is None:
        return list(avals)
    return [x if axis is None else x.update(shape=batch_shape(x.shape, size, axis)) for x, axis in pairs]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    program, axes = params["program"], params["axes"]
    moves = [not isinstance(x, ad.Zero) for x in tangents]
    directions = list(itertools.compress(tangents, moves))

    def as_it_stands() -> tuple[Sequence[Any], Sequence[Any]]:
        evaluate = functools.partial(over_states, **params)
        return jax.jvp(_of_some(evaluate, moves, primals), list(itertools.compress(primals, moves)), directions)

    smooth = all(jnp.issubdtype(x.dtype, jnp.inexact) for x in program.out_avals)
    if params["linear"] or len(directions) > _MOST_DIRECTIONS or not (params["derivatives"] and smooth):
        return as_it_stands()

    def along(*given: Any) -> Sequence[Any]:
        primals, directions = given[: len(moves)], given[len(moves) :]
        with _within(**params):
            one = _of_some(jaxpr_as_fun(program), moves, primals)
            return jax.jvp(one, list(itertools.compress(primals, moves)), list(directions))[1]

    traced = jax.make_jaxpr(along)(*program.in_avals, *itertools.compress(program.in_avals, moves))
    if params["kernel"]:
        traced = with_known_constants(traced)
        if line_of(traced) is None:
            return as_it_stands()
    new = {"axes": [*axes, *itertools.compress(axes, moves)], "linear": len(directions)}
    new |= {"program": traced, "of_batches": None}
    found = one_function_p.bind(*primals, **params)
    return found, _bind([*primals, *directions], **{**params, **new})


def _within(*, kernel: bool, **_: Any) -> contextlib.AbstractContextManager[None]:
    """Where the program that such a call holds is traced."""
    return without_marks() if kernel else inside_one_function()


def _transpose(cotangents: Sequence[Any], *arguments: Any, **params: Any) -> list[Any]:
    program, axes, results, size = (params[name] for name in ("program", "axes", "results", "size"))
    moves = [ad.is_undefined_primal(x) for x in arguments]
    counts = [not isinstance(x, ad.Zero) for x in cotangents]
    if not any(counts):
        return [ad.Zero(x.aval) if moved else None for x, moved in zip(arguments, moves, strict=True)]
    inner = _with_results(program, counts)
    stays = [not moved for moved in moves]
    moved_avals = list(itertools.compress(program.in_avals, moves))

    def backward(*given: Any) -> Sequence[Any]:
        known, weights = given[: sum(stays)], given[sum(stays) :]
        everything = _merged(stays, known, [None] * len(moves))
        with _within(**params):
            return jax.linear_transpose(_of_some(jaxpr_as_fun(inner), moves, everything), *moved_avals)(list(weights))

    known, weights = list(itertools.compress(arguments, stays)), list(itertools.compress(cotangents, counts))
    avals = [*itertools.compress(program.in_avals, stays), *inner.out_avals]
    moved_axes = list(itertools.compress(axes, moves))
    new = {
        "program": jax.make_jaxpr(backward)(*avals),
        "axes": [
            *itertools.compress(axes, stays),
            *(None if size is None else i for i in itertools.compress(results, counts)),
        ],
        "results": tuple(i or 0 for i in moved_axes),
        "linear": len(weights),
        "of_batches": None,
    }
    found = _bind([*known, *weights], **{**params, **new})
    shared = [size is not None and axis is None for axis in moved_axes]
    return _merged(moves, [x.sum(0) if all_ else x for x, all_ in zip(found, shared, strict=True)], [None] * len(moves))


def _batch(arguments: Sequence[Any], axes: Sequence[int | None], /, **params: Any) -> tuple[list[Any], list[int]]:
    new = next(x.shape[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None)
    if export.is_symbolic_dim(new):  # any number, in programs to be exported
        found = jax.vmap(functools.partial(over_states, **params), list(axes))(*arguments)
        return found, [0] * len(found)
    if params["of_batches"] is not None and new * (params["size"] or 1) > 1:
        params["program"], params["of_batches"] = params["of_batches"](), None
        constants = len(arguments) - len(params["program"].in_avals)  # of the program for single states
        arguments, axes = arguments[constants:], axes[constants:]
        params["axes"] = params["axes"][constants:]
    inner_axes, results, size = params["axes"], params["results"], params["size"]
    if size is not None and params["kernel"]:  # in which a state costs little, and a batch of batches is too long
        each = zip(arguments, axes, inner_axes, strict=True)
        arguments, axes, inner_axes = zip(*(_repeated_in_both(*x, new, size) for x in each), strict=True)
        params["axes"] = inner_axes
    if size is not None and _varying(axes) == _varying(inner_axes):  # two batches of the same arguments are one
        both = zip(arguments, axes, inner_axes, strict=True)
        joined = [x if axis is None else _joined(x, axis, inner) for x, axis, inner in both]
        found = _bind(joined, **{**params, "size": new * size})
        found = [
            x.reshape(new, size, *x.shape[1:]) if axis == 0 else x.reshape(*x.shape[:-1], new, size)
            for x, axis in zip(found, results, strict=True)
        ]
        return found, [0 if axis == 0 else x.ndim - 2 for x, axis in zip(found, results, strict=True)]
    if size is not None:  # what varies with one of them only must not be repeated for the other
        program = jax.make_jaxpr(functools.partial(over_states, **params))
        params["program"] = program(*_of_batch(params["program"].in_avals, inner_axes, size))
        params["of_batches"] = None
        params["width"] = params["width"] * size
    placed = [x if axis is None else _placed(x, axis) for x, axis in zip(arguments, axes, strict=True)]
    own = [None if axis is None else _own_axis(x, axis) for x, axis in zip(arguments, axes, strict=True)]
    found = _bind(placed, **{**params, "axes": own, "size": new})
    return found, [0 if axis == 0 else x.ndim - 1 for x, axis in zip(found, results, strict=True)]


def _repeated_in_both(x: Any, axis: int | None, inner: int | None, new: int, size: int) -> tuple:
    """An argument of two batches, in both of which it varies if it does in one, and where these have their axes."""
    if (axis is None) == (inner is None):
        return x, axis, inner
    if axis is None:
        return _repeated(x, new, 0), 0, inner
    x = jnp.moveaxis(x, axis, 0)
    return jnp.broadcast_to(x[:, None], (new, size, *x.shape[1:])), 0, 0


def _varying(axes: Sequence[int | None]) -> list[bool]:
    return [axis is not None for axis in axes]


def _own_axis(x: Any, axis: int) -> int:
    """Where the axis of a batch stays, or is moved to."""
    return -1 if 0 < axis == x.ndim - 1 else 0


def _placed(x: Any, axis: int) -> Any:
    return jnp.moveaxis(x, axis, _own_axis(x, axis))


def _joined(x: Any, axis: int, inner: int) -> Any:
    """The axes of two batches as one."""
    if inner == 0:
        x = jnp.moveaxis(x, axis, 0)
        return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])
    x = jnp.moveaxis(x, axis, -2)
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


def _without_unused(used: list[bool], step: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
    """The step with those results alone that are used, and with what these need."""
    params = step.params
    if not any(used):
        return [False] * len(step.invars), None
    of_batches = params["of_batches"]
    inner, kept = dce_jaxpr(params["program"].jaxpr, used, instantiate=of_batches is not None)
    new = {
        "program": ClosedJaxpr(inner, ()),
        "axes": tuple(itertools.compress(params["axes"], kept)),
        "results": tuple(itertools.compress(params["results"], used)),
        "linear": sum(kept[len(kept) - params["linear"] :]),
        "of_batches": of_batches and functools.cache(lambda: _with_results(of_batches(), used)),
    }
    operands, results = list(itertools.compress(step.invars, kept)), list(itertools.compress(step.outvars, used))
    return kept, step.replace(invars=operands, outvars=results, params={**params, **new})


def _with_results(program: ClosedJaxpr, used: list[bool]) -> ClosedJaxpr:
    """The program with those results alone that are used, and all of its arguments."""
    if all(used):
        return program
    return ClosedJaxpr(dce_jaxpr(program.jaxpr, used, instantiate=True)[0], program.consts)


def _merged(own: Iterable[bool], some: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """`others`, where `own` says so replaced by `some`, in order."""
    new = iter(some)
    return [next(new) if chosen else x for x, chosen in zip(others, own, strict=True)]


def _of_some(function: Callable[..., Any], chosen: Sequence[bool], arguments: Sequence[Any]) -> Callable[..., Any]:
    """`function` of the chosen arguments alone."""
    return lambda *some: function(*_merged(chosen, some, arguments))


ad.primitive_jvps[one_function_p] = _jvp
ad.primitive_transposes[one_function_p] = _transpose
batching.primitive_batchers[one_function_p] = _batch
set_without_unused(one_function_p, _without_unused)


def _on_cpu(*arguments: Any, **params: Any) -> list[Any]:
    names = "axes", "results", "size", "width"
    by_vmap = functools.partial(over_states, **params)
    return in_pieces(params["program"], by_vmap, arguments, *(params[name] for name in names))


def _lower_on_cpu(context: mlir.LoweringRuleContext, *arguments: Any, **params: Any) -> Any:
    # A loop over pieces of an array that is spread over devices would gather it.
    plain = params["kernel"] or is_spread(context)
    function = functools.partial(over_states if plain else _on_cpu, **params)
    return mlir.lower_fun(function, multiple_results=True)(context, *arguments)


def _lower_on_cuda(context: mlir.LoweringRuleContext, *arguments: Any, **params: Any) -> Any:
    def lowered(function: Callable[..., list[Any]]) -> Any:
        return mlir.lower_fun(function, multiple_results=True)(context, *arguments)

    line = line_of(params["program"]) if params["kernel"] and may_be_kernel(context) else None

    if line is not None:

        def as_kernel(*arguments: Any) -> list[Any]:
            return by_kernel(line, arguments, *(params[name] for name in ("axes", "results", "size")))

        # Triton has not all operations of JAX, and some versions of Pallas refuse to write for a GPU that is not there.
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The Pallas Triton backend", DeprecationWarning)
            return lowered(as_kernel)
    return lowered(functools.partial(over_states, **params))


mlir.register_lowering(one_function_p, _lower_on_cpu, platform="cpu")
mlir.register_lowering(one_function_p, _lower_on_cuda, platform="cuda")
mlir.register_lowering(one_function_p, mlir.lower_fun(over_states, multiple_results=True))
