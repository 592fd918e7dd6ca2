"""Verifying that the methods of a joint type are consistent."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..numerics import cross, dot, matmul, matvec, transpose
from ..numerics._options import check_instance, checked_key, positive_integer
from ..spatial import Pose, Transform, rotation_exp
from ..typing import Key
from ._base import AbstractJoint


def check_joint(joint: AbstractJoint, key: Key, *, samples: int = 4) -> None:
    """Checks a joint type at random configurations: sizes, types, and the laws that tie its methods together.

    - `transform` is a rigid motion, and its rate along `integrate(q, t v)` is `motion_subspace(q) v`;
    - `placed(frame, q)`, where a type has its own, is `frame @ transform(q)`;
    - `bias(q, v)` is the rate of `motion_subspace v` along that motion;
    - the motion subspace is constant, if `has_fixed_axes` says so, and has no linear part, if `only_turns` says so;
    - `integrate(q, difference(q, p))` is the configuration `p`, and `integrate(q, 0)` is `q`;
    - `velocity(q, q_dot)`, where a type has its own, is the rate of `difference(q, x)` where x moves on from q.

    **Arguments:** `joint`: one joint with its parameters. `key`: of the random configurations.

    **Raises:** `ValueError` naming the law that is broken and by how much.
    """
    check_instance("joint", joint, AbstractJoint, "an instance of a joint type")
    samples = positive_integer("samples", samples)
    joint = jax.tree.map(jnp.asarray, joint)
    _check_shapes(joint)
    for law, (actual, expected) in jax.device_get(_laws(joint, jax.random.split(checked_key(key), samples))).items():
        error, scale = np.max(np.abs(actual - expected), initial=0.0), 1 + np.max(np.abs(expected), initial=0.0)
        if not error <= 1e3 * np.finfo(expected.dtype).eps * scale:
            raise ValueError(f"{type(joint).__name__}: {law}, but the two differ by {error:.1e}.")


def _check_shapes(joint: AbstractJoint) -> None:
    q, v = jnp.zeros(joint.nq), jnp.zeros(joint.nv)
    results = {
        "neutral": (joint.neutral, (), (joint.nq,)),
        "random": (joint.random, (jax.random.key(0), q, q), (joint.nq,)),
        "integrate": (joint.integrate, (q, v), (joint.nq,)),
        "difference": (joint.difference, (q, q), (joint.nv,)),
        "velocity": (joint.velocity, (q, q), (joint.nv,)),
        "motion_subspace": (joint.motion_subspace, (q,), (6, joint.nv)),
        "bias": (joint.bias, (q, v), (6,)),
        "transform": (joint.transform, (q,), None),
    }
    for name, (method, arguments, expected) in results.items():
        result = jax.eval_shape(method, *arguments)
        for array in jax.tree.leaves(result):
            if not jnp.issubdtype(array.dtype, jnp.floating):
                raise ValueError(
                    f"{type(joint).__name__}.{name} must return floating-point numbers, got {array.dtype}. Make "
                    "constants with the type of q, as in jnp.zeros(6, q.dtype)."
                )
        shape = expected if expected is None else result.shape
        if shape != expected:
            raise ValueError(f"{type(joint).__name__}.{name} must return an array of shape {expected}, got {shape}.")


@jax.jit
@functools.partial(jax.vmap, in_axes=(None, 0))
def _laws(joint: AbstractJoint, key: Key) -> dict[str, tuple[Array, Array]]:
    """Both sides of every law at a random configuration and velocity."""
    keys = jax.random.split(key, 5)
    unlimited = jnp.full(joint.nq, jnp.inf)
    q, p = (joint.random(k, -unlimited, unlimited) for k in keys[:2])
    v, q_dot = jax.random.normal(keys[2], (joint.nv,)), jax.random.normal(keys[4], (joint.nq,))

    def moved(t: Array) -> Array:
        return joint.integrate(q, t * v)

    pose, rate = jax.jvp(lambda t: joint.transform(moved(t)), (0.0,), (1.0,))
    rotation = transpose(pose.rotation)
    spin = matmul(rotation, rate.rotation)
    velocity = jnp.stack([spin[2, 1], spin[0, 2], spin[1, 0], *matvec(rotation, rate.translation)])
    relative, relative_rate = jax.jvp(lambda t: matvec(joint.motion_subspace(moved(t)), v), (0.0,), (1.0,))
    reached = joint.transform(joint.integrate(q, joint.difference(q, p)))
    frame = Transform(rotation_exp(jax.random.normal(keys[3], (3,))), jnp.arange(1.0, 4.0))
    x, y, z = rotation
    return {
        "transform must be a rotation": (matmul(rotation, pose.rotation), jnp.eye(3)),
        "transform must not mirror": (dot(cross(x, y), z), jnp.ones(())),
        "placed(frame, q) must be frame @ transform(q)": (
            joint.placed(Pose.of(frame), q).arrays().as_matrix(),
            (frame @ joint.transform(q)).as_matrix(),
        ),
        "motion_subspace(q) v must be the rate of transform along integrate(q, t v)": (relative, velocity),
        "bias(q, v) must be the rate of motion_subspace(q) v": (joint.bias(q, v), relative_rate),
        "motion_subspace must be constant, since has_fixed_axes says so": (
            joint.motion_subspace(q),
            joint.motion_subspace(p if joint.has_fixed_axes else q),
        ),
        "motion_subspace must have no linear part, since only_turns says so": (
            joint.motion_subspace(q)[3:],
            joint.motion_subspace(q)[3:] * int(not joint.only_turns),
        ),
        "integrate(q, 0) must be q": (joint.integrate(q, jnp.zeros(joint.nv)), q),
        "integrate(q, difference(q, p)) must be p": (reached.as_matrix(), joint.transform(p).as_matrix()),
        "velocity(q, q_dot) must be the rate of difference(q, x)": (
            joint.velocity(q, q_dot),
            AbstractJoint.velocity(joint, q, q_dot),
        ),
    }
