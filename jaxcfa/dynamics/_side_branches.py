"""Short side branches, taken into the bodies that carry them by the articulated-body algorithm."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..motion import BodyArrays
from ..numerics import matvec, transpose
from ..spatial import shift_force
from ..structured import TreeSchedule, ldl_solve
from ..structured._tree_sweep import sweep_inward, sweep_outward
from ..structured._tree_tables import heavy_children, subtree_sizes
from ._joint_elimination import JointElimination, eliminate_joint, shift_inertia


def side_bodies(parents: np.ndarray, most: int) -> np.ndarray:
    """(nb,): bodies of subtrees of no more than `most`, each at a body that carries a larger or equal one too."""
    sizes, heavy = subtree_sizes(parents), heavy_children(parents)
    side = np.zeros(len(parents), dtype=bool)
    for body, parent in enumerate(parents.tolist()):
        if parent >= 0:
            side[body] = side[parent] or (sizes[body] <= most and heavy[parent] != body)
    return side


def renumbered(parents: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Parents of the kept bodies among themselves, -1 for those that are not kept."""
    places = np.full(len(parents) + 1, -1)
    places[:-1][kept] = np.arange(len(kept))
    return places[parents[kept]]


class FoldedBranches(eqx.Module):
    """Side branches whose joints are eliminated.

    **Fields:** `tree` of their bodies; their `motion` and eliminated `joints`; articulated `bias` p^A; `free`, joint
    accelerations if their parents do not accelerate. `inertia` and `load`: what each hands to the body it hangs on.
    """

    tree: TreeSchedule = eqx.field(static=True)
    motion: BodyArrays
    joints: JointElimination
    bias: Float[Array, "s 6"]
    free: Float[Array, "s d"]
    inertia: Float[Array, "s 6 6"]
    load: Float[Array, "s 6"]

    def accelerations(self, parents: Float[Array, "s 6"]) -> tuple[Float[Array, "s d"], Float[Array, "s 6"]]:
        """Joint accelerations and wrenches of the side branches, from the accelerations of the bodies they hang on."""

        def step(above: Array, x: tuple):
            hangs, parent, motion, joint, bias, free = x
            carried = motion.carried(jnp.where(hangs, parent, above))
            qdd = free - matvec(joint.gain, carried)
            acceleration = carried + matvec(motion.subspace, qdd)
            return acceleration, (qdd, matvec(joint.articulated, acceleration) + bias)

        hangs = jnp.asarray(self.tree.parents < 0)
        data = hangs, parents, self.motion, self.joints, self.bias, self.free
        return sweep_outward(self.tree, step, jnp.zeros_like(parents[0]), [data])[0]


def fold_branches(
    tree: TreeSchedule,
    motion: BodyArrays,
    inertia: Float[Array, "s 6 6"],
    bias: Float[Array, "s 6"],
    armature: Float[Array, "s d"],
    tau: Float[Array, "s d"],
) -> FoldedBranches:
    """Eliminates the joints of side branches, from the leaves."""

    def step(children: tuple[Array, Array], x: tuple):
        motion, inertia, bias, armature, tau = x
        joint = eliminate_joint(inertia + children[0], motion.subspace, armature)
        bias = bias + children[1]
        free = ldl_solve(joint.pivot, tau - matvec(transpose(motion.subspace), bias))
        load = shift_force(bias + matvec(joint.apparent, motion.bias) + matvec(joint.force, free), motion.offset)
        message = shift_inertia(joint.apparent, motion.offset), load
        return message, (joint, bias, free, *message)

    zero = jax.tree.map(lambda x: jnp.zeros_like(x[0]), (inertia, bias))
    (folded,) = sweep_inward(tree, step, zero, [(motion, inertia, bias, armature, tau)])
    joints, bias, free, inertia, load = folded
    return FoldedBranches(tree, motion, joints, bias, free, inertia, load)
