"""Systems on the edges of a tree, one edge after the other."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import matmul, symmetrise, transpose
from ._edge_system import AbstractEdgeFactor, AbstractEdgeSolver, EdgeSystem
from ._small_spd import LDL, STRICT, PivotRule, ldl_factor, ldl_solve
from ._tree_schedule import TreeSchedule
from ._tree_sweep import sweep_inward, sweep_outward


class LeafToRoot(AbstractEdgeSolver):
    """L D L^T from the leaves to the root, without fill: O(n) work, depth of the tree.

    When an edge goes, those that it was coupled to are coupled already, because they meet at one node. That coupling is
    never formed: eliminating edge c from the node p that it hangs on adds `B D^-1 B^T` to the node's mass, where
    `D = G^T M^-1 G + E` with the mass so enlarged. So a node may have any number of children. In a mechanism this is
    the articulated-body algorithm, in terms of forces instead of accelerations.
    """

    def factor(self, system: EdgeSystem, pivots: PivotRule = STRICT) -> "LeafToRootFactor":
        def step(children: Array, edge: tuple[Array, ...]) -> tuple[Array, "Edge"]:
            mass, own, carried, extra = edge
            node = ldl_factor(mass + children)
            pulled = ldl_solve(node, own)
            pivot = pivots.factor(symmetrise(matmul(transpose(own), pulled) + extra))
            gain = ldl_solve(pivot, transpose(carried))
            return symmetrise(matmul(carried, gain)), Edge(own, carried, node, pulled, pivot, gain)

        zero = jnp.zeros_like(system.mass[0])
        edges = system.mass, system.own, system.carried, system.extra
        (factors,) = sweep_inward(system.tree, step, zero, [edges])
        return LeafToRootFactor(system.tree, factors)


class Edge(eqx.Module):
    """An edge and the node at its outer end, all edges that this carries eliminated.

    **Fields:** `own` G and `carried` B of the edge; the node's factorised mass, `pulled = M^-1 G`; the factorised
    `pivot` D of the edge, `gain = D^-1 B^T`.
    """

    own: Float[Array, "*n k m"]
    carried: Float[Array, "*n k m"]
    node: LDL
    pulled: Float[Array, "*n k m"]
    pivot: LDL
    gain: Float[Array, "*n m k"]


class LeafToRootFactor(AbstractEdgeFactor):
    """**Fields:** the tree, and the factors of all edges."""

    tree: TreeSchedule = eqx.field(static=True)
    edges: Edge

    def solve(self, b: Float[Array, "n m r"]) -> Float[Array, "n m r"]:
        """`M a = G y - g` at a node, g from its children, and `D y = b + B^T a_parent + (M^-1 G)^T g` at its edge."""

        def inward(children: Array, x: tuple[Edge, Array]):
            edge, b = x
            side = b + matmul(transpose(edge.pulled), children)
            return matmul(transpose(edge.gain), side), (side, children)

        def outward(parent: Array, x: tuple[Edge, tuple[Array, Array]]):
            edge, (side, children) = x
            y = ldl_solve(edge.pivot, side + matmul(transpose(edge.carried), parent))
            return matmul(edge.pulled, y) - ldl_solve(edge.node, children), y

        zero = jnp.zeros((self.edges.own.shape[-2], b.shape[-1]), b.dtype)
        (sides,) = sweep_inward(self.tree, inward, zero, [(self.edges, b)])
        return sweep_outward(self.tree, outward, zero, [(self.edges, sides)])[0]
