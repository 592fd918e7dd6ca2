"""Sweeps over a tree that is known while tracing, without a loop: for accelerators (see `backend.py`).

Every node finds its parent's value by its number, so there are no registers and no branches.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import PyTree

from ..backend import LoopForm
from ..numerics import add
from ._tree_schedule import TreeSchedule

Value = TypeVar("Value")
Data = TypeVar("Data")
Output = TypeVar("Output")
Step = Callable[[Value, Data], tuple[Value, Output]]


def outward(schedule: TreeSchedule, step: Step, base: Value, segments: Sequence[Data], form: LoopForm) -> list[Output]:
    """`_tree_sweep.outward`."""
    parents, run, outputs = schedule.parents, jax.jit(step, inline=form.inline), []
    values = {-1: base}
    for data, nodes in _with_nodes(schedule, segments):
        found = []
        for i, node in enumerate(nodes):
            values[node], output = _fenced(run(values[int(parents[node])], _at(data, i)), form, i)
            found.append(output)
        outputs.append(_stacked(found))
    return outputs


def inward(schedule: TreeSchedule, step: Step, zero: Value, segments: Sequence[Data], form: LoopForm) -> list[Output]:
    """`_tree_sweep.inward`."""
    parents, run, outputs = schedule.parents, jax.jit(step, inline=form.inline), []
    totals: dict[int, Any] = {}
    for data, nodes in reversed(list(_with_nodes(schedule, segments))):
        found = []
        for i, node in reversed(list(enumerate(nodes))):
            message, output = _fenced(run(totals.pop(node, zero), _at(data, i)), form, i)
            parent = int(parents[node])
            totals[parent] = add(totals[parent], message) if parent in totals else message
            found.append(output)
        outputs.append(_stacked(found[::-1]))
    return outputs[::-1]


def _with_nodes(schedule: TreeSchedule, segments: Sequence[Data]) -> Iterator[tuple[Data, list[int]]]:
    visits, start = schedule.visits.tolist(), 0
    for data in segments:
        stop = start + len(jax.tree.leaves(data)[0])
        yield data, visits[start:stop]
        start = stop


def _at(data: Data, i: int) -> Data:
    return jax.tree.map(lambda x: x[i], data)


def _fenced(results: PyTree, form: LoopForm, i: int) -> PyTree:
    return fenced(results, form) if form.fence and (i + 1) % form.fence == 0 else results


def fenced(results: PyTree, form: LoopForm) -> PyTree:
    """The same, as arrays that the compiler does not fuse further."""
    if form.fence_together:
        return lax.optimization_barrier(results)
    return jax.tree.map(lax.optimization_barrier, results)


def _stacked(outputs: list[Output]) -> Output:
    return jax.tree.map(lambda *x: jnp.stack(x), *outputs)
