"""Systems on the edges of a tree: its chains in parallel, then a dense system for the nodes where they meet."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._small import transpose
from ._block_tridiagonal import BlockTridiagonal
from ._chain_partition import ChainPartition
from ._edge_system import AbstractEdgeSolver, EdgeSystem, congruence, solve_dense
from ._odd_even_elimination import OddEvenElimination
from ._products import matmul
from ._tridiagonal_solver import AbstractTridiagonalSolver


class ChainsAndNodes(AbstractEdgeSolver):
    """Eliminates all chains at once by the solver `chains`, then solves for the edges between them.

    Liu, Hu & Zhang 2016, eqs. 39-44. Eliminating a chain changes the compliance of its last node, as its children feel
    it, and couples them to the edge above the chain; therefore as many right-hand sides as a block is wide, for each
    end, serve any number of children. The dense system has the size of the tree with its chains contracted.
    """

    chains: AbstractTridiagonalSolver = OddEvenElimination()

    def solve(self, system: EdgeSystem, b: Float[Array, "n m r"]) -> Float[Array, "n m r"]:
        parts = system.tree.chain_partition
        if not len(system.own):
            return b
        matrix = _chain_matrix(system, parts)
        if not len(parts.separators):
            x = matrix.solve(b[parts.interior], self.chains)
            return jnp.zeros_like(x).at[parts.interior].set(x)
        below_top, last = _ends(system, parts)
        sides = jnp.concatenate([below_top, last, b[parts.interior]], axis=-1)
        m, k = system.own.shape[-1], system.own.shape[-2]
        solved = matrix.solve(sides, self.chains)
        top, bottom, rest = solved[..., :m], solved[..., m : m + k], solved[..., m + k :]
        return _join(system, parts, b, (below_top, last), (top, bottom, rest))


def _chain_matrix(system: EdgeSystem, parts: ChainPartition) -> BlockTridiagonal:
    upper = -matmul(
        matmul(transpose(system.own), system.compliance)[parts.interior[:-1]], system.carried[parts.interior[1:]]
    )
    lower = jnp.where(parts.continues[1:, None, None], transpose(upper), 0)
    return BlockTridiagonal(system.diagonal()[parts.interior], lower)


def _ends(system: EdgeSystem, parts: ChainPartition) -> tuple[Float[Array, "i m m"], Float[Array, "i m k"]]:
    """What couples chains to separators, at their ends and zero elsewhere: to the one above, and to all below.

    The coupling to a separator c below is the second times `B_c`.
    """
    pull = matmul(transpose(system.own), system.compliance)  # G^T M^-1
    n, m, k = pull.shape
    hanging = np.flatnonzero(parts.above >= 0)
    first = parts.first[hanging]
    edges, nodes = parts.interior[first], parts.separators[parts.above[hanging]]
    to_above = -transpose(matmul(pull[nodes], system.carried[edges]))
    size = len(parts.interior)
    below_top = jnp.zeros((size, m, m), pull.dtype).at[first].set(to_above)
    last = jnp.zeros((size, m, k), pull.dtype).at[parts.last].set(-pull[parts.interior[parts.last]])
    return below_top, last


def _join(system: EdgeSystem, parts: ChainPartition, b: Array, ends: tuple[Array, Array], solved: tuple) -> Array:
    """Solves for the separators, and puts their effect into the chains."""
    below_top, last = (x[place] for x, place in zip(ends, (parts.first, parts.last), strict=True))
    top, bottom, rest = solved
    pull = matmul(transpose(system.own), system.compliance)
    last_nodes = parts.interior[parts.last]
    # The compliance of a node as its children feel it, and how they feel the separator above.
    felt = system.compliance.at[last_nodes].add(-matmul(transpose(last), bottom[parts.last]))
    passed = (-pull).at[last_nodes].set(-matmul(transpose(below_top), bottom[parts.first]))
    push = jnp.zeros((len(b), system.own.shape[-2], b.shape[-1]), b.dtype)
    push = push.at[last_nodes].set(matmul(transpose(last), rest[parts.last]))

    separators, parent = parts.separators, parts.parent
    own, carried = system.own[separators], system.carried[separators]
    diagonal = congruence(system.compliance[separators], own) + system.extra[separators]
    side = b[separators] - matmul(transpose(carried), push[parent])
    hanging = np.flatnonzero(parts.above >= 0)
    above = parts.above[hanging]
    coupling = transpose(below_top[hanging])
    diagonal = diagonal.at[above].add(-matmul(coupling, top[parts.first[hanging]]))
    side = side.at[above].add(-matmul(coupling, rest[parts.first[hanging]]))

    matrix = _node_matrix(parts, diagonal, carried, felt[parent], passed[parent])
    x = solve_dense(matrix, side.reshape(-1, side.shape[-1])).reshape(side.shape)

    at_top = jnp.where(parts.above[:, None, None] >= 0, x[parts.above], 0)
    pulled = jnp.zeros_like(push).at[parent].add(matmul(carried, x))[last_nodes]
    inside = rest - matmul(top, at_top[parts.chain]) - matmul(bottom, pulled[parts.chain])
    return jnp.zeros_like(b).at[parts.interior].set(inside).at[separators].set(x)


def _node_matrix(parts: ChainPartition, diagonal: Array, carried: Array, felt: Array, passed: Array) -> Array:
    """The dense matrix of the separators (s m, s m)."""
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
