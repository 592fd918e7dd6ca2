"""Systems on the edges of a tree, one edge after the other."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._small import matmul, symmetrise, transpose
from ._edge_system import AbstractEdgeSolver, EdgeSystem
from ._small_spd import LDL, ldl_factor, ldl_solve
from ._tree_sweep import sweep_inward, sweep_outward


class LeafToRoot(AbstractEdgeSolver):
    """L D L^T from the leaves to the root, without fill: O(n) work, depth of the tree.

    When an edge goes, those that it was coupled to are coupled already, because they meet at one node. That coupling is
    never formed: eliminating edge c from the node p that it hangs on adds `B D^-1 B^T` to the node's mass, where
    `D = G^T M^-1 G + E` with the mass so enlarged. So a node may have any number of children. In a mechanism this is
    the articulated-body algorithm, in terms of forces instead of accelerations.
    """

    def solve(self, system: EdgeSystem, b: Float[Array, "n m r"]) -> Float[Array, "n m r"]:
        n, k, _ = system.own.shape
        if not n:
            return b
        zero = jnp.zeros((k, k), b.dtype), jnp.zeros((k, b.shape[-1]), b.dtype)
        edges = system.mass, system.own, system.carried, system.extra, b
        (eliminated,) = sweep_inward(system.tree, _eliminate, zero, [edges])
        (x,) = sweep_outward(system.tree, _substitute, zero[1], [(system.own, system.carried, eliminated)])
        return x


def _eliminate(children: tuple[Array, Array], edge: tuple[Array, ...]):
    """`M a = G y - g` for node and children; `D y = b + B^T a_parent + G^T M^-1 g` for the edge."""
    mass, own, carried, extra, b = edge
    node = ldl_factor(mass + children[0])
    pulled = ldl_solve(node, jnp.concatenate([own, children[1]], axis=-1))
    m = own.shape[-1]
    pivot = ldl_factor(symmetrise(matmul(transpose(own), pulled[:, :m]) + extra))
    side = b + matmul(transpose(own), pulled[:, m:])
    gain = ldl_solve(pivot, transpose(carried))
    message = symmetrise(matmul(carried, gain)), matmul(transpose(gain), side)
    return message, (pivot, node, side, children[1])


def _substitute(parent: Array, edge: tuple[Array, Array, tuple[LDL, LDL, Array, Array]]):
    own, carried, (pivot, node, side, received) = edge
    y = ldl_solve(pivot, side + matmul(transpose(carried), parent))
    return ldl_solve(node, matmul(own, y) - received), y
