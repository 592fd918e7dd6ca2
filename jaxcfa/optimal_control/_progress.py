"""Showing the progress of a solver in the terminal."""

import sys

import jax
from jaxtyping import Array


def report(iteration: Array, total: int, cost: Array, violation: Array, stationarity: Array) -> None:
    """One line that is written over by the next, from within a compiled loop."""

    def show(i, cost, violation, stationarity) -> None:
        text = f"iteration {int(i) + 1:4d} of {total}: cost {float(cost):.6g}, violation {float(violation):.1e}"
        sys.stderr.write(f"\r{text}, stationarity {float(stationarity):.1e} ")
        sys.stderr.flush()

    jax.debug.callback(show, iteration, cost, violation, stationarity)
