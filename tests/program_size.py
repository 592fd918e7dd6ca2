"""Measures of traced programs: what must not grow with the size of the problem.

Of programs for CPUs, wherever the tests run: on accelerators loops are written out (`jaxcfa/backend.py`).
"""

import jax
from jax.extend.core import Jaxpr
from jax.interpreters import partial_eval as pe

import jaxcfa


def equations(function, *arguments) -> int:
    """Number of equations of the traced function, those of loop bodies counted once."""
    return _equations(_traced(function, arguments))


def loop_trips(function, *arguments) -> int:
    """Number of loop iterations that the traced function does one after the other."""
    return _trips(_traced(function, arguments))


def matrix_products(jaxpr: Jaxpr) -> list:
    """The products (`dot_general`) in a traced function and in all that it calls, also for its derivatives only."""
    own = [equation for equation in jaxpr.eqns if equation.primitive.name == "dot_general"]
    called = [x for equation in jaxpr.eqns for inner in _called(equation.params) for x in matrix_products(inner)]
    return own + called


def _traced(function, arguments) -> Jaxpr:
    with jaxcfa.compiling_for("cpu"):
        return jax.make_jaxpr(function)(*arguments).jaxpr


def _equations(jaxpr: Jaxpr) -> int:
    return sum(1 + sum(_equations(inner) for inner in _inner(equation)) for equation in jaxpr.eqns)


def _trips(jaxpr: Jaxpr) -> int:
    total = 0
    for equation in jaxpr.eqns:
        inner = sum(_trips(x) for x in _inner(equation))
        total += equation.params["length"] * max(inner, 1) if equation.primitive.name == "scan" else inner
    return total


def _inner(equation) -> list[Jaxpr]:
    # Besides the solution, such an equation has functions that only its derivatives use.
    linear_solve = equation.primitive.name == "custom_linear_solve"
    return _called(equation.params["jaxprs"].solve if linear_solve else equation.params)


def _called(params) -> list[Jaxpr]:
    leaves = jax.tree.leaves(params, is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr"))
    return [getattr(x, "jaxpr", x) for x in leaves if hasattr(x, "eqns") or hasattr(x, "jaxpr")]


def sweeps(function, n: int, *arguments) -> int:
    """Number of loops over n bodies in the traced function, after what no result depends on has been removed."""
    traced = _traced(function, arguments)
    used, _ = pe.dce_jaxpr(traced, [True] * len(traced.outvars), instantiate=True)
    return _sweeps(used, n)


def _sweeps(jaxpr: Jaxpr, n: int) -> int:
    own = sum(equation.primitive.name == "scan" and equation.params["length"] == n for equation in jaxpr.eqns)
    return own + sum(_sweeps(x, n) for equation in jaxpr.eqns for x in _inner(equation))
