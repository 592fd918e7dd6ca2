"""The form on GPUs of a function of one state, or of a batch: one kernel, in which each thread computes a state."""

import weakref
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jax.interpreters import mlir
from jaxtyping import Array

from ._straight_line import StraightLine, Unsupported, line_of_program

# Compiling takes a time that grows with the square of the operations, and with the numbers that are read and written.
# With these limits it is sooner done than that of the dozens of kernels which take the place of one.
_LONGEST, _WIDEST = 16_000, 600
# Triton compiles in a time that is the product of the square of the operations with the number of reads and writes.
SHORT = 4000  # operations of kernels that read and write each array by itself; others have few arrays

_lines: weakref.WeakKeyDictionary[Jaxpr, StraightLine | None] = weakref.WeakKeyDictionary()


def with_known_constants(program: ClosedJaxpr) -> ClosedJaxpr:
    """The same program, in which constants that are known now are written where they are used."""
    pairs = zip(program.jaxpr.constvars, program.consts, strict=True)
    known = {x: Literal(np.asarray(value), x.aval) for x, value in pairs if _is_known(value)}
    if not known:
        return program

    def replaced(atoms: Sequence[Any]) -> list[Any]:
        return [x if isinstance(x, Literal) else known.get(x, x) for x in atoms]

    jaxpr = program.jaxpr.replace(
        constvars=[x for x in program.jaxpr.constvars if x not in known],
        eqns=[step.replace(invars=replaced(step.invars)) for step in program.jaxpr.eqns],
        outvars=replaced(program.jaxpr.outvars),
    )
    return ClosedJaxpr(jaxpr, [x for x in program.consts if not _is_known(x)])


def _is_known(x: Any) -> bool:
    return not isinstance(x, Tracer) and not jnp.issubdtype(jnp.result_type(x), jax.dtypes.extended)


def line_of(program: ClosedJaxpr) -> StraightLine | None:
    """The program as a straight line, or None if it cannot be one that is compiled within seconds."""
    if program.jaxpr not in _lines:
        _lines[program.jaxpr] = _line_of(program)
    return _lines[program.jaxpr]


def _line_of(program: ClosedJaxpr) -> StraightLine | None:
    wide = (sum(x.size for x in avals) > _WIDEST for avals in (program.in_avals, program.out_avals))
    if not program.in_avals or program.consts or any(wide):
        return None
    try:
        return line_of_program(program, _LONGEST)
    except Unsupported:
        return None


def may_be_kernel(context: mlir.LoweringRuleContext) -> bool:
    """Whether the program that is being compiled may hold kernels: not if it is exported, or spread over devices."""
    sharded = any(getattr(x, "vma", None) for x in context.avals_in)
    return not (is_spread(context) or sharded or context.module_context.lowering_parameters.for_export)


def is_spread(context: mlir.LoweringRuleContext) -> bool:
    """Whether XLA spreads the arrays of the program that is being compiled over several devices."""
    axes = context.module_context.axis_context
    return isinstance(axes, mlir.ShardingContext) and axes.num_devices > 1


def by_kernel(
    line: StraightLine, arguments: Sequence[Array], axes: Sequence[int | None], results: Sequence[int], size: int | None
) -> list[Array]:
    """The program of one state, or of a batch, which is where `axes` and `results` say."""
    rows = [
        jnp.broadcast_to(x, (size or 1, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        for x, axis in zip(arguments, axes, strict=True)
    ]
    found = run_as_kernel(line, rows)
    if size is None:
        return [x[0] for x in found]
    return [jnp.moveaxis(x, 0, axis) for x, axis in zip(found, results, strict=True)]


def run_as_kernel(
    line: StraightLine, leaves: Sequence[Array], *, short: int = SHORT, interpret: bool = False
) -> list[Array]:
    """Results of a batch of states, leaf by leaf, by a kernel. `interpret`: without a GPU. `short`: see `SHORT`."""
    from ._triton import run  # what it needs of JAX is not there on every platform

    return run(line, leaves, together=len(line.operations) > short, interpret=interpret)
