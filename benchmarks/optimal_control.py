"""Optimal control: whole solves beside crocoddyl and ipopt, a batch of starts, and linear-quadratic problems by length.

crocoddyl and casadi need packages of their own: `JAXCFA_BENCH_PYTHON` in the environment is the path of a Python that
has them (crocoddyl 3.2 with pin 4, example-robot-data; casadi).
"""

import warnings
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxcfa
from jaxcfa import optimal_control as oc
from jaxcfa.structured import AbstractStageSolver, Chunked, Doubling, LinearQuadratic, Riccati

from .case import Case
from .contestant import Contestant, Prepared, compiled
from .peers.other_python import cart_pole_step, other_python
from .robots import example_robot
from .settings import Settings

TITLE = "Optimal control: reaching with an arm, swinging up a cart-pole, linear-quadratic problems"
STEPS, STARTS = 100, 64
LENGTHS = (10, 100, 1000, 10_000)
_KINOVA = "kinova_description/robots/kinova.urdf"
_ARM_UP = (1.5707, 2.618, -1.5707, 3.1415, 2.618, 0.0)
_SOLVERS = {"MultipleShooting": oc.MultipleShooting(), "FDDP": oc.FDDP()}
_STAGE_SOLVERS = {"Riccati": Riccati(), "Doubling": Riccati(Doubling()), "Chunked": Riccati(Chunked())}


def reach(steps: int, dtype: np.dtype) -> tuple[oc.Problem, jax.Array]:
    """The Kinova arm moves its hand to a pose: crocoddyl's example, and its start."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of attributes without meaning here
        model = jaxcfa.load_model(example_robot(_KINOVA)).astype(dtype)
    dt, start = 0.01, jnp.asarray(np.concatenate([_ARM_UP, np.zeros(6)]), dtype)
    target = jaxcfa.Transform(jnp.eye(3, dtype=dtype), jnp.array([0.6, 0.2, 0.5], dtype))
    turns = np.arange(12) < 6

    def displacement(stage: oc.Stage) -> jax.Array:
        # Of angles modulo whole turns, as crocoddyl takes it.
        d = stage.x - start
        return jnp.where(turns, jnp.arctan2(jnp.sin(d), jnp.cos(d)), d)

    pose = oc.FramePose("j2s6s200_end_effector", target)
    costs = [oc.Cost(pose, dt), oc.Cost(displacement, 0.1 * dt), oc.Cost(oc.Control(), 0.1 * dt)]
    dynamics = oc.RobotDynamics(model, dt, passive_forces=False)
    return oc.Problem(dynamics, steps, costs, [oc.Cost(pose, 1e3)]), start


def cart_pole(steps: int, dtype: np.dtype) -> tuple[oc.Problem, jax.Array, tuple[jax.Array, jax.Array]]:
    """A swing-up in two seconds to a given end, within bounds; its start, and a straight line to the end as a guess."""
    start, end = jnp.zeros(4, dtype), jnp.array([0.5, jnp.pi, 0, 0], dtype)
    dt = 2.0 / steps
    dynamics = oc.FunctionDynamics(lambda x, u, t: jnp.stack(cart_pole_step(x, u[0], dt, jnp)), 4, 1)
    problem = oc.Problem(
        dynamics,
        steps,
        costs=[oc.Cost(oc.Control(), 2 * dt)],
        constraints=[oc.Bounds(oc.Control(), -20.0, 20.0), oc.Bounds(lambda stage: stage.x[:1], -1.0, 1.0)],
        end_constraints=[oc.Equality(lambda stage: stage.x - end)],
    )
    return problem, start, (jnp.linspace(start, end, steps + 1), jnp.zeros((steps, 1), dtype))


def linear_quadratic(length: int, dtype: np.dtype, n: int = 12, m: int = 6):
    """A random problem, stable without control, and its linear terms."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal((length, n, k)) for k in (n, m, 1))
    a = 0.95 * a / np.linalg.norm(a, 2, axis=(1, 2), keepdims=True)
    q, r = np.broadcast_to(np.eye(n), (length + 1, n, n)), np.broadcast_to(np.eye(m), (length, m, m))
    problem = LinearQuadratic(*(jnp.asarray(x, dtype) for x in (a, b, q, r)))
    return problem, problem.terms(offsets=jnp.asarray(c[..., 0], dtype), start=jnp.ones(n, dtype))


def cases(settings: Settings) -> list[Case]:
    dtype = settings.float_type
    (steps,), (starts,) = settings.sizes((STEPS,), (4,)), settings.sizes((STARTS,), (2,))
    solvers = dict(list(_SOLVERS.items())[: 1 if settings.smoke else None])
    label = f"T = {steps}"
    return [
        Case("reach a pose", label, None, partial(_one_start, solvers, steps, dtype)),
        Case(f"reach a pose from {starts} starts", label, None, partial(_many_starts, solvers, steps, starts, dtype)),
        Case("swing up a cart-pole", label, None, partial(_cart_pole, steps, dtype)),
        *(
            Case("linear-quadratic problem", str(length), length, partial(_stage_solvers, length, dtype))
            for length in settings.sizes(LENGTHS, (10,))
        ),
    ]


def _one_start(solvers: dict[str, oc.AbstractSolver], steps: int, dtype: np.dtype) -> list[Contestant]:
    problem, start = reach(steps, dtype)
    return [
        *(Contestant(name, partial(_solved, problem, solver, start)) for name, solver in solvers.items()),
        Contestant("crocoddyl", partial(other_python, "reach", steps)),
    ]


def _many_starts(solvers: dict[str, oc.AbstractSolver], steps: int, n: int, dtype: np.dtype) -> list[Contestant]:
    problem, start = reach(steps, dtype)
    starts = start + 0.1 * jax.random.normal(jax.random.key(0), (n, start.size), dtype)
    return [Contestant(name, partial(_solved, problem, solver, starts)) for name, solver in solvers.items()]


def _cart_pole(steps: int, dtype: np.dtype) -> list[Contestant]:
    problem, start, guess = cart_pole(steps, dtype)
    solver = _SOLVERS["MultipleShooting"]
    return [
        Contestant("MultipleShooting", partial(_solved, problem, solver, start, guess)),
        Contestant("ipopt", partial(other_python, "cart_pole", steps)),
    ]


def _stage_solvers(length: int, dtype: np.dtype) -> list[Contestant]:
    problem, terms = linear_quadratic(length, dtype)

    def contestant(name: str, solver: AbstractStageSolver) -> Contestant:
        return Contestant(name, lambda: compiled(lambda p, t: p.solve(t, solver).states, problem, terms))

    return [contestant(*item) for item in _STAGE_SOLVERS.items()]


def _solved(problem: oc.Problem, solver: oc.AbstractSolver, start: jax.Array, guess=None) -> Prepared:
    """A whole solve, or one for each row of `start`."""

    arrays, functions = eqx.partition(problem, eqx.is_array)

    def solve(arrays, start: jax.Array, guess):
        found = oc.solve(eqx.combine(arrays, functions), start, guess, solver)
        return found.cost, found.iterations, found.status

    many = jax.vmap(solve, (None, 0, None)) if start.ndim == 2 else solve
    return compiled(many, arrays, start, guess, value=None)._replace(note=_note)


def _note(found) -> str:
    cost, iterations, status = map(np.atleast_1d, found)
    solved = f", {np.sum(status == oc.SolveStatus.SOLVED)} of {status.size} solved" if status.size > 1 else ""
    ending = "" if solved else f", {oc.SolveStatus(int(status[0])).name}"
    return f"cost {np.median(cost):.7g}, {np.median(iterations):g} iterations{solved or ending}"
