"""Derivatives of inverse dynamics with respect to configuration, velocity and acceleration, in closed form.

Singh, Russell & Wensing, "Efficient analytical derivatives of rigid-body dynamics using spatial vector algebra",
RA-L 2022, here for joints of any type. Where a joint is displaced by D, what it carries moves along as a whole. In axes
that are displaced with it the velocities V of all these bodies change by one vector nu, and their accelerations by
`nu x V` besides another, so the wrench F of the subtree changes by

    dF = 2 B^c nu + I^c kappa,    kappa = A_p x D + V_p x nu + w

with the composite inertia `I^c`, a composite `B^c` of inertias and velocities, and the parent's V_p and A_p. For a
displacement `nu = V_p x D + u`; u and w are what the joint's own formulas add where its axes depend on q. Vectors are
spatial (not classical), in world axes about one point common to all bodies of a tree: the origin of its first body.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..joints import AbstractJoint
from ..model import Model, join_bodies, map_joints
from ..model._arguments import as_arrays
from ..motion import BodyMotions, fictitious_acceleration, joint_motions, motions_at, schedule_for
from ..numerics import matmul, matvec, product, skew, transpose
from ..spatial import force_cross, motion_cross, rotate, shift_force, shift_motion
from ..structured import AbstractSchedule
from ..structured._tree_scan import from_parents
from ..typing import BodyForcesLike, ConfigurationLike, VelocityLike
from ._pairs import ancestors, twice_b


class InverseDerivatives(NamedTuple):
    """Jacobians of inverse dynamics, rows torques: `dq` in the tangent space, `dv`, and `dqdd`, the mass matrix."""

    dq: Float[Array, "nv nv"]
    dv: Float[Array, "nv nv"]
    dqdd: Float[Array, "nv nv"]


def inverse_dynamics_derivatives(
    model: Model,
    q: ConfigurationLike,
    v: VelocityLike,
    qdd: VelocityLike,
    f_ext: BodyForcesLike | None = None,
    schedule: AbstractSchedule | None = None,
    motions: BodyMotions | None = None,
) -> InverseDerivatives:
    """All first derivatives of `inverse_dynamics`, in closed form.

    `dq` is in the tangent space: of `inverse_dynamics(model, integrate(model, q, dq), v, qdd, f_ext)` at `dq = 0`, so
    that it is nv x nv with quaternions, too. External wrenches are held fixed in the world, with the body's origin as
    their reference point.

    **Arguments:** as for `inverse_dynamics`. **Returns:** `dq` (nv, nv) [N m/rad, ...], `dv` [N m s/rad, ...] and
    `dqdd`, the mass matrix, armature included.

    **Raises:** `ValueError` for a wrong shape.
    """
    q, v, qdd, f_ext = as_arrays(model, q=q, v=v, qdd=qdd, f_ext=f_ext)
    return derivatives_of_arrays(model, q, v, qdd, f_ext, schedule_for(model, schedule, motions, q, v), motions)


@jax.jit
def derivatives_of_arrays(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    qdd: Float[Array, "nv"],
    f_ext: Float[Array, "nb 6"],
    schedule: AbstractSchedule,
    motions: BodyMotions | None = None,
) -> InverseDerivatives:
    """`inverse_dynamics_derivatives` of arrays known to be right."""
    joints = _joint_derivatives(model, q, v, qdd)
    motions = motions_at(model, q, v, schedule, motions)
    rotation, lever = motions.poses.rotation, motions.origins
    bodies, tree = model.topology.dof_bodies, model.topology.schedule

    def moved(x: Array, of: np.ndarray | slice = slice(None)) -> Array:
        """Motion vectors of bodies from their origins to the common point."""
        return shift_motion(x, -lever[of])

    # Motions of all bodies, and the wrenches that they take.
    relative = moved(_of_joints(motions, v))
    velocity = schedule.ancestor_sum(tree, relative)
    gained = moved(_of_joints(motions, qdd) + rotate(rotation, joints.bias)) + motion_cross(velocity, relative)
    base = fictitious_acceleration(model).astype(q.dtype)
    acceleration = schedule.ancestor_sum(tree, gained) + base
    inertia = model.spatial_inertia.rotated(rotation).shifted(lever).as_matrix()
    momentum = matvec(inertia, velocity)
    external = shift_force(f_ext, lever)
    wrench = matvec(inertia, acceleration) + force_cross(velocity, momentum) - external
    own = inertia, twice_b(inertia, velocity, momentum), wrench, _turned(external, lever)
    inertia, b2, wrench, turned = (x[bodies] for x in schedule.subtree_sum(tree, own))

    # What displacements and velocities of each degree of freedom do to all that it carries.
    d = moved(motions.subspace_columns, bodies)
    parent = tuple(x[bodies] for x in from_parents(tree, (velocity, acceleration), (jnp.zeros_like(base), base)))
    v_own, r_own = velocity[bodies], rotation[bodies]
    u, s, b = (moved(rotate(r_own, x), bodies) for x in (joints.velocity_by_q, joints.acceleration_by_q, joints.by_v))
    nu_q = motion_cross(parent[0], d) + u
    kappa_q = motion_cross(parent[1], d) + motion_cross(parent[0], nu_q) + s + motion_cross(v_own, u)
    kappa_v = motion_cross(parent[0], d) + b + motion_cross(v_own, d)

    rows = jnp.concatenate([matvec(transpose(b2), d), matvec(inertia, d), -matvec(transpose(turned), d)], -1)
    within, beyond = ancestors(model)

    def torques(columns: Array, change: Array) -> Array:
        """Of the joint itself and those that it carries, and of those that carry it."""
        own = product(rows[:, : columns.shape[1]], columns.T)
        return jnp.where(within, own, jnp.where(beyond, product(d, change.T), 0))

    change_q = matvec(b2, nu_q) + matvec(inertia, kappa_q) - matvec(turned, d[:, :3]) + force_cross(d, wrench)
    change_v = matvec(b2, d) + matvec(inertia, kappa_v)
    by_axes = _own_axes(model, q, rotate(transpose(rotation)[bodies], _to_origins(wrench, lever[bodies])))
    dq = torques(jnp.concatenate([nu_q, kappa_q, d[:, :3]], -1), change_q) + by_axes
    dv = torques(jnp.concatenate([d, kappa_v], -1), change_v)
    pairs = product(rows[:, 6:12], d.T)
    matrix = jnp.where(within, pairs, jnp.where(beyond, pairs.T, 0))
    return InverseDerivatives(dq, dv, matrix + jnp.diag(model.armature))


def _of_joints(motions: BodyMotions, x: Float[Array, "nv"]) -> Float[Array, "nb 6"]:
    """`S x` of all bodies."""
    return join_bodies(motions.topology, [motion.array() for motion in joint_motions(motions, x)])


class _JointDerivatives(eqx.Module):
    """What the joints' own formulas add, in body axes about the bodies' origins.

    **Fields:** `bias` (nb, 6), `(dS/dt) v`; by degree of freedom (nv, 6): derivatives of `S v` and of `S qdd + bias` by
    configurations, and of the bias by velocities. All vanish for joints with axes fixed in the body.
    """

    bias: Float[Array, "nb 6"]
    velocity_by_q: Float[Array, "nv 6"]
    acceleration_by_q: Float[Array, "nv 6"]
    by_v: Float[Array, "nv 6"]


def _joint_derivatives(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], qdd: Float[Array, "nv"]
) -> _JointDerivatives:
    def one(joint: AbstractJoint, q: Array, v: Array, qdd: Array, along: Array) -> tuple[Array, Array, Array]:
        def formulas(t: Array, v: Array) -> tuple[Array, Array]:
            moved = joint.integrate(q, t * along)
            subspace = joint.motion_subspace(moved)
            return matvec(subspace, v), matvec(subspace, qdd) + joint.bias(moved, v)

        zero = jnp.zeros((), q.dtype)
        by_q = jax.jvp(lambda t: formulas(t, v), (zero,), (zero + 1,))[1]
        by_v = jax.jvp(lambda v: joint.bias(q, v), (v,), (along,))[1]
        return *by_q, by_v

    units, index = _units(model, q.dtype)
    columns = jax.vmap(lambda t: map_joints(model, one, ("q", q), ("v", v), ("v", qdd), ("v", t)))(units)
    bias = map_joints(model, lambda joint, x, dx: joint.bias(x, dx), ("q", q), ("v", v))
    return _JointDerivatives(bias, *(x[index, model.topology.dof_bodies] for x in columns))


def _own_axes(model: Model, q: Float[Array, "nq"], wrench: Float[Array, "nv 6"]) -> Float[Array, "nv nv"]:
    """`(dS/dq)^T F` of each joint, with the wrench in body axes that it transmits, given by degree of freedom."""

    def one(joint: AbstractJoint, q: Array, along: Array, wrench: Array) -> Array:
        def torque(t: Array) -> Array:
            return matvec(transpose(joint.motion_subspace(joint.integrate(q, t * along))), wrench)

        zero = jnp.zeros((), q.dtype)
        return jax.jvp(torque, (zero,), (zero + 1,))[1]

    units, index = _units(model, q.dtype)
    bodies = model.topology.dof_bodies
    starts = model.topology.v_starts[: model.nb]
    of_bodies = wrench[starts] if model.nb else wrench.reshape(0, 6)
    torques = jax.vmap(lambda t: map_joints(model, one, ("q", q), ("v", t), ("body", of_bodies), out="v"))(units)
    same = jnp.asarray(bodies[:, None] == bodies)
    return jnp.where(same, torques[index].T, 0)


def _units(model: Model, dtype: jnp.dtype) -> tuple[Float[Array, "d nv"], np.ndarray]:
    """Tangents along the k-th degree of freedom of all joints at once, and which k each degree of freedom is."""
    index = np.arange(model.nv) - model.topology.v_starts[model.topology.dof_bodies]
    return jnp.asarray(index == np.arange(index.max(initial=-1) + 1)[:, None], dtype), index


def _turned(wrench: Float[Array, "nb 6"], lever: Float[Array, "nb 3"]) -> Float[Array, "nb 6 3"]:
    """The matrix that says how wrenches fixed in the world change in axes that turn, with their reference points.

    `theta -> -[theta x n_own + lever x (theta x f); theta x f]`, with moments `n_own` about the bodies' origins.
    """
    own = shift_force(wrench, -lever)
    moment, force = skew(own[:, :3]), skew(own[:, 3:])
    return jnp.concatenate([moment + matmul(skew(lever), force), force], -2)


def _to_origins(wrench: Float[Array, "nv 6"], lever: Float[Array, "nv 3"]) -> Float[Array, "nv 6"]:
    return shift_force(wrench, -lever)
