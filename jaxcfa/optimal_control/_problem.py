"""Problems of optimal control: dynamics, costs and constraints."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from ..model._arguments import as_array, is_concrete, positive_integer
from ..numerics._options import any_numbers
from ._dynamics import AbstractDynamics
from ._robot_dynamics import AbstractRobotDynamics
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
    return tuple((_as_int(first), _as_int(end)) for first, end in pairs)


def _is_interval(pair: Any) -> bool:
    # A range would be read as its first two numbers.
    if not (isinstance(pair, Sequence) and len(pair) == 2) or isinstance(pair, range):
        return False
    first, end = map(_as_int, pair)
    return isinstance(first, int) and first >= 0 and (end is None or (isinstance(end, int) and end >= first))


def _as_int(x: Any) -> Any:
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
        value = _returned(self, stage)
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
        _check_numbers(self)
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


_SUCH = "RobotDynamics(model, dt) or FunctionDynamics(f, states, controls)"


class Phase(eqx.Module):
    """Some stages of a problem under other dynamics: a foot that has landed, an object that has been taken.

    Costs and constraints that count at no stage of it, by their `during`, need not fit its dynamics.

    **Fields:** `dynamics`, with states and controls of the same sizes in all phases; `steps`.
    """

    dynamics: AbstractDynamics
    steps: int = eqx.field(static=True, converter=_as_int)

    def __check_init__(self):
        if not isinstance(self.dynamics, AbstractDynamics):
            raise ValueError(f"The dynamics of a phase must be such as {_SUCH}, got {self.dynamics!r}.")


class Problem(eqx.Module):
    """Minimise `sum over stages of costs + costs of the end` subject to dynamics and constraints.

    Every array in it can be traced, batched and differentiated.

    **Fields:** `phases`; `costs` and `constraints` of the stages `0 ... T - 1`, which have a state and a control;
    `end_costs` and `end_constraints` of the last state; `start`: `"given"`, `"free"`, or `"periodic"` (the last state
    is the first).
    """

    phases: tuple[Phase, ...]
    costs: tuple[Cost | SmoothCost, ...]
    end_costs: tuple[Cost | SmoothCost, ...]
    constraints: tuple[Equality | Bounds, ...]
    end_constraints: tuple[Equality | Bounds, ...]
    start: Literal["given", "free", "periodic"] = eqx.field(static=True)

    def __init__(
        self,
        dynamics: AbstractDynamics | Sequence[Phase],
        steps: int | None = None,
        costs: Sequence[Cost | SmoothCost] = (),
        end_costs: Sequence[Cost | SmoothCost] = (),
        constraints: Sequence[Equality | Bounds] = (),
        end_constraints: Sequence[Equality | Bounds] = (),
        start: Literal["given", "free", "periodic"] = "given",
    ):
        """
        **Arguments:** `dynamics`: such as `RobotDynamics(model, dt)`, for that number of `steps`, or a list of `Phase`s
        (then without `steps`). Costs are sums over the stages: multiply weights by dt for integrals.

        **Raises:** `ValueError` for wrong types and numbers, stages that there are not, and phases that do not fit
        together.
        """
        self.phases = _phases(dynamics, steps)
        self.costs = _parts("costs", costs, (Cost, SmoothCost))
        self.end_costs = _parts("end_costs", end_costs, (Cost, SmoothCost))
        self.constraints = _parts("constraints", constraints, (Equality, Bounds))
        self.end_constraints = _parts("end_constraints", end_constraints, (Equality, Bounds))
        if start not in ("given", "free", "periodic"):
            raise ValueError(f'start must be "given", "free" or "periodic", got {start!r}.')
        self.start = start
        for part in (*self.costs, *self.constraints):
            _check_stages(part, self.steps)
        for part in (*self.end_costs, *self.end_constraints):
            _check_end(part, self.steps)

    @property
    def steps(self) -> int:
        """How many time steps there are: T."""
        return sum(phase.steps for phase in self.phases)

    @property
    def is_constrained(self) -> bool:
        """Whether there is more to keep to than the steps of the dynamics from a given start."""
        parts = self.constraints or self.end_constraints
        return bool(parts) or self.start != "given" or self.dynamics.defect_size > 0

    @property
    def dynamics(self) -> AbstractDynamics:
        """The dynamics of the last phase, whose manifold of states is that of all."""
        return self.phases[-1].dynamics


def _check_stages(part: Cost | SmoothCost | Equality | Bounds, steps: int) -> None:
    for first, end in as_intervals(part.during) or ():
        if end is not None and end > steps:
            raise ValueError(
                f"The {type(part).__name__} of {part.term!r} counts during ({first}, {end}), but the problem has "
                f"{steps} steps, whose stages are 0 to {steps - 1}. Write ({first}, None) for all that follow."
            )
        if end is None and first >= steps:
            raise ValueError(
                f"The {type(part).__name__} of {part.term!r} counts during ({first}, None), but the problem has "
                f"{steps} steps, whose stages are 0 to {steps - 1}: leave it out."
            )


def _check_end(part: Cost | SmoothCost | Equality | Bounds, steps: int) -> None:
    if not part.counts_at(steps):
        raise ValueError(
            f"The {type(part).__name__} of {part.term!r} at the end, which is stage {steps}, counts during "
            f"{part.during} only: omit during, or give it to the stages, without end_."
        )


class Parts(eqx.Module):
    """The costs and constraints of a stage, or of the end: `costs`, `constraints` of a `Problem`."""

    costs: tuple[Cost | SmoothCost, ...]
    constraints: tuple[Equality | Bounds, ...]

    def each_weighted(self, stage: Stage) -> list[tuple[Float[Array, "k"], Float[Array, "k"]]]:
        """The residuals of each cost, and their weights."""
        return [cost.rows(stage) for cost in self.costs if isinstance(cost, Cost)]

    def weighted(self, stage: Stage) -> tuple[Float[Array, "k"], Float[Array, "k"]]:
        """All residuals, and their weights."""
        rows = self.each_weighted(stage)
        residuals, weights = zip(*rows, strict=True) if rows else ((), ())
        return _joined(residuals, stage), _joined(weights, stage)

    @property
    def has_smooth_costs(self) -> bool:
        return any(isinstance(cost, SmoothCost) for cost in self.costs)

    def smooth(self, stage: Stage) -> Float[Array, ""]:
        """The sum of the smooth costs."""
        values = [cost.value(stage) for cost in self.costs if isinstance(cost, SmoothCost)]
        return sum(values, jnp.zeros((), stage.x.dtype))

    def cost(self, stage: Stage) -> Float[Array, ""]:
        """The sum of all costs."""
        residuals, weights = self.weighted(stage)
        return 0.5 * jnp.sum(weights * residuals * residuals) + self.smooth(stage)

    def equalities(self, stage: Stage) -> Float[Array, "e"]:
        """h(x, u) = 0, of which the first belong to the dynamics."""
        defects = [] if stage.is_end else [stage.dynamics.defects(stage)]
        return _joined(defects + [part.rows(stage) for part in self.constraints if isinstance(part, Equality)], stage)

    def inequalities(self, stage: Stage) -> Float[Array, "i"]:
        """g(x, u) <= 0."""
        return _joined([part.rows(stage) for part in self.constraints if isinstance(part, Bounds)], stage)


def stage_parts(problem: Problem, phase: int, dtype: Any) -> Parts:
    """Those of the stages of a phase, by its number."""

    def own(parts: tuple) -> tuple:
        return tuple(_in_phase(part, problem, phase, dtype) for part in parts)

    return Parts(own(problem.costs), own(problem.constraints))


def phases_of(part: Any, problem: Problem) -> list[int]:
    """The numbers of the phases in which a part counts; all of them, if it counts nowhere."""
    ends = np.cumsum([0, *(phase.steps for phase in problem.phases)])
    numbers = range(len(problem.phases))
    counting = [i for i in numbers if any(part.counts_at(t) for t in range(ends[i], ends[i + 1]))]
    return counting or list(numbers)


def _in_phase(part: Any, problem: Problem, phase: int, dtype: Any) -> Any:
    """The part; zeros in the place of its term, which may need what is not there, where it counts at no stage."""
    counting = phases_of(part, problem)
    if phase in counting:
        return part
    dynamics = problem.phases[counting[0]].dynamics
    x, u = (jax.ShapeDtypeStruct((size,), dtype) for size in (dynamics.state_size, dynamics.control_size))
    t = jax.ShapeDtypeStruct((), int)
    found = jax.eval_shape(lambda x, u, t: _returned(part, Stage(dynamics, x, u, t)), x, u, t)
    term = part.term
    return eqx.tree_at(lambda p: p.term, part, _Zeros(found.shape), is_leaf=lambda x: x is term)


class _Zeros(SmoothTerm):
    """Nothing, in the shape of something."""

    shape: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, stage: Stage) -> Array:
        return jnp.zeros(self.shape, stage.x.dtype)


def end_parts(problem: Problem) -> Parts:
    return Parts(problem.end_costs, problem.end_constraints)


def _joined(rows: Sequence[Array], stage: Stage) -> Float[Array, "k"]:
    return jnp.concatenate([jnp.zeros(0, stage.x.dtype), *rows])


def _residual(part: Any, stage: Stage) -> Float[Array, "k"]:
    residual = jnp.atleast_1d(_returned(part, stage))
    if residual.ndim != 1:
        raise ValueError(f"A residual must have shape (k,), got {residual.shape} from {part.term!r}.")
    return residual.astype(stage.x.dtype)


def _returned(part: Any, stage: Stage) -> Array:
    """What a term returns, of which derivatives where it does not count are zero in reverse mode, too."""
    active = part.is_active(stage)
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


def check_bounds(problem: Problem) -> None:
    """Raises `ValueError` for bounds that have been replaced, as far as that is known, by NaN, by infinities that
    nothing satisfies, or by finite ones in rows that were left out as infinite."""
    for part in (*problem.constraints, *problem.end_constraints):
        if not isinstance(part, Bounds):
            continue
        _check_numbers(part)
        for name, bound, finite in zip(("lower", "upper"), (part.lower, part.upper), part.finite, strict=True):
            if finite is None or bound is None or not is_concrete(bound):
                continue
            now = np.asarray(bound)
            # One number is of all rows.
            kept = np.isin(np.arange(now.size).reshape(now.shape) if now.ndim else -1, finite)
            if np.any(_is_near(now) & ~kept):
                raise ValueError(
                    f"The {name} bounds of {part.term!r} were infinite in some rows when they were made, which are "
                    f"left out since, and were replaced by {now}. Make new Bounds of these."
                )


def _check_numbers(bounds: Bounds) -> None:
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
    near = _is_near(array)
    return None if array.ndim != 1 or np.all(near) else tuple(np.flatnonzero(near).tolist())


def _is_near(bound: np.ndarray) -> np.ndarray:
    """Whether bounds count in any precision."""
    return np.abs(bound) < _FAR


def _phases(dynamics: Any, steps: Any) -> tuple[Phase, ...]:
    if isinstance(dynamics, AbstractDynamics):
        return (Phase(dynamics, positive_integer("steps, the number of time steps,", steps)),)
    phases = tuple(dynamics) if isinstance(dynamics, Sequence) else ()
    if not phases or not all(isinstance(phase, Phase) for phase in phases):
        raise ValueError(f"dynamics must be such as {_SUCH}, or a list of Phase(dynamics, steps), got {dynamics!r}.")
    if steps is not None:
        raise ValueError("Phases have their own steps: omit steps.")
    for phase in phases:
        positive_integer("The steps of a phase", phase.steps)
    all_dynamics = [phase.dynamics for phase in phases]
    sizes = {(x.state_size, x.tangent_blocks, x.control_size, x.defect_size) for x in all_dynamics}
    if len(sizes) > 1:
        raise ValueError(
            "All phases must have states and controls of the same sizes, got (nx, tangent, controls, defects) = "
            f"{', '.join(map(str, sorted(sizes)))}."
        )
    for x in all_dynamics[:-1]:
        if not _same_manifold(x, all_dynamics[-1]):
            raise ValueError(
                "The states of all phases must be on the same manifold, with joints of the same types in the same "
                f"order: got {_description(x)}, and {_description(all_dynamics[-1])}."
            )
    return phases


def _same_manifold(a: AbstractDynamics, b: AbstractDynamics) -> bool:
    """Whether tangent vectors displace states in the same way, as far as that can be seen."""
    if isinstance(a, AbstractRobotDynamics) and isinstance(b, AbstractRobotDynamics):
        return _joints(a) == _joints(b)
    if type(a).plus is type(b).plus:
        return True
    with jax.ensure_compile_time_eval():
        x, dx = (jnp.linspace(0.1, 0.6, size) for size in (a.state_size, a.tangent_size))
        one, other = a.plus(x, dx), b.plus(x, dx)
        # What depends on something that is traced cannot be compared.
        return not is_concrete(one, other) or np.allclose(one, other, rtol=1e-3, equal_nan=True)


def _joints(dynamics: AbstractRobotDynamics) -> list[Any]:
    """What decides the manifold of every joint that moves, in the order of coordinates."""
    return [jax.tree.structure(joint) for joint in _moving(dynamics)]


def _moving(dynamics: AbstractRobotDynamics) -> list[Any]:
    groups = zip(dynamics.model.joints, dynamics.model.topology.groups, strict=True)
    found = {first: joint for joint, group in groups if joint.nq for first in group.q_index[:, 0].tolist()}
    return [found[first] for first in sorted(found)]


def _description(dynamics: AbstractDynamics) -> str:
    if isinstance(dynamics, AbstractRobotDynamics):
        return f"{', '.join(type(joint).__name__ for joint in _moving(dynamics)):.200}"
    return f"states of {type(dynamics).__name__}"


def _parts(name: str, parts: Any, kinds: tuple[type, ...]) -> tuple:
    names = " or ".join(kind.__name__ for kind in kinds)
    given = tuple(parts) if isinstance(parts, Sequence) else (parts,)
    for part in given:
        if not isinstance(part, kinds):
            raise ValueError(
                f"{name} must be a list of {names}, got {part!r} in it. Wrap it: {kinds[0].__name__}(...)."
            )
    return given


def _check_part(part: Any) -> None:
    if not callable(part.term):
        raise ValueError(f"The term of a {type(part).__name__} must be a function of a stage, got {part.term!r}.")
