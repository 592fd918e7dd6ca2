"""Linear-quadratic problems by Riccati's recursion, one stage after the other or as a scan of two-ports."""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..compilation import jit_alone
from ..numerics import linear_solution, symmetrise, transpose
from ..numerics._options import floating_numbers
from ._affine_scan import run
from ._elimination import general_solve
from ._products import followed, matvec, nested_matmul as matmul, preceded
from ._scan import SEQUENTIAL, AbstractSchedule, Sequential, check_schedule
from ._small_spd import LDL, ldl_factor, ldl_solve
from ._stages import AbstractStageFactors, AbstractStageSolver, Extremal, Stages
from ._two_port import TwoPort, general_star_product

_DOUBLINGS = 40


class Riccati(AbstractStageSolver):
    """The cost to go, `x'J_t x/2 - eta_t'x`, from the end to the start, then the states from the start to the end.

    With `Sequential()` one stage after the other. Other schedules find the matrices J by a scan over two-ports, whose
    depth is the logarithm of the number of stages (Sarkka & Garcia-Fernandez, Temporal parallelization of dynamic
    programming and linear quadratic control, 2023), and the vectors by two affine scans.

    Controls must count: `R + B'JB` positive definite. With other schedules `R + B'QB` must have an inverse as well,
    because these look at pieces of time on their own; the costs of a piece need have no minimum.
    """

    schedule: AbstractSchedule = SEQUENTIAL

    def __check_init__(self):
        check_schedule(self.schedule)

    def factor(self, stages: Stages) -> "RiccatiFactors":
        sequential = isinstance(self.schedule, Sequential)
        if sequential:
            stiffness, pivot, gains, closed = _one_by_one(stages)
        else:
            stiffness = _by_two_ports(stages, self.schedule)
            pivot, gains = jax.vmap(_gains)(stages.inner(), stiffness[1:])
            closed = _closed(stages, gains)
        return RiccatiFactors(stages.input, pivot, gains, closed, stiffness, self.schedule)


RICCATI = Riccati()


class RiccatiFactors(AbstractStageFactors):
    """**Fields:** the `input` matrices B, the factorised `pivot` `R + B'JB`, the `gains` K (T, m, n) of the optimal
    feedback `u = K x + k`, the `closed` loop `A + B K`, and the `stiffness` J (T + 1, n, n), the Hessians of the cost
    to go.
    """

    input: Float[Array, "T n m"]
    pivot: LDL
    gains: Float[Array, "T m n"]
    closed: Float[Array, "T n n"]
    stiffness: Float[Array, "T+1 n n"]
    schedule: AbstractSchedule

    def solve(self, rhs: Extremal) -> Extremal:
        q, r, c, start = -rhs.states, -rhs.controls, -rhs.costates[1:], -rhs.costates[0]
        carried = matvec(self.stiffness[1:], c)
        own = -matvec(transpose(self.closed), carried) - q[:-1] - matvec(transpose(self.gains), r)
        eta = self._scan(transpose(self.closed), own, -q[-1], reverse=True)
        feedforward = -ldl_solve(self.pivot, matvec(transpose(self.input), carried - eta[1:]) + r)
        x = self._scan(self.closed, c + matvec(self.input, feedforward), start, reverse=False)
        u = matvec(self.gains, x[:-1]) + feedforward
        return Extremal(x, u, matvec(self.stiffness, x) - eta, rhs.end_multipliers)

    def _scan(self, a: Float[Array, "T n n"], b: Float[Array, "T n"], start: Array, reverse: bool) -> Array:
        """An affine recurrence with what precedes it."""
        first = -1 if reverse else 0
        rest = run(a, b.at[first].add(matvec(a[first], start))[..., None], self.schedule, reverse)[..., 0]
        return followed(rest, start) if reverse else preceded(rest, start)


def _gains(stage: Stages, later: Float[Array, "n n"]) -> tuple[LDL, Float[Array, "m n"]]:
    """`R + B'JB`, factorised, and the gains of the optimal feedback."""
    felt = matmul(transpose(stage.input), later)
    pivot = ldl_factor(stage.control_cost + symmetrise(matmul(felt, stage.input)))
    pushed = matmul(felt, stage.transition)
    return pivot, -ldl_solve(pivot, pushed if stage.cross_cost is None else pushed + stage.cross_cost)


def _closed(stage: Stages, gains: Float[Array, "*T m n"]) -> Float[Array, "*T n n"]:
    """The dynamics under the feedback."""
    return stage.transition + matmul(stage.input, gains)


def _cost_of_policy(
    stage: Stages, later: Float[Array, "n n"], gains: Float[Array, "m n"], closed: Float[Array, "n n"]
) -> Float[Array, "n n"]:
    """The Hessian of the cost to go under the feedback `u = K x`: a sum of semidefinite matrices (Joseph's form)."""
    half = 0.5 * matmul(stage.control_cost, gains)
    crossed = matmul(transpose(gains), half if stage.cross_cost is None else half + stage.cross_cost)
    carried = matmul(transpose(closed), matmul(later, closed))
    return symmetrise(carried + stage.state_cost + crossed + transpose(crossed))


def _one_by_one(stages: Stages) -> tuple[Float[Array, "T+1 n n"], LDL, Float[Array, "T m n"], Float[Array, "T n n"]]:
    def step(later, stage):
        pivot, gains = _gains(stage, later)
        closed = _closed(stage, gains)
        # Not what comes before, which is carried on and would be computed once more to be stored.
        return _cost_of_policy(stage, later, gains, closed), (later, pivot, gains, closed)

    first, (later, *others) = lax.scan(step, stages.state_cost[-1], stages.inner(), reverse=True)
    return preceded(later, first), *others


def steady_riccati(
    transition: Annotated[ArrayLike, "n n"],
    input: Annotated[ArrayLike, "n m"],
    state_cost: Annotated[ArrayLike, "n n"],
    control_cost: Annotated[ArrayLike, "m m"],
    cross_cost: Annotated[ArrayLike, "m n"] | None = None,
) -> tuple[Float[Array, "n n"], Float[Array, "m n"]]:
    """The Hessian J of the cost to go over an infinite horizon, and the gain K of its feedback `u = K x`.

    The solution of the discrete algebraic Riccati equation, by doubling the horizon forty times: pieces of time in
    series (Chu, Fan, Lin & Wang, Structure-preserving algorithms for periodic discrete-time algebraic Riccati
    equations, 2004). NaN if nothing stabilises the system, costs have no minimum, or a single stage has no best control
    (`R + B'QB` is singular). Derivatives are those of the equation. The notation is that of `LinearQuadratic`.

    **Raises:** `ValueError` for other shapes.
    """
    named = {"transition": transition, "input": input, "state_cost": state_cost, "control_cost": control_cost}
    if cross_cost is not None:
        named["cross_cost"] = cross_cost
    given = [floating_numbers(name, x) for name, x in named.items()]
    n, m = given[1].shape if given[1].ndim == 2 else (0, 0)
    expected = [(n, n), (n, m), (n, n), (m, m), (m, n)][: len(given)]
    if not n or [x.shape for x in given] != expected:
        raise ValueError(
            "steady_riccati is of one system of one state or more: transition (n, n), input (n, m), state_cost (n, n), "
            "control_cost (m, m), cross_cost (m, n) if given; got shapes "
            f"{', '.join(str(x.shape) for x in given)}. Batch with jax.vmap."
        )
    dtype = jnp.result_type(*given)
    a, b, q, r, *cross = (x.astype(dtype) for x in given)
    stage = Stages(a, b, symmetrise(q), symmetrise(r), cross[0] if cross else None)
    return _steady(stage)


@jit_alone
def _steady(stage: Stages) -> tuple[Float[Array, "n n"], Float[Array, "m n"]]:
    """Stiffness and gain of one stage for ever."""
    stiffness = _steady_stiffness(stage)
    gains = _gains(stage, stiffness)[1]
    left = jnp.max(jnp.abs(_cost_of_policy(stage, stiffness, gains, _closed(stage, gains)) - stiffness))
    solved = left <= float(jnp.finfo(left.dtype).eps) ** 0.4 * jnp.max(jnp.abs(stiffness))
    return jnp.where(solved, stiffness, jnp.nan), jnp.where(solved, gains, jnp.nan)


@jax.custom_jvp
def _steady_stiffness(stage: Stages) -> Float[Array, "n n"]:
    port = _two_port(stage, stage.state_cost)
    port = lax.fori_loop(0, _DOUBLINGS, lambda _, port: general_star_product(port, port), port)
    return stage.state_cost + port.stiffness


@_steady_stiffness.defjvp
def _rate_of_steady_stiffness(primals: tuple[Stages], tangents: tuple[Stages]) -> tuple[Array, Array]:
    """`dJ - F'dJ F = dQ + ...` with the closed loop F: the feedback is optimal, so that its change does not count."""
    (stage,) = primals
    stiffness = _steady_stiffness(stage)
    gains = _gains(stage, stiffness)[1]
    closed = _closed(stage, gains)
    _, rate = jax.jvp(lambda stage: _cost_of_policy(stage, stiffness, gains, _closed(stage, gains)), primals, tangents)

    def over_all_stages(closed: Array, own: Array) -> Array:
        def double(_, state: tuple[Array, Array]) -> tuple[Array, Array]:
            total, way = state
            return total + matmul(transpose(way), matmul(total, way)), matmul(way, way)

        return lax.fori_loop(0, _DOUBLINGS, double, (own, closed))[0]

    return stiffness, linear_solution(
        lambda x: x - matmul(transpose(closed), matmul(x, closed)),
        rate,
        over_all_stages,
        closed,
        lambda closed, own: over_all_stages(transpose(closed), own),
    )


def _by_two_ports(stages: Stages, schedule: AbstractSchedule) -> Float[Array, "T+1 n n"]:
    """Pieces of time in series: state and costate at their ends are acceleration and wrench of a body with its joint.

    A piece is the dynamics of a stage, then the cost of the state reached, so that R may be zero.
    """
    own = stages.state_cost
    ports = jax.vmap(_two_port)(stages.inner(), own[1:])
    series = schedule.scan(lambda later, earlier: general_star_product(earlier, later), ports, reverse=True)
    return followed(own[:-1] + series.stiffness, own[-1])


def _two_port(stage: Stages, reached: Float[Array, "n n"]) -> TwoPort:
    """Of the best controls of one stage, whose costs need have no minimum: that of the whole is what counts."""
    b, n = stage.input, stage.transition.shape[-1]
    felt = matmul(transpose(b), reached)
    pushed = matmul(felt, stage.transition)
    pushed = pushed if stage.cross_cost is None else pushed + stage.cross_cost
    pivot = stage.control_cost + symmetrise(matmul(felt, b))
    solved = general_solve(pivot, jnp.concatenate([-pushed, transpose(b)], axis=-1))
    gains, free = solved[:, :n], eqx.tree_at(lambda s: s.state_cost, stage, jnp.zeros_like(stage.state_cost))
    closed = _closed(stage, gains)
    return TwoPort(closed, symmetrise(matmul(b, solved[:, n:])), _cost_of_policy(free, reached, gains, closed))
