"""The matrix of Coriolis and centrifugal forces, in closed form.

With the bodies' Jacobians J, inertias I and velocities V, in axes at rest, the mass matrix is the sum of `J^T I J`, and

    C = sum of J^T (I dJ/dt + B J),    2 B m = V x* (I m) - I (V x m) + m x* (I V)

for which `B V = V x* (I V)`, while `dI/dt - 2 B` is skew-symmetric (Niemeyer & Slotine 1991; Echeandia & Wensing,
"Numerical methods to compute the Coriolis matrix and Christoffel symbols for rigid-body systems", J. Comput. Nonlinear
Dyn. 2021). Nothing is assumed of the velocity coordinates, so both properties of C hold for those that are no rates of
configuration coordinates, too. Sums over the bodies that two joints carry are composites of the subtree of the joint
that comes later. Vectors are spatial, in world axes about the origin of the first body of each tree.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..joints import AbstractJoint
from ..model import Model, map_joints, unpad_dofs
from ..model._arguments import as_arrays
from ..motion import BodyMotions, motions_at, schedule_for
from ..numerics import matmul, matvec, transpose
from ..spatial import motion_cross, rotate, shift_motion
from ..structured import AbstractSchedule
from ..typing import ConfigurationLike, VelocityLike
from ._pairs import ancestors, twice_b


def coriolis_matrix(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> Float[Array, "nv nv"]:
    """Matrix C(q, v) of Coriolis and centrifugal forces `C v`, with `dM/dt - 2 C` skew-symmetric.

    `M qdd + C v + gravity_forces` is `inverse_dynamics`. `dM/dt` is the rate of the mass matrix along the motion with
    velocity v; the skew symmetry holds for all joints, also where v are no rates of q. C is linear in v.

    **Arguments:** `q` (nq,), `v` (nv,); `schedule` as for `inverse_dynamics`; `motions`: `body_motions` of the same q
    and v, if they are known already.

    **Returns:** (nv, nv) [N m s, N s, ...]. **Raises:** `ValueError` for a wrong shape.
    """
    q, v = as_arrays(model, q=q, v=v)
    return _coriolis_matrix(model, q, v, schedule_for(model, schedule, motions, q, v), motions)


@jax.jit
def _coriolis_matrix(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], schedule: AbstractSchedule, motions: BodyMotions | None
) -> Float[Array, "nv nv"]:
    motions = motions_at(model, q, v, schedule, motions)
    bodies, tree = model.topology.dof_bodies, model.topology.schedule
    rotation, lever = motions.poses.rotation, motions.origins
    velocity = shift_motion(motions.velocities, -lever)
    inertia = model.spatial_inertia.rotated(rotation).shifted(lever).as_matrix()
    own = inertia, 0.5 * twice_b(inertia, velocity, matvec(inertia, velocity))
    inertia, b = (x[bodies] for x in schedule.subtree_sum(tree, own))

    # Columns of the Jacobians of all bodies that a joint carries, and their rates.
    column = shift_motion(motions.subspace_columns, -lever[bodies])
    apparent = shift_motion(rotate(rotation[bodies], _subspace_rates(model, q, v)), -lever[bodies])
    rate = motion_cross(velocity[bodies], column) + apparent

    rows = jnp.concatenate([matvec(transpose(b), column), matvec(inertia, column)], -1)
    within, beyond = ancestors(model)
    of_carried = matmul(rows, jnp.concatenate([column, rate], -1).T)
    of_carriers = matmul(column, (matvec(inertia, rate) + matvec(b, column)).T)
    return jnp.where(within, of_carried, jnp.where(beyond, of_carriers, 0))


def _subspace_rates(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "nv 6"]:
    """Columns of `dS/dt` along the motion, in body axes about the bodies' origins."""
    d = int(model.topology.nvs.max(initial=1))

    def one(joint: AbstractJoint, q: Array, v: Array) -> Float[Array, "d 6"]:
        if joint.has_fixed_axes:
            return jnp.zeros((d, 6), q.dtype)
        zero = jnp.zeros((), q.dtype)
        subspace = lambda t: joint.motion_subspace(joint.integrate(q, t * v))  # noqa: E731
        rate = jax.jvp(subspace, (zero,), (zero + 1,))[1]
        return jnp.pad(rate.T, ((0, d - joint.nv), (0, 0)))

    return unpad_dofs(model.topology, map_joints(model, one, ("q", q), ("v", v)))
