"""From plain arrays to a `Model`."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..joints import AbstractJoint
from ..numerics._options import as_finite, floating_type
from ..spatial import Transform
from ._attachments import Actuators, Keyframes
from ._layout import PARAMETERS, shape_of
from ._model import Limits, Model
from ._topology import Topology

STANDARD_GRAVITY = (0.0, 0.0, -9.81)


def default_dtype() -> np.dtype:
    """JAX's current default floating-point type."""
    return np.dtype(jnp.result_type(float))


def group_key(tree: Any):
    """Joints, or other trees, with equal keys can be stacked: same class, static fields, array shapes."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple(np.shape(leaf) for leaf in leaves)


def group_joints(joints: Sequence[AbstractJoint]) -> tuple[list[AbstractJoint], list[np.ndarray]]:
    """Stack joints of equal structure: the stacked joints, and the bodies of each group."""
    groups: dict = {}
    for body, joint in enumerate(joints):
        groups.setdefault(group_key(joint), []).append(body)
    stacked, bodies = [], []
    for members in groups.values():
        leaves = [jax.tree.leaves(joints[body]) for body in members]
        structure = jax.tree.structure(joints[members[0]])
        columns = [np.stack([np.asarray(x) for x in column]) for column in zip(*leaves, strict=True)]
        stacked.append(jax.tree.unflatten(structure, columns))
        bodies.append(np.array(members))
    return stacked, bodies


def assemble(
    parents: np.ndarray,
    joints: Sequence[AbstractJoint],
    group_bodies: Sequence[np.ndarray],
    *,
    rotation: np.ndarray,
    translation: np.ndarray,
    mass: np.ndarray,
    com: np.ndarray,
    inertia: np.ndarray,
    body_names: Sequence[str],
    joint_names: Sequence[str],
    dofs: dict[str, np.ndarray] | None = None,
    frame_names: Sequence[str] = (),
    frame_bodies: Sequence[int] = (),
    frame_rotation: np.ndarray | None = None,
    frame_translation: np.ndarray | None = None,
    gravity=STANDARD_GRAVITY,
    dtype=None,
) -> Model:
    """A model from arrays over bodies.

    **Arguments:** `joints`, `group_bodies`: stacked joints and their bodies. `rotation`, `translation`: placements of
    the joint frames. `dofs`: any of `PARAMETERS`, (nq,) or (nv,); by default those of the table.
    """
    dtype = default_dtype() if dtype is None else floating_type(dtype)
    nb = len(parents)
    nqs, nvs = np.zeros(nb, np.int64), np.zeros(nb, np.int64)
    for joint, bodies in zip(joints, group_bodies, strict=True):
        nqs[bodies], nvs[bodies] = joint.nq, joint.nv
    topology = Topology(parents, nqs, nvs, group_bodies, body_names, joint_names, frame_names, frame_bodies)
    nq, nv, nf = topology.nq, topology.nv, len(frame_names)

    def array(x, shape) -> jax.Array:
        return jnp.asarray(np.broadcast_to(np.asarray(x, dtype=dtype), shape))

    # Within a function that is traced, too, the arrays are values, so that what is wrong with them can be seen.
    with jax.ensure_compile_time_eval():
        joints = tuple(jax.tree.map(lambda x: jnp.asarray(x, dtype), joint) for joint in joints)
        given = {"spring_reference": _neutral(joints, topology), **(dofs or {})}
        of = {
            key: array(given.get(key, x.default), shape_of(x.letters, topology.sizes)) for key, x in PARAMETERS.items()
        }
        return Model(
            joints=joints,
            placement=Transform(array(rotation, (nb, 3, 3)), array(translation, (nb, 3))),
            mass=array(mass, (nb,)),
            com=array(com, (nb, 3)),
            inertia=array(inertia, (nb, 3, 3)),
            **{key: of[key] for key in ("armature", "damping", "friction_loss", "stiffness", "spring_reference")},
            limits=Limits(*(of[key] for key in ("lower", "upper", "velocity_limit", "effort_limit", "stop_frequency"))),
            gravity=array(as_finite(gravity, (3,), "gravity"), (3,)),
            frame_placement=Transform(
                array(np.eye(3) if frame_rotation is None else frame_rotation, (nf, 3, 3)),
                array(0.0 if frame_translation is None else frame_translation, (nf, 3)),
            ),
            constraints=(),
            actuators=Actuators.none(nq, nv, dtype),
            keyframes=Keyframes.none(nq, nv, dtype),
            topology=topology,
        )


def _neutral(joints: Sequence[AbstractJoint], topology: Topology) -> np.ndarray:
    """(nq,): the neutral configuration."""
    q = np.zeros(topology.nq)
    for joint, group in zip(joints, topology.groups, strict=True):
        q[group.q_index] = jax.vmap(lambda joint, _: joint.neutral())(joint, group.bodies)
    return q
