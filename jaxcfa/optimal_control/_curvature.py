"""The part of the Lagrangian's Hessian that Gauss and Newton leave out, learned from one iteration to the next.

That is the curvature of dynamics, constraints and residuals. Each stage has a matrix of its own, which the symmetric
update of rank one makes agree with how the gradients of the Lagrangian have changed over the last step, beyond what the
Gauss-Newton Hessian says (Nocedal & Wright, Numerical Optimization, 2006, section 6.2; Dennis, Gay & Welsch, An
adaptive nonlinear least-squares algorithm, 1981, for the split; Janka et al., An SR1/BFGS SQP algorithm for nonconvex
nonlinear programs with block-diagonal Hessian matrix, 2016, for the blocks). No further derivatives are needed.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import outer
from ..structured._products import matvec
from ._interior_point import Point, slopes_of_lagrangian
from ._local import LocalModel
from ._problem import Problem

# The cosine between a step and what is missing, below which an update would be large and say little.
_LEAST = 1e-2
_ROUNDING = 100.0  # so many roundings of the gradients say nothing either


class Curvature(NamedTuple):
    """Symmetric matrices to be added to the Hessians of the stages, by (x, u), and of the end."""

    stages: Float[Array, "T z z"]
    end: Float[Array, "n n"]

    @staticmethod
    def none(problem: Problem, dtype) -> "Curvature":
        """Nothing learned yet."""
        n, m = problem.dynamics.tangent_size, problem.dynamics.control_size
        return Curvature(jnp.zeros((problem.steps, n + m, n + m), dtype), jnp.zeros((n, n), dtype))

    def added(self, local: LocalModel) -> LocalModel:
        """The model with the Hessians of both."""
        stages = local.stages._replace(hessian=local.stages.hessian + self.stages)
        return local._replace(stages=stages, end=local.end._replace(hessian=local.end.hessian + self.end))

    def learned(self, problem: Problem, before: LocalModel, start: Point, after: LocalModel, end: Point) -> "Curvature":
        """What is known after the step from `start` to `end`, with the models there."""
        states = jax.vmap(problem.dynamics.minus)(end.states, start.states)
        step = jnp.concatenate([states[:-1], end.controls - start.controls], axis=-1)
        # With the same multipliers, so that only what is curved changes.
        old, new = (slopes_of_lagrangian(model, end.multipliers) for model in (before, after))
        known = 0.5 * (before.stages.hessian + after.stages.hessian), 0.5 * (before.end.hessian + after.end.hessian)
        return Curvature(
            _updated(self.stages, step, old[0], new[0], known[0]),
            _updated(self.end, states[-1], old[1], new[1], known[1]),
        )


def _updated(
    matrix: Float[Array, "*T z z"],
    step: Float[Array, "*T z"],
    old: Float[Array, "*T z"],
    new: Float[Array, "*T z"],
    known: Float[Array, "*T z z"],
) -> Float[Array, "*T z z"]:
    """The symmetric update of rank one after which the Hessian times the step is the change of the gradient."""
    missing = new - old - matvec(known + matrix, step)
    along, size = jnp.sum(missing * step, axis=-1), _norm(missing)
    rounding = _ROUNDING * jnp.finfo(step.dtype).eps * (_norm(old) + _norm(new))
    told = (jnp.abs(along) > _LEAST * size * _norm(step)) & (size > rounding)
    return matrix + jnp.where(told, 1 / jnp.where(told, along, 1), 0)[..., None, None] * outer(missing, missing)


def _norm(x: Float[Array, "*T z"]) -> Float[Array, "*T"]:
    return jnp.sqrt(jnp.sum(x * x, axis=-1))
