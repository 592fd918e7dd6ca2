"""Sequential sweeps over a tree: from the root to the leaves and back.

The traced program is one loop body, whatever the tree, with a few operations for each register that it needs. Nodes
come in *segments*, runs of consecutive visits whose data have equal shapes; each segment is one `lax.scan`. Its carry
is the value of the visit before; registers are read and written inside `lax.cond`, whose predicate no `vmap` batches,
so that branches cost something only where there are any. That is for CPUs; for accelerators sweeps over few nodes are
written out, and longer loops do several visits at a time, without branches (`backend.py`).
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import PyTree

from .. import backend
from ..numerics import add
from . import _written_sweep
from ._tree_schedule import TreeSchedule

Value = TypeVar("Value")
Data = TypeVar("Data")
Output = TypeVar("Output")


def sweep_outward(
    schedule: TreeSchedule,
    step: Callable[[Value, Data], tuple[Value, Output]],
    base: Value,
    segments: Sequence[Data],
) -> list[Output]:
    """Root to leaves: `value[i], output[i] = step(value[parent[i]], data[i])`, with `base` as the roots' parent.

    **Arguments:** `segments`: pytrees of arrays whose leading axes are consecutive runs of the nodes. With a
    schedule that reorders the nodes there must be one segment only.

    **Returns:** the stacked outputs of every segment, in the order of the nodes.
    """
    return _in_order_of_nodes(schedule, outward(schedule, step, base, _in_order_of_visit(schedule, segments)))


def sweep_inward(
    schedule: TreeSchedule,
    step: Callable[[Value, Data], tuple[Value, Output]],
    zero: Value,
    segments: Sequence[Data],
) -> list[Output]:
    """Leaves to root: `message[i], output[i] = step(sum of message[children of i], data[i])`; sums start at `zero`.

    Arguments and returns as for `sweep_outward`, of which this is the transpose.
    """
    return _in_order_of_nodes(schedule, inward(schedule, step, zero, _in_order_of_visit(schedule, segments)))


def outward(
    schedule: TreeSchedule,
    step: Callable[[Value, Data], tuple[Value, Output]],
    base: Value,
    segments: Sequence[Data],
) -> list[Output]:
    """`sweep_outward` of segments in order of visit, in which its outputs come, too."""
    form = backend.loop_form()
    if 0 < len(schedule.parents) <= form.written_out:
        return _written_sweep.outward(schedule, step, base, segments, form)

    def visit(state, x):
        (value, registers), (branch, data) = state, x
        if branch is not None:
            value = _where(branch["begins"], lambda v, r: _read(r, branch["source"]), lambda v, r: v, value, registers)
        value, output = step(value, data)
        if branch is not None:
            registers = _where(
                branch["keeps"], lambda v, r: _write(r, branch["target"], v), lambda v, r: r, value, registers
            )
        return (value, registers), output

    state, outputs, start = (base, (base,) * schedule.registers), [], 0
    for data in segments:
        branches = _branches(schedule, start, _length(data))
        state, output = _scan(visit, state, (branches, data), reverse=False)
        outputs.append(output)
        start += _length(data)
    return outputs


def inward(
    schedule: TreeSchedule,
    step: Callable[[Value, Data], tuple[Value, Output]],
    zero: Value,
    segments: Sequence[Data],
) -> list[Output]:
    """`sweep_inward` of segments in order of visit, in which its outputs come, too."""
    form = backend.loop_form()
    if 0 < len(schedule.parents) <= form.written_out:
        return _written_sweep.inward(schedule, step, zero, segments, form)

    def visit(state, x):
        (total, registers), (branch, data) = state, x
        if branch is None:
            message, output = step(total, data)
            return (message, registers), output

        def collect(total, registers):
            return add(total, _read(registers, branch["target"])), _write(registers, branch["target"], zero)

        def deliver(message, registers):
            at = branch["source"]
            return zero, _write(registers, at, add(_read(registers, at), message))

        total, registers = _where(branch["keeps"], collect, lambda t, r: (t, r), total, registers)
        message, output = step(total, data)
        return _where(branch["begins"], deliver, lambda m, r: (m, r), message, registers), output

    state, outputs, stop = (zero, (zero,) * schedule.registers), [], len(schedule.parents)
    for data in reversed(segments):
        stop -= _length(data)
        branches = _branches(schedule, stop, _length(data))
        state, output = _scan(visit, state, (branches, data), reverse=True)
        outputs.append(output)
    return outputs[::-1]


def _length(data: PyTree) -> int:
    return jax.tree.leaves(data)[0].shape[0]


def _branches(schedule: TreeSchedule, start: int, size: int) -> dict[str, np.ndarray] | None:
    """What visits do with registers; `None`, an empty pytree, where no path begins."""
    if not schedule.registers:
        return None
    names = ("begins", "source", "keeps", "target")
    return {name: getattr(schedule, name)[start : start + size] for name in names}


def _where(condition, then: Callable, otherwise: Callable, *operands):
    """One of two functions, that which is known to be called while tracing being left out."""
    if not isinstance(condition, jax.core.Tracer):
        return (then if condition else otherwise)(*operands)
    if backend.loop_form().branches:
        return lax.cond(condition, then, otherwise, *operands)
    return _choose(condition, then(*operands), otherwise(*operands))


def _read(registers: tuple[Value, ...], index: ArrayLike) -> Value:
    """The value of a register, of which robots need one, and other trees hardly ever more than three.

    So they are not one array, at whose index `vmap` would make gathers and scatters.
    """
    found, *others = registers
    for k, other in enumerate(others, 1):
        found = _choose(index == k, other, found)
    return found


def _write(registers: tuple[Value, ...], index: ArrayLike, value: Value) -> tuple[Value, ...]:
    if len(registers) == 1:
        return (value,)
    return tuple(_choose(index == k, value, old) for k, old in enumerate(registers))


def _choose(condition, one: Value, other: Value) -> Value:
    if not isinstance(condition, jax.core.Tracer):
        return one if condition else other
    return jax.tree.map(lambda x, y: lax.select(condition, x, y), one, other)


def _scan(visit, state, xs, reverse: bool):
    if _length(xs) == 1:
        branches, data = xs  # the former known while tracing
        only = jax.tree.map(lambda x: x[0], branches), jax.tree.map(lambda x: lax.squeeze(x, [0]), data)
        state, output = visit(state, only)
        return state, jax.tree.map(lambda x: x[None], output)
    form = backend.loop_form()
    if form.unroll == 1:
        return lax.scan(visit, state, xs, reverse=reverse)

    def fenced(state, x):
        return _written_sweep.fenced(visit(state, x), form)

    return lax.scan(fenced if form.fence == 1 else visit, state, xs, reverse=reverse, unroll=form.unroll)


def _in_order_of_visit(schedule: TreeSchedule, segments: Sequence[Data]) -> Sequence[Data]:
    if schedule.order is None:
        return segments
    if len(segments) != 1:
        raise ValueError(f"A schedule that reorders the nodes takes one segment, got {len(segments)}.")
    return [jax.tree.map(lambda x: x[schedule.order], segments[0])]


def _in_order_of_nodes(schedule: TreeSchedule, outputs: list[Output]) -> list[Output]:
    if schedule.order is None:
        return outputs
    return [jax.tree.map(lambda x: x[schedule.inverse_order], outputs[0])]
