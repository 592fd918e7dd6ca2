"""The joint-space mass matrix by the composite-rigid-body algorithm."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..compilation import jit_of_one_state
from ..model import Model, join_dofs
from ..model._arguments import as_arrays
from ..motion import BodyMotions, check_motions, motions_at
from ..motion._jacobians import moving_dofs
from ..one_function import as_one_function
from ..spatial import Force, Motion, RigidInertia, Vector
from ..structured import Sequential
from ..structured._tree_sweep import inward
from ..typing import ConfigurationLike


def mass_matrix(model: Model, q: ConfigurationLike, motions: BodyMotions | None = None) -> Float[Array, "nv nv"]:
    """Joint-space mass matrix `M(q)`, armature included; symmetric.

    Composite-rigid-body algorithm (Walker & Orin 1982; Featherstone, RBDA, table 6.2). After the inward sweep every
    entry is formed on its own, `M_ij = S_j^T X F_i` for j an ancestor of i, with the wrench `F_i = I_i^c S_i` shifted
    from the origin of i to that of j: no loop over ancestors, so the program does not grow with the mechanism.

    **Arguments:** `q` (nq,); `motions`: `body_motions` of the same q, if they are known already.

    **Returns:** (nv, nv) [kg m^2, kg m, kg].

    **Raises:** `ValueError` for a wrong shape.
    """
    (q,) = as_arrays(model, q=q)
    check_motions(model, motions, q)
    return _mass_matrix(model, q, motions)


crba = mass_matrix


@jit_of_one_state
@partial(as_one_function, derivatives=False)
def _mass_matrix(model: Model, q: Float[Array, "nq"], motions: BodyMotions | None) -> Float[Array, "nv nv"]:
    motions = motions_at(model, q, None, Sequential(), motions)
    topology = model.topology
    wrench = unit_wrenches(motions)
    column = Motion.of(motions.subspace_columns)
    position = Vector.of(motions.origins[topology.dof_bodies])
    # Rows i, columns j: the power of dof i's wrench on dof j's motion, taken at the origin of j's body.
    wrench_i, position_i = jax.tree.map(lambda x: x[:, None], (wrench, position))
    column_j, position_j = jax.tree.map(lambda x: x[None, :], (column, position))
    entries = column_j.dot(wrench_i.carried(position_i - position_j))
    lower = jnp.where(_lower_ancestors(model), entries, 0)
    strict = lower * (1 - jnp.eye(model.nv, dtype=lower.dtype))
    return lower + strict.T + jnp.diag(model.armature)


def unit_wrenches(motions: BodyMotions) -> Force:
    """`I_i^c S_i` by degree of freedom (nv): momenta of all that it carries at unit speed, about its body's origin."""
    wrenches = [
        jax.vmap(RigidInertia.__matmul__)(inertia, link.subspace)
        for inertia, link in zip(composite_inertias(motions), motions.links, strict=True)
    ]
    return Force.of(join_dofs(motions.topology, [x.array() for x in wrenches]))


def composite_inertias(motions: BodyMotions) -> list[RigidInertia]:
    """Inertias of the subtrees of all bodies about the bodies' origins, world axes, by segment."""

    def step(children: RigidInertia, x: tuple[RigidInertia, Vector]):
        own, offset = x
        total = own + children
        return total.carried(offset), total

    zero = RigidInertia.zero(motions.q.dtype)
    return inward(motions.topology.schedule, step, zero, [(link.inertia, link.offset) for link in motions.links])


def _lower_ancestors(model: Model) -> Array:
    """(nv, nv): whether j <= i and j's body is i's or one of its ancestors; built from vectors of length nv."""
    number = jnp.arange(model.nv)
    return moving_dofs(model, model.topology.dof_bodies) & (number[None, :] <= number[:, None])
