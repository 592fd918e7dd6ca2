"""The joint-space mass matrix by the composite-rigid-body algorithm."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._arguments import as_arrays
from .._motion import Poses, poses, world_inertias
from .._small import cross, dot
from .._types import ConfigurationLike
from ..model import Model
from ..spatial import Inertia
from ..structured._tree_sweep import sweep_inward


def mass_matrix(model: Model, q: ConfigurationLike) -> Float[Array, "nv nv"]:
    """Joint-space mass matrix `M(q)`, armature included; symmetric.

    Composite-rigid-body algorithm (Walker & Orin 1982; Featherstone, RBDA, table 6.2). After the inward sweep every
    entry is formed on its own, `M_ij = S_j^T X F_i` for j an ancestor of i, with the wrench `F_i = I_i^c S_i` shifted
    from the origin of i to that of j: no loop over ancestors, so the program does not grow with the mechanism.

    **Arguments:** `q` (nq,). **Returns:** (nv, nv) [kg m^2, kg m, kg].

    **Raises:** `ValueError` for a wrong shape.
    """
    return _mass_matrix(model, *as_arrays(model, q=q))


crba = mass_matrix


@jax.jit
def _mass_matrix(model: Model, q: Float[Array, "nq"]) -> Float[Array, "nv nv"]:
    where = poses(model, q)
    composite = composite_inertias(model, where)
    bodies = model.topology.dof_bodies
    columns = where.subspace.columns()
    wrenches = jax.tree.map(lambda x: x[bodies], composite).mv(columns)
    position = where.in_tree[bodies]
    # Rows i, columns j: the power of dof i's wrench on dof j's motion, taken at the origin of j's body.
    lever = position[:, None] - position[None, :]
    moment = wrenches[:, None, :3] + cross(lever, wrenches[:, None, 3:])
    entries = dot(moment, columns[None, :, :3]) + dot(wrenches[:, None, 3:], columns[None, :, 3:])
    lower = jnp.where(_lower_ancestors(model), entries, 0)
    strict = lower * (1 - jnp.eye(model.nv, dtype=lower.dtype))
    return lower + strict.T + jnp.diag(model.armature)


def composite_inertias(model: Model, where: Poses) -> Inertia:
    """(nb) inertias of the subtrees of all bodies about the bodies' origins, world axes."""

    def step(children: Inertia, x: tuple[Inertia, Array]):
        own, offset = x
        total = own + children
        return total.shifted(offset), total

    own = world_inertias(model, where.pose)
    zero = jax.tree.map(lambda x: jnp.zeros(x.shape[1:], x.dtype), own)
    (totals,) = sweep_inward(model.topology.schedule, step, zero, [(own, where.offset)])
    return totals


def _lower_ancestors(model: Model) -> Array:
    """(nv, nv): whether j <= i and j's body is i's or one of its ancestors; built from vectors of length nv."""
    first, last = (jnp.asarray(x[model.topology.dof_bodies]) for x in model.topology.intervals)
    number = jnp.arange(model.nv)
    ancestor = (first[None, :] <= first[:, None]) & (first[:, None] < last[None, :])
    return ancestor & (number[None, :] <= number[:, None])
