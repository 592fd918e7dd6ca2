"""Loops that take a different number of steps for each member of a batch."""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import export, lax
from jax.custom_batching import custom_vmap
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jaxtyping import Array, Bool, Int

from ..backend import backend

State = TypeVar("State")

# More steps than any loop takes. Conditions compare with it so that they depend on two numbers of what is carried: a
# single one XLA takes for a counter, and copies all that it is computed from, which may be the whole loop, many times
# while it compiles (a fifth of the time for a problem of optimal control).
_UNREACHED = jnp.iinfo(jnp.int32).max


def lane_loop(
    unfinished: Callable[[Any, State], Bool[Array, ""]],
    improve: Callable[[Any, State], State],
    constants: Any,
    state: State,
    lanes_on_cpu: int = 64,
    steps: int = 8,
) -> State:
    """`while unfinished(constants, state): state = improve(constants, state)`.

    Under `jax.vmap`, a loop goes on until its last member has finished, and all the others take part in every step.
    This one takes a few unfinished members at a time, as many as are worth it, for a few steps, and then others. What
    is traced must be in `constants` and `state`. It cannot be differentiated.

    **Arguments:** `lanes_on_cpu`: so many members make a program as fast for each as more would; `steps` at a time.
    """

    @custom_vmap
    def run(constants: Any, state: State) -> State:
        return _steps(unfinished, improve, constants, state, None)

    @run.def_vmap
    def run_batch(size: int, batched: Any, constants: Any, state: State) -> tuple[State, Any]:
        states = jax.tree.map(
            lambda x, own: x if own else jnp.broadcast_to(x, (size, *jnp.shape(x))), state, batched[1]
        )
        leaves, structure = jax.tree.flatten(constants)
        varies = jax.tree.leaves(batched[0])

        def lanes(function: Callable, states: State, chosen: Array | None = None) -> Any:
            taken = [x[chosen] if own and chosen is not None else x for x, own in zip(leaves, varies, strict=True)]
            axes = [0 if own else None for own in varies]
            return jax.vmap(lambda own, state: function(jax.tree.unflatten(structure, own), state), (axes, 0))(
                taken, states
            )

        width = size if export.is_symbolic_dim(size) else _width(size, lanes_on_cpu)
        if width == size:
            found = lanes(lambda own, state: _steps(unfinished, improve, own, state, None), states)
            return found, jax.tree.map(lambda _: True, found)

        def some(carry: tuple[Array, State]) -> tuple[Array, State]:
            turns, states = carry
            chosen = _first(lanes(unfinished, states), turns)[:width]
            taken = jax.tree.map(lambda x: x[chosen], states)
            found = lanes(lambda own, state: _steps(unfinished, improve, own, state, steps), taken, chosen)
            states = jax.tree.map(lambda x, y: x.at[chosen].set(y, unique_indices=True), states, found)
            return turns.at[chosen].add(1, unique_indices=True), states

        start = jnp.zeros(size, jnp.int32), states
        found = lax.while_loop(lambda carry: jnp.any(lanes(unfinished, carry[1])), some, start)[1]
        return found, jax.tree.map(lambda _: True, found)

    return run(constants, state)


def closed_lane_loop(
    unfinished: Callable[[State], Bool[Array, ""]],
    improve: Callable[[State], State],
    state: State,
    lanes_on_cpu: int,
    steps: int,
) -> State:
    """As `lane_loop`, of functions that may use whatever else is traced; `improve` is traced twice for that.

    Not by the conversion of equinox, which refuses types that differ in nothing but the mesh that a program is spread
    over.
    """
    program, shapes = jax.make_jaxpr(improve, return_shape=True)(state)
    structure, known = jax.tree.structure(shapes), program.consts

    def improved(traced: list[Array], state: State) -> State:
        own = iter(traced)
        constants = [next(own) if eqx.is_array(x) else x for x in known]
        found = jaxpr_as_fun(ClosedJaxpr(program.jaxpr, constants))(*jax.tree.leaves(state))
        return jax.tree.unflatten(structure, found)

    traced = [x for x in known if eqx.is_array(x)]
    return lane_loop(lambda _, state: unfinished(state), improved, traced, state, lanes_on_cpu, steps)


def _steps(unfinished: Callable, improve: Callable, constants: Any, state: State, most: int | None) -> State:
    """The plain loop, of so many steps at most."""
    most = _UNREACHED if most is None else most

    def goes_on(carry: tuple[Array, State]) -> Array:
        return (carry[0] < most) & unfinished(constants, carry[1])

    return lax.while_loop(goes_on, lambda c: (c[0] + 1, improve(constants, c[1])), (jnp.zeros((), int), state))[1]


def _first(unfinished: Bool[Array, "n"], turns: Int[Array, "n"]) -> Int[Array, "n"]:
    """The numbers of the members, unfinished ones first, of these those that had the fewest turns: then few are left
    over at the end, when lanes are empty.

    One array is sorted, of both: XLA:CPU calls a function for every comparison of pairs, and takes ten times as long.
    """
    size = len(turns)
    last = _UNREACHED // size - 1
    order = jnp.where(unfinished, jnp.minimum(turns, last - 1), last)
    return lax.sort(order * size + jnp.arange(size, dtype=order.dtype), is_stable=False) % size


def _width(size: int, lanes_on_cpu: int) -> int:
    """How many lanes at a time. Accelerators need many to be busy."""
    return min(size, lanes_on_cpu) if backend() == "cpu" else max(size // 4, min(size, 4096))
