"""Jacobians of points on bodies, from the joints' motion subspaces in the world."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..model import Model, Topology
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
    points: Float[Array, "m 3"],
    bodies: np.ndarray,
) -> Float[Array, "m 6 nv"]:
    """`point_jacobian` of several points, each on one of the `bodies`."""
    support = jnp.asarray(np.stack([supporting_dofs(model, int(body)) for body in bodies]))
    return jax.vmap(lambda point, s: point_jacobian(model, columns, origins, point, s))(points, support)


def supporting_dofs(model: Model, body: int) -> np.ndarray:
    """(nv,): whether a degree of freedom moves the body; none moves the world."""
    return model.topology.supports(body)[model.topology.dof_bodies]


def moving_dofs(topology: Topology, bodies: Int[Array | np.ndarray, "*m"]) -> Bool[Array, "*m nv"]:
    """`supporting_dofs` of bodies whose numbers may be traced."""
    first, last = topology.intervals
    # The world is before all intervals.
    number = jnp.asarray(np.append(first, -1))[bodies][..., None]
    dofs = np.reshape(topology.dof_bodies, (*[1] * np.ndim(bodies), -1))
    return (jnp.asarray(first[dofs]) <= number) & (number < jnp.asarray(last[dofs]))
