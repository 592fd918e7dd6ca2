"""Smooth problems of optimal control without constraints, beside diffilqrax, and what an iteration takes by length."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxcfa import optimal_control as oc
from jaxcfa.structured import AbstractStageSolver, Chunked, Doubling, LinearQuadratic, Riccati

from .case import Case, Contestant, Prepared
from .contestant import compiled, in_two_processes
from .peers import diffilqrax
from .pendulum import Pendulum
from .settings import Settings

TITLE = "Optimal control without constraints: linear-quadratic problems, a pendulum, iterations by length"
LENGTHS = (10, 100, 1000, 10_000)
STEPS, STARTS = 100, 64
_PEER = "diffilqrax"
_STAGE_SOLVERS = {"Riccati": Riccati(), "Doubling": Riccati(Doubling()), "Chunked": Riccati(Chunked())}
_SOLVERS = {"MultipleShooting": oc.MultipleShooting(), "FDDP": oc.FDDP()}
# Five iterations, whatever they reach. With linear steps nothing but the schedule follows the stages one by one.
_ITERATIONS = 5
_ITERATING = {
    "Riccati, simulated": oc.MultipleShooting(_ITERATIONS, 1e-300),
    **{
        f"{name}, linear": oc.MultipleShooting(_ITERATIONS, 1e-300, schedule=stages, steps="linear")
        for name, stages in _STAGE_SOLVERS.items()
        if name != "Doubling"
    },
}


def cases(settings: Settings) -> list[Case]:
    if settings.smoke:
        return [Case("linear-quadratic problem", "4", _stage_solvers(4)[:1], 4)]
    starts = {f"T = {STEPS}": None, f"T = {STEPS}, {STARTS} starts": STARTS}
    return [
        *(Case("swing up a pendulum", label, _swings(n, False), batch=n or 1) for label, n in starts.items()),
        *(Case("gradient of the swing-up", label, _swings(n, True), batch=n or 1) for label, n in starts.items()),
        *(Case("linear-quadratic problem", str(length), _stage_solvers(length), length) for length in LENGTHS),
        *(Case("five iterations", str(length), _iterations(length), length) for length in LENGTHS),
    ]


def linear_quadratic(length: int, n: int = 12, m: int = 6):
    """A random problem, stable without control, and its linear terms."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal((length, n, k)) for k in (n, m, 1))
    a = 0.95 * a / np.linalg.norm(a, 2, axis=(1, 2), keepdims=True)
    q, r = np.broadcast_to(np.eye(n), (length + 1, n, n)), np.broadcast_to(np.eye(m), (length, m, m))
    problem = LinearQuadratic(*(jnp.asarray(x) for x in (a, b, q, r)))
    return problem, problem.terms(offsets=jnp.asarray(c[..., 0]), start=jnp.ones(n))


def _of_peer(prepare) -> list[Contestant]:
    """In sequence, and by scans, which compile so long for many stages that their process may be stopped."""
    return [Contestant(name, partial(prepare, parallel=name != _PEER), name) for name in (_PEER, f"{_PEER}, parallel")]


def _stage_solvers(length: int) -> list[Contestant]:
    own = in_two_processes({name: partial(_stages, length, solver) for name, solver in _STAGE_SOLVERS.items()})
    return own + _of_peer(lambda parallel: diffilqrax.linear_quadratic(*linear_quadratic(length), parallel))


def _stages(length: int, solver: AbstractStageSolver) -> Prepared:
    problem, terms = linear_quadratic(length)
    return compiled(lambda p, t: p.solve(t, solver).states, problem, terms)


def _swings(number: int | None, slopes: bool) -> list[Contestant]:
    pendulum = Pendulum(STEPS)
    own = {name: partial(_swung_up, pendulum, solver, number, slopes) for name, solver in _SOLVERS.items()}
    peer = partial(diffilqrax.swung_up, pendulum, number, slopes=slopes)
    contestants = in_two_processes(own) + _of_peer(peer)
    return [x._replace(prepare=partial(_described, x.prepare, slopes)) for x in contestants]


def _described(prepare, slopes: bool) -> Prepared:
    """Derivatives are compared, costs told."""
    prepared = prepare()
    return prepared if slopes else prepared._replace(value=lambda found: np.atleast_1d(found[0]), note=_note)


def _note(found) -> str:
    cost, iterations, solved = map(np.atleast_1d, found)
    return f"cost {np.median(cost):.9g}, {np.median(iterations):g} iterations, {np.sum(solved)} of {solved.size} solved"


def _problem(pendulum: Pendulum, parameters: jax.Array) -> oc.Problem:
    return oc.Problem(
        oc.FunctionDynamics(lambda x, u, t: pendulum.step(x, u, parameters), 2, 1),
        pendulum.steps,
        [oc.SmoothCost(lambda stage: pendulum.cost(stage.u))],
        [oc.SmoothCost(lambda stage: pendulum.final_cost(stage.x))],
    )


def _swung_up(pendulum: Pendulum, solver: oc.AbstractSolver, number: int | None, slopes: bool) -> Prepared:
    def solve(start: jax.Array, parameters: jax.Array):
        found = oc.solve(_problem(pendulum, parameters), start, None, solver)
        return found.cost, found.iterations, found.status == oc.SolveStatus.SOLVED

    def used(parameters: jax.Array, start: jax.Array) -> jax.Array:
        found = oc.solve(_problem(pendulum, parameters), start, None, solver)
        return pendulum.used(found.states, found.controls)

    function = (lambda start, parameters: jax.grad(used)(parameters, start)) if slopes else solve
    starts = pendulum.starts(number)
    return compiled(function if number is None else jax.vmap(function, (0, None)), starts, pendulum.parameters)


def _iterations(length: int) -> list[Contestant]:
    return in_two_processes({name: partial(_iterated, length, solver) for name, solver in _ITERATING.items()})


def _iterated(length: int, solver: oc.MultipleShooting) -> Prepared:
    pendulum = Pendulum(length, dt=5.0 / length)

    def solve(start: jax.Array, parameters: jax.Array):
        found = oc.solve(_problem(pendulum, parameters), start, None, solver)
        return found.cost, found.iterations

    return compiled(
        solve,
        pendulum.starts(None),
        pendulum.parameters,
        value=None,
    )._replace(note=lambda found: f"{found[1]} iterations, cost {found[0]:.4g}")
