"""Optimal control: whole solves beside crocoddyl and ipopt, and a batch of starts.

crocoddyl and casadi live in an environment of their own, which `make bench` makes from requirements/control.txt, since
crocoddyl needs an older Pinocchio than the rest. `JAXCFA_BENCH_PYTHON` is the path of that Python.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxcfa
from jaxcfa import optimal_control as oc

from .case import OWN, Case, Contestant, Prepared
from .contestant import ONE_FUNCTION, compiled, in_two_processes
from .peers.other_python import cart_pole_step, displacements, other_python
from .robots import example_robot, load
from .settings import Settings

TITLE = "Optimal control: reaching with an arm, swinging up a cart-pole"
STEPS, STARTS = 100, 64
_DTYPE = "float64"
_KINOVA = "kinova_description/robots/kinova.urdf"
_ARM_UP = (1.5707, 2.618, -1.5707, 3.1415, 2.618, 0.0)
# Each as JAX compiles it, or as one function.
_SOLVERS = {
    "MultipleShooting": (oc.MultipleShooting(), False),
    "FDDP": (oc.FDDP(), False),
    f"MultipleShooting, {ONE_FUNCTION}": (oc.MultipleShooting(), True),
}
_MIXED = {
    "MultipleShooting, first in float32": (oc.MixedPrecision(oc.MultipleShooting()), False),
    "FDDP, first in float32": (oc.MixedPrecision(oc.FDDP()), False),
}


def reach(steps: int, dtype: str) -> tuple[oc.Problem, jax.Array]:
    """The Kinova arm moves its hand to a pose: crocoddyl's example, and its start."""
    model = load(example_robot(_KINOVA)).astype(dtype)
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


def cart_pole(steps: int, dtype: str) -> tuple[oc.Problem, jax.Array, tuple[jax.Array, jax.Array]]:
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


def cases(settings: Settings) -> list[Case]:
    label = f"T = {STEPS}"
    if settings.smoke:
        return []
    return [
        Case("reach a pose", label, _one_start()),
        *(
            Case(f"reach a pose from {STARTS} starts", label, _many_starts(dtype), dtype=dtype, batch=STARTS)
            for dtype in ("float64", "float32")
        ),
        Case("swing up a cart-pole", label, _cart_pole()),
        Case("reach a pose for the first time", label, _first_time(), fresh=True),
    ]


def _one_start() -> list[Contestant]:
    solved = {name: partial(_reached, *way) for name, way in _SOLVERS.items()}
    return [*in_two_processes(solved), Contestant("crocoddyl", partial(other_python, "reach", str(STEPS)), "crocoddyl")]


def _first_time() -> list[Contestant]:
    """With nothing beside, from the start of Python; crocoddyl compiles nothing."""
    solvers = _SOLVERS | _MIXED
    return [Contestant(name, partial(_reached, *way), f"{OWN} solving") for name, way in solvers.items()]


def _reached(solver: oc.AbstractSolver, one_function: bool) -> Prepared:
    problem, start = reach(STEPS, _DTYPE)
    return _solved(problem, solver, start, one_function=one_function)


def _many_starts(dtype: str) -> list[Contestant]:
    """Theirs (crocoddyl) has double precision alone, and takes one start after the other."""
    solvers = _SOLVERS | (_MIXED if dtype == "float64" else {})
    solved = {name: partial(_reached_by_all, dtype, *way) for name, way in solvers.items()}
    return [*in_two_processes(solved), Contestant("crocoddyl", _reached_by_all_there, "crocoddyl", reference=True)]


def _reached_by_all(dtype: str, solver: oc.AbstractSolver, one_function: bool) -> Prepared:
    problem, start = reach(STEPS, dtype)
    starts = start + jnp.asarray(displacements(STARTS, start.size), dtype)
    return _solved(problem, solver, starts, one_function=one_function)._replace(value=lambda found: found[0])


def _reached_by_all_there() -> Prepared:
    prepared = other_python("reach", f"{STEPS}/{STARTS}")
    return prepared._replace(value=lambda found: np.asarray(found["costs"]))


def _cart_pole() -> list[Contestant]:
    return [
        Contestant("MultipleShooting", _swung_up),
        Contestant("ipopt", partial(other_python, "cart_pole", str(STEPS)), "ipopt"),
    ]


def _swung_up() -> Prepared:
    problem, start, guess = cart_pole(STEPS, _DTYPE)
    return _solved(problem, oc.MultipleShooting(), start, guess)


def _solved(
    problem: oc.Problem, solver: oc.AbstractSolver, start: jax.Array, guess=None, one_function: bool = False
) -> Prepared:
    """A whole solve, or one for each row of `start`: side by side, or, as one function, one after the other."""

    arrays, functions = eqx.partition(problem, eqx.is_array)

    def solve(arrays, start: jax.Array, guess):
        found = oc.solve(eqx.combine(arrays, functions), start, guess, solver)
        return found.cost, found.iterations, found.status

    def in_turn(arrays, starts: jax.Array, guess):
        return lax.map(lambda start: solve(arrays, start, guess), starts)

    together = in_turn if one_function else jax.vmap(solve, (None, 0, None))
    jit = jaxcfa.low_latency if one_function else jax.jit
    many = together if start.ndim == 2 else solve
    return compiled(many, arrays, start, guess, value=None, jit=jit)._replace(note=note)


def note(found) -> str:
    """Cost, iterations and status of one solution, or what they are for several."""
    cost, iterations, status = map(np.atleast_1d, found)
    solved = f", {np.sum(status == oc.SolveStatus.SOLVED)} of {status.size} solved" if status.size > 1 else ""
    ending = "" if solved else f", {oc.SolveStatus(int(status[0])).name}"
    return f"cost {np.median(cost):.7g}, {np.median(iterations):g} iterations{solved or ending}"
