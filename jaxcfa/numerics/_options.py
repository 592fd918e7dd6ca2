"""Options that have to be known when a program is traced, checked: numbers, and algorithms to choose from."""

import contextlib
import inspect
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..typing import Key


@contextlib.contextmanager
def traceable(what: str, function: Any) -> Iterator[None]:
    """Says what to do where a user's function asks for numbers that are not known while it is traced."""
    try:
        yield
    except (
        jax.errors.ConcretizationTypeError,
        jax.errors.TracerArrayConversionError,
        jax.errors.TracerIntegerConversionError,
    ) as error:
        raise ValueError(
            f"{what} is compiled by JAX before its numbers are known: take functions of jax.numpy in place of NumPy's, "
            "jnp.where in place of `if`, and index arrays of jax.numpy, as in jnp.asarray(reference)[t]. The function "
            f"is {function!r:.200}; the error of JAX, above, names the line."
        ) from error


def positive_integer(name: str, value: Any, or_zero: bool = False) -> int:
    """A number of steps or the like, of any type of integers but booleans."""
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = -1
    if number < (0 if or_zero else 1):
        wanted = "an integer that is not negative" if or_zero else "a positive integer"
        raise ValueError(f"{name} must be {wanted}, got {value!r}.")
    return number


def positive_number(name: str, value: Any, or_zero: bool = False) -> float:
    """A positive finite number, or one that is not negative."""
    try:
        number = float(value)
    except (TypeError, ValueError):  # of traced values, too
        number = math.nan
    if not (0 < number < math.inf or (or_zero and number == 0)):
        wanted = "finite and not negative" if or_zero else "positive and finite"
        raise ValueError(f"{name} must be {wanted}, one known number, got {value!r}.")
    return number


def known_numbers(name: str, value: Any) -> np.ndarray:
    """Known numbers as a new array of floats: the caller may go on to change theirs."""
    try:
        return np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a known number or an array of such, got {value!r:.200}.") from error


def any_numbers(name: str, value: Any) -> jax.Array:
    """Real numbers in an array of any shape, which may be traced."""
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a number or an array of numbers, got {value!r:.200}.") from error
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise ValueError(f"{name} must be real, got dtype {array.dtype}.")
    return array


def floating_numbers(name: str, value: Any) -> jax.Array:
    """`any_numbers` in floating point; integers are converted to JAX's default precision."""
    array = any_numbers(name, value)
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(float)


def common_floating_type(*arrays: jax.Array) -> np.dtype:
    """The type that those of floating-point numbers are promoted to; JAX's default if there are none."""
    floating = [x for x in arrays if jnp.issubdtype(x.dtype, jnp.floating)]
    return jnp.result_type(*floating) if floating else jnp.result_type(float)


def as_finite(x, shape: tuple[int, ...], what: str) -> np.ndarray:
    """An array of this shape without infinities and NaN, which is a copy: the caller may go on to change theirs."""
    array = known_numbers(f"The {what}", x)
    if array.shape != shape:
        raise ValueError(f"The {what} must have shape {shape}, got {array.shape}.")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"The {what} must be finite, got {array.tolist()}.")
    return array


def floating_type(dtype: Any) -> np.dtype:
    """The type of a model's arrays."""
    try:
        found: Any = dtype if dtype is None else np.dtype(dtype)
    except TypeError:
        found = dtype
    if not (isinstance(found, np.dtype) and jax.dtypes.issubdtype(found, np.floating)):
        raise ValueError(
            f"The dtype of a model must be a floating-point type, got {found!s:.200}. Write jnp.float32 or jnp.float64."
        )
    if jax.dtypes.canonicalize_dtype(found) != found:
        raise ValueError(
            f"dtype {found} needs JAX's double precision, which is off: call jax.config.update('jax_enable_x64', True) "
            "before, or omit dtype."
        )
    return found


def checked_key(key: Any) -> Key:
    """One key, of the new or the old kind; `ValueError` for anything else."""
    try:
        array = jnp.asarray(key)
    except (TypeError, ValueError) as error:
        raise ValueError(f"key must be a random key, such as jax.random.key(0), got {key!r}.") from error
    is_new = jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
    if not is_new and array.dtype != jnp.uint32:
        raise ValueError(f"key must be a random key, such as jax.random.key(0), got {key!r}.")
    if array.ndim != (0 if is_new else 1):
        raise ValueError(f"key must be one key, got shape {array.shape}. Batch with jax.vmap.")
    return array


def quoted(names: Sequence[str]) -> str:
    """Names in quotation marks for a message: no more than eight."""
    return ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")


def check_flag(name: str, value: Any) -> None:
    """Raises `ValueError` for what is neither true nor false, such as a text."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


def is_hashable(value: Any) -> bool:
    """Whether programs can be known by it."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def check_hashable(name: str, function: Any) -> None:
    """Raises `ValueError` for a function that is an object which cannot be hashed, such as a dataclass."""
    if not is_hashable(function):
        raise ValueError(
            f"{name} must be hashable, since programs are kept by it, got {function!r:.200}. Make its class an "
            "equinox.Module, whose arrays are fields."
        )


def check_instance(name: str, value: Any, kind: type | tuple[type, ...], wanted: str) -> None:
    """Raises `ValueError` for what is no instance of `kind`; for a subclass of it, saying how to make an instance."""
    if isinstance(value, kind):
        return
    remedy = ""
    if isinstance(value, type) and issubclass(value, kind) and not inspect.isabstract(value):
        needed = any(x.default is x.empty for x in inspect.signature(value).parameters.values())
        remedy = f" Write {value.__name__}({'...' if needed else ''})."
    raise ValueError(f"{name} must be {wanted}, got {value!r}.{remedy}")
