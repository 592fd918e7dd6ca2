"""Problems of optimal control: dynamics, costs and constraints."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..model._arguments import is_concrete, positive_integer
from ..simulation._inputs import checked_dt
from ..structured._starts import OneStart, Start, StartMasks, as_start
from ._costs_and_bounds import (
    Bounds,
    Cost,
    Equality,
    SmoothCost,
    as_int,
    as_intervals,
    check_numbers,
    is_near,
    returned,
)
from ._dynamics import AbstractDynamics
from ._free_duration import FreeDuration
from ._robot_dynamics import AbstractRobotDynamics
from ._stage import Stage
from ._terms import SmoothTerm

_SCALE = 100.0  # of logarithms of step lengths: violating their bounds costs about what it gains in time
_SUCH = "RobotDynamics(model, dt) or FunctionDynamics(f, states, controls)"


class Phase(eqx.Module):
    """Some stages of a problem under other dynamics: a foot that has landed, an object that has been taken.

    Costs and constraints that count at no stage of it, by their `during`, need not fit its dynamics.

    **Fields:** `dynamics`, with states and controls of the same sizes in all phases; `steps`.
    """

    dynamics: AbstractDynamics
    steps: int = eqx.field(static=True, converter=as_int)

    def __check_init__(self):
        if not isinstance(self.dynamics, AbstractDynamics):
            raise ValueError(f"The dynamics of a phase must be such as {_SUCH}, got {self.dynamics!r:.200}.")


class Problem(eqx.Module):
    """Minimise `sum over stages of costs + costs of the end` subject to dynamics and constraints.

    Every array in it can be traced, batched and differentiated.

    **Fields:** `phases`; `costs` and `constraints` of the stages `0 ... T - 1`, which have a state and a control;
    `end_costs` and `end_constraints` of the last state; `start`: `"given"`, `"free"`, or `"periodic"` (the last state
    is the first), or one of these for each coordinate of a tangent vector.
    """

    phases: tuple[Phase, ...]
    costs: tuple[Cost | SmoothCost, ...]
    end_costs: tuple[Cost | SmoothCost, ...]
    constraints: tuple[Equality | Bounds, ...]
    end_constraints: tuple[Equality | Bounds, ...]
    start: Start = eqx.field(static=True)

    def __init__(
        self,
        dynamics: AbstractDynamics | Sequence[Phase],
        steps: int | None = None,
        costs: Sequence[Cost | SmoothCost] = (),
        end_costs: Sequence[Cost | SmoothCost] = (),
        constraints: Sequence[Equality | Bounds] = (),
        end_constraints: Sequence[Equality | Bounds] = (),
        start: OneStart | Sequence[OneStart] = "given",
        step_lengths: tuple[ArrayLike, ArrayLike] | None = None,
    ):
        """
        **Arguments:** `dynamics`: such as `RobotDynamics(model, dt)`, for that number of `steps`, or a list of `Phase`s
        (then without `steps`). Costs are sums over the stages: multiply weights by dt for integrals. `start`: of all
        coordinates, or a list with one entry for each coordinate of a tangent vector. `step_lengths`: the shortest and
        the longest time step of a robot [s], if its length, one for each phase, is to be found with the motion, from
        `dt` on. A cost of `Duration()` makes motions short, and `stage.dt` is what functions see.

        **Raises:** `ValueError` for wrong types and numbers, stages that there are not, and phases that do not fit
        together.
        """
        self.phases = _phases(dynamics, steps)
        if step_lengths is not None:
            self.phases = _of_free_duration(self.phases, step_lengths)
        self.costs = _parts("costs", costs, (Cost, SmoothCost))
        self.end_costs = _parts("end_costs", end_costs, (Cost, SmoothCost))
        self.constraints = _parts("constraints", constraints, (Equality, Bounds))
        if isinstance(self.dynamics, FreeDuration):
            self.constraints += (_bounds_of_lengths(self.dynamics),)
        self.end_constraints = _parts("end_constraints", end_constraints, (Equality, Bounds))
        self.start = _start(start, self.dynamics)
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
    def start_masks(self) -> StartMasks:
        """Which coordinates of tangent vectors at the start are free, and which are periodic."""
        return StartMasks.of(self.start, self.dynamics.tangent_size)

    @property
    def has_given_duration(self) -> bool:
        """Whether the time steps have the lengths that the dynamics say."""
        return not isinstance(self.dynamics, FreeDuration)

    @property
    def first_step_lengths(self) -> Float[Array, "P"]:
        """The time steps of a robot in all phases as its dynamics have them [s]; where they are free, a first guess."""
        found = [phase.dynamics.dt for phase in self.phases if isinstance(phase.dynamics, AbstractRobotDynamics)]
        return jnp.stack(found)

    @property
    def dynamics(self) -> AbstractDynamics:
        """The dynamics of the last phase, whose manifold of states is that of all."""
        return self.phases[-1].dynamics


def _check_stages(part: Cost | SmoothCost | Equality | Bounds, steps: int) -> None:
    for first, end in as_intervals(part.during) or ():
        if first >= steps if end is None else end > steps:
            remedy = ": leave it out." if end is None else f". Write ({first}, None) for all that follow."
            raise ValueError(
                f"The {type(part).__name__} of {part.term!r} counts during ({first}, {end}), but the problem has "
                f"{steps} steps, whose stages are 0 to {steps - 1}{remedy}"
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
    found = jax.eval_shape(lambda x, u, t: returned(part, Stage(dynamics, x, u, t)), x, u, t)
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


def check_bounds(problem: Problem) -> None:
    """Raises `ValueError` for bounds that have been replaced, as far as that is known, by NaN, by infinities that
    nothing satisfies, or by finite ones in rows that were left out as infinite."""
    for part in (*problem.constraints, *problem.end_constraints):
        if not isinstance(part, Bounds):
            continue
        check_numbers(part)
        for name, bound, finite in zip(("lower", "upper"), (part.lower, part.upper), part.finite, strict=True):
            if finite is None or bound is None or not is_concrete(bound):
                continue
            now = np.asarray(bound)
            # One number is of all rows.
            kept = np.isin(np.arange(now.size).reshape(now.shape) if now.ndim else -1, finite)
            if np.any(is_near(now) & ~kept):
                raise ValueError(
                    f"The {name} bounds of {part.term!r} were infinite in some rows when they were made, which are "
                    f"left out since, and were replaced by {now}. Make new Bounds of these."
                )


def _phases(dynamics: Any, steps: Any) -> tuple[Phase, ...]:
    if isinstance(dynamics, AbstractDynamics):
        return (Phase(dynamics, positive_integer("steps, the number of time steps,", steps)),)
    phases = tuple(dynamics) if isinstance(dynamics, Sequence) else ()
    if not phases or not all(isinstance(phase, Phase) for phase in phases):
        raise ValueError(
            f"dynamics must be such as {_SUCH}, or a list of Phase(dynamics, steps), got {dynamics!r:.200}."
        )
    if steps is not None:
        raise ValueError("Phases have their own steps: omit steps.")
    for phase in phases:
        positive_integer("The steps of a phase", phase.steps)
    all_dynamics = [phase.dynamics for phase in phases]
    sizes = {(x.state_size, x.tangent_blocks, x.control_size, x.defect_size) for x in all_dynamics}
    if len(sizes) > 1:
        raise ValueError(
            "All phases must have states and controls of the same sizes, got (nx, tangent, controls, defects) = "
            f"{', '.join(map(str, sorted(sizes)))}. Of phases in which other feet push, let all have the same "
            "contacts, and constrain forces to zero where there are none: Equality(ContactForce(foot), during=...)."
        )
    for x in all_dynamics[:-1]:
        if not _same_manifold(x, all_dynamics[-1]):
            raise ValueError(
                "The states of all phases must be on the same manifold, with joints of the same types in the same "
                f"order: got {_description(x)}, and {_description(all_dynamics[-1])}."
            )
    return phases


def _of_free_duration(phases: Sequence[Phase], bounds: Any) -> tuple[Phase, ...]:
    """The same phases with the lengths of their time steps in the state."""
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise ValueError(f"step_lengths must be a pair, the shortest and the longest [s], got {bounds!r:.200}.")
    found = []
    for number, phase in enumerate(phases):
        dynamics = phase.dynamics
        if not isinstance(dynamics, AbstractRobotDynamics):
            raise ValueError(
                f"step_lengths are those of robots, whose dynamics have a time step, got {type(dynamics).__name__}. "
                "Of a function let the step length be one more state, free at the start."
            )
        shortest, longest = (checked_dt(x, dynamics.dt.dtype) for x in bounds)
        if is_concrete(shortest, longest, dynamics.dt) and not shortest < dynamics.dt < longest:
            raise ValueError(
                f"The dt of the dynamics, from which step lengths are found, must be between the shortest and the "
                f"longest, got {float(dynamics.dt):g} and step_lengths ({float(shortest):g}, {float(longest):g})."
            )
        found.append(Phase(FreeDuration(dynamics, shortest, longest, number, len(phases)), phase.steps))
    return tuple(found)


class StepLengths(SmoothTerm):
    """A multiple of the logarithms of the step lengths of all phases (P,)."""

    def __call__(self, stage: Stage) -> Float[Array, "P"]:
        return _SCALE * jnp.log(stage.blocks[-1])


def _bounds_of_lengths(dynamics: FreeDuration) -> Bounds:
    """At the first stage, since they stay the same."""
    shortest, longest = (_SCALE * jnp.log(x) for x in (dynamics.shortest, dynamics.longest))
    return Bounds(StepLengths(), shortest, longest, during=(0, 1))


def _start(start: Any, dynamics: AbstractDynamics) -> Start:
    """What is said of the start for every coordinate, and that others are free."""
    n, free = dynamics.tangent_size, dynamics.free_at_start
    if not free:
        return as_start(start, n)
    kinds = as_start(start, n if isinstance(start, str) else n - len(free))
    given = iter((kinds,) * n if isinstance(kinds, str) else kinds)
    return as_start(tuple("free" if i in free else next(given) for i in range(n)), n)


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
                f"{name} must be a list of {names}, got {part!r:.200} in it. Wrap it: {kinds[0].__name__}(...)."
            )
    return given
