"""Forward dynamics by the articulated-body algorithm."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._motion import BodyMotion, bias_wrench, fictitious_acceleration, split_bodies, sweep_motions
from .._small import matmul, matvec, skew, sum_of, symmetrise, transpose
from .._types import BodyForcesLike, ConfigurationLike, Velocity, VelocityLike
from ..model import Model, join_dofs, split_dofs
from ..spatial import Inertia, shift_force
from ..structured._small_spd import ldl_factor, ldl_solve
from ..structured._tree_sweep import sweep_inward, sweep_outward
from ._method import AbstractForwardDynamics, solve_forward_dynamics


class ABA(AbstractForwardDynamics):
    """Articulated-body algorithm (Featherstone, RBDA, table 7.1): three sweeps over the bodies, O(n).

    The equation of motion of body i and all that it carries is `F = I^A A + p^A`. Eliminating the acceleration of
    its joint, with `U = I^A S` and `D = S^T U + armature`, leaves the parent with

        I^a = I^A - U D^-1 U^T,    p^a = p^A + I^a bias + U D^-1 (tau - S^T p^A)

    shifted to its origin. Here everything is in world axes about the bodies' origins.
    """

    def solve(
        self,
        model: Model,
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        tau: Float[Array, "nv"],
        f_ext: Float[Array, "nb 6"],
    ) -> Velocity:
        schedule = model.topology.schedule
        links = sweep_motions(model, q, v, lambda _, motion: (None, motion))
        bodies = split_bodies(model, model.spatial_inertia), split_bodies(model, f_ext)
        joints = _padded_armature(model), split_dofs(model, tau)
        zero = jnp.zeros((6, 6), q.dtype), jnp.zeros(6, q.dtype)
        gains = sweep_inward(schedule, _inward, zero, list(zip(links, *bodies, *joints, strict=True)))
        base = fictitious_acceleration(model).astype(q.dtype)
        return join_dofs(model, sweep_outward(schedule, _outward, base, list(zip(links, gains, strict=True))))


def aba(
    model: Model, q: ConfigurationLike, v: VelocityLike, tau: VelocityLike, f_ext: BodyForcesLike | None = None
) -> Velocity:
    """`forward_dynamics` by the articulated-body algorithm."""
    return solve_forward_dynamics(ABA(), model, q, v, tau, f_ext)


def _padded_armature(model: Model) -> list[Float[Array, "_ _"]]:
    """Armature by segment; one for coordinates that a body lacks, which makes their rows of D the identity's."""
    present = split_dofs(model, jnp.ones_like(model.armature))
    return [
        armature + (1 - exists) for armature, exists in zip(split_dofs(model, model.armature), present, strict=True)
    ]


def _inward(children: tuple[Array, Array], link: tuple[BodyMotion, Inertia, Array, Array, Array]):
    motion, inertia, f_ext, armature, tau = link
    inertia = inertia.rotated(motion.rotation)
    articulated = children[0] + inertia.as_matrix()
    bias = children[1] + bias_wrench(inertia, motion.angular, f_ext)
    subspace = motion.subspace
    u = matmul(articulated, subspace)
    d = matmul(transpose(subspace), u) + jnp.diag(armature)
    factor = ldl_factor(d, _pivot_floor(articulated, subspace))
    gain = ldl_solve(factor, transpose(u))
    free = ldl_solve(factor, (tau - matvec(transpose(subspace), bias))[:, None])[:, 0]
    apparent = articulated - matmul(u, gain)
    bias = bias + matvec(apparent, motion.bias) + matvec(u, free)
    return (_shift_inertia(apparent, motion.offset), shift_force(bias, motion.offset)), (gain, free)


def _pivot_floor(articulated: Float[Array, "6 6"], subspace: Float[Array, "6 d"]) -> Float[Array, "d"]:
    """What rounding can leave of a pivot that is zero: a few units in the last place of the terms `S^T I S` sums.

    It must not be taken from the whole inertia: that of a long planar chain is huge in other directions, exactly.
    """
    sizes = jnp.abs(subspace)
    terms = sizes * matmul(jnp.abs(articulated), sizes)
    return 4 * jnp.finfo(terms.dtype).eps * sum_of(terms[i] for i in range(6))


def _outward(parent: Float[Array, "6"], link: tuple[BodyMotion, tuple[Array, Array]]):
    motion, (gain, free) = link
    carried = motion.carried(parent)
    qdd = free - matvec(gain, carried)
    return carried + matvec(motion.subspace, qdd), qdd


def _shift_inertia(inertia: Float[Array, "6 6"], r: Float[Array, "3"]) -> Float[Array, "6 6"]:
    """Inertia about the parent's origin: `X^T I X` with `X = [[1, 0], [-[r]x, 1]]`, made symmetric again.

    Without the last step float32 errors grow a thousandfold on a chain of a thousand links.
    """
    lever = skew(r)
    rows = jnp.concatenate([inertia[:3] + matmul(lever, inertia[3:]), inertia[3:]])
    shifted = jnp.concatenate([rows[:, :3] - matmul(rows[:, 3:], lever), rows[:, 3:]], axis=1)
    return symmetrise(shifted)
