"""What JAX has no public name for, or what differs by its version; no other module takes anything from `jax._src`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

# Whether nothing is being traced: what users call by itself is compiled as a program of its own.
from jax._src.core import trace_ctx, trace_state_clean as trace_state_clean

# Makes the constants of a program its first arguments: as a parameter of a primitive it holds no arrays.
from jax._src.interpreters.partial_eval import (
    DynamicJaxprTrace,
    convert_constvars_jaxpr as convert_constvars_jaxpr,
)

# Whether XLA has read its options from the environment already.
from jax._src.xla_bridge import backends_are_initialized as backends_are_initialized
from jax.extend.core import JaxprEqn, Primitive
from jax.interpreters.partial_eval import dce_rules

Operand = TypeVar("Operand")

# Of which results are used, and a step of a program: which operands that needs, and the step that is left.
WithoutUnused: TypeAlias = Callable[[list[bool], JaxprEqn], tuple[list[bool], JaxprEqn | None]]


def inside_jit() -> bool:
    """Whether what is computed becomes part of a program, instead of being computed at once."""
    trace: Any = trace_ctx.trace
    while trace is not None and not isinstance(trace, DynamicJaxprTrace):
        trace = getattr(trace, "parent_trace", None)
    return trace is not None


def set_without_unused(primitive: Primitive, rule: WithoutUnused) -> None:
    """The rule by which steps of a primitive leave out what is not used. JAX 0.12 also says which operands live on."""
    dce_rules[primitive] = lambda used, *live_and_step: rule(used, live_and_step[-1])


def parts_of_scan(params: Mapping[str, Any]) -> tuple[int, int]:
    """How many operands of a `scan` are constants, and how many it carries on; `xs` follow. (JAX 0.12 has trees.)"""
    if "ft_in" in params:
        constants, carried, _ = params["ft_in"].unpack()
        return len(constants), len(carried)
    return params["num_consts"], params["num_carry"]


def constants_of_while(params: Mapping[str, Any]) -> tuple[int, int]:
    """How many operands of a `while` are constants of its condition, and of its body; what it carries follows."""
    return params["cond_nconsts"], params["body_nconsts"]


def operands_of_solve(params: Mapping[str, Any], operands: Sequence[Operand]) -> list[Operand]:
    """Those operands of a `custom_linear_solve` that `params["jaxprs"].solve` takes: its constants, and b."""
    lengths = params["const_lengths"]
    start = lengths.matvec + lengths.vecmat
    return [*operands[start : start + lengths.solve], *operands[sum(lengths) :]]
