"""Writes docs/accuracy.md: errors of forward dynamics by method, number of links, precision and kind of chain.

python -m benchmarks.accuracy
"""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import typer
from rich.progress import track

import jaxcfa
from jaxcfa import Model

from . import methods
from .methods import Function
from .quantities import mass_matrix
from .report import table

SIZES = (16, 64, 256, 1024)
DTYPES = ("float64", "float32")
STATES = 4
REFERENCE = "ABA"  # sequential, in float64

_INTRODUCTION = f"""\
# Accuracy of forward dynamics

Written by `python -m benchmarks.accuracy`; not to be edited by hand.

Errors of the joint accelerations of chains of revolute joints (rods of 1 kg and 0.1 m): the largest error relative to
the largest acceleration, the worst of {STATES} states. Torques are normally distributed, with a deviation of 1 N m, and
gravity acts. Velocities are normally distributed with a deviation of 1/sqrt(n) rad/s, so that the last link turns at
about 1 rad/s, except where the chain is at rest.

The reference is sequential `{REFERENCE}` in float64, at the same states: those of float32 are rounded first, so that
only errors of the computation are left. In float64 the row of `{REFERENCE}` itself is a round trip instead: its
accelerations, through inverse dynamics in float64 and back, against themselves. This is what the reference can be
trusted to, and errors of the other methods in float64 are not known better than that.

The first row has the condition number of the mass matrix, the largest of the states. The rows `mass matrix` are the
textbook's way: the matrix is formed, and factorised by Cholesky's method. `nan` means that a method finds it singular
to the precision.
"""
# Its matrix has the square of six times the links: gigabytes.
_TOO_LARGE = "CFA dense"


class Kind(NamedTuple):
    """A kind of chain: its axes, the spread of its joint angles [rad], and whether it moves."""

    random_axes: bool
    angles: float
    moving: bool


KINDS = {
    "random axes, random angles": Kind(True, np.pi, True),
    "planar, random angles": Kind(False, np.pi, True),
    "straight, all angles zero, at rest": Kind(True, 0.0, False),
    "planar and nearly straight": Kind(False, 0.05, True),
}


class States(NamedTuple):
    """Batches (b, n) of configurations, velocities and torques."""

    q: jax.Array
    v: jax.Array
    tau: jax.Array


def problem(kind: Kind, n: int) -> tuple[Model, States]:
    """A chain and its states, in float64."""
    rng = np.random.default_rng(n)
    axes = rng.normal(size=(n, 3)) if kind.random_axes else np.tile([0.0, 1.0, 0.0], (n, 1))
    shape = STATES, n
    q = rng.uniform(-kind.angles, kind.angles, shape)
    v = rng.normal(size=shape) / np.sqrt(n) * kind.moving
    return jaxcfa.chain(n, axes=axes), States(*map(jnp.asarray, (q, v, rng.normal(size=shape))))


def evaluate(function: Function, model: Model, q: jax.Array, v: jax.Array, x: jax.Array) -> np.ndarray:
    """A function of one state on all states."""
    return np.asarray(_batched(function)(model, q, v, x), dtype=np.float64)


@functools.cache
def _batched(function: Function) -> Function:
    """One compiled function for all kinds of chains, which differ in numbers only."""
    return jax.jit(jax.vmap(function, (None, 0, 0, 0)))


def round_trip(model: Model, states: States) -> float:
    """Error of the reference: accelerations against themselves, through inverse dynamics and back."""
    function = methods.FORWARD[REFERENCE]
    qdd = evaluate(function, model, *states)
    tau = evaluate(jaxcfa.inverse_dynamics, model, states.q, states.v, qdd)
    return error(evaluate(function, model, states.q, states.v, tau), qdd)


def errors(kind: Kind, n: int, names: list[str]) -> Iterator[tuple[tuple[str, str], str]]:
    """Errors of the named methods, by method and precision."""
    model, exact = problem(kind, n)
    condition = np.linalg.cond(evaluate(mass_matrix, model, *exact))
    yield ("condition number", ""), f"{condition.max():.0e}"
    for dtype in DTYPES:
        cast, states = model.astype(dtype), States(*(x.astype(dtype) for x in exact))
        rounded = cast.astype(np.float64), States(*(x.astype(np.float64) for x in states))
        reference = evaluate(methods.FORWARD[REFERENCE], rounded[0], *rounded[1])
        for name in names:
            if name == REFERENCE and dtype == "float64":
                yield (f"{name}, round trip", dtype), f"{round_trip(model, exact):.0e}"
            else:
                yield (name, dtype), attempt(methods.FORWARD[name], cast, states, reference)


def attempt(function: Function, model: Model, states: States, reference: np.ndarray) -> str:
    """The error as text, or that there is no result."""
    try:
        return f"{error(evaluate(function, model, *states), reference):.0e}"
    except Exception as failure:  # a method may refuse a model, or need too much memory
        return f"fails: {type(failure).__name__}"


def error(value: np.ndarray, reference: np.ndarray) -> float:
    """Largest error relative to the largest entry of the reference, for the worst state."""
    return float(np.max(np.max(np.abs(value - reference), axis=-1) / np.max(np.abs(reference), axis=-1)))


def main(
    output: Annotated[Path, typer.Option(help="The file to write.")] = Path("docs/accuracy.md"),
    size: Annotated[list[int] | None, typer.Option(min=1, help="Numbers of links.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="Names of methods; all but CFA dense by default.")] = None,
) -> None:
    """Measure the errors of all methods, and write the tables."""
    jax.config.update("jax_enable_x64", True)
    sizes, names = size or list(SIZES), method or [name for name in methods.FORWARD if name != _TOO_LARGE]
    columns = [(name, n) for n in sizes for name in KINDS]
    cells = {(name, n): dict(errors(KINDS[name], n, names)) for name, n in track(columns, "Accuracy")}
    lines = [_INTRODUCTION]
    for name in KINDS:
        rows = [[*row, *(cells[name, n][row] for n in sizes)] for row in cells[name, sizes[0]]]
        lines += [f"## {name.capitalize()}", "", *table(["method", "precision", *map(str, sizes)], rows), ""]
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    typer.run(main)
