"""The articulated-body algorithm without a loop over bodies, or with one for the inertias only."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from .._motion import bias_wrench, fictitious_acceleration
from .._small import matvec, transpose
from .._types import Velocity
from ..model import Model, pad_dofs, unpad_dofs
from ..spatial import shift_force, shift_motion
from ..structured._scan import DOUBLING
from ..structured._tree_scan import from_parents, sum_of_children
from ._factors import Factors, LinkVector, factorise, solve_links


def hybrid_aba(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
) -> tuple[Velocity, Float[Array, "nb 6"]]:
    """Articulated inertias one after the other, all else by scans (Yang, Wu & Pan 2016, sec. II-C)."""
    return _accelerations(factorise(model, q, v, DOUBLING, by_scan=False), tau, f_ext)


def scan_aba(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
) -> tuple[Velocity, Float[Array, "nb 6"]]:
    """Articulated inertias by a scan, too."""
    return _accelerations(factorise(model, q, v, DOUBLING, by_scan=True), tau, f_ext)


def _accelerations(
    factors: Factors, tau: Float[Array, "nv"], f_ext: Float[Array, "nb 6"]
) -> tuple[Velocity, Float[Array, "nb 6"]]:
    """Joint accelerations and wrenches from the articulated inertias, with one step of iterative refinement.

    That makes up for digits that products of two-ports lose where a joint moves little inertia of its own body. Its
    residuals are those of the equations of single bodies, so they do not suffer from the length of the mechanism.
    """
    model, bodies = factors.model, factors.bodies
    motion, tree = bodies.motion, bodies.tree
    base = fictitious_acceleration(model).astype(tau.dtype)
    given = LinkVector(motion.bias, bias_wrench(bodies.inertia, motion.angular, f_ext), pad_dofs(model, tau))

    def refine(_, x: LinkVector) -> LinkVector:
        parent = shift_motion(from_parents(tree, x.bodies, base), motion.offset)
        children = sum_of_children(tree, shift_force(x.wrench, motion.offset))
        armature = pad_dofs(model, model.armature)
        residual = LinkVector(
            given.bodies + parent + matvec(motion.subspace, x.joints) - x.bodies,
            given.wrench + bodies.inertia.mv(x.bodies) - (x.wrench - children),
            given.joints - matvec(transpose(motion.subspace), x.wrench) - armature * x.joints,
        )
        return jax.tree.map(jnp.add, x, solve_links(factors, residual))

    found = lax.fori_loop(0, 2, refine, jax.tree.map(jnp.zeros_like, given))
    return unpad_dofs(model, found.joints), found.wrench
