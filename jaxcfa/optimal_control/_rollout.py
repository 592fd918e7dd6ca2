"""Simulating a problem's dynamics under feedback, phase by phase."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..structured._products import matvec
from ._problem import Problem


def closed_loop(
    problem: Problem,
    start: Float[Array, "nx"],
    states: Float[Array, "T+1 nx"],
    controls: Float[Array, "T m"],
    gains: Float[Array, "T m n"],
    kicks: Float[Array, "T n"] | None = None,
    known: int = 0,
) -> tuple[Float[Array, "_ nx"], Float[Array, "_ m"]]:
    """States and controls `u_t + K_t (x - x_t)` from a start, each step displaced by `kicks` if there are any.

    The start is that of the stage `known`, from which on stages are simulated.
    """
    reached, found, first = start, [], 0
    for phase in problem.phases:
        dynamics, during = phase.dynamics, slice(max(known, first), first + phase.steps)
        first += phase.steps
        if first <= known:
            continue

        def step(x, stage, dynamics=dynamics):
            t, reference, control, gain, kick = stage
            u = control + matvec(gain, dynamics.minus(x, reference))
            after = dynamics.step(x, u, t)
            after = after if kick is None else dynamics.plus(after, kick)
            return after, (after, u)

        xs = jnp.arange(problem.steps)[during], states[:-1][during], controls[during], gains[during]
        reached, parts = lax.scan(step, reached, (*xs, None if kicks is None else kicks[during]))
        found.append(parts)
    after, applied = (jnp.concatenate(parts) for parts in zip(*found, strict=True))
    return jnp.concatenate([start[None], after]), applied
