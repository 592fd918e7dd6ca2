"""Linear-quadratic problems as a block-tridiagonal system for the multipliers of the dynamics."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import transpose
from ._block_ldl import BLOCK_LDL
from ._products import matmul, matvec, preceded
from ._small_spd import LDL, ldl_factor, ldl_solve
from ._stages import AbstractStageFactors, AbstractStageSolver, Extremal, Stages
from ._tridiagonal_solver import AbstractTridiagonalFactor, AbstractTridiagonalSolver, check_tridiagonal_solver


class StageMultipliers(AbstractStageSolver):
    """States and controls eliminated first: what is left for the multipliers is block-tridiagonal.

    The cost must be positive definite in states and controls, at the end too. A solver of logarithmic depth, such as
    `OddEvenElimination`, makes this parallel in time.
    """

    solver: AbstractTridiagonalSolver = BLOCK_LDL

    def __check_init__(self):
        check_tridiagonal_solver(self.solver)

    def factor(self, stages: Stages) -> "StageMultiplierFactors":
        count, n, m = stages.input.shape
        rows = jnp.concatenate([stages.transition, stages.input], axis=-1)
        inner, end = ldl_factor(_hessians(stages)), ldl_factor(stages.state_cost[-1])
        identity = jnp.eye(n, dtype=rows.dtype)
        # Columns of H^-1 G': for each stage those of the equation that defines its state, and of the one after it.
        selected = jnp.broadcast_to(jnp.eye(n + m, n, dtype=rows.dtype), (count, n + m, n))
        own, following = (ldl_solve(inner, x) for x in (selected, transpose(rows)))
        arrived = jnp.concatenate([own[:, :n], ldl_solve(end, identity)[None]])
        diagonal = arrived + preceded(matmul(rows, following))
        lower = jnp.concatenate([jnp.zeros((1, n, n), rows.dtype), -matmul(rows, own)])
        return StageMultiplierFactors(rows, inner, end, self.solver.factor(diagonal, lower))


class StageMultiplierFactors(AbstractStageFactors):
    """**Fields:** `rows` `[A B]`; the factorised Hessians of the stages and of the `end`; the factors `multipliers`."""

    rows: Float[Array, "T n n+m"]
    inner: LDL
    end: LDL
    multipliers: AbstractTridiagonalFactor

    def solve(self, rhs: Extremal) -> Extremal:
        n = rhs.states.shape[-1]
        cost = jnp.concatenate([rhs.states[:-1], rhs.controls], axis=-1)
        z, end = ldl_solve(self.inner, cost), ldl_solve(self.end, rhs.states[-1])
        x = jnp.concatenate([z[:, :n], end[None]])
        violated = preceded(matvec(self.rows, z)) - x - rhs.costates
        lam = self.multipliers.solve(violated[..., None])[..., 0]
        # The multipliers' part of the gradient of the Lagrangian.
        cost = cost.at[:, :n].add(lam[:-1]) - matvec(transpose(self.rows), lam[1:])
        z, end = ldl_solve(self.inner, cost), ldl_solve(self.end, rhs.states[-1] + lam[-1])
        return Extremal(jnp.concatenate([z[:, :n], end[None]]), z[:, n:], lam, rhs.end_multipliers)


def _hessians(stages: Stages) -> Float[Array, "T n+m n+m"]:
    count, n, m = stages.input.shape
    s = jnp.zeros((count, m, n), stages.input.dtype) if stages.cross_cost is None else stages.cross_cost
    above = jnp.concatenate([stages.state_cost[:-1], transpose(s)], axis=-1)
    return jnp.concatenate([above, jnp.concatenate([s, stages.control_cost], axis=-1)], axis=-2)
