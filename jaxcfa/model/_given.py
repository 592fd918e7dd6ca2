"""Checks of values given for parts of a model: `ValueError` saying what was given and what is expected."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..joints import AbstractJoint
from ..numerics._options import any_numbers, as_finite as as_finite, known_numbers
from ..spatial import Transform
from ..typing import NameOrNumber
from ._layout import PARAMETERS
from ._model import Model

Numbers = ArrayLike | Sequence[ArrayLike] | Sequence[Sequence[ArrayLike]]
Placement = Transform | Numbers


def as_mass(mass, what: str) -> float:
    """A mass [kg]."""
    value = float(as_finite(mass, (), f"mass of {what}"))
    if value < 0:
        raise ValueError(f"The mass of {what} must not be negative, got {value}.")
    return value


def as_inertia(inertia, what: str) -> np.ndarray:
    """(3, 3): an inertia given as a matrix, by three principal moments, or by one number for all three."""
    array = known_numbers(f"The inertia of {what}", inertia)
    if array.ndim == 0:
        array = array * np.eye(3)
    elif array.shape == (3,):
        array = np.diag(array)
    array = as_finite(array, (3, 3), f"inertia of {what}")
    if np.max(np.abs(array - array.T)) > 1e-5 * np.max(np.abs(array)):  # rounding of single precision
        raise ValueError(f"The inertia of {what} must be symmetric, got {array.tolist()}.")
    return 0.5 * (array + array.T)


def as_pose(placement, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Rotation and translation of a placement: a `Transform`, a 4 x 4 matrix, a translation, or nothing."""
    if placement is None:
        return np.eye(3), np.zeros(3)
    last_row = np.array([0.0, 0.0, 0.0, 1.0])
    if isinstance(placement, Transform):
        rotation, translation = np.asarray(placement.rotation, float), np.asarray(placement.translation, float)
    else:
        array = known_numbers(f"The placement of {what}", placement)
        rotation, translation = _parts(array, what)
        last_row = array[3] if array.ndim == 2 else last_row
    rotation = as_finite(rotation, (3, 3), f"rotation of {what}")
    translation = as_finite(translation, (3,), f"translation of {what}")
    if not np.allclose(rotation @ rotation.T, np.eye(3), atol=1e-5) or np.linalg.det(rotation) < 0:
        raise ValueError(f"The rotation of {what} must be a proper rotation matrix, got {rotation.tolist()}.")
    if not np.allclose(last_row, (0, 0, 0, 1), atol=1e-5):
        raise ValueError(
            f"The last row of the placement of {what} must be [0, 0, 0, 1], got {last_row.tolist()}. The translation "
            "is the last column: is it transposed?"
        )
    return rotation, translation


def _parts(array: Any, what: str) -> tuple[Any, Any]:
    """Rotation and translation of a translation, or of a 4 x 4 matrix."""
    if array.shape not in ((3,), (4, 4)):
        raise ValueError(
            f"The placement of {what} must be a Transform, a 4 x 4 matrix or a translation, got shape {array.shape}."
        )
    return (np.eye(3), array) if array.ndim == 1 else (array[:3, :3], array[:3, 3])


def as_coordinates(key: str, value, size: int, what: str) -> np.ndarray:
    """(size,): one of the `PARAMETERS`, one number for each coordinate, or one for all."""
    parameter, what = PARAMETERS[key], f"{key} of {what}"
    array = known_numbers(f"The {what}", value)
    if array.shape not in ((), (size,)):
        raise ValueError(f"The {what} must be one number or have shape ({size},), got {array.shape}.")
    if np.any(np.isnan(array)):
        raise ValueError(f"The {what} must not be NaN.")
    if parameter.default not in (-np.inf, np.inf) and np.any(np.isinf(array)):
        raise ValueError(f"The {what} must be finite, got {array.tolist()}. Only limits may be infinite.")
    array = np.array(np.broadcast_to(array, (size,)))
    if parameter.not_negative and np.any(array < 0):
        raise ValueError(f"The {what} must not be negative, got {array.tolist()}.")
    return array


def given_mass(mass: ArrayLike, dtype, what: str) -> Float[Array, ""]:
    """A mass [kg], which may be traced."""
    return _given(mass, lambda x: as_mass(x, what), ((),), dtype, f"mass of {what}")


def given_com(com: Numbers, dtype, what: str) -> Float[Array, "3"]:
    """A centre of mass [m], which may be traced."""
    name = f"centre of mass of {what}"
    return _given(com, lambda x: as_finite(x, (3,), name), ((3,),), dtype, name)


def given_inertia(inertia: Numbers, dtype, what: str) -> Float[Array, "3 3"]:
    """An inertia as for `ModelBuilder`, which may be traced."""
    array = _given(inertia, lambda x: as_inertia(x, what), ((), (3,), (3, 3)), dtype, f"inertia of {what}")
    if array.ndim == 2:
        return array
    return array * jnp.eye(3, dtype=dtype) if array.ndim == 0 else jnp.diag(array)


def given_coordinates(key: str, value: Numbers, size: int, dtype, what: str) -> Float[Array, "size"]:
    """`as_coordinates` of what may be traced."""
    array = _given(value, lambda x: as_coordinates(key, x, size, what), ((), (size,)), dtype, f"{key} of {what}")
    return jnp.broadcast_to(array, (size,))


def _given(value: Any, check: Callable[[Any], Any], shapes: tuple[tuple[int, ...], ...], dtype, what: str) -> Array:
    """What has been checked, as an array; of what is traced only the shape can be."""
    if is_concrete(value):
        return jnp.asarray(check(value), dtype)
    expected = f"The {what} must have shape {' or '.join(map(str, shapes))}, got"
    try:
        array = jnp.asarray(value, dtype)
    except (TypeError, ValueError) as error:  # rows of different lengths, for example
        raise ValueError(f"{expected} {value!r:.200}.") from error
    if array.shape not in shapes:
        raise ValueError(f"{expected} {array.shape}.")
    return array


def check_quaternions(model: Model, name: str, q: Array) -> None:
    """Raises `ValueError` for zero quaternions, which would make everything NaN, unless q is traced."""
    if not is_concrete(q):
        return
    for joint, group in zip(model.joints, model.topology.groups, strict=True):
        for start in joint.quaternions:
            quaternions = np.asarray(q)[group.q_index[:, start : start + 4]]
            zero = np.flatnonzero(~np.any(quaternions, axis=1))
            if len(zero):
                first = int(group.q_index[zero[0], start])
                raise ValueError(
                    f"{name}[{first}:{first + 4}] is the quaternion of joint "
                    f"{model.joint_names[group.bodies[zero[0]]]!r} and must not be zero. Start from neutral(model), "
                    "whose quaternions are [1, 0, 0, 0]."
                )


def check_spring(joint: AbstractJoint, reference: np.ndarray, stiffness: np.ndarray, what: str) -> None:
    """Raises `ValueError` for a spring whose reference has a zero quaternion."""
    zero = [start for start in joint.quaternions if not np.any(reference[start : start + 4])]
    if zero and np.any(stiffness):
        raise ValueError(
            f"The spring_reference of {what} has a zero quaternion: {reference.tolist()}. The neutral one is "
            "[1, 0, 0, 0]."
        )


def check_quaternions_have_no_range(joint: AbstractJoint, key: str, given: Any, what: str) -> None:
    """Raises `ValueError` for limits of quaternions; one number is that of the joint's other coordinates, if any."""
    if key not in ("lower", "upper") or given is None or not joint.quaternions or not is_concrete(given):
        return
    of_quaternion = np.zeros(joint.nq, bool)
    for start in joint.quaternions:
        of_quaternion[start : start + 4] = True
    if np.ndim(given) == 0 and not of_quaternion.all():
        return
    array = known_numbers(f"The {key} of {what}", given)
    if array.shape in ((), (joint.nq,)) and np.any(np.isfinite(np.broadcast_to(array, (joint.nq,))[of_quaternion])):
        raise ValueError(
            f"The {key} of {what} is a limit of a quaternion, which has none: leave it out, or give infinity there, "
            f"got {array.tolist()}."
        )


def check_name(what: str, name: object, or_empty: bool = False) -> None:
    """Raises `ValueError` for what is no name."""
    if not isinstance(name, str) or not (name or or_empty):
        wanted = "a string" if or_empty else "a string that is not empty"
        raise ValueError(f"{what} must be {wanted}, got {name!r:.200}.")


def as_list(names: NameOrNumber | Sequence[NameOrNumber]) -> list[NameOrNumber]:
    """One name or number, or several."""
    if isinstance(names, (np.ndarray, jax.Array)) and is_concrete(names):
        return list(np.atleast_1d(names))
    if isinstance(names, Sequence) and not isinstance(names, str):
        return list(names)
    return [names]


def check_positive(what: str, value: ArrayLike, or_zero: bool = False) -> None:
    """Raises `ValueError` for what is not one positive finite number, as far as that can be seen."""
    if np.shape(value) != ():
        raise ValueError(f"The {what} must be one number, got shape {np.shape(value)}. Batch with jax.vmap.")
    if not is_concrete(value):
        return
    # Known, but comparing JAX's own would be traced where anything is.
    number = float(known_numbers(f"The {what}", value))
    if not (np.isfinite(number) and (number > 0 or (or_zero and number == 0))):
        wanted = "finite and not negative" if or_zero else "positive and finite"
        raise ValueError(f"The {what} must be {wanted}, got {value}.")


def as_positive(what: str, or_zero: bool = False) -> Callable[[ArrayLike], Array]:
    """A converter for fields that `check_positive` looks at first: inside of compiled functions arrays are traced."""

    def converted(value: ArrayLike) -> Array:
        check_positive(what, value, or_zero)
        return jnp.asarray(value)

    return converted


def as_array(what: str) -> Callable[[Any], Array]:
    """A converter for fields that hold arrays of any shape, whose numbers may be traced."""

    return functools.partial(any_numbers, what)


def not_negative(what: str, value: Numbers) -> Array:
    """An array of numbers that may be traced. **Raises:** `ValueError` for negative and infinite ones."""
    array = any_numbers(what, value)
    if is_concrete(array) and not np.all((np.asarray(array) >= 0) & np.isfinite(array)):
        raise ValueError(f"{what} must be finite and not negative, got {value}.")
    return array


def not_negative_each(what: str, value: Numbers, count: int, of: str, dtype: jnp.dtype) -> Float[Array, "count"]:
    """As `not_negative`, of numbers for so many things, or of one for all."""
    array = not_negative(what, value).astype(dtype)
    if array.shape not in ((), (count,)):
        raise ValueError(f"{what} must be one number, or one for each of {count} {of}, got shape {array.shape}.")
    return jnp.broadcast_to(array, (count,))


def vector_of_each(name: str, value: Numbers, count: int, dtype: Any) -> Float[Array, "count 3"]:
    """A vector for each of so many frames, or one for all, whose numbers may be traced."""
    vectors = any_numbers(name, value).astype(dtype)
    if vectors.shape not in ((3,), (count, 3)):
        raise ValueError(f"{name} must have shape (n, 3) = ({count}, 3), one for each frame, got {vectors.shape}.")
    if is_concrete(vectors) and not np.all(np.isfinite(vectors)):
        raise ValueError(f"{name} must be finite, got {value}.")
    return jnp.broadcast_to(vectors, (count, 3))


def is_concrete(*trees) -> bool:
    """Whether values can be looked at: no leaf is being traced."""
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def as_placement(placement: Placement | None, dtype, what: str) -> Transform:
    """A placement as for `ModelBuilder`, which may be traced."""
    if is_concrete(placement):
        return Transform(*(jnp.asarray(x, dtype) for x in as_pose(placement, what)))
    if not isinstance(placement, Transform):
        placement = Transform(*_parts(jnp.asarray(placement), what))
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), placement)
