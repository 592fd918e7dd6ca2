"""Linear-quadratic problems: optimal control of a linear system with a quadratic cost.

The notation is that of Rawlings, Mayne & Diehl, Model Predictive Control, 2017, sec. 8.8; costates are multipliers of
`A x + B u + c - x_{t+1} = 0`.
"""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from ..compilation import jit_alone
from ..numerics import add, choose, linear_solution, symmetrise, transpose
from ..numerics._options import check_instance, floating_numbers
from ._products import followed, matvec, preceded
from ._riccati import RICCATI
from ._stages import AbstractStageFactors, AbstractStageSolver, Extremal, Stages
from ._starts import Start, StartMasks, as_start, where


class LinearTerms(eqx.Module):
    """The linear terms of a `LinearQuadratic` problem with T stages.

    **Fields:** `offsets` c of the dynamics (T, n); `state_gradients` q (T + 1, n); `control_gradients` r (T, m);
    `start` (n,): x_0 where it is given, `x_0 - x_T` where it is periodic, without effect where it is free; `end` e
    (k,): what `E x_T` has to be.
    """

    offsets: Float[Array, "T n"]
    state_gradients: Float[Array, "T+1 n"]
    control_gradients: Float[Array, "T m"]
    start: Float[Array, "n"]
    end: Float[Array, "k"]

    def right_hand_side(self) -> "Extremal":
        """Minus the gradient of the Lagrangian where everything is zero."""
        constraints = -preceded(self.offsets, self.start)
        return Extremal(-self.state_gradients, -self.control_gradients, constraints, self.end)


class LinearQuadratic(eqx.Module):
    """The matrices of an optimal control problem of T stages, with n states and m controls:

        minimise    sum_t [x'Q x/2 + u'R u/2 + u'S x + q'x + r'u]  +  x_T'Q_T x_T/2 + q_T'x_T
        subject to  x_{t+1} = A x_t + B u_t + c_t - delta lam_{t+1},    E x_T = e.

    The start x_0 is given, free, or periodic, `x_0 = x_T + start`, all of it or each of its coordinates. Each
    `[Q S'; S R]` is positive semidefinite; R may be zero where every control counts otherwise. The regularisation delta
    lets the dynamics yield to their multipliers.

    **Fields:** `transition` A (T, n, n), `input` B (T, n, m), `state_cost` Q (T + 1, n, n), the last for the end,
    `control_cost` R (T, m, m), `cross_cost` S (T, m, n), `end_rows` E (k, n), `regularization` delta, `start`:
    `"given"`, `"free"` or `"periodic"`, or a tuple with one of these for each state. S, E and delta may be `None`,
    which stands for nothing and saves work.
    """

    transition: Float[Array, "T n n"]
    input: Float[Array, "T n m"]
    state_cost: Float[Array, "T+1 n n"]
    control_cost: Float[Array, "T m m"]
    cross_cost: Float[Array, "T m n"] | None
    end_rows: Float[Array, "k n"] | None
    regularization: Float[Array, ""] | None
    start: Start = eqx.field(static=True)

    def __init__(
        self,
        transition: Annotated[ArrayLike, "T n n"],
        input: Annotated[ArrayLike, "T n m"],
        state_cost: Annotated[ArrayLike, "T+1 n n"],
        control_cost: Annotated[ArrayLike, "T m m"],
        cross_cost: Annotated[ArrayLike, "T m n"] | None = None,
        end_rows: Annotated[ArrayLike, "k n"] | None = None,
        regularization: ArrayLike | None = None,
        start: Start = "given",
    ):
        needed = {"transition": transition, "input": input, "state_cost": state_cost, "control_cost": control_cost}
        others = {"cross_cost": cross_cost, "end_rows": end_rows, "regularization": regularization}
        required = [floating_numbers(name, x) for name, x in needed.items()]
        optional = [None if x is None else floating_numbers(name, x) for name, x in others.items()]
        dtype = jnp.result_type(*required, *(x for x in optional if x is not None))
        self.transition, self.input, self.state_cost, self.control_cost = (x.astype(dtype) for x in required)
        self.cross_cost, self.end_rows, self.regularization = (x if x is None else x.astype(dtype) for x in optional)
        self._check()
        self.start = as_start(start, self.transition.shape[-1])
        self.state_cost, self.control_cost = symmetrise(self.state_cost), symmetrise(self.control_cost)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """T, n, m, k."""
        stages, n, m = self.input.shape
        return stages, n, m, 0 if self.end_rows is None else self.end_rows.shape[0]

    @property
    def start_masks(self) -> StartMasks:
        """Which coordinates of the start are free, and which are periodic."""
        return StartMasks.of(self.start, self.transition.shape[-1])

    def terms(self, **given: ArrayLike) -> LinearTerms:
        """`LinearTerms` with these fields; what is not given is zero.

        **Raises:** `ValueError` for unknown names and wrong shapes.
        """
        stages, n, m, k = self.sizes
        shapes = {
            "offsets": (stages, n),
            "state_gradients": (stages + 1, n),
            "control_gradients": (stages, m),
            "start": (n,),
            "end": (k,),
        }
        unknown = sorted(set(given) - set(shapes))
        if unknown:
            raise ValueError(f"Linear terms are {', '.join(shapes)}; there is no {', '.join(unknown)}.")
        arrays = {name: floating_numbers(name, value) for name, value in given.items()}
        for name, array in arrays.items():
            if array.shape != shapes[name]:
                raise ValueError(
                    f"{name} must have shape {shapes[name]} to go with an input of shape {self.input.shape}, got "
                    f"{array.shape}. Functions are for one problem; batch them with jax.vmap."
                )
        dtype = jnp.result_type(self.transition, *arrays.values())
        return LinearTerms(**{name: arrays.get(name, jnp.zeros(s)).astype(dtype) for name, s in shapes.items()})

    def factor(self, solver: AbstractStageSolver = RICCATI) -> "FactoredLinearQuadratic":
        """Factorises once, for linear terms that come one after the other: each costs two affine recurrences or so."""
        _check_stage_solver(solver)
        return _factored(self, solver)

    def solve(self, terms: LinearTerms, solver: AbstractStageSolver = RICCATI) -> Extremal:
        """The optimal motion; NaN where there is none, or more than one (unless rounding hides that).

        The derivatives, in both modes and of any order, are further solutions with the same factors.
        """
        _check_stage_solver(solver)
        return _factored_and_solved(self, terms, solver)

    def stages(self) -> Stages:
        """What is between the ends. A regularisation delta of the dynamics is one more control for each state there.

        Controls w of unit cost that act by `sqrt(delta) w` are optimally `-sqrt(delta) lam`.
        """
        a, b, r, s = self.transition, self.input, self.control_cost, self.cross_cost
        if self.regularization is not None:
            n = a.shape[-1]
            identity = jnp.broadcast_to(jnp.eye(n, dtype=a.dtype), a.shape)
            b = jnp.concatenate([b, jnp.sqrt(self.regularization) * identity], axis=-1)
            r = jnp.pad(r, ((0, 0), (0, n), (0, n))).at[:, -n:, -n:].set(identity)
            s = None if s is None else jnp.pad(s, ((0, 0), (0, n), (0, 0)))
        return Stages(a, b, self.state_cost, r, s)

    def mv(self, motion: Extremal) -> Extremal:
        """The product with the matrix of the optimality conditions, the Hessian of the Lagrangian. It is symmetric."""
        x, u, lam, nu = motion.states, motion.controls, motion.costates, motion.end_multipliers
        a, b, later = self.transition, self.input, lam[1:]
        # Not by `.at[1:].add`, which comes out wrong where stages are spread over devices (XLA of jaxlib 0.10.2).
        states = matvec(self.state_cost, x) + followed(matvec(transpose(a), later)) - preceded(later)
        controls = matvec(self.control_cost, u) + matvec(transpose(b), later)
        if self.cross_cost is not None:
            states = states + followed(matvec(transpose(self.cross_cost), u))
            controls = controls + matvec(self.cross_cost, x[:-1])
        dynamics = matvec(a, x[:-1]) + matvec(b, u) - x[1:]
        if self.regularization is not None:
            dynamics = dynamics - self.regularization * later
        free, periodic = self.start_masks
        start = where(free, lam[0], -x[0])
        if not free.all():
            states = states.at[0].add(-where(~free, lam[0]))
        if periodic.any():
            states = states.at[-1].add(where(periodic, lam[0]))
            start = start + where(periodic, x[-1])
        if self.end_rows is None:
            end = nu
        else:
            states = states.at[-1].add(matvec(transpose(self.end_rows), nu))
            end = matvec(self.end_rows, x[-1])
        return Extremal(states, controls, preceded(dynamics, start), end)

    def _check(self) -> None:
        if self.input.ndim != 3 or 0 in self.input.shape[:2]:
            raise ValueError(
                "input must have shape (T, n, m), of one stage and one state or more, "
                f"got {self.input.shape}. Problems are for one system; batch them with jax.vmap."
            )
        stages, n, m, k = self.sizes
        expected = {
            "transition": (stages, n, n),
            "state_cost": (stages + 1, n, n),
            "control_cost": (stages, m, m),
            "cross_cost": (stages, m, n),
            "end_rows": (k, n),
            "regularization": (),
        }
        for name, shape in expected.items():
            value = getattr(self, name)
            if value is not None and value.shape != shape:
                raise ValueError(
                    f"{name} must have shape {shape} to go with an input of shape {self.input.shape}, got "
                    f"{value.shape}."
                )


class FactoredLinearQuadratic(eqx.Module):
    """A `LinearQuadratic` problem, factorised once for linear terms that come one after the other.

    What is unknown at the ends follows from a small dense system, because the motion responds linearly to it: x_0 if it
    is not given, the multiplier of the equation that closes a periodic motion, and those of `end_rows`.

    **Fields:** `problem`; `factors` of its stages; `responses`: the motion for each unknown at the ends, in this order,
    and `at_ends`: what it does to the equations there; `None` if nothing is unknown.
    """

    problem: LinearQuadratic
    factors: AbstractStageFactors
    responses: Extremal | None
    at_ends: Float[Array, "e e"] | None

    def __init__(self, problem: LinearQuadratic, solver: AbstractStageSolver):
        _check_stage_solver(solver)
        self.problem = problem
        # Derivatives come from the problem (see `solve`), never from the course of the factorisation.
        constant = lax.stop_gradient(problem)
        self.factors = solver.factor(constant.stages())
        self.responses, self.at_ends = _responses(constant, self.factors)

    def solve(self, terms: LinearTerms, *, refined: bool = True) -> Extremal:
        """The optimal motion; NaN where there is none, or more than one (unless rounding hides that).

        One step of iterative refinement is taken where it makes the residual smaller, unless it shall not be `refined`:
        that is half of the work. The derivatives, in both modes and of any order, are further solutions with the same
        factors.
        """
        return _solved(self, terms, bool(refined))

    def once(self, rhs: Extremal) -> Extremal:
        """The solution of the optimality conditions, without refinement."""
        problem, known = self.problem, rhs
        unknown = problem.start_masks.unknown
        if unknown.any():
            known = eqx.tree_at(lambda z: z.costates, known, _where_at_start(~unknown, known.costates))
        found = _solve_stages(problem, self.factors, known)
        if self.responses is None:
            return found
        missing = _required_at_ends(problem, rhs) - _at_ends(problem, found, jnp.zeros_like(rhs.states[0]))
        unknowns = jnp.linalg.solve(self.at_ends, missing)
        found = eqx.tree_at(lambda z: z.end_multipliers, found, jnp.zeros_like(found.end_multipliers))
        return jax.tree.map(lambda x, y: x + jnp.tensordot(unknowns, y, 1, precision="highest"), found, self.responses)


def _check_stage_solver(solver: object) -> None:
    """Raises `ValueError` for anything else."""
    check_instance("solver", solver, AbstractStageSolver, "one for stages, such as Riccati()")


@jit_alone
def _factored(problem: LinearQuadratic, solver: AbstractStageSolver) -> FactoredLinearQuadratic:
    return FactoredLinearQuadratic(problem, solver)


@jit_alone
def _factored_and_solved(problem: LinearQuadratic, terms: LinearTerms, solver: AbstractStageSolver) -> Extremal:
    return FactoredLinearQuadratic(problem, solver).solve(terms)


@jit_alone
def _solved(factored: FactoredLinearQuadratic, terms: LinearTerms, refined: bool) -> Extremal:
    rhs = terms.right_hand_side()
    free = factored.problem.start_masks.free
    if free.any():
        rhs = eqx.tree_at(lambda z: z.costates, rhs, _where_at_start(~free, rhs.costates))
    return linear_solution(factored.problem.mv, rhs, _refined if refined else FactoredLinearQuadratic.once, factored)


def _refined(factored: FactoredLinearQuadratic, rhs: Extremal) -> Extremal:
    """A solution with one step of refinement, by the residual of single stages, unless that makes it worse."""

    def rest(x: Extremal) -> Extremal:
        return jax.tree.map(jnp.subtract, rhs, factored.problem.mv(x))

    def size(rest: Extremal, x: Extremal) -> Float[Array, ""]:
        # Gradients are compared with costates and states with states, whose sizes may differ by many orders.
        gradients = _squares(rest.states) + _squares(rest.controls)
        return gradients / _largest(x.costates) ** 2 + _squares(rest.costates) / _largest(x.states) ** 2

    found = factored.once(rhs)
    missing = rest(found)
    better = add(found, factored.once(missing))
    accepted = size(rest(better), better) <= size(missing, found)
    return choose(accepted, better, found)


def _where_at_start(mask: Bool[np.ndarray, "n"], costates: Float[Array, "T+1 n"]) -> Float[Array, "T+1 n"]:
    """The first row zero, but where the mask says so."""
    return costates.at[0].set(where(mask, costates[0]))


def _squares(x: Array) -> Float[Array, ""]:
    return jnp.sum(x * x)


def _largest(x: Array) -> Float[Array, ""]:
    return jnp.max(jnp.abs(x))


def _solve_stages(problem: LinearQuadratic, factors: AbstractStageFactors, rhs: Extremal) -> Extremal:
    """A solution with the factors of `problem.stages()`, which may have more controls."""
    _, n, m, _ = problem.sizes
    if problem.regularization is None:
        return factors.solve(rhs)
    found = factors.solve(eqx.tree_at(lambda z: z.controls, rhs, jnp.pad(rhs.controls, ((0, 0), (0, n)))))
    return eqx.tree_at(lambda z: z.controls, found, found.controls[:, :m])


def _responses(
    problem: LinearQuadratic, factors: AbstractStageFactors
) -> tuple[Extremal | None, Float[Array, "e e"] | None]:
    """The motion for each unknown at the ends alone, and the matrix of the equations that determine these."""
    _, n, _, k = problem.sizes
    dtype = problem.input.dtype
    unknown, periodic = (np.flatnonzero(mask) for mask in (problem.start_masks.unknown, problem.start_masks.periodic))
    sizes = [unknown.size, periodic.size, k]
    if not sum(sizes):
        return None, None
    nothing = problem.terms().right_hand_side()

    def response(pushed: Float[Array, "e"]) -> tuple[Extremal, Float[Array, "e"]]:
        start, closing, nu = jnp.split(pushed, [sizes[0], sizes[0] + sizes[1]])
        start, closing = (jnp.zeros(n, dtype).at[own].set(x) for own, x in ((unknown, start), (periodic, closing)))
        push = closing if problem.end_rows is None else closing + matvec(transpose(problem.end_rows), nu)
        rhs = Extremal(
            nothing.states.at[-1].set(-push),
            nothing.controls,
            nothing.costates.at[0].set(-start),
            nothing.end_multipliers,
        )
        found = eqx.tree_at(lambda z: z.end_multipliers, _solve_stages(problem, factors, rhs), nu)
        return found, _at_ends(problem, found, closing)

    responses, columns = jax.vmap(response)(jnp.eye(sum(sizes), dtype=dtype))
    return responses, columns.T


def _at_ends(problem: LinearQuadratic, motion: Extremal, closing: Float[Array, "n"]) -> Float[Array, "e"]:
    """The left-hand sides of the equations at the ends."""
    x, lam, masks = motion.states, motion.costates, problem.start_masks
    rows = [(x[-1] - x[0])[masks.periodic], (lam[0] - closing)[masks.unknown]]
    return jnp.concatenate([*rows, *([] if problem.end_rows is None else [matvec(problem.end_rows, x[-1])])])


def _required_at_ends(problem: LinearQuadratic, rhs: Extremal) -> Float[Array, "e"]:
    """The right-hand sides of the equations at the ends."""
    start, masks = rhs.costates[0], problem.start_masks
    rows = [start[masks.periodic], where(masks.free, start)[masks.unknown]]
    return jnp.concatenate([*rows, *([] if problem.end_rows is None else [rhs.end_multipliers])])
