"""The articulated-body algorithm without a loop over bodies, or with one for the inertias only."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model import Model, pad_dofs, unpad_dofs
from ..motion import BodyMotions, fictitious_acceleration
from ..numerics import add, matvec, transpose
from ..spatial import shift_force, shift_motion
from ..structured._rounds import rounds
from ..structured._tree_scan import from_parents, sum_of_children
from ..typing import Velocity
from ._factors import Factors, LinkVector, bias_wrench, factorise, solve_links, torques_only
from ._method import AbstractMassSolver, Loads


def solve_by_scans(model: Model, motions: BodyMotions, loads: Loads, by_scan: bool) -> tuple[Velocity, "RefinedSolver"]:
    """Joint accelerations and what solves with the mass matrix again, all by scans (Yang, Wu & Pan 2016, sec. II-C).

    Articulated inertias are found one after the other, or `by_scan` too.
    """
    factors = factorise(model, motions, by_scan)
    return unpad_dofs(model.topology, _found(factors, loads).joints), RefinedSolver(factors)


def wrenches_by_scans(
    model: Model, motions: BodyMotions, loads: Loads, by_scan: bool
) -> tuple[Velocity, Float[Array, "nb 6"]]:
    """Joint accelerations and the wrenches that joints transmit."""
    found = _found(factorise(model, motions, by_scan), loads)
    return unpad_dofs(model.topology, found.joints), found.wrench


class RefinedSolver(AbstractMassSolver):
    """Solutions with the factors of the mass matrix, refined."""

    factors: Factors

    def solve(self, model: Model, b: Float[Array, "nv"]) -> Velocity:
        found = _refined(self.factors, torques_only(model, b), jnp.zeros(6, b.dtype))
        return unpad_dofs(model.topology, found.joints)


def _found(factors: Factors, loads: Loads) -> LinkVector:
    model, bodies = factors.model, factors.bodies
    bias = bias_wrench(bodies.inertia, bodies.motion.angular, loads.f_ext)
    base = fictitious_acceleration(model).astype(loads.tau.dtype)
    return _refined(factors, LinkVector(bodies.motion.bias, bias, pad_dofs(model.topology, loads.tau)), base)


def _refined(factors: Factors, given: LinkVector, base: Float[Array, "6"]) -> LinkVector:
    """The equations of motion, from the articulated inertias on, with one step of iterative refinement.

    That makes up for digits that products of two-ports lose where a joint moves little inertia of its own body. Its
    residuals are those of the equations of single bodies, so they do not suffer from the length of the mechanism.
    """
    model, bodies = factors.model, factors.bodies
    motion, tree = bodies.motion, bodies.tree

    def refine(_, x: LinkVector) -> LinkVector:
        parent = shift_motion(from_parents(tree, x.bodies, base), motion.offset)
        children = sum_of_children(tree, shift_force(x.wrench, motion.offset))
        armature = pad_dofs(model.topology, model.armature)
        residual = LinkVector(
            given.bodies + parent + matvec(motion.subspace, x.joints) - x.bodies,
            given.wrench + bodies.inertia.mv(x.bodies) - (x.wrench - children),
            given.joints - matvec(transpose(motion.subspace), x.wrench) - armature * x.joints,
        )
        return add(x, solve_links(factors, residual))

    return rounds(2, refine, jax.tree.map(jnp.zeros_like, given))
