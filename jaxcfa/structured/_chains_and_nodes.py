"""Systems on the edges of a tree: its chains in parallel, then a dense system for the nodes where they meet."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..numerics import transpose
from ._chain_partition import ChainPartition
from ._edge_system import AbstractEdgeFactor, AbstractEdgeSolver, EdgeSystem, cholesky_solve, congruence
from ._odd_even_elimination import OddEvenElimination
from ._products import matmul, previous
from ._small_spd import STRICT, PivotRule
from ._tridiagonal_solver import AbstractTridiagonalFactor, AbstractTridiagonalSolver, check_tridiagonal_solver


class ChainsAndNodes(AbstractEdgeSolver):
    """Eliminates all chains at once by the solver `chains`, then solves for the edges between them.

    Liu, Hu & Zhang 2016, eqs. 39-44. Eliminating a chain changes the compliance of its last node, as its children feel
    it, and couples them to the edge above the chain; therefore as many right-hand sides as a block is wide, for each
    end, serve any number of children. The dense system has the size of the tree with its chains contracted.
    """

    chains: AbstractTridiagonalSolver = OddEvenElimination()

    def __check_init__(self):
        check_tridiagonal_solver(self.chains, "chains")

    def factor(self, system: EdgeSystem, pivots: PivotRule = STRICT) -> "ChainsFactor | ChainsAndNodesFactor":
        parts = system.tree.chain_partition
        pull = matmul(transpose(system.own), system.compliance)  # G^T M^-1
        chains = ChainsFactor(parts, _factor_chains(self.chains, pivots, system, pull))
        return _factor_nodes(system, pull, chains) if len(parts.separators) else chains


class ChainsFactor(AbstractEdgeFactor):
    """**Fields:** the partition of the tree, and the factorised matrix of all its chains."""

    parts: ChainPartition = eqx.field(static=True)
    chains: AbstractTridiagonalFactor

    def solve(self, b: Float[Array, "n m r"]) -> Float[Array, "n m r"]:
        """Without separators, or with none of them loaded."""
        if self.parts.is_chain:
            return self.chains.solve(b)
        return jnp.zeros_like(b).at[self.parts.interior].set(self.chains.solve(b[self.parts.interior]))


class ChainsAndNodesFactor(AbstractEdgeFactor):
    """A system whose chains are eliminated.

    **Fields:** `inner`, the chains. For every chain: `above`, what couples its first edge to the separator above;
    `below`, what couples its last edge to `B y` of the separators below, and nothing else; `top` and `bottom`, the
    solutions of the chains (i) for these as right-hand sides. `carried`, B of the separators; `nodes`, Cholesky factor
    of their matrix.
    """

    inner: ChainsFactor
    above: Float[Array, "c m m"]
    below: Float[Array, "c m k"]
    top: Float[Array, "i m m"]
    bottom: Float[Array, "i m k"]
    carried: Float[Array, "s k m"]
    nodes: Float[Array, "sm sm"]

    def solve(self, b: Float[Array, "n m r"]) -> Float[Array, "n m r"]:
        parts = self.inner.parts
        inside = self.inner.chains.solve(b[parts.interior])
        last_nodes = parts.interior[parts.last]

        # What the chains, left to themselves, do to the separators: below them and above.
        push = jnp.zeros((len(b), self.below.shape[-1], b.shape[-1]), b.dtype)
        push = push.at[last_nodes].set(matmul(transpose(self.below), inside[parts.last]))
        side = b[parts.separators] - matmul(transpose(self.carried), push[parts.parent])
        pushed_up = matmul(transpose(self.above), inside[parts.first])
        side = side.at[parts.above_or(len(side))].add(-pushed_up, mode="drop")
        x = cholesky_solve(self.nodes, side.reshape(-1, side.shape[-1])).reshape(side.shape)

        pulled_up = jnp.where(parts.above[:, None, None] >= 0, x[parts.above], 0)
        pulled = jnp.zeros_like(push).at[parts.parent].add(matmul(self.carried, x))[last_nodes]
        inside = inside - matmul(self.top, pulled_up[parts.chain]) - matmul(self.bottom, pulled[parts.chain])
        return jnp.zeros_like(b).at[parts.interior].set(inside).at[parts.separators].set(x)


def _factor_chains(
    solver: AbstractTridiagonalSolver, pivots: PivotRule, system: EdgeSystem, pull: Float[Array, "n m k"]
) -> AbstractTridiagonalFactor:
    parts = system.tree.chain_partition
    if parts.is_chain:
        return solver.factor(system.diagonal(), -transpose(matmul(previous(pull), system.carried)), pivots)
    before = np.roll(parts.interior, 1)
    lower = -transpose(matmul(pull[before], system.carried[parts.interior]))
    lower = jnp.where(parts.continues[:, None, None], lower, 0)
    return solver.factor_parts(system.diagonal()[parts.interior], lower, parts.longest, pivots)


def _factor_nodes(system: EdgeSystem, pull: Float[Array, "n m k"], inner: ChainsFactor) -> ChainsAndNodesFactor:
    parts = inner.parts
    m, k = pull.shape[1:]
    first_edges, last_nodes = parts.interior[parts.first], parts.interior[parts.last]
    above = -transpose(matmul(pull[parts.separators[parts.above]], system.carried[first_edges]))
    above = jnp.where(parts.above[:, None, None] >= 0, above, 0)
    below = -pull[last_nodes]
    ends = jnp.zeros((len(parts.interior), m, m + k), pull.dtype)
    ends = ends.at[parts.first, :, :m].set(above).at[parts.last, :, m:].set(below)
    solved = inner.chains.solve(ends)
    top, bottom = solved[..., :m], solved[..., m:]

    # The compliance of a node as its children feel it, and how they feel the separator above.
    felt = system.compliance.at[last_nodes].add(-matmul(transpose(below), bottom[parts.last]))
    passed = (-pull).at[last_nodes].set(-matmul(transpose(above), bottom[parts.first]))
    diagonal = congruence(system.compliance, system.own)[parts.separators] + system.extra[parts.separators]
    eliminated = matmul(transpose(above), top[parts.first])
    diagonal = diagonal.at[parts.above_or(len(diagonal))].add(-eliminated, mode="drop")
    carried = system.carried[parts.separators]
    matrix = _node_matrix(parts, diagonal, carried, felt[parts.parent], passed[parts.parent])
    return ChainsAndNodesFactor(inner, above, below, top, bottom, carried, jnp.linalg.cholesky(matrix))


def _node_matrix(
    parts: ChainPartition,
    diagonal: Float[Array, "s m m"],
    carried: Float[Array, "s k m"],
    felt: Float[Array, "s k k"],
    passed: Float[Array, "s m k"],
) -> Float[Array, "sm sm"]:
    """The dense matrix of the separators."""
    s, m, _ = diagonal.shape
    place = np.arange(s)
    row, column = parts.coupled.T
    dense = jnp.zeros((s, m, s, m), diagonal.dtype).at[place, :, place, :].set(diagonal)
    siblings = matmul(transpose(carried[row]), matmul(felt[row], carried[column]))
    dense = dense.at[row, :, column, :].add(siblings)
    lower = np.flatnonzero(parts.upper >= 0)
    upper = parts.upper[lower]
    between = matmul(passed[lower], carried[lower])
    dense = dense.at[upper, :, lower, :].add(between).at[lower, :, upper, :].add(transpose(between))
    return dense.reshape(s * m, s * m)
