"""Many small problems of optimal control from rest and without a guess: which ones solvers find their way in.

ipopt (by casadi, with exact Hessians) needs `JAXCFA_BENCH_PYTHON`, as in `optimal_control.py`.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxcfa import optimal_control as oc

from .case import Case, Contestant, Prepared
from .contestant import compiled
from .control_collection import COLLECTION, ControlProblem
from .optimal_control import note
from .peers.other_python import other_python
from .settings import Settings

TITLE = "Small problems of optimal control, without a guess; times mean something where both are solved"
_DTYPE = np.dtype("float64")


def cases(settings: Settings) -> list[Case]:
    if settings.smoke:
        return []
    return [
        Case(family, name, _contestants(family, name), later=1)
        for family, problems in COLLECTION.items()
        for name in problems
    ]


def _contestants(family: str, name: str) -> list[Contestant]:
    return [
        Contestant("MultipleShooting", partial(_solved, COLLECTION[family][name])),
        Contestant("ipopt", partial(other_python, "collection", f"{family}/{name}"), "ipopt"),
    ]


def _solved(posed: ControlProblem) -> Prepared:
    problem = built(posed)

    def solve(start: jax.Array):
        found = oc.solve(problem, start)
        return found.cost, found.iterations, found.status

    return compiled(solve, jnp.asarray(posed.start, _DTYPE), value=None)._replace(note=note)


def built(posed: ControlProblem) -> oc.Problem:
    """In terms of this package."""
    n, m, steps = len(posed.start), len(posed.lower), posed.steps

    def entries(indices: list[int], values: list[float]):
        chosen, wanted = np.array(indices), np.array(values, _DTYPE)
        return lambda stage: stage.x[chosen] - wanted

    def rows(function):
        return lambda stage: jnp.stack(function(list(stage.x), jnp))

    dynamics = oc.FunctionDynamics(lambda x, u, t: jnp.stack(posed.step(list(x), list(u), jnp)), n, m)
    costs, final, along, at_end = [], [], [], []
    if posed.effort:
        rest = np.array(posed.rest or (0,) * m, _DTYPE)
        costs.append(oc.Cost(lambda stage: stage.u - rest, jnp.array(posed.effort, _DTYPE)))
    if posed.states:
        costs.append(oc.Cost(lambda stage: stage.x, jnp.array(posed.states, _DTYPE)))
    if posed.final is not None:
        final.append(oc.SmoothCost(lambda stage: posed.final(list(stage.x))))
    if np.isfinite(posed.lower).any():
        along.append(oc.Bounds(oc.Control(), jnp.array(posed.lower, _DTYPE), jnp.array(posed.upper, _DTYPE)))
    if bounds := posed.bounds():
        chosen, low, high = (list(x) for x in zip(*bounds, strict=True))
        term = entries(chosen, [0.0] * len(chosen))
        low, high = jnp.array(low, _DTYPE), jnp.array(high, _DTYPE)
        along.append(oc.Bounds(term, low, high, during=(1, None)))
        at_end.append(oc.Bounds(term, low, high))
    if posed.outside is not None:
        along.append(oc.Bounds(rows(posed.outside), -jnp.inf, 0.0))
    if posed.free:
        given = [i for i in range(n) if i not in posed.free]
        along.append(oc.Equality(entries(given, [posed.start[i] for i in given]), during=(0, 1)))
    if ends := posed.ends():
        at_end.append(oc.Equality(entries(*(list(x) for x in zip(*ends, strict=True)))))
    if posed.reached is not None:
        at_end.append(oc.Equality(rows(posed.reached)))
    return oc.Problem(dynamics, steps, costs, final, along, at_end, start="free" if posed.free else "given")
