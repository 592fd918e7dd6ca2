"""What solvers return."""

import dataclasses
import enum
from functools import partial
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..closed_chains import ConstraintStatus
from ..compilation import jit_alone, jit_of_one_state
from ..model._arguments import is_concrete, positive_integer
from ..numerics import all_finite, lengthened
from ..simulation import Trajectory
from ..structured._products import matvec
from ._local import Multipliers, Rows, over_stages
from ._problem import Problem
from ._robot_dynamics import AbstractRobotDynamics
from ._rollout import closed_loop
from ._states import as_state

_FALLEN = 1e8  # so many times below what the cost was at the start


_closed_loop = jit_alone(closed_loop, jit=partial(jit_of_one_state, jit=eqx.filter_jit))


class SolveStatus(enum.IntEnum):
    """How optimal control or inverse kinematics ended; `SolveStatus(int(solution.status))` shows it by name."""

    SOLVED = 0
    """The optimality conditions hold to the tolerance; of inverse kinematics, the targets are reached, loops closed."""
    STALLED = 1
    """No step makes progress any more, but the constraints hold: often as good as solved; see `stationarity`."""
    INFEASIBLE = 2
    """No step makes progress any more, and constraints or gaps are violated, or targets not reached from any start."""
    ITERATIONS = 3
    """The iterations were used up."""
    NOT_FINITE = 4
    """A cost, a constraint, a target or the dynamics gave infinities or NaN at the guess."""
    UNBOUNDED = 5
    """The cost fell as if it had no least value: it is far below zero, and not solved."""


class History(eqx.Module):
    """What happened in each iteration (n,), infinite after the last.

    **Fields:** `cost`; `violation`: of gaps and constraints, the largest; `stationarity`; `step`: the part of the step
    that was taken, zero if none was; `regularization`.
    """

    cost: Float[Array, "n"]
    violation: Float[Array, "n"]
    stationarity: Float[Array, "n"]
    step: Float[Array, "n"]
    regularization: Float[Array, "n"]

    @staticmethod
    def empty(length: int, dtype) -> "History":
        """A history of which nothing is known yet."""
        return History(*jnp.full((5, length), jnp.inf, dtype))  # NaN would stop programs under jax_debug_nans

    def with_entry(self, i: Int[Array, ""], **entries: Array) -> "History":
        """The same with what happened in iteration i."""
        return History(**{name: getattr(self, name).at[i].set(value) for name, value in entries.items()})


class Solution(eqx.Module):
    """An optimal motion, and the next guess.

    **Fields:** `states` (T + 1, nx) and `controls` (T, m); feedback `gains` K (T, m, n): the optimal control near the
    motion is `u_t + K_t dx`; `multipliers` of dynamics and constraints and the `slack` of inequalities; `cost`; `gap`,
    the largest of `f(x_t, u_t) - x_{t+1}`; `violation`, the largest of all constraints (gaps too); `stationarity`, the
    largest entry of the Lagrangian's gradient; `barrier`, what is left of the product of slack and multiplier;
    `iterations`; `status` (`SolveStatus`); `history`; `coordinates`: (nq, nv) of a robot, whose states are `[q; v]`,
    and `[q; v; h]` with the step lengths h of all phases if these were found.

    Where the iterations were used up (`ITERATIONS`), `stationarity` and `gains` are those from which the last step was
    taken, but after `Shooting` the gains; all else is of the motion that is returned.
    """

    states: Float[Array, "T+1 nx"]
    controls: Float[Array, "T m"]
    gains: Float[Array, "T m n"]
    multipliers: Multipliers
    slack: Rows
    cost: Float[Array, ""]
    gap: Float[Array, ""]
    violation: Float[Array, ""]
    stationarity: Float[Array, ""]
    barrier: Float[Array, ""]
    iterations: Int[Array, ""]
    status: Int[Array, ""]
    history: History
    coordinates: tuple[int, int] | None = eqx.field(static=True)

    @property
    def solved(self) -> Bool[Array, ""]:
        """Whether the status is `SOLVED`."""
        return self.status == SolveStatus.SOLVED

    @property
    def q(self) -> Float[Array, "T+1 nq"]:
        """Configurations of a robot."""
        return self.states[..., : self._sizes[0]]

    @property
    def v(self) -> Float[Array, "T+1 nv"]:
        """Velocities of a robot."""
        nq, nv = self._sizes
        return self.states[..., nq : nq + nv]

    @property
    def step_lengths(self) -> Float[Array, "P"]:
        """The time steps of all phases, which were found with the motion [s]."""
        nq, nv = self._sizes
        if self.states.shape[-1] == nq + nv:
            raise ValueError("Only problems with step_lengths find them. Here they are the dt of the dynamics.")
        return self.states[..., 0, nq + nv :]

    @property
    def _sizes(self) -> tuple[int, int]:
        if self.coordinates is None:
            raise ValueError("Only solutions for robots have q and v. Other states are solution.states.")
        return self.coordinates

    def control(self, problem: Problem, t: int | Int[Array, ""], x: Any) -> Float[Array, "m"]:
        """The control of stage t in a state near the motion, by the feedback gains.

        **Arguments:** `problem` that this solves; `t`: the number of the stage, from 0 to T - 1; `x` (nx,): the state,
        of a robot also the pair (q, v).

        **Returns:** `u_t + K_t dx` (m,). **Raises:** `ValueError` for a wrong shape, for stages that do not exist, and
        for a batch of solutions.
        """
        self._check_single("control")
        _check_stage(t, len(self.controls))
        x = as_state(problem, x, "x", like=self.states[t]).astype(self.states.dtype)
        return self.controls[t] + matvec(self.gains[t], problem.dynamics.minus(x, self.states[t]))

    def rollout(self, problem: Problem, x0: Any = None) -> "Solution":
        """The motion that the dynamics make from a start under the feedback: no gaps are left in it.

        **Arguments:** `problem` that this solves; `x0` (nx,): the start, of a robot also the pair (q, v); the
        solution's own if not given.

        **Returns:** a `Solution` of which only `states` and `controls` are new; all else is still that of the solution.
        **Raises:** `ValueError` for a wrong shape, and for a problem of other sizes.
        """
        self._check_solves(problem)
        start = self.states[0] if x0 is None else as_state(problem, x0, like=self.states[0]).astype(self.states.dtype)
        states, controls = _closed_loop(problem, start, self.states, self.controls, self.gains)
        return dataclasses.replace(self, states=states, controls=controls)

    def trajectory(self, problem: Problem) -> Trajectory:
        """The motion of a robot as `simulation.rollout` gives one: to be shown, saved, and compared with others.

        Its `t` begins at zero; `tau` are the torques that the controls make in the states of the motion; in `status`
        only `NOT_FINITE` can be set.

        **Arguments:** `problem` that this solves.

        **Raises:** `ValueError` for dynamics that are no robot's, and for a problem of other sizes.
        """
        self._check_solves(problem)
        t = jnp.zeros(1, self.states.dtype)
        for number, phase in enumerate(problem.phases):
            if not isinstance(phase.dynamics, AbstractRobotDynamics):
                raise ValueError(
                    "Only motions of robots are trajectories with q, v and tau, got dynamics of type "
                    f"{type(phase.dynamics).__name__}. Other states are solution.states."
                )
            dt = phase.dynamics.dt if problem.has_given_duration else self.step_lengths[number]
            dt = dt.astype(t.dtype)
            t = jnp.concatenate([t, t[-1] + dt * jnp.arange(1, phase.steps + 1, dtype=t.dtype)])

        tau = over_stages(problem, lambda _, stage: stage.tau, self.states[:-1], self.controls)
        finite = all_finite((self.states, tau))
        status = jnp.where(finite, 0, jnp.asarray(ConstraintStatus.NOT_FINITE, jnp.int32))
        return Trajectory(t, self.q, self.v, tau, status)

    def shifted(self, steps: int = 1) -> "Solution":
        """A guess for the same problem that many steps later: what is gone leaves, the end is repeated.

        **Raises:** `ValueError` for a number that is negative, or traced, and for a batch of solutions.
        """
        number = positive_integer("steps, one known number,", steps, or_zero=True)
        self._check_single("shifted")

        def later(x: Array) -> Array:
            return lengthened(x, min(number, len(x)))[-len(x) :]

        def rows(x: Rows) -> Rows:
            return Rows(later(x.stages), x.end)

        costates, equalities, inequalities = self.multipliers
        return dataclasses.replace(
            self,
            states=later(self.states),
            controls=later(self.controls),
            gains=later(self.gains),
            multipliers=Multipliers(later(costates), rows(equalities), rows(inequalities)),
            slack=rows(self.slack),
        )

    def _check_solves(self, problem: Problem) -> None:
        """Raises `ValueError` for a problem whose solution would have controls of another shape."""
        steps, m = problem.steps, problem.dynamics.control_size
        if self.controls.shape != (steps, m):
            raise ValueError(
                f"The solution of this problem has controls of shape (T, m) = ({steps}, {m}), got those of shape "
                f"{self.controls.shape}. Functions are for one problem; batch them with jax.vmap."
            )

    def _check_single(self, method: str) -> None:
        """Raises `ValueError` for a batch of solutions."""
        if self.states.ndim != 2:
            raise ValueError(
                f"{method} is for one solution, with states of shape (T + 1, nx), got {self.states.shape}; batch it "
                "with jax.vmap."
            )


def _check_stage(t: Any, count: int) -> None:
    """Raises `ValueError` for what is no number of a stage with a control, as far as that can be seen."""
    try:
        # Known or not, an integer; and what is known is one of these.
        integer = jnp.shape(t) == () and jnp.issubdtype(jnp.result_type(t), jnp.integer)
        exists = integer and (not is_concrete(t) or 0 <= int(t) < count)
    except TypeError:
        exists = False
    if not exists:
        raise ValueError(f"t must be the number of a stage, an integer from 0 to {count - 1}, got {t!r:.200}.")


def with_unbounded(status: Int[Array, ""], cost: Float[Array, ""], history: History) -> Int[Array, ""]:
    """The status, or `UNBOUNDED` where the cost of an unsolved problem has fallen too far for a minimum nearby."""
    unsolved = (status == SolveStatus.STALLED) | (status == SolveStatus.ITERATIONS)
    fallen = cost < -_FALLEN * (1 + jnp.abs(history.cost[0]))
    return jnp.where(unsolved & fallen, SolveStatus.UNBOUNDED, status).astype(jnp.int32)


def coordinates(problem: Problem) -> tuple[int, int] | None:
    """The robot's nq and nv; `None` for other dynamics."""
    dynamics = problem.dynamics
    return (dynamics.model.nq, dynamics.model.nv) if isinstance(dynamics, AbstractRobotDynamics) else None
