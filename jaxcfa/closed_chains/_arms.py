"""An arm that holds something, and the sweeps with the factors of its mass matrix."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..defaults import default_schedule
from ..dynamics._factors import (
    Factors,
    LinkVector,
    drift_accelerations,
    drift_wrenches,
    factorise,
    filter_inward,
    smooth_outward,
)
from ..model import WORLD, Model, pad_dofs
from ..motion import motions_at
from ..numerics import cross, matvec, product, transpose
from ..spatial import pack, shift_force, shift_motion
from ..structured import ldl_solve


class Arm(eqx.Module):
    """An arm in a state, and the sweeps with its factors. With a leading axis: several of equal structure.

    **Fields:** `tip`, the body that holds the object; `factors`; `torques` left by what velocities, gravity and
    external wrenches demand at zero joint accelerations, `tau - C`; `lever` from the tip's origin to the `point` of
    contact; its `velocity`, and its acceleration `bias` at zero joint accelerations, against gravity; `influence`, the
    transpose of `H psi B`: what joints feel of unit wrenches at the contact if those farther out are free;
    `length` of the way from body to body and to the contact, wherever the first body is.
    """

    tip: int = eqx.field(static=True)
    factors: Factors
    torques: Float[Array, "*n nb d"]
    lever: Float[Array, "*n 3"]
    point: Float[Array, "*n 3"]
    velocity: Float[Array, "*n 6"]
    bias: Float[Array, "*n 6"]
    influence: Float[Array, "*n 6 nb d"]
    length: Float[Array, "*n"]

    def scaled(self, left: Float[Array, "nb d"]) -> Float[Array, "nb d"]:
        """`D^-1 eps`."""
        return ldl_solve(self.factors.joints.pivot, left)

    def filter(self, torques: Float[Array, "nb d"], wrench: Float[Array, "6"]) -> Float[Array, "nb d"]:
        """`eps = (1 - H Psi K) torques - H psi B f`, inwards."""
        return _filter(self.factors, self.tip, self.lever, torques, wrench)

    def smooth(self, left: Float[Array, "nb d"]) -> tuple[Float[Array, "nb d"], Float[Array, "6"]]:
        """`(1 - H Psi K)^T D^-1 eps`, outwards: accelerations of the joints; what these give to the contact."""
        still = jnp.zeros((len(left), 6), left.dtype)
        bodies, joints = smooth_outward(self.factors, self.scaled(left), still)
        return joints, shift_motion(bodies[self.tip], self.lever)

    def project(self, left: Float[Array, "nb d"]) -> Float[Array, "6"]:
        """`B^T psi^T H^T D^-1 eps`: the acceleration of the contact that `smooth` gives, without that sweep."""
        return product(self.influence.reshape(6, -1), self.scaled(left).reshape(-1))

    def mobility(self) -> Float[Array, "6 6"]:
        """`J M^-1 J^T` of the contact."""
        columns = self.influence.reshape(6, -1)
        return product(columns, jax.vmap(self.scaled)(self.influence).reshape(6, -1).T)


def prepare_arm(
    tip: int,
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
    contact: Float[Array, "3"],
) -> Arm:
    """An arm in a state, with the contact at a point of its body `tip`, in body axes."""
    schedule = default_schedule(model)
    motions = motions_at(model, q, v, schedule)
    factors = factorise(model, motions, by_scan=False)
    bodies, motion = factors.bodies, factors.bodies.motion
    torques = pad_dofs(model.topology, tau)
    drift = drift_accelerations(model, schedule, bodies)
    wrenches = drift_wrenches(model, schedule, bodies, drift, f_ext)
    lever, spin = matvec(motion.rotation[tip], contact), motion.angular[tip]
    still = jnp.zeros_like(torques)
    in_tree = (np.asarray(model.topology.parents) != WORLD)[:, None]
    influence = -jax.vmap(lambda wrench: _filter(factors, tip, lever, still, wrench))(jnp.eye(6, dtype=q.dtype))
    return Arm(
        tip=tip,
        factors=factors,
        torques=torques - matvec(transpose(motion.subspace), wrenches),
        lever=lever,
        point=motions.poses.translation[tip] + lever,
        velocity=shift_motion(motions.velocities[tip], lever),
        bias=shift_motion(drift[tip], lever) + centripetal(spin, lever),
        influence=influence,
        length=jnp.sum(jnp.where(in_tree, jnp.abs(motion.offset), 0)) + jnp.sum(jnp.abs(lever)),
    )


def centripetal(angular: Float[Array, "*#n 3"], lever: Float[Array, "*#n 3"]) -> Float[Array, "*n 6"]:
    """`[0; w x (w x r)]`: of a point on a body that turns."""
    linear = cross(angular, cross(angular, lever))
    return pack(jnp.zeros_like(linear), linear)


def _filter(
    factors: Factors,
    tip: int,
    lever: Float[Array, "3"],
    torques: Float[Array, "nb d"],
    wrench: Float[Array, "6"],
) -> Float[Array, "nb d"]:
    nothing = jnp.zeros((len(torques), 6), torques.dtype)
    carried = nothing.at[tip].set(shift_force(wrench, lever))
    return filter_inward(factors, LinkVector(nothing, carried, torques))[1]
