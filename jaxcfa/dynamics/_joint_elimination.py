"""One step of the articulated-body algorithm: what a joint leaves of the inertia of all that it carries."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import matmul, skew, sum_of, symmetrise, transpose
from ..spatial import ArticulatedInertia, Force, Motion
from ..structured import LDL, ldl_factor, ldl_solve


class JointElimination(eqx.Module):
    """A joint on a body of articulated inertia `I^A`, for one body.

    **Fields:** `articulated` inertia; factorised `pivot` D; `force` U; `gain` `D^-1 U^T`; `apparent` inertia, felt
    across the joint.
    """

    articulated: Float[Array, "6 6"]
    pivot: LDL
    force: Float[Array, "6 d"]
    gain: Float[Array, "d 6"]
    apparent: Float[Array, "6 6"]


def eliminate_joint(
    articulated: Float[Array, "6 6"], subspace: Float[Array, "6 d"], armature: Float[Array, "d"]
) -> JointElimination:
    """`U = I^A S`, `D = S^T U + armature`, `I^a = I^A - U D^-1 U^T`. NaN if D is not positive definite."""
    force = matmul(articulated, subspace)
    pivot = ldl_factor(matmul(transpose(subspace), force) + jnp.diag(armature), _floor(articulated, subspace))
    gain = ldl_solve(pivot, transpose(force))
    return JointElimination(articulated, pivot, force, gain, articulated - matmul(force, gain))


def _floor(articulated: Float[Array, "6 6"], subspace: Float[Array, "6 d"]) -> Float[Array, "d"]:
    """What rounding can leave of a pivot that is zero: a few units in the last place of the terms `S^T I S` sums.

    It must not be taken from the whole inertia: that of a long planar chain is huge in other directions, exactly.
    """
    sizes = jnp.abs(subspace)
    terms = sizes * matmul(jnp.abs(articulated), sizes)
    return 4 * jnp.finfo(terms.dtype).eps * sum_of(jnp.unstack(terms))


class Elimination(eqx.Module):
    """The same by components, for sweeps.

    **Fields:** factorised `pivot` D (d); `force` U and `gain` `U D^-1`, columns (d); `apparent` inertia.
    """

    pivot: LDL
    force: Force
    gain: Force
    apparent: ArticulatedInertia


def eliminate(articulated: ArticulatedInertia, subspace: Motion, armature: Float[Array, "d"]) -> Elimination:
    """`eliminate_joint` by components, where the joint has one degree of freedom; several are columns of arrays."""
    if len(armature) != 1:
        joint = eliminate_joint(articulated.array(), subspace.matrix(), armature)
        gain = Force.columns(transpose(joint.gain))
        return Elimination(joint.pivot, Force.columns(joint.force), gain, ArticulatedInertia.of(joint.apparent))
    force, sizes = articulated @ subspace, jax.tree.map(jnp.abs, subspace)
    terms = sizes.dot(jax.tree.map(jnp.abs, articulated) @ sizes)
    floor = 4 * jnp.finfo(terms.dtype).eps * terms
    pivot = ldl_factor((subspace.dot(force) + armature)[:, None], floor)
    gain = force * (1 / pivot.pivots)
    column, row = jax.tree.map(lambda x: x[0], (force, gain))
    return Elimination(pivot, force, gain, articulated.less_outer(column, row))


def shift_inertia(inertia: Float[Array, "6 6"], r: Float[Array, "3"]) -> Float[Array, "6 6"]:
    """Inertia about the parent's origin: `X^T I X` with `X = [[1, 0], [-[r]x, 1]]`, made symmetric again.

    Without the last step float32 errors grow a thousandfold on a chain of a thousand links.
    """
    lever = skew(r)
    rows = jnp.concatenate([inertia[:3] + matmul(lever, inertia[3:]), inertia[3:]])
    shifted = jnp.concatenate([rows[:, :3] - matmul(rows[:, 3:], lever), rows[:, 3:]], axis=1)
    return symmetrise(shifted)
