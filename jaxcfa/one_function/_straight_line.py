"""A function of arrays as a straight line of operations on numbers.

The function is traced by JAX, and what was traced is evaluated with arrays of numbers that are known only at run time:
whatever moves numbers about (slices, stacks, transposes) happens here and now, loops are written out, products with
known zeros and ones vanish, and equal operations are one. What is left are additions and multiplications of numbers.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Literal, Primitive
from jaxtyping import Array, PyTree

from .. import backend
from .._private_jax import operands_of_solve, parts_of_scan
from ._marks import without_marks


class Unsupported(Exception):
    """The function has an operation that is none on numbers; the message says which."""


class Value(NamedTuple):
    """A number that is known only at run time.

    **Fields:** `number`: in the order of computation, inputs first.
    """

    number: int


class Operation(NamedTuple):
    """One operation on numbers, some of which are constants."""

    primitive: Primitive
    params: dict[str, Any]
    operands: tuple[Value | np.generic, ...]
    dtype: np.dtype


class StraightLine(NamedTuple):
    """A function as operations.

    **Fields:** `inputs`: the leaves of the arguments, as shapes and dtypes; their numbers come first, and `operations`
    make one each after these. `outputs`: for each leaf of the results its numbers, flattened. `results`: the results,
    as shapes and dtypes.
    """

    inputs: list[jax.ShapeDtypeStruct]
    operations: list[Operation]
    outputs: list[list[Value | np.generic]]
    results: PyTree

    @property
    def input_size(self) -> int:
        return sum(math.prod(x.shape) for x in self.inputs)


def computed(operation: Operation, known: dict[int, Array], size: int) -> Array:
    """An operation on the numbers of `size` states."""
    dtype = next(known[x.number].dtype for x in operation.operands if isinstance(x, Value))
    columns = (column(x, getattr(x, "dtype", dtype), known, size) for x in operation.operands)
    return operation.primitive.bind(*columns, **operation.params)


def column(x: Value | np.generic, dtype: Any, known: dict[int, Array], size: int) -> Array:
    """A number of `size` states."""
    return known[x.number] if isinstance(x, Value) else jnp.full((size,), jnp.asarray(x, dtype))


def straight_line(function: Callable, *arguments: PyTree) -> StraightLine:
    """The function as operations on the numbers of arguments, of which only shapes and dtypes count.

    **Raises:** `Unsupported`.
    """
    leaves, structure = jax.tree.flatten(arguments)
    shapes = [jax.ShapeDtypeStruct(np.shape(x), jnp.result_type(x)) for x in leaves]
    # Loops over bodies are short to trace, and are written out below.
    with backend.compiling_for("cpu"), without_marks():
        traced, results = jax.make_jaxpr(function, return_shape=True)(*jax.tree.unflatten(structure, shapes))
    return line_of_program(traced)._replace(results=results)


def line_of_program(program: ClosedJaxpr, longest: float = math.inf) -> StraightLine:
    """What was traced, as operations on numbers; its results are a list.

    **Raises:** `Unsupported`, also for more than `longest` operations.
    """
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in program.in_avals]
    results = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in program.out_avals]
    numbers, start = [], 0
    for x in shapes:
        stop = start + math.prod(x.shape)
        numbers.append(_array([Value(i) for i in range(start, stop)], x.shape))
        start = stop
    recorder = _Recorder(start, longest)
    # What is computed here of constants may be infinite, as it would be at run time.
    with np.errstate(all="ignore"):
        outputs = _run(program.jaxpr, [_known(x) for x in program.consts], numbers, recorder)
    return _without_unused(shapes, recorder.operations, [x.reshape(-1).tolist() for x in outputs], results)


def _without_unused(shapes, operations, outputs, results) -> StraightLine:
    start = sum(math.prod(x.shape) for x in shapes)
    used = {x.number for leaf in outputs for x in leaf if isinstance(x, Value)}
    for i in reversed(range(len(operations))):
        if start + i in used:
            used.update(x.number for x in operations[i].operands if isinstance(x, Value))
    kept = [i for i in range(len(operations)) if start + i in used]
    place = {i: i for i in range(start)} | {start + i: start + k for k, i in enumerate(kept)}

    def moved(x):
        return Value(place[x.number]) if isinstance(x, Value) else x

    line = [operations[i]._replace(operands=tuple(map(moved, operations[i].operands))) for i in kept]
    return StraightLine(shapes, line, [list(map(moved, leaf)) for leaf in outputs], results)


class _Recorder:
    """The operations so far, each of which is there once."""

    def __init__(self, inputs: int, longest: float):
        self.operations: list[Operation] = []
        self._longest = longest
        self._inputs = inputs
        self._found: dict[tuple, Value | np.generic] = {}

    def __call__(self, primitive: Primitive, params: dict, dtype: np.dtype, *operands):
        short = _SIMPLER.get(primitive.name)
        if short is not None:
            found = short(*operands)
            if found is not None:
                return found
        # Constants by their bytes: equal numbers can differ in type, and zeros in sign.
        known = (x if isinstance(x, Value) else (x.dtype.char, x.tobytes()) for x in operands)
        key = (primitive.name, _key(params), *known)
        if key not in self._found:
            self._found[key] = self._made(primitive, params, dtype, operands)
        return self._found[key]

    def _made(self, primitive, params, dtype, operands):
        if not any(isinstance(x, Value) for x in operands):
            with jax.ensure_compile_time_eval():
                return np.asarray(primitive.bind(*map(jnp.asarray, operands), **params))[()]
        if len(self.operations) >= self._longest:
            raise Unsupported(f"it has more than {self._longest} operations on numbers")
        self.operations.append(Operation(primitive, params, operands, np.dtype(dtype)))
        return Value(self._inputs + len(self.operations) - 1)


def _key(params: dict) -> tuple:
    return tuple(sorted((name, repr(value)) for name, value in params.items()))


def _is(x, number: int) -> bool:
    return not isinstance(x, Value) and x == number


def _sum(x, y):
    if not isinstance(x, Value) and not isinstance(y, Value):
        return x + y
    return y if _is(x, 0) else x if _is(y, 0) else None


def _difference(x, y):
    if not isinstance(x, Value) and not isinstance(y, Value):
        return x - y
    return x if _is(y, 0) else None


def _product(x, y):
    if not isinstance(x, Value) and not isinstance(y, Value):
        return x * y
    if _is(x, 0) or _is(y, 1):
        return x
    return y if _is(y, 0) or _is(x, 1) else None


# What is known of the result without an operation; None if nothing is.
_SIMPLER = {"add": _sum, "add_any": _sum, "sub": _difference, "mul": _product}


# Evaluation with arrays of numbers, which are numpy's arrays of objects.


def _array(numbers: Sequence, shape: tuple[int, ...]) -> np.ndarray:
    made = np.empty(len(numbers), object)
    for i, x in enumerate(numbers):
        made[i] = x
    return made.reshape(shape)


def _known(x, dtype: np.dtype | None = None) -> np.ndarray:
    if isinstance(x, jax.core.Tracer):
        raise Unsupported("it uses a traced value that is not among its arguments")
    if jnp.issubdtype(jnp.result_type(x), jax.dtypes.extended):
        raise Unsupported("it has random keys")
    x = np.asarray(x, dtype or jnp.result_type(x))
    return _array(list(x.reshape(-1)), x.shape)


def _run(jaxpr, constants: list[np.ndarray], arguments: list[np.ndarray], record: _Recorder) -> list[np.ndarray]:
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *arguments), strict=True))

    def read(x):
        return _known(x.val, jnp.result_type(x.aval)) if isinstance(x, Literal) else values[x]

    for equation in jaxpr.eqns:
        name = equation.primitive.name
        rule = _RULES.get(name)
        if rule is None:
            raise Unsupported(f"it has {name!r}")
        results = rule(record, equation, *map(read, equation.invars))
        values.update(zip(equation.outvars, results, strict=True))
    return [read(x) for x in jaxpr.outvars]


def _call(closed, arguments: Sequence[np.ndarray], record: _Recorder) -> list[np.ndarray]:
    """Results of what a call, branch or loop body was traced to."""
    jaxpr = getattr(closed, "jaxpr", closed)
    return _run(jaxpr, [_known(x) for x in getattr(closed, "consts", ())], list(arguments), record)


def _elementwise(record, equation, *arrays):
    (result,) = equation.outvars
    if equation.primitive is lax.convert_element_type_p and equation.invars[0].aval.dtype == result.aval.dtype:
        return [arrays[0]]
    arrays = np.broadcast_arrays(*arrays)
    rows = zip(*(x.reshape(-1) for x in arrays), strict=True)
    dtype, primitive, params = result.aval.dtype, equation.primitive, equation.params
    return [_array([record(primitive, params, dtype, *row) for row in rows], arrays[0].shape)]


def _select(record, equation, which, *cases):
    shape = cases[0].shape
    which = np.broadcast_to(which, shape)
    (result,) = equation.outvars
    made = []
    for chosen, *numbers in zip(*(x.reshape(-1) for x in (which, *cases)), strict=True):
        made.append(_chosen(record, chosen, numbers, result.aval.dtype))
    return [_array(made, shape)]


def _chosen(record, which, numbers: Sequence, dtype):
    """One of several numbers; one of two if that is decided at run time."""
    if not isinstance(which, Value):
        return numbers[int(which)]
    if all(type(x) is type(numbers[0]) and x == numbers[0] for x in numbers):
        return numbers[0]
    if len(numbers) != 2:
        raise Unsupported("it chooses at run time between more than two arrays")
    return record(lax.select_n_p, {}, dtype, which, *numbers)


def _reshape(record, equation, x, *sizes):
    return [x.reshape(equation.outvars[0].aval.shape)]


def _slice(record, equation, x):
    p = equation.params
    strides = p["strides"] or (1,) * x.ndim
    return [x[tuple(map(slice, p["start_indices"], p["limit_indices"], strides))]]


def _broadcast(record, equation, x, *sizes):
    p = equation.params
    shape = [1] * len(p["shape"])
    for axis, size in zip(p["broadcast_dimensions"], x.shape, strict=True):
        shape[axis] = size
    return [np.broadcast_to(x.reshape(shape), p["shape"])]


def _numbered(*arrays: np.ndarray) -> list[np.ndarray]:
    """The integers from zero on, in the shapes of arrays."""
    ends = np.cumsum([0, *(x.size for x in arrays)])
    return [
        np.arange(end - x.size, end, dtype=np.int32).reshape(x.shape) for x, end in zip(arrays, ends[1:], strict=True)
    ]


def _moved(record, equation, *arrays):
    """Anything that only moves numbers: as it moves integers."""
    return _at(equation, _numbered(*arrays), arrays)


def _at(equation, operands, arrays):
    """The numbers of arrays, at the integers that an equation makes of its operands."""
    primitive = equation.primitive
    with jax.ensure_compile_time_eval():
        found = primitive.bind(*map(jnp.asarray, operands), **equation.params)
    found = list(map(np.asarray, found if primitive.multiple_results else [found]))
    if any((x < 0).any() for x in found):
        raise Unsupported("it has indices that are out of bounds")
    flat = np.concatenate([x.reshape(-1) for x in arrays])
    return [flat[x.reshape(-1)].reshape(x.shape) for x in found]


def _indexed(record, equation, x, *indices):
    """A gather or dynamic slice."""
    return _at(equation, [*_numbered(x), *map(_indices, indices)], [x])


def _updated(record, equation, x, update, *indices):
    """A dynamic slice that is replaced."""
    return _at(equation, [*_numbered(x, update), *map(_indices, indices)], [x, update])


def _scattered(record, equation, x, indices, updates):
    """Assigning or adding at known indices, one update after the other."""
    p = equation.params
    (places,) = _numbered(x)
    flat = x.reshape(-1).copy()
    dtype = equation.outvars[0].aval.dtype
    # Where updates go is where a gather would take them from.
    with jax.ensure_compile_time_eval():
        d = p["dimension_numbers"]
        if d.operand_batching_dims or d.scatter_indices_batching_dims:
            raise Unsupported("it assigns at batches of indices")
        sizes = iter([updates.shape[i] for i in d.update_window_dims])
        window = [1 if i in d.inserted_window_dims else next(sizes) for i in range(x.ndim)]
        numbers = lax.GatherDimensionNumbers(
            offset_dims=d.update_window_dims,
            collapsed_slice_dims=d.inserted_window_dims,
            start_index_map=d.scatter_dims_to_operand_dims,
        )
        mode = lax.GatherScatterMode.FILL_OR_DROP
        if p["mode"] != lax.GatherScatterMode.CLIP:
            found = lax.gather(places, _indices(indices), numbers, tuple(window), mode=mode, fill_value=-1)
        else:
            found = lax.gather(places, _indices(indices), numbers, tuple(window), mode=p["mode"])
    together = _SCATTERED[equation.primitive.name]
    for place, number in zip(np.asarray(found).reshape(-1), updates.reshape(-1), strict=True):
        if place >= 0:
            flat[place] = number if together is None else record(together, {}, dtype, flat[place], number)
    return [flat.reshape(x.shape)]


def _indices(x: np.ndarray) -> np.ndarray:
    if any(isinstance(i, Value) for i in x.reshape(-1)):
        raise Unsupported("it has indices that are known only at run time")
    return np.array(x.tolist())


def _padded(record, equation, x, filling):
    return _at(equation, _numbered(filling, x)[::-1], [filling, x])


def _reduced(primitive):
    def rule(record, equation, x):
        (result,) = equation.outvars
        if not x.size:
            return _of_nothing(equation, x)
        axes = equation.params["axes"]
        rest = [i for i in range(x.ndim) if i not in axes]
        rows = x.transpose(*rest, *axes).reshape(math.prod(result.aval.shape), -1)
        together = functools.partial(record, primitive, {}, result.aval.dtype)
        return [_array([functools.reduce(together, row) for row in rows], result.aval.shape)]

    return rule


def _of_nothing(equation, x):
    """What an equation makes of an empty array."""
    with jax.ensure_compile_time_eval():
        return [_known(equation.primitive.bind(jnp.zeros(x.shape, equation.invars[0].aval.dtype), **equation.params))]


def _cumulated(primitive):
    def rule(record, equation, x):
        p, dtype = equation.params, equation.outvars[0].aval.dtype
        if not x.size:
            return _of_nothing(equation, x)
        x = np.moveaxis(x, p["axis"], 0)
        x = x[::-1] if p["reverse"] else x
        first, *others = np.split(x, len(x))
        rows = [first]
        for row in others:
            pairs = zip(rows[-1].reshape(-1), row.reshape(-1), strict=True)
            rows.append(_array([record(primitive, {}, dtype, *pair) for pair in pairs], row.shape))
        made = np.concatenate(rows[::-1] if p["reverse"] else rows)
        return [np.moveaxis(made, 0, p["axis"])]

    return rule


def _product_of_arrays(record, equation, x, y):
    (sum_x, sum_y), (batch_x, batch_y) = equation.params["dimension_numbers"]
    (result,) = equation.outvars
    free_x = [i for i in range(x.ndim) if i not in (*sum_x, *batch_x)]
    free_y = [i for i in range(y.ndim) if i not in (*sum_y, *batch_y)]

    def rows(z, batch, free, summed):
        sizes = (math.prod(z.shape[i] for i in axes) for axes in (batch, free, summed))
        return z.transpose(*batch, *free, *summed).reshape(*sizes)

    dtype, zero = result.aval.dtype, np.zeros((), result.aval.dtype)[()]
    x, y = (_of_type(record, z, variable, dtype) for z, variable in zip((x, y), equation.invars, strict=True))
    xs, ys = rows(x, batch_x, free_x, sum_x), rows(y, batch_y, free_y, sum_y)
    made = []
    for left, right in zip(xs, ys, strict=True):
        for row in left:
            for column in right:
                products = [record(lax.mul_p, {}, dtype, *pair) for pair in zip(row, column, strict=True)]
                made.append(functools.reduce(functools.partial(record, lax.add_p, {}, dtype), products, zero))
    return [_array(made, result.aval.shape)]


def _of_type(record, x: np.ndarray, variable, dtype: np.dtype) -> np.ndarray:
    """The numbers of a variable in another type, which products of arrays may have."""
    if variable.aval.dtype == dtype:
        return x
    params = {"new_dtype": dtype, "weak_type": False, "sharding": None}
    return _array([record(lax.convert_element_type_p, params, dtype, number) for number in x.reshape(-1)], x.shape)


def _scanned(record, equation, *arguments):
    """A loop, written out."""
    p = equation.params
    fixed, carried = parts_of_scan(p)
    constants, state, rows = arguments[:fixed], list(arguments[fixed : fixed + carried]), arguments[fixed + carried :]
    made: dict[int, list[np.ndarray]] = {}
    for i in range(p["length"])[:: -1 if p["reverse"] else 1]:
        at_i = [x[i] if x.ndim > 1 else _array([x[i]], ()) for x in rows]
        results = _call(p["jaxpr"], [*constants, *state, *at_i], record)
        state, made[i] = results[:carried], results[carried:]
    shapes = [x.aval.shape for x in equation.outvars[carried:]]
    return state + [
        np.stack([made[i][k] for i in range(p["length"])]) if made else np.empty(shape, object)
        for k, shape in enumerate(shapes)
    ]


def _looped(record, equation, *arguments):
    """A loop whose number of rounds is known."""
    p = equation.params
    first, second = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    state = list(arguments[second:])
    while True:
        (again,) = _call(p["cond_jaxpr"], [*arguments[:first], *state], record)
        if isinstance(again[()], Value):
            raise Unsupported("it has a loop whose number of rounds is known only at run time")
        if not again[()]:
            return state
        state = _call(p["body_jaxpr"], [*arguments[first:second], *state], record)


def _branched(record, equation, which, *arguments):
    """All branches, of which results are chosen, where the choice is made at run time."""
    branches = equation.params["branches"]
    which = which[()]
    if not isinstance(which, Value):
        return _call(branches[min(max(int(which), 0), len(branches) - 1)], arguments, record)
    if len(branches) != 2:
        raise Unsupported("it chooses at run time between more than two branches")
    if equation.invars[0].aval.dtype != np.bool_:
        zero = np.zeros((), equation.invars[0].aval.dtype)[()]
        which = record(lax.gt_p, {}, np.dtype(bool), which, zero)
    results = [_call(branch, arguments, record) for branch in branches]
    made = []
    for variable, *cases in zip(equation.outvars, *results, strict=True):
        pairs = zip(*(x.reshape(-1) for x in cases), strict=True)
        made.append(_array([_chosen(record, which, pair, variable.aval.dtype) for pair in pairs], variable.aval.shape))
    return made


def _solved(record, equation, *arguments):
    """A linear system that has a function for its solution."""
    params = equation.params
    return _call(params["jaxprs"].solve, operands_of_solve(params, arguments), record)


def _called(record, equation, *arguments):
    p = equation.params
    return _call(p["jaxpr"] if "jaxpr" in p else p["call_jaxpr"], arguments, record)


def _counted(record, equation):
    with jax.ensure_compile_time_eval():
        return [_known(equation.primitive.bind(**equation.params))]


_ELEMENTWISE = """
abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp convert_element_type cos cosh div eq exp exp2
expm1 floor ge gt integer_pow is_finite le log log1p lt max min mul ne neg nextafter not or pow rem rsqrt shift_left
shift_right_arithmetic shift_right_logical sign sin sinh sqrt square sub tan tanh xor
"""
# What becomes of what was there before.
_SCATTERED = {
    "scatter": None,
    "scatter-add": lax.add_p,
    "scatter-mul": lax.mul_p,
    "scatter-min": lax.min_p,
    "scatter-max": lax.max_p,
}
_RULES: dict[str, Callable[..., list[np.ndarray]]] = {
    **dict.fromkeys(_ELEMENTWISE.split(), _elementwise),
    **dict.fromkeys(("copy", "copy_p", "optimization_barrier", "stop_gradient"), lambda r, e, *x: list(x)),
    **dict.fromkeys(("reshape", "squeeze", "expand_dims"), _reshape),
    **dict.fromkeys(("split", "rev", "stack", "tile", "unstack"), _moved),
    **dict.fromkeys(("gather", "dynamic_slice"), _indexed),
    **dict.fromkeys(_SCATTERED, _scattered),
    **dict.fromkeys(
        (
            "jit",
            "pjit",
            "closed_call",
            "core_call",
            "remat2",
            "checkpoint",
            "custom_jvp_call",
            "custom_vjp_call",
            "with_rule",
        ),
        _called,
    ),
    "dynamic_update_slice": _updated,
    "select_n": _select,
    "slice": _slice,
    "broadcast_in_dim": _broadcast,
    "transpose": lambda r, e, x: [x.transpose(e.params["permutation"])],
    "concatenate": lambda r, e, *x: [np.concatenate(x, e.params["dimension"])],
    "pad": _padded,
    "iota": _counted,
    "reduce_sum": _reduced(lax.add_p),
    "reduce_prod": _reduced(lax.mul_p),
    "reduce_max": _reduced(lax.max_p),
    "reduce_min": _reduced(lax.min_p),
    "reduce_and": _reduced(lax.and_p),
    "reduce_or": _reduced(lax.or_p),
    "cumsum": _cumulated(lax.add_p),
    "cumprod": _cumulated(lax.mul_p),
    "dot_general": _product_of_arrays,
    "scan": _scanned,
    "while": _looped,
    "cond": _branched,
    "custom_linear_solve": _solved,
}
