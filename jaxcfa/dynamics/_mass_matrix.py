"""The joint-space mass matrix by the composite-rigid-body algorithm."""

import functools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ..backend import backend
from ..model import Model, Topology, join_dofs
from ..motion import BodyMotions, of_motions
from ..motion._jacobians import moving_dofs
from ..numerics import picked
from ..spatial import Force, Motion, RigidInertia, Vector
from ..structured._tree_sweep import inward
from ..typing import ConfigurationLike

_MOST_BY_PAIRS = 128  # degrees of freedom whose pairs are numbers in the program


def mass_matrix(model: Model, q: ConfigurationLike, motions: BodyMotions | None = None) -> Float[Array, "nv nv"]:
    """Joint-space mass matrix `M(q)`, armature included; symmetric.

    Composite-rigid-body algorithm (Walker & Orin 1982; Featherstone, RBDA, table 6.2). After the inward sweep every
    entry is formed on its own, `M_ij = S_j^T X F_i` for j an ancestor of i, with the wrench `F_i = I_i^c S_i` shifted
    from the origin of i to that of j: no loop over ancestors, so the program does not grow with the mechanism.

    **Arguments:** `q` (nq,); `motions`: `body_motions` of the same q, if they are known already.

    **Returns:** (nv, nv) [kg m^2, kg m, kg].

    **Raises:** `ValueError` for a wrong shape.
    """
    return _mass_matrix(model, motions, q=q)


crba = mass_matrix


@of_motions
def _mass_matrix(model: Model, motions: BodyMotions) -> Float[Array, "nv nv"]:
    wrench, column = unit_wrenches(motions), motions.columns
    position = Vector.of(picked(motions.origins, model.topology.dof_bodies))
    by_pairs = backend() == "cpu" and model.nv <= _MOST_BY_PAIRS
    powers = _powers_by_pairs if by_pairs else _powers
    return powers(model.topology, model.armature, wrench, column, position)


def _powers(
    topology: Topology, armature: Float[Array, "nv"], wrench: Force, column: Motion, position: Vector
) -> Float[Array, "nv nv"]:
    """The powers of the wrenches (nv) on the motions (nv) of what they are carried by, and armature; symmetric."""
    # Rows i, columns j: the power of dof i's wrench on dof j's motion, taken at the origin of j's body.
    wrench_i, position_i = jax.tree.map(lambda x: x[:, None], (wrench, position))
    column_j, position_j = jax.tree.map(lambda x: x[None, :], (column, position))
    entries = column_j.dot(wrench_i.carried(position_i - position_j))
    number = np.arange(len(topology.dof_bodies))
    ancestors = moving_dofs(topology, topology.dof_bodies) & (number[None, :] <= number[:, None])
    lower = jnp.where(ancestors, entries, 0)
    return lower + (lower * (1 - jnp.eye(len(number), dtype=lower.dtype))).T + jnp.diag(armature)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _powers_by_pairs(
    topology: Topology, armature: Float[Array, "nv"], wrench: Force, column: Motion, position: Vector
) -> Float[Array, "nv nv"]:
    """`_powers`, of which only those that are not zero are computed, once each.

    Derivatives are those of `_powers`: of what is picked they would be assignments at indices.
    """
    rows, columns, index = _pairs(topology)

    def at(numbers: np.ndarray, x: PyTree[Array]) -> PyTree[Array]:
        return jax.tree.map(lambda x: x.at[numbers].get(mode="promise_in_bounds", wrap_negative_indices=False), x)

    # XLA would compute again for each pair what it is made of.
    wrench, column, position = jax.lax.optimization_barrier((wrench, column, position))
    lever = at(rows, position) - at(columns, position)
    entries = at(columns, column).dot(at(rows, wrench).carried(lever))
    entries = entries + jnp.where(rows == columns, at(rows, armature), 0)
    return at(index, jnp.append(entries, jnp.zeros(1, entries.dtype)))


def _powers_by_pairs_jvp(topology: Topology, primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    return jax.jvp(partial(_powers, topology), primals, tangents)


_powers_by_pairs.defjvp(_powers_by_pairs_jvp)


@functools.cache
def _pairs(topology: Topology) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(n,), (n,): degrees of freedom, the second of which moves the first; (nv, nv): which pair is where, or n."""
    rows, columns = np.nonzero(np.tril(moving_dofs(topology, topology.dof_bodies)))
    index = np.full((topology.nv, topology.nv), len(rows))
    index[rows, columns] = index[columns, rows] = np.arange(len(rows))
    return rows, columns, index


def unit_wrenches(motions: BodyMotions) -> Force:
    """`I_i^c S_i` by degree of freedom (nv): momenta of all that it carries at unit speed, about its body's origin."""
    wrenches = [
        jax.vmap(RigidInertia.__matmul__)(inertia, link.subspace)
        for inertia, link in zip(composite_inertias(motions), motions.links, strict=True)
    ]
    return join_dofs(motions.topology, wrenches)


def composite_inertias(motions: BodyMotions) -> list[RigidInertia]:
    """Inertias of the subtrees of all bodies about the bodies' origins, world axes, by segment."""

    def step(children: RigidInertia, x: tuple[RigidInertia, Vector]):
        own, offset = x
        total = own + children
        return total.carried(offset), total

    zero = RigidInertia.zero(motions.q.dtype)
    return inward(motions.topology.schedule, step, zero, [(link.inertia, link.offset) for link in motions.links])
