"""Poses of frames whose derivatives are Jacobians in closed form."""

from functools import partial

import jax
from jaxtyping import Array, Float

from ..configuration import velocity
from ..kinematics import frame_pose, jacobian
from ..model import Model
from ..motion import BodyMotions
from ..numerics import add, instantiate, is_perturbed, jvp_of_perturbed, matmul, skew
from ..spatial import Transform
from ..structured._products import matvec
from ..typing import NameOrNumber


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def placed_frame(frame: NameOrNumber, model: Model, q: Float[Array, "nq"], motions: BodyMotions) -> Transform:
    """`frame_pose` by the motions of the same q, which only save work: derivatives are those by model and q."""
    return frame_pose(model, q, frame, motions=motions)


def _jvp(frame: NameOrNumber, primals: tuple, tangents: tuple) -> tuple[Transform, Transform]:
    """The Jacobian along a displacement of q; the recursions are differentiated with respect to the model only."""
    model, q, motions = primals
    model_dot, q_dot, _ = tangents
    pose = placed_frame(frame, *primals)
    twist = matvec(jacobian(model, q, frame, motions=motions), velocity(model, q, instantiate(q_dot)))
    pose_dot = Transform(matmul(skew(twist[:3]), pose.rotation), twist[3:])
    if is_perturbed(model_dot):
        _, by_model = jvp_of_perturbed(lambda model: frame_pose(model, q, frame), (model,), (model_dot,))
        pose_dot = add(pose_dot, by_model)
    return pose, pose_dot


placed_frame.defjvp(_jvp, symbolic_zeros=True)
