"""Poses and velocities of frames whose derivatives are in closed form."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..configuration import velocity
from ..dynamics._pairs import have_fixed_axes
from ..kinematics import frame_pose, frame_velocity
from ..model import WORLD, Model, map_joints
from ..motion import BodyMotions, motions_at
from ..motion._jacobians import moving_dofs
from ..numerics import add, instantiate, is_perturbed, jvp_of_perturbed, matmul, matvec, picked, skew
from ..spatial import Matrix, Motion, Transform, Vector
from ..structured import _products
from ..typing import NameOrNumber


class _Frame(eqx.Module):
    """A frame or body by components, as the `motions` of a state have it.

    **Fields:** the `body` that carries it; `rotation`, its axes; `position` of its origin, and `in_tree`, relative to
    the root of its tree; `twist`, its velocity about the origin, if it moves.
    """

    motions: BodyMotions
    body: int = eqx.field(static=True)
    rotation: Matrix
    position: Vector
    in_tree: Vector
    twist: Motion

    @staticmethod
    def of(frame: NameOrNumber, model: Model, motions: BodyMotions) -> "_Frame":
        """One of the model's, in a state with these motions."""
        body, placement = model.locate(frame)
        dtype = motions.q.dtype
        rotation, lever = Matrix.of(placement.rotation.astype(dtype)), Vector.of(placement.translation.astype(dtype))
        if body == WORLD:
            return _Frame(motions, body, rotation, lever, lever, Motion.zero(dtype))
        link = motions.link(body)
        lever = link.rotation @ lever
        return _Frame(
            motions,
            body,
            link.rotation @ rotation,
            link.position + lever,
            link.in_tree + lever,
            link.velocity.dense().at(lever),
        )

    def columns(self, model: Model) -> Motion:
        """The Jacobian's columns (nv)."""
        levers = self.in_tree - Vector.of(picked(self.motions.origins, model.topology.dof_bodies))
        moves = moving_dofs(model.topology, np.array(self.body))
        return jax.tree.map(lambda x: jnp.where(moves, x, 0), self.motions.columns.at(levers))

    @property
    def pose(self) -> Transform:
        """Where it is."""
        return Transform(self.rotation.array(), self.position.array())


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def placed_frame(frame: NameOrNumber, model: Model, q: Float[Array, "nq"], motions: BodyMotions) -> Transform:
    """`frame_pose` by the motions of the same q, which only save work: derivatives are those by model and q."""
    return _Frame.of(frame, model, motions).pose


def _pose_jvp(frame: NameOrNumber, primals: tuple, tangents: tuple) -> tuple[Transform, Transform]:
    """The Jacobian along a displacement of q; the recursions are differentiated with respect to the model only."""
    model, q, motions = primals
    model_dot, q_dot, _ = tangents
    pose = placed_frame(frame, *primals)
    here = _Frame.of(frame, model, motions_at(model, q, None, motions.schedule, motions))
    twist = _along(here.columns(model), velocity(model, q, instantiate(q_dot)))
    pose_dot = Transform(matmul(skew(twist[:3]), pose.rotation), twist[3:])
    if is_perturbed(model_dot):
        _, by_model = jvp_of_perturbed(lambda model: frame_pose(model, q, frame), (model,), (model_dot,))
        pose_dot = add(pose_dot, by_model)
    return pose, pose_dot


placed_frame.defjvp(_pose_jvp, symbolic_zeros=True)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def moving_frame(
    frame: NameOrNumber, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], motions: BodyMotions
) -> Float[Array, "6"]:
    """`frame_velocity` by the motions of the same q and v, which only save work: derivatives are those by all else."""
    return _Frame.of(frame, model, motions).twist.array()


def _velocity_jvp(frame: NameOrNumber, primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    model, q, v, motions = primals
    model_dot, q_dot, v_dot, _ = tangents
    twist = moving_frame(frame, *primals)
    twist_dot = jnp.zeros_like(twist)
    here = _Frame.of(frame, model, motions_at(model, q, v, motions.schedule, motions))
    columns = here.columns(model)
    if is_perturbed(v_dot):
        twist_dot = twist_dot + _along(columns, instantiate(v_dot))
    if is_perturbed(q_dot):
        twist_dot = twist_dot + _along(_by_position(here, columns, model), velocity(model, q, instantiate(q_dot)))
        if not have_fixed_axes(model.joints):
            twist_dot = twist_dot + _by_turning_axes(here, model, instantiate(q_dot))
    if is_perturbed(model_dot):
        _, by_model = jvp_of_perturbed(lambda model: frame_velocity(model, q, v, frame), (model,), (model_dot,))
        twist_dot = add(twist_dot, by_model)
    return twist, twist_dot


moving_frame.defjvp(_velocity_jvp, symbolic_zeros=True)


def _along(columns: Motion, x: Float[Array, "nv"]) -> Float[Array, "6"]:
    """The columns times x, summed."""
    return _products.matvec(columns.matrix(), x)


def _by_position(here: _Frame, columns: Motion, model: Model) -> Motion:
    """Derivatives (nv) of a twist by displacements of the joints, whose axes are fixed to their bodies.

    A displaced joint carries along all motion beyond it, that of the frame as seen from the parent of the joint's body;
    and the frame's origin moves through the velocities that points on the frame have.
    """
    topology = model.topology
    levers = here.in_tree - Vector.of(here.motions.origins)
    of_bodies = Motion.of(here.motions.velocities).at(levers)
    parents = np.where(topology.parents < 0, topology.nb, topology.parents)[topology.dof_bodies]
    of_parents = jax.tree.map(lambda x: picked(jnp.append(x, jnp.zeros((), x.dtype)), parents), of_bodies)
    carried = columns.cross(here.twist - of_parents)
    return Motion(carried.angular, carried.linear + here.twist.angular.cross(columns.linear))


def _by_turning_axes(here: _Frame, model: Model, q_dot: Float[Array, "nq"]) -> Float[Array, "6"]:
    """The tangent of a twist by axes that turn in their own bodies, such as those of a free joint."""
    motions, topology = here.motions, model.topology
    path = np.isin(np.arange(model.nb), topology.dof_bodies[moving_dofs(topology, np.array(here.body))])

    def of_joints(q: Float[Array, "nq"]) -> Float[Array, "nb 6"]:
        return map_joints(model, lambda joint, q, v: matvec(joint.motion_subspace(q), v), ("q", q), ("v", motions.v))

    _, rates = jax.jvp(of_joints, (motions.q,), (q_dot,))
    moved = Motion.of(rates).rotated(Matrix.of(motions.poses.rotation)).at(here.in_tree - Vector.of(motions.origins))
    return jnp.sum(jnp.where(path[:, None], moved.array(), 0), axis=0)
