"""The interface of a joint type."""

import abc
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..numerics._options import as_finite
from ..spatial import Pose, Transform
from ..typing import Key

# Limits farther away count as none where ranges are sampled: of what moves along (m, or rad of a screw), of what turns.
FARTHEST, FARTHEST_ANGLE = 1e3, 8 * np.pi


class AbstractJoint(eqx.Module):
    """One joint: how a body may move relative to the joint frame fixed in its parent.

    A new joint type is a subclass; nothing has to be registered. Array fields are the joint's parameters: in a
    model they are stacked over all joints of the same structure, may be batched and are differentiable. All methods
    are for one joint and must be traceable by JAX. They return floating-point numbers, which are converted to the
    type of the coordinates.

    The body's frame coincides with the joint frame where `transform(q)` is the identity. Motion vectors are
    `[angular; linear]` in body axes about the body's origin; `v` are the joint's velocity coordinates. The methods
    are tied together by two laws, which `check_joint` verifies numerically:

    - the body moves with `motion_subspace(q) v` when `q` moves along `integrate(q, t v)`;
    - `bias(q, v)` is the rate of `motion_subspace(q) v` along that motion, at constant `v`.
    """

    def __init_subclass__(cls, **options) -> None:
        super().__init_subclass__(**options)
        # What a type inherits with a `transform` or `difference` that it replaces does not belong to its own.
        if "transform" in vars(cls) and "placed" not in vars(cls):
            cls.placed = AbstractJoint.placed  # type: ignore[method-assign]
        if "difference" in vars(cls) and "velocity" not in vars(cls):
            cls.velocity = AbstractJoint.velocity  # type: ignore[method-assign]

    @property
    @abc.abstractmethod
    def nq(self) -> int:
        """Number of configuration coordinates; a class variable where it is always the same."""

    @property
    @abc.abstractmethod
    def nv(self) -> int:
        """Number of velocity coordinates; a class variable where it is always the same."""

    @property
    def has_fixed_axes(self) -> bool:
        """Whether the motion subspace is constant, and so the bias zero. Saying so saves work in derivatives."""
        return False

    @property
    def quaternions(self) -> tuple[int, ...]:
        """Where quaternions begin in `q`. Configurations are checked for zero quaternions."""
        return ()

    @property
    def only_turns(self) -> bool:
        """Whether the body's origin rests in the joint frame. Saying so saves work in all dynamics."""
        return False

    @abc.abstractmethod
    def transform(self, q: Float[Array, "nq"]) -> Transform:
        """Pose of the body in the joint frame."""

    def placed(self, placement: Pose, q: Float[Array, "nq"]) -> Pose:
        """Pose of the body in its parent, where the joint frame has this one: `placement @ transform(q)`.

        By components; a joint type with its own formula may save work in all dynamics.
        """
        return placement @ Pose.of(self.transform(q))

    @abc.abstractmethod
    def motion_subspace(self, q: Float[Array, "nq"]) -> Float[Array, "6 nv"]:
        """Matrix S: the body's velocity relative to its parent is `S v`, in body axes about the body's origin."""

    @abc.abstractmethod
    def bias(self, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "6"]:
        """Apparent derivative `(dS/dt) v`, component by component in body axes; zero where S is constant."""

    @abc.abstractmethod
    def integrate(self, q: Float[Array, "nq"], dv: Float[Array, "nv"]) -> Float[Array, "nq"]:
        """Configuration reached from `q` by the displacement `dv` (velocity times time)."""

    @abc.abstractmethod
    def difference(self, q0: Float[Array, "nq"], q1: Float[Array, "nq"]) -> Float[Array, "nv"]:
        """The shortest displacement with `integrate(q0, dv) = q1`."""

    def velocity(self, q: Float[Array, "nq"], q_dot: Float[Array, "nq"]) -> Float[Array, "nv"]:
        """The velocity of a joint whose coordinates change at the rates `q_dot`: the derivative of `difference(q, x)`
        where x is q. A joint type with its own formula may save work in derivatives."""
        return jax.jvp(lambda x: self.difference(q, x), (q,), (q_dot,))[1]

    @abc.abstractmethod
    def neutral(self) -> Float[Array, "nq"]:
        """The zero configuration."""

    @abc.abstractmethod
    def random(self, key: Key, lower: Float[Array, "nq"], upper: Float[Array, "nq"]) -> Float[Array, "nq"]:
        """A random configuration; coordinates with finite limits stay within them."""


class AbstractVectorJoint(AbstractJoint):
    """A joint whose coordinates are numbers, none of them part of a quaternion, and `v` their rates.

    A new one is a subclass with all that `AbstractJoint` asks for but `integrate`, `difference` and `neutral`.
    """

    def integrate(self, q: Float[Array, "nq"], dv: Float[Array, "nv"]) -> Float[Array, "nq"]:
        return q + dv

    def difference(self, q0: Float[Array, "nq"], q1: Float[Array, "nq"]) -> Float[Array, "nv"]:
        return q1 - q0

    def velocity(self, q: Float[Array, "nq"], q_dot: Float[Array, "nq"]) -> Float[Array, "nv"]:
        return q_dot

    def neutral(self) -> Float[Array, "nq"]:
        return jnp.zeros(self.nq, jnp.result_type(float, *jax.tree.leaves(self)))


class AbstractFixedAxesJoint(AbstractVectorJoint):
    """A joint with a constant motion subspace."""

    has_fixed_axes: ClassVar[bool] = True

    def bias(self, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "6"]:
        return jnp.zeros(6, jnp.result_type(*jax.tree.leaves(self), v))


def unit_axis(axis) -> np.ndarray:
    """Field converter: a joint axis as a unit vector; `ValueError` for anything else."""
    array = as_finite(axis, (3,), "axis of a joint")
    length = np.linalg.norm(array)
    if length < 1e-12:
        raise ValueError(
            f"The axis of a joint must not be zero, got {array.tolist()}; give its direction, e.g. (0, 0, 1)."
        )
    return array / length


def near_ends(lower: Array, upper: Array, farthest: ArrayLike) -> tuple[Array, Array]:
    """The limits, infinite where they are farther from the coordinate nearest to zero: many files say "none" so."""
    nearest = jnp.clip(0, lower, upper)
    return (
        jnp.where(nearest - lower <= farthest, lower, -jnp.inf),
        jnp.where(upper - nearest <= farthest, upper, jnp.inf),
    )


def uniform(key: Key, lower: Array, upper: Array, default: float | Array, farthest: ArrayLike = FARTHEST) -> Array:
    """Uniform between the limits; those that are no `near_ends` are replaced by `default` beyond the other or zero."""
    lower, upper = near_ends(lower, upper, farthest)
    low_known, high_known = jnp.isfinite(lower), jnp.isfinite(upper)
    low = jnp.where(low_known, lower, jnp.where(high_known, jnp.minimum(-default, upper - default), -default))
    high = jnp.where(high_known, upper, jnp.where(low_known, jnp.maximum(default, lower + default), default))
    return low + (high - low) * jax.random.uniform(key, jnp.shape(low), low.dtype)
