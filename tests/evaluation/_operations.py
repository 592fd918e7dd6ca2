"""Operations of JAX by NumPy."""

import contextlib

import numpy as np
from scipy import linalg, special

from ._random import RANDOM


def _divide(x, y):
    if np.issubdtype(x.dtype, np.inexact):
        return np.divide(x, y)
    return (np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))).astype(x.dtype)


def _shift_right_logical(x, n):
    unsigned = np.dtype(f"u{x.itemsize}")
    return np.right_shift(x.view(unsigned), n.view(unsigned)).view(x.dtype)


NUMBERWISE = {
    "add": np.add,
    "add_any": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "div": _divide,
    "rem": np.fmod,
    "max": np.maximum,
    "min": np.minimum,
    "abs": np.abs,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "square": np.square,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "is_finite": np.isfinite,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shift_left": np.left_shift,
    "shift_right_logical": _shift_right_logical,
    "erf": special.erf,
    "erf_inv": special.erfinv,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "copy": lambda x: x,
    "copy_p": lambda x: x,
    "stop_gradient": lambda x: x,
    "name": lambda x: x,
}


def _broadcast_in_dim(out, x, *_, broadcast_dimensions, **__):
    shape = [1] * len(out.shape)
    for axis, n in zip(broadcast_dimensions, x.shape, strict=True):
        shape[axis] = n
    return lambda x, *_: np.broadcast_to(x.reshape(shape), out.shape)


def _slice(_, __, *, start_indices, limit_indices, strides):
    strides = strides or (1,) * len(start_indices)
    index = tuple(map(slice, start_indices, limit_indices, strides))
    return lambda x: x[index]


def _starts(starts, shape, sizes):
    return tuple(slice(s := min(max(int(i), 0), n - k), s + k) for i, n, k in zip(starts, shape, sizes, strict=True))


def _dynamic_slice(_, operand, *__, slice_sizes):
    return lambda x, *starts: x[_starts(starts, operand.shape, slice_sizes)]


def _dynamic_update_slice(_, operand, update, *__):
    def run(x, new, *starts):
        changed = np.array(x)
        changed[_starts(starts, operand.shape, update.shape)] = new
        return changed

    return run


def _pad(_, operand, __, *, padding_config):
    def run(x, value):
        inside = [max(n + (n - 1) * gap, 0) for n, (_, _, gap) in zip(operand.shape, padding_config, strict=True)]
        full = np.full([n + max(a, 0) + max(b, 0) for n, (a, b, _) in zip(inside, padding_config, strict=True)], value)
        place = [slice(max(a, 0), max(a, 0) + n, g + 1) for n, (a, _, g) in zip(inside, padding_config, strict=True)]
        full[tuple(place)] = x
        kept = [slice(max(-a, 0), n - max(-b, 0)) for n, (a, b, _) in zip(full.shape, padding_config, strict=True)]
        return full[tuple(kept)]

    return run


def _iota(_, *__, dtype, shape, dimension, **___):
    along = [1] * len(shape)
    along[dimension] = shape[dimension]
    return lambda *_: np.broadcast_to(np.arange(shape[dimension], dtype=dtype).reshape(along), shape)


def _dot_general(out, left, right, *, dimension_numbers, **_):
    (left_sum, right_sum), (left_batch, right_batch) = dimension_numbers
    left_free = [i for i in range(len(left.shape)) if i not in (*left_sum, *left_batch)]
    right_free = [i for i in range(len(right.shape)) if i not in (*right_sum, *right_batch)]
    batch = [left.shape[i] for i in left_batch]
    inner = int(np.prod([left.shape[i] for i in left_sum]))
    rows, columns = (int(np.prod([x.shape[i] for i in free])) for x, free in ((left, left_free), (right, right_free)))

    def run(x, y):
        x = x.transpose(*left_batch, *left_free, *left_sum).reshape(*batch, rows, inner).astype(out.dtype)
        y = y.transpose(*right_batch, *right_sum, *right_free).reshape(*batch, inner, columns).astype(out.dtype)
        return np.matmul(x, y).reshape(out.shape)

    return run


def _triangular_solve(_, matrix, __, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    def solve(a, b):
        options = {"lower": lower, "unit_diagonal": unit_diagonal, "check_finite": False}
        return linalg.solve_triangular(a, b, trans="T" if transpose_a == left_side else "N", **options)

    def run(a, b):
        b = b if left_side else np.swapaxes(b, -1, -2)
        found = np.full(b.shape, np.nan, b.dtype)
        for i in np.ndindex(*matrix.shape[:-2]):
            with contextlib.suppress(linalg.LinAlgError):
                found[i] = solve(a[i], b[i])
        return found if left_side else np.swapaxes(found, -1, -2)

    return run


def _cholesky(*_, **__):
    def run(x):
        found = np.full(x.shape, np.nan, x.dtype)
        for i in np.ndindex(*x.shape[:-2]):
            with contextlib.suppress(np.linalg.LinAlgError):
                found[i] = np.linalg.cholesky(x[i])
        return found

    return run


def _extremes(dtype):
    """Least and greatest number."""
    if np.issubdtype(dtype, np.inexact):
        return -np.inf, np.inf
    return (False, True) if np.issubdtype(dtype, np.bool_) else (np.iinfo(dtype).min, np.iinfo(dtype).max)


def _missing(dtype):
    """What a gather finds outside of the array."""
    least, greatest = _extremes(dtype)
    if np.issubdtype(dtype, np.inexact):
        return np.nan
    return least if np.issubdtype(dtype, np.signedinteger) else greatest


def _select_n(out, which, *_):
    if np.issubdtype(which.dtype, np.bool_):
        return lambda which, no, yes: np.where(which, yes, no)
    return lambda which, *cases: np.choose(which, cases)


def _integer_pow(out, _, *, y):
    return (lambda x: x**y) if y >= 0 else (lambda x: 1 / x**-y)


def _round(_, __, *, rounding_method):
    if rounding_method.name == "TO_NEAREST_EVEN":
        return np.rint
    return lambda x: np.copysign(np.floor(np.abs(x) + x.dtype.type(0.5)), x)


def _reduction(function):
    return lambda out, _, *, axes, **__: lambda x: function(x, axis=tuple(axes)).astype(out.dtype)


def _place_of(function):
    return lambda out, _, *, axes, index_dtype: lambda x: function(x, axis=axes[0]).astype(index_dtype)


def _cumulative(function):
    def make(out, _, *, axis, reverse):
        if not reverse:
            return lambda x: function(x, axis=axis, dtype=out.dtype)
        return lambda x: np.flip(function(np.flip(x, axis), axis=axis, dtype=out.dtype), axis)

    return make


def _windows(shape, indices, start_map, batching, within, sizes, mode):
    """Indices by axis of the array, of shape (batch..., window...), and which of the batch are inside of the array."""
    fill = "FILL" in mode.name
    batch = indices.shape[:-1]
    window = [axis for axis in range(len(shape)) if axis in within]
    inside = np.ones(batch, bool)
    places = []
    for axis, n in enumerate(shape):
        start = np.zeros(batch, np.int64)
        if axis in start_map:
            start = indices[..., start_map.index(axis)].astype(np.int64)
            inside &= (start >= 0) & (start <= n - sizes[axis])
            start = np.clip(start, 0, n - sizes[axis])
        elif axis in batching:
            along = batching[axis]
            start = np.arange(n).reshape([n if i == along else 1 for i in range(len(batch))])
        start = np.reshape(start, start.shape + (1,) * len(window))
        if axis in within:
            along = window.index(axis)
            start = start + np.arange(sizes[axis]).reshape([-1 if i == along else 1 for i in range(len(window))])
        places.append(start)
    return tuple(places), inside if fill else np.ones(batch, bool), len(window)


def _gather(out, operand, indices, *, dimension_numbers, slice_sizes, mode, fill_value, **_):
    numbers = dimension_numbers
    batching = dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    gone = (*numbers.collapsed_slice_dims, *batching)
    within = [axis for axis in range(len(operand.shape)) if axis not in gone]
    others = [axis for axis in range(len(out.shape)) if axis not in numbers.offset_dims]
    order = np.argsort([*others, *numbers.offset_dims])
    shape = [out.shape[axis] for axis in (*others, *numbers.offset_dims)]
    missing = _missing(out.dtype) if fill_value is None else fill_value

    def run(x, indices):
        places, inside, k = _windows(x.shape, indices, numbers.start_index_map, batching, within, slice_sizes, mode)
        found = np.broadcast_to(x[places], shape)
        if not inside.all():
            found = np.where(inside.reshape(*inside.shape, *[1] * k), found, out.dtype.type(missing))
        return found.transpose(order)

    return run


def _scatter(change):
    def make(_, operand, indices, updates, *, dimension_numbers, mode, **__):
        numbers = dimension_numbers
        batching = dict(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True))
        gone = (*numbers.inserted_window_dims, *batching)
        within = [axis for axis in range(len(operand.shape)) if axis not in gone]
        others = [axis for axis in range(len(updates.shape)) if axis not in numbers.update_window_dims]
        sizes = dict.fromkeys(range(len(operand.shape)), 1)
        sizes |= dict(zip(within, (updates.shape[axis] for axis in numbers.update_window_dims), strict=True))
        start_map = numbers.scatter_dims_to_operand_dims

        def run(x, indices, new):
            places, inside, _ = _windows(x.shape, indices, start_map, batching, within, sizes, mode)
            new = new.transpose(*others, *numbers.update_window_dims)
            kept = [np.broadcast_to(place, new.shape)[inside] for place in places]
            changed = np.array(x)
            change(changed, tuple(kept), new[inside])
            return changed

        return run

    return make


def _assign(array, places, new):
    array[places] = new


OPERATIONS = RANDOM | {
    "gather": _gather,
    "scatter": _scatter(_assign),
    "scatter-add": _scatter(np.add.at),
    "scatter_add": _scatter(np.add.at),
    "scatter_mul": _scatter(np.multiply.at),
    "scatter-mul": _scatter(np.multiply.at),
    "scatter_min": _scatter(np.minimum.at),
    "scatter_max": _scatter(np.maximum.at),
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": lambda out, *_, **__: lambda x, *_: x.reshape(out.shape),
    "squeeze": lambda out, *_, **__: lambda x: x.reshape(out.shape),
    "expand_dims": lambda out, *_, **__: lambda x: x.reshape(out.shape),
    "transpose": lambda _, __, *, permutation: lambda x: x.transpose(permutation),
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "pad": _pad,
    "rev": lambda _, __, *, dimensions: lambda x: np.flip(x, dimensions),
    "iota": _iota,
    "concatenate": lambda _, *__, dimension: lambda *x: np.concatenate(x, dimension),
    "convert_element_type": lambda out, *_, **__: lambda x: x.astype(out.dtype),
    "stack": lambda _, *__, axis: lambda *x: np.stack(x, axis),
    "empty2": lambda out, **_: lambda: np.zeros(out.shape, out.dtype),
    "bitcast_convert_type": lambda out, *_, **__: lambda x: np.asarray(x).view(out.dtype),
    "cholesky": _cholesky,
    "triangular_solve": _triangular_solve,
    "dot_general": _dot_general,
    "select_n": _select_n,
    "integer_pow": _integer_pow,
    "pow": lambda out, *_: lambda x, y: np.power(x, y.astype(x.dtype)),
    "round": _round,
    "reduce_sum": _reduction(np.sum),
    "reduce_prod": _reduction(np.prod),
    "reduce_max": _reduction(lambda x, axis: np.max(x, axis, initial=_extremes(x.dtype)[0])),
    "reduce_min": _reduction(lambda x, axis: np.min(x, axis, initial=_extremes(x.dtype)[1])),
    "reduce_and": _reduction(np.all),
    "reduce_or": _reduction(np.any),
    "argmax": _place_of(np.argmax),
    "argmin": _place_of(np.argmin),
    "cumsum": _cumulative(np.add.accumulate),
    "cumprod": _cumulative(np.multiply.accumulate),
    "cummax": _cumulative(np.maximum.accumulate),
    "cummin": _cumulative(np.minimum.accumulate),
}
