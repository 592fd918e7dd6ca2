"""The configuration manifold: neutral and random points, displacements and differences."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .model import Model, map_joints, neutral_configuration
from .model._arguments import as_array, as_arrays, checked_key, require_single
from .typing import Configuration, ConfigurationLike, Key, Velocity, VelocityLike


def neutral(model: Model) -> Configuration:
    """The zero configuration (nq,): zero angles and displacements, identity quaternions.

    **Raises:** `ValueError` for a batch of models.
    """
    require_single(model)
    return _neutral(model)


_neutral = jax.jit(neutral_configuration)


def random_configuration(model: Model, key: Key) -> Configuration:
    """A random configuration (nq,) within the joint limits.

    Coordinates without limits: angles are uniform in [-pi, pi], displacements in [-1, 1] m, orientations uniform.
    Limits more than four turns (of screws a thousand radians) or a kilometre away count as none, since many files write
    "unlimited" so.

    **Raises:** `ValueError` for what is not one key.
    """
    require_single(model)
    return _random_configuration(model, checked_key(key))


@jax.jit
def _random_configuration(model: Model, key: Key) -> Configuration:
    # One key per body, folded in by number: a body's draw does not depend on the other bodies.
    keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(model.nb))
    limits = model.limits
    return map_joints(
        model,
        lambda joint, k, lower, upper: joint.random(k, lower, upper),
        ("body", keys),
        ("q", limits.lower),
        ("q", limits.upper),
        out="q",
    )


def integrate(model: Model, q: ConfigurationLike, v: VelocityLike, dt: ArrayLike = 1.0) -> Configuration:
    """The configuration after moving from `q` with constant velocity `v` [rad/s, m/s] for `dt` [s].

    Quaternions follow the exponential map and stay normalised; the position and the orientation of a free joint
    move independently (as in MuJoCo; Pinocchio follows a screw motion instead).

    **Arguments:** `q` (nq,); `v` (nv,) [rad/s, m/s], or with `dt` 1, the default, a displacement [rad, m]; `dt` [s],
    one number of any sign.

    **Returns:** (nq,) [rad, m]. **Raises:** `ValueError` for a wrong shape.
    """
    q, v = as_arrays(model, q=q, v=v)
    step = as_array("dt")(dt).astype(v.dtype)
    if step.shape != ():
        raise ValueError(f"dt must be one number, got shape {step.shape}. Batch with jax.vmap.")
    return _integrate(model, q, v * step)


@jax.jit
def _integrate(model: Model, q: Float[Array, "nq"], dv: Float[Array, "nv"]) -> Configuration:
    return map_joints(model, lambda joint, q, dv: joint.integrate(q, dv), ("q", q), ("v", dv), out="q")


def difference(model: Model, q0: ConfigurationLike, q1: ConfigurationLike) -> Velocity:
    """The shortest displacement from `q0` to `q1`: `integrate(model, q0, difference(model, q0, q1)) = q1`.

    For angles and displacements this is `q1 - q0`, even beyond a full turn; for quaternions, a rotation by at most pi.

    **Arguments:** `q0`, `q1` (nq,). **Returns:** (nv,) [rad, m]. **Raises:** `ValueError` for a wrong shape.
    """
    return displacement(model, *as_arrays(model, q0=q0, q1=q1))


@jax.jit
def displacement(model: Model, q0: Float[Array, "nq"], q1: Float[Array, "nq"]) -> Velocity:
    """`difference` without checks of its arguments."""
    return map_joints(model, lambda joint, a, b: joint.difference(a, b), ("q", q0), ("q", q1), out="v")


@jax.jit
def velocity(model: Model, q: Float[Array, "nq"], q_dot: Float[Array, "nq"]) -> Velocity:
    """The velocity of configurations that change at the rates `q_dot`: `displacement(model, q, x)` for x near q."""
    return map_joints(model, lambda joint, a, b: joint.velocity(a, b), ("q", q), ("q", q_dot), out="v")
