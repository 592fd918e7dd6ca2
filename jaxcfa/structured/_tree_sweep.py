"""Sequential sweeps over a tree: from the root to the leaves and back.

The traced program is one loop body, whatever the tree. Nodes come in *segments*, runs of consecutive nodes whose
data have equal shapes; each segment is one `lax.scan`.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

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
    segments = _in_order_of_visit(schedule, segments)

    def visit(registers, x):
        source, target, data = x
        value, output = step(_read(registers, source), data)
        return _write(registers, target, value), output

    state, outputs, start = _fill(schedule, base), [], 0
    for data in segments:
        size = _length(data)
        state, output = _scan(visit, state, (*_registers(schedule, start, size), data), reverse=False)
        outputs.append(output)
        start += size
    return _in_order_of_nodes(schedule, outputs)


def sweep_inward(
    schedule: TreeSchedule,
    step: Callable[[Value, Data], tuple[Value, Output]],
    zero: Value,
    segments: Sequence[Data],
) -> list[Output]:
    """Leaves to root: `message[i], output[i] = step(sum of message[children of i], data[i])`; sums start at `zero`.

    Arguments and returns as for `sweep_outward`, of which this is the transpose.
    """
    segments = _in_order_of_visit(schedule, segments)

    def visit(registers, x):
        source, target, data = x
        message, output = step(_read(registers, target), data)
        registers = _write(registers, target, zero)
        total = jax.tree.map(jnp.add, _read(registers, source), message)
        return _write(registers, source, total), output

    state, outputs, stop = _fill(schedule, zero), [], len(schedule.parents)
    for data in reversed(segments):
        size = _length(data)
        stop -= size
        state, output = _scan(visit, state, (*_registers(schedule, stop, size), data), reverse=True)
        outputs.append(output)
    return _in_order_of_nodes(schedule, outputs[::-1])


def _length(data: PyTree[Array]) -> int:
    return jax.tree.leaves(data)[0].shape[0]


def _registers(schedule: TreeSchedule, start: int, size: int):
    """Register numbers of a run of visits; `None`, an empty pytree, where there is just one register."""
    if schedule.registers == 1:
        return None, None
    stop = start + size
    return jnp.asarray(schedule.source[start:stop]), jnp.asarray(schedule.target[start:stop])


def _fill(schedule: TreeSchedule, value: PyTree[Array]) -> PyTree[Array]:
    if schedule.registers == 1:
        return value
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (schedule.registers, *x.shape)), value)


def _read(registers: PyTree[Array], index: Array | None) -> PyTree[Array]:
    if index is None:
        return registers
    return jax.tree.map(lambda r: lax.dynamic_index_in_dim(r, index, keepdims=False), registers)


def _write(registers: PyTree[Array], index: Array | None, value: PyTree[Array]) -> PyTree[Array]:
    if index is None:
        return value
    return jax.tree.map(lambda r, x: lax.dynamic_update_index_in_dim(r, x, index, 0), registers, value)


def _scan(visit, state, xs, reverse: bool):
    if _length(xs) == 1:
        state, output = visit(state, jax.tree.map(lambda x: x[0], xs))
        return state, jax.tree.map(lambda x: x[None], output)
    return lax.scan(visit, state, xs, reverse=reverse)


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
