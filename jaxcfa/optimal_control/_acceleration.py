"""Steps of Gauss and Newton, and what the last of them tell about the next: Anderson's acceleration.

Where residuals do not vanish, these steps leave out the same part of the curvature each time, so that what is missing
shrinks by the same factors. From two pairs of steps these can be told (Anderson, Iterative procedures for nonlinear
integral equations, 1965; Walker & Ni, Anderson acceleration for fixed-point iterations, 2011, algorithm AA).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..structured._products import matvec
from ._dynamics import AbstractDynamics
from ._interior_point import Point, Step, rows_along
from ._local import LocalModel, Multipliers
from ._problem import Problem

_DEPTH = 2  # three and four converge no faster
_NOTHING_NEW = 1e-6  # the part of a change that earlier ones do not tell, squared


class Displacement(NamedTuple):
    """Displacement of states (as tangent vectors), controls and multipliers."""

    states: Float[Array, "T+1 n"]
    controls: Float[Array, "T m"]
    multipliers: Multipliers

    @staticmethod
    def of(step: Step) -> "Displacement":
        """Without what follows from it."""
        return Displacement(step.states, step.controls, step.multipliers)


class Memory(NamedTuple):
    """**Fields:** the `point` of the iteration before, and the `step` that Gauss and Newton propose there; for each of
    the last iterations, newest first, how far the point `moved` and how the step `changed`; `known`, how many; the
    `length` of the step that led there."""

    point: Point
    step: Displacement
    moved: Displacement
    changed: Displacement
    known: Int[Array, ""]
    length: Float[Array, ""]

    @staticmethod
    def nothing(problem: Problem, point: Point) -> "Memory":
        """Before the first iteration."""
        states = jnp.zeros((len(point.states), problem.dynamics.tangent_size), point.states.dtype)
        none = Displacement(states, *jax.tree.map(jnp.zeros_like, (point.controls, point.multipliers)))
        several = jax.tree.map(lambda x: jnp.zeros((_DEPTH, *x.shape), x.dtype), none)
        return Memory(point, none, several, several, jnp.zeros((), jnp.int32), jnp.zeros((), states.dtype))


def accelerated(
    dynamics: AbstractDynamics, local: LocalModel, point: Point, step: Step, memory: Memory, continues: Bool[Array, ""]
) -> tuple[Step, Memory]:
    """A step with what the last ones tell, and what is known after it.

    `continues`: whether the last iteration went all of its step, or as much of it as the one before did of its own, and
    towards the same end, so that it tells something.
    Changes are measured by the Hessians, as the energy of a displacement.
    """
    now = Displacement.of(step)
    before = memory.point
    moved = Displacement(
        jax.vmap(dynamics.minus)(point.states, before.states),
        point.controls - before.controls,
        jax.tree.map(jnp.subtract, point.multipliers, before.multipliers),
    )
    moved, changed = (
        jax.tree.map(lambda x, old: jnp.where(continues, jnp.concatenate([x[None], old[:-1]]), 0), new, kept)
        for new, kept in ((moved, memory.moved), (jax.tree.map(jnp.subtract, now, memory.step), memory.changed))
    )
    known = jnp.where(continues, jnp.minimum(memory.known + 1, _DEPTH), 0)

    found, left = now, now
    directions: list[tuple[Displacement, Displacement, Displacement, Array]] = []
    for i in range(_DEPTH):
        new = jax.tree.map(lambda x, i=i: x[i], changed)
        own = jax.tree.map(lambda x, y, i=i: x[i] + y, moved, new)
        pulled = _weighted(local, new)
        size = _inner(new, pulled)
        for other, its_pull, both, energy in directions:  # Gram and Schmidt
            part = _inner(new, its_pull) / energy
            new, pulled, own = _less(new, part, other), _less(pulled, part, its_pull), _less(own, part, both)
        energy = _inner(new, pulled)
        told = (i < known) & (energy > _NOTHING_NEW * size)
        pulled = jax.tree.map(lambda x, told=told: jnp.where(told, x, 0), pulled)
        energy = jnp.where(told, energy, 1)
        part = _inner(left, pulled) / energy
        found, left = _less(found, part, own), _less(left, part, new)
        directions.append((new, pulled, own, energy))
    memory = Memory(point, now, moved, changed, known.astype(jnp.int32), memory.length)
    rows = rows_along(local, found.states, found.controls)[1]
    return Step(found.states, found.controls, found.multipliers, rows, step.gains), memory


def _weighted(local: LocalModel, x: Displacement) -> Displacement:
    """The Hessians times a displacement; multipliers have none."""
    n = x.states.shape[-1]
    stages = matvec(local.stages.hessian, jnp.concatenate([x.states[:-1], x.controls], axis=-1))
    end = matvec(local.end.hessian, x.states[-1])
    nothing = jax.tree.map(jnp.zeros_like, x.multipliers)
    return Displacement(jnp.concatenate([stages[:, :n], end[None]]), stages[:, n:], nothing)


def _inner(x: Displacement, y: Displacement) -> Float[Array, ""]:
    return jnp.sum(x.states * y.states) + jnp.sum(x.controls * y.controls)


def _less(x: Displacement, factor: Float[Array, ""], y: Displacement) -> Displacement:
    return jax.tree.map(lambda a, b: a - factor * b, x, y)
