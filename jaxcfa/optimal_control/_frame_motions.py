"""Poses and velocities of frames whose derivatives are in closed form."""

from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..configuration import velocity
from ..dynamics._pairs import have_fixed_axes
from ..kinematics import frame_pose, frame_velocity
from ..model import Model, map_joints
from ..motion import BodyMotions, motions_at
from ..motion._jacobians import moving_dofs
from ..numerics import add, instantiate, is_perturbed, jvp_of_perturbed, matmul, matvec, picked, skew
from ..spatial import Matrix, Motion, Pose, Transform, Vector
from ..structured import _products
from ..typing import NameOrNumber


class _Frame:
    """A frame or body of a model by components, as the `motions` of a state have it: what is asked for is found."""

    def __init__(self, frame: NameOrNumber, model: Model, motions: BodyMotions):
        self.model, self.motions = model, motions
        self.body, placement = model.locate(frame)
        # A body is where it is.
        named = model.frame_number(frame) >= model.nb
        self._placement = Pose.of(jax.tree.map(lambda x: x.astype(motions.q.dtype), placement)) if named else None

    def _of_body(self, field: str) -> Any:
        return self.motions.of_body(self.body, field)

    @cached_property
    def _axes(self) -> Matrix:
        """Those of the body that carries it."""
        return self._of_body("rotation")

    @cached_property
    def _lever(self) -> Vector | None:
        """From the origin of that body, in world axes."""
        return None if self._placement is None else self._axes @ self._placement.translation

    def _beside(self, origin: Vector) -> Vector:
        return origin if self._lever is None else origin + self._lever

    @cached_property
    def in_tree(self) -> Vector:
        """Its origin, relative to the root of its tree."""
        return self._beside(self._of_body("in_tree"))

    @cached_property
    def twist(self) -> Motion:
        """Its velocity about its origin, if it moves."""
        carried = self._of_body("velocity").dense()
        return carried if self._lever is None else carried.at(self._lever)

    @property
    def pose(self) -> Transform:
        """Where it is."""
        rotation = self._axes if self._placement is None else self._axes @ self._placement.rotation
        return Transform(rotation.array(), self._beside(self._of_body("position")).array())

    def columns(self) -> Motion:
        """The Jacobian's columns (nv)."""
        levers = self.in_tree - Vector.of(picked(self.motions.origins, self.model.topology.dof_bodies))
        moves = moving_dofs(self.model.topology, np.array(self.body))
        return jax.tree.map(lambda x: jnp.where(moves, x, 0), self.motions.columns.at(levers))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def placed_frame(frame: NameOrNumber, model: Model, q: Float[Array, "nq"], motions: BodyMotions) -> Transform:
    """`frame_pose` by the motions of the same q, which only save work: derivatives are those by model and q."""
    return _Frame(frame, model, motions).pose


def _pose_jvp(frame: NameOrNumber, primals: tuple, tangents: tuple) -> tuple[Transform, Transform]:
    """The Jacobian along a displacement of q; the recursions are differentiated with respect to the model only."""
    model, q, motions = primals
    model_dot, q_dot, _ = tangents
    pose = placed_frame(frame, *primals)
    here = _Frame(frame, model, motions_at(model, q, None, motions.schedule, motions))
    twist = _along(here.columns(), velocity(model, q, instantiate(q_dot)))
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
    return _Frame(frame, model, motions).twist.array()


def _velocity_jvp(frame: NameOrNumber, primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    model, q, v, motions = primals
    model_dot, q_dot, v_dot, _ = tangents
    twist = moving_frame(frame, *primals)
    twist_dot = jnp.zeros_like(twist)
    here = _Frame(frame, model, motions_at(model, q, v, motions.schedule, motions))
    columns = here.columns()
    if is_perturbed(v_dot):
        twist_dot = twist_dot + _along(columns, instantiate(v_dot))
    if is_perturbed(q_dot):
        twist_dot = twist_dot + _along(_by_position(here, columns), velocity(model, q, instantiate(q_dot)))
        if not have_fixed_axes(model.joints):
            twist_dot = twist_dot + _by_turning_axes(here, instantiate(q_dot))
    if is_perturbed(model_dot):
        _, by_model = jvp_of_perturbed(lambda model: frame_velocity(model, q, v, frame), (model,), (model_dot,))
        twist_dot = add(twist_dot, by_model)
    return twist, twist_dot


moving_frame.defjvp(_velocity_jvp, symbolic_zeros=True)


def _along(columns: Motion, x: Float[Array, "nv"]) -> Float[Array, "6"]:
    """The columns times x, summed."""
    return _products.matvec(columns.matrix(), x)


def _by_position(here: _Frame, columns: Motion) -> Motion:
    """Derivatives (nv) of a twist by displacements of the joints, whose axes are fixed to their bodies.

    A displaced joint carries along all motion beyond it, that of the frame as seen from the parent of the joint's body;
    and the frame's origin moves through the velocities that points on the frame have.
    """
    topology = here.model.topology
    levers = here.in_tree - Vector.of(here.motions.origins)
    of_bodies = Motion.of(here.motions.velocities).at(levers)
    parents = np.where(topology.parents < 0, topology.nb, topology.parents)[topology.dof_bodies]
    of_parents = jax.tree.map(lambda x: picked(jnp.append(x, jnp.zeros((), x.dtype)), parents), of_bodies)
    carried = columns.cross(here.twist - of_parents)
    return Motion(carried.angular, carried.linear + here.twist.angular.cross(columns.linear))


def _by_turning_axes(here: _Frame, q_dot: Float[Array, "nq"]) -> Float[Array, "6"]:
    """The tangent of a twist by axes that turn in their own bodies, such as those of a free joint."""
    model, motions, topology = here.model, here.motions, here.model.topology
    path = np.isin(np.arange(model.nb), topology.dof_bodies[moving_dofs(topology, np.array(here.body))])

    def of_joints(q: Float[Array, "nq"]) -> Float[Array, "nb 6"]:
        return map_joints(model, lambda joint, q, v: matvec(joint.motion_subspace(q), v), ("q", q), ("v", motions.v))

    _, rates = jax.jvp(of_joints, (motions.q,), (q_dot,))
    moved = Motion.of(rates).rotated(Matrix.of(motions.poses.rotation)).at(here.in_tree - Vector.of(motions.origins))
    return jnp.sum(jnp.where(path[:, None], moved.array(), 0), axis=0)
