"""Jacobians of points on bodies, from the joints' motion subspaces in the world."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..model import WORLD, Model, Topology
from ..numerics import picked
from ..spatial import Motion, Vector


def point_jacobian(
    model: Model,
    columns: Float[Array, "nv 6"],
    origins: Float[Array, "nb 3"],
    point: Float[Array, "*nv 3"],
    support: Bool[Array, "nv"],
) -> Float[Array, "6 nv"]:
    """`J v = [angular velocity; velocity of the point]` in world axes, of the point on a body.

    **Arguments:** `columns` of the motion subspaces about the `origins` of the bodies, world axes; the `support` of
    the body. Origins and point are given from the first body of each tree, which keeps their digits far from the
    world's origin; of a point that bodies of several trees move, from that of each degree of freedom.
    """
    lever = Vector.of(jnp.atleast_2d(point)) - Vector.of(picked(origins, model.topology.dof_bodies))
    moved = Motion.of(columns).at(lever)
    return jnp.stack([jnp.where(support, x, 0) for x in jax.tree.leaves(moved)])


def point_jacobians(
    model: Model,
    columns: Float[Array, "nv 6"],
    origins: Float[Array, "nb 3"],
    points: Float[Array, "*m 3"],
    bodies: Int[Array | np.ndarray, "*m"],
) -> Float[Array, "*m 6 nv"]:
    """`point_jacobian` of one point or several, each on one of the `bodies`, whose numbers may be traced."""

    def of_one(point: Float[Array, "3"], support: Bool[Array, "nv"]) -> Float[Array, "6 nv"]:
        return point_jacobian(model, columns, origins, point, support)

    of_all = jax.vmap(of_one) if np.ndim(bodies) else of_one
    return of_all(points, jnp.asarray(moving_dofs(model.topology, bodies)))


def moving_dofs(topology: Topology, bodies: Int[Array | np.ndarray, "*m"]) -> Bool[Array | np.ndarray, "*m nv"]:
    """Whether a degree of freedom moves a body; none moves the world. Of NumPy's if the numbers are."""
    of = np if isinstance(bodies, np.ndarray) else jnp
    first, last = topology.intervals
    # The world is before all intervals.
    number = of.asarray(np.append(first, WORLD))[bodies][..., None]
    dofs = np.reshape(topology.dof_bodies, (*[1] * np.ndim(bodies), -1))
    return (first[dofs] <= number) & (number < last[dofs])
