"""What a problem of optimal control adds up and observes, and when: costs, equalities and bounds."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from ..model._arguments import as_array, is_concrete
from ..numerics._options import any_numbers, traceable
from ._stage import Stage, with_derivatives_if
from ._terms import SmoothTerm, Term, as_term

During = tuple[int, int | None] | Sequence[tuple[int, int | None]] | None

# Bounds that are farther away count as none: the interior point multiplies with their squares.
_FAR, _FAR_IN_SINGLE_PRECISION = 1e19, 1e15


def as_intervals(during: Any) -> tuple[tuple[int, int | None], ...] | None:
    """Pairs of the numbers of stages; of one pair, that pair alone."""
    if during is None:
        return None
    pairs = during if isinstance(during, Sequence) and not isinstance(during, range) else (during,)
    if not any(isinstance(pair, Sequence) for pair in pairs):
        pairs = (pairs,)
    if not pairs or not all(_is_interval(pair) for pair in pairs):
        raise ValueError(
            "during must be (first, end), the numbers of stages with 0 <= first <= end, end may be None, or several "
            f"such; got {during!r}."
        )
    return tuple((as_int(first), as_int(end)) for first, end in pairs)


def _is_interval(pair: Any) -> bool:
    # A range would be read as its first two numbers.
    if not (isinstance(pair, Sequence) and len(pair) == 2) or isinstance(pair, range):
        return False
    first, end = map(as_int, pair)
    return isinstance(first, int) and first >= 0 and (end is None or (isinstance(end, int) and end >= first))


def as_int(x: Any) -> Any:
    """Integers of NumPy as Python's."""
    return int(x) if isinstance(x, np.integer) else x


class _AbstractPart(eqx.Module):
    """What costs and constraints have in common: `term`, and the stages `during` which they count."""

    def is_active(self, stage: Stage) -> Bool[Array, ""] | None:
        """Whether this counts at a stage; `None` if it always does."""
        during = self.during  # type: ignore[attr-defined]
        if during is None:
            return None
        active = jnp.zeros((), bool)
        for first, end in during:
            within = (stage.t >= first) if end is None else (stage.t >= first) & (stage.t < end)
            active = active | within
        return active

    def counts_at(self, t: int) -> bool:
        """Whether this counts at the stage of that number, which is known."""
        during = self.during  # type: ignore[attr-defined]
        return during is None or any(first <= t and (end is None or t < end) for first, end in during)


def as_floats(x: ArrayLike) -> Array:
    """As an array of floats, since integers have no derivatives: of such, of the type of what they are used with."""
    array = as_array("A weight or a bound")(x)
    return array if jnp.issubdtype(array.dtype, jnp.inexact) else array * 1.0


class Cost(_AbstractPart):
    """`sum of weight * residual^2 / 2` over the stages.

    **Fields:** `term`: a ready-made one or `function(stage) -> (k,)`; `weight`: one number or (k,), not negative;
    `during`: `(first, end)`, the stages at which it counts, counted from 0, `end` not included and `None` for all that
    follow; or several such pairs.
    """

    term: Term = eqx.field(converter=as_term)
    weight: Float[Array, "*k"] = eqx.field(converter=as_floats, default=1.0)
    during: During = eqx.field(static=True, converter=as_intervals, default=None)

    def __check_init__(self):
        _check_part(self)
        check_weight(self)

    def rows(self, stage: Stage) -> tuple[Float[Array, "k"], Float[Array, "k"]]:
        """Residuals and their weights."""
        residual = _residual(self, stage)
        weight = jnp.asarray(self.weight).astype(residual.dtype)
        if weight.shape not in ((), residual.shape):
            raise ValueError(
                f"The weight of the cost of {self.term!r} must be a number or have the residual's shape "
                f"{residual.shape}, got {weight.shape}."
            )
        weight = jnp.broadcast_to(weight, residual.shape)
        active = self.is_active(stage)
        if active is None:
            return residual, weight
        return jnp.where(active, residual, 0), jnp.where(active, weight, 0)


def check_weight(cost: Cost) -> None:
    """Raises `ValueError` for a weight that is negative or not finite, as far as that is known."""
    if not is_concrete(cost.weight):
        return
    weight = np.asarray(cost.weight)
    if not np.all(weight >= 0):
        raise ValueError(f"The weight of a cost must not be negative, got {weight}.")
    if not np.all(np.isfinite(weight)):
        raise ValueError(f"The weight of a cost must be finite, got {weight}. What must hold is an Equality.")


class SmoothCost(_AbstractPart):
    """Any smooth function of a stage; its Hessian counts as far as it is positive semidefinite.

    **Fields:** `term`: `function(stage) -> scalar`; `during` as in `Cost`.
    """

    term: Callable[[Stage], ArrayLike] = eqx.field(converter=as_term)
    during: During = eqx.field(static=True, converter=as_intervals, default=None)

    def __check_init__(self):
        _check_part(self)

    def value(self, stage: Stage) -> Float[Array, ""]:
        """The cost at a stage."""
        value = returned(self, stage)
        if value.shape != ():
            raise ValueError(f"A smooth cost must be one number, got shape {value.shape} from {self.term!r}.")
        active = self.is_active(stage)
        value = value.astype(stage.x.dtype)
        return value if active is None else jnp.where(active, value, 0)


class Equality(_AbstractPart):
    """A residual that is zero.

    **Fields:** `term` and `during` as in `Cost`.
    """

    term: Term = eqx.field(converter=as_term)
    during: During = eqx.field(static=True, converter=as_intervals, default=None)

    def __check_init__(self):
        _check_part(self)

    def rows(self, stage: Stage) -> Float[Array, "k"]:
        """h(x, u) (k,)."""
        residual, active = _residual(self, stage), self.is_active(stage)
        return residual if active is None else jnp.where(active, residual, 0)


class Bounds(_AbstractPart):
    """`lower <= residual <= upper`, where there are bounds: those of 1e19 and more, in single precision of 1e15, count
    as infinite.

    **Fields:** `term` and `during` as in `Cost`; `lower`, `upper`: one number or (k,), or `None`; `finite`: the rows of
    each that are, as far as that was known when this was made, and `None` for all. The others are left out, and bounds
    (k,) that replace `lower` and `upper` later must be infinite there too.
    """

    term: Term
    lower: Float[Array, "*k"] | None
    upper: Float[Array, "*k"] | None
    during: During = eqx.field(static=True)
    finite: tuple[tuple[int, ...] | None, tuple[int, ...] | None] = eqx.field(static=True)

    def __init__(
        self,
        term: Term,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        during: During = None,
    ):
        self.term = as_term(term)
        self.lower = None if lower is None else as_floats(lower)
        self.upper = None if upper is None else as_floats(upper)
        self.during = as_intervals(during)
        # Looked at here, because later they may be traced: rows that are never observed are left out.
        self.finite = _finite(lower), _finite(upper)

    def __check_init__(self):
        _check_part(self)
        if self.lower is None and self.upper is None:
            raise ValueError("Bounds must have a lower or an upper one.")
        check_numbers(self)
        if self.lower is None or self.upper is None or not is_concrete(self.lower, self.upper):
            return
        try:
            lower, upper = np.broadcast_arrays(self.lower, self.upper)
        except ValueError as error:
            raise ValueError(
                f"Bounds of {self.term!r} must be numbers or have the residual's shape, got lower of shape "
                f"{self.lower.shape} and upper of shape {self.upper.shape}."
            ) from error
        if not np.all(lower < upper):
            i = tuple(int(k) for k in np.argwhere(~(lower < upper))[0])
            raise ValueError(
                f"Bounds must leave something between them, got lower {lower[i]} and upper {upper[i]}"
                f"{f' at index {i[0]}' if i else ''}. What has to have one value is an Equality."
            )

    def rows(self, stage: Stage) -> Float[Array, "k"]:
        """g(x, u) <= 0; -1 where there is nothing to observe, and 1 where nothing satisfies an infinite bound."""
        residual, active = _residual(self, stage), self.is_active(stage)
        sides = []
        for bound, finite, sign in zip((self.lower, self.upper), self.finite, (-1.0, 1.0), strict=True):
            if bound is None:
                continue
            bound = jnp.asarray(bound).astype(residual.dtype)
            if bound.shape not in ((), residual.shape):
                raise ValueError(
                    f"Bounds of {self.term!r} must be numbers or have the residual's shape {residual.shape}, got "
                    f"{bound.shape}."
                )
            # One number is of all rows, also where it is that of one of a batch, which was not finite for all.
            finite = None if bound.shape == () else finite
            bound = jnp.broadcast_to(bound, residual.shape)
            # Not of NaN, so that it is seen.
            far = jnp.abs(bound) >= (_FAR if jnp.finfo(bound.dtype).bits >= 64 else _FAR_IN_SINGLE_PRECISION)
            never = far & (sign * bound < 0)
            observed, never = (~far, never) if active is None else (~far & active, never & active)
            constant = jnp.where(never, 1, -1).astype(residual.dtype)
            side = jnp.where(observed, sign * (residual - jnp.where(observed, bound, 0)), constant)
            sides.append(side if finite is None else side[np.asarray(finite, int)])
        return jnp.concatenate(sides)


def _residual(part: Any, stage: Stage) -> Float[Array, "k"]:
    residual = jnp.atleast_1d(returned(part, stage))
    if residual.ndim != 1:
        raise ValueError(f"A residual must have shape (k,), got {residual.shape} from {part.term!r}.")
    return residual.astype(stage.x.dtype)


def returned(part: Any, stage: Stage) -> Array:
    """What a term returns, of which derivatives where it does not count are zero in reverse mode, too."""
    active = part.is_active(stage)
    with traceable(f"The term of a {type(part).__name__}", part.term):
        if active is None or isinstance(part.term, SmoothTerm):
            found = part.term(stage)
        else:
            found = with_derivatives_if(active, part.term)(stage.with_derivatives_if(active))
    try:
        return any_numbers("It", found)
    except ValueError as error:
        raise ValueError(
            f"The term of a {type(part).__name__} must return real numbers in an array, got {found!r:.200} from "
            f"{part.term!r}."
        ) from error


def check_numbers(bounds: Bounds) -> None:
    """Raises `ValueError` for NaN and for infinities that nothing satisfies, as far as they are known."""
    for name, bound, sign in (("lower", bounds.lower, -1), ("upper", bounds.upper, 1)):
        if bound is None or not is_concrete(bound):
            continue
        array = np.atleast_1d(bound)
        if np.any(np.isnan(array)):
            raise ValueError(f"Bounds must be numbers or infinite, got NaN in {name} of {bounds.term!r}.")
        if np.any(never := sign * array <= -_FAR):
            raise ValueError(
                f"Nothing satisfies {name} = {array[never][0]} of {bounds.term!r}. Where there is no {name} bound, it "
                f"is {sign * np.inf}."
            )


def _finite(bound: ArrayLike | None) -> tuple[int, ...] | None:
    """The rows of a bound, as it is given, that are finite; `None` for all of them, or if that is not known."""
    if bound is None or not is_concrete(bound):
        return None
    array = np.asarray(bound)
    near = is_near(array)
    return None if array.ndim != 1 or np.all(near) else tuple(np.flatnonzero(near).tolist())


def is_near(bound: np.ndarray) -> np.ndarray:
    """Whether bounds count in any precision."""
    return np.abs(bound) < _FAR


def _check_part(part: Any) -> None:
    if not callable(part.term):
        raise ValueError(f"The term of a {type(part).__name__} must be a function of a stage, got {part.term!r}.")
