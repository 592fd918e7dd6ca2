"""Rigid objects, and how arms hold them."""

from typing import Annotated, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..model._arguments import as_array, check_instance, is_concrete
from ..model._inertia_checks import warn_of_inertia
from ..numerics import cross, transpose
from ..numerics._options import common_floating_type, floating_numbers
from ..spatial import Transform, unit
from ..typing import NameOrNumber


def _inertia_matrix(x) -> Array:
    array = floating_numbers("The inertia of an object", x)
    if array.ndim == 0:
        return array * jnp.eye(3, dtype=array.dtype)
    return jnp.diag(array) if array.shape == (3,) else array


class RigidObject(eqx.Module):
    """A rigid body that is held.

    **Fields:** `mass` [kg]; `com` (3,), centre of mass in object axes, from the object's origin [m]; `inertia` (3, 3),
    rotational inertia about the centre of mass in object axes [kg m^2]; also three principal moments, or one number
    for all three.

    **Raises:** `ValueError` for other shapes, a mass that is not positive and an inertia that is not symmetric and
    positive definite. Warns of moments that no rigid body has.
    """

    mass: Float[Array, ""] = eqx.field(converter=lambda x: floating_numbers("The mass of an object", x))
    com: Float[Array, "3"] = eqx.field(converter=lambda x: floating_numbers("The com of an object", x))
    inertia: Float[Array, "3 3"] = eqx.field(converter=_inertia_matrix)

    def __check_init__(self):
        _check_shape("mass", self.mass, ())
        _check_shape("com", self.com, (3,))
        _check_shape("inertia", self.inertia, (3, 3))
        if not is_concrete(self):
            return
        # By NumPy: inside of compiled functions, JAX would trace what is computed with known numbers.
        mass = np.asarray(self.mass)
        if not (np.isfinite(mass) and mass > 0):
            raise ValueError(f"The mass of an object must be positive and finite, got {float(mass)}.")
        if not np.all(np.isfinite(self.com)):
            raise ValueError(f"The com of an object must be finite, got {np.asarray(self.com).tolist()}.")
        inertia = np.asarray(self.inertia, dtype=float)
        if not (np.all(np.isfinite(inertia)) and np.allclose(inertia, inertia.T, rtol=1e-6, atol=1e-12)):
            raise ValueError(f"The inertia of an object must be symmetric and finite, got {inertia.tolist()}.")
        if not np.linalg.eigvalsh(inertia)[0] > 0:
            raise ValueError(f"The inertia of an object must be positive definite, got {inertia.tolist()}.")
        warn_of_inertia(inertia, "An object")


class Grasp(eqx.Module):
    """How an arm holds an object: at one point, about which the object may rotate relative to the arm.

    **Fields:** `frame` of the arm (name of a frame or body, or its number), whose origin is at the contact; `placement`
    of the contact in the object: its origin is the point, and its axes are those of `axes`; `axes` (d, 3), unit
    vectors, fixed to the object, about which it may rotate: none, one, two or three. The orientation of the frame in
    the arm does not matter.

    **Raises:** `ValueError` for axes that are zero or not independent, and for wrong types and shapes.
    """

    frame: NameOrNumber = eqx.field(static=True)
    placement: Transform
    axes: Float[Array, "d 3"] = eqx.field(converter=lambda x: floating_numbers("axes", x))

    def __check_init__(self):
        check_instance("frame", self.frame, (str, int, np.integer), "the name of a frame or body")
        check_pose("placement", self.placement)
        if self.axes.ndim != 2 or self.axes.shape[1] != 3 or len(self.axes) > 3:
            raise ValueError(f"axes must have shape (d, 3) with d <= 3, got {self.axes.shape}.")
        if not is_concrete(self.axes):
            return
        axes = np.asarray(self.axes, dtype=float)
        if not np.allclose(np.linalg.norm(axes, axis=1), 1, atol=1e-5):
            raise ValueError(f"axes must be unit vectors, got {axes.tolist()}.")
        if len(axes) and np.linalg.svd(axes, compute_uv=False)[-1] < 1e-4:
            raise ValueError(f"axes must be linearly independent, got {axes.tolist()}.")

    @staticmethod
    def rigid(frame: NameOrNumber, placement: Transform) -> "Grasp":
        """The object does not move relative to the arm's body."""
        return Grasp(frame, placement, jnp.zeros((0, 3), _dtype_of(placement)))

    @staticmethod
    def hinge(frame: NameOrNumber, placement: Transform, axis: Annotated[ArrayLike, "3"]) -> "Grasp":
        """The object turns about an axis (contact axes) without friction: a hinge, or an edge in contact."""
        return Grasp(frame, placement, _direction("axis", axis, placement)[None])

    @staticmethod
    def soft_finger(frame: NameOrNumber, placement: Transform, normal: Annotated[ArrayLike, "3"]) -> "Grasp":
        """A soft finger: of moments only that about the normal (contact axes) is transmitted."""
        return Grasp(frame, placement, transpose(_across(_direction("normal", normal, placement))))

    @staticmethod
    def ball(frame: NameOrNumber, placement: Transform) -> "Grasp":
        """No moment is transmitted: a ball joint, or contact at a point with enough friction."""
        return Grasp(frame, placement, jnp.eye(3, dtype=_dtype_of(placement)))


def perpendicular(axes: Float[Array, "d 3"]) -> Float[Array, "3 _"]:
    """An orthonormal basis of what is perpendicular to all axes."""
    if len(axes) == 1:
        return _across(unit(axes[0]))
    if len(axes) == 2:
        return unit(cross(axes[0], axes[1]))[:, None]
    return jnp.eye(3, dtype=axes.dtype)[:, len(axes) :]


def _across(axis: Float[Array, "3"]) -> Float[Array, "3 2"]:
    """An orthonormal basis of the plane across a unit vector (Duff et al. 2017)."""
    x, y, z = axis
    s = jnp.where(z >= 0, 1, -1).astype(axis.dtype)
    a = -1 / (s + z)
    b = x * y * a
    return jnp.stack([jnp.stack([1 + s * x * x * a, b]), jnp.stack([s * b, s + y * y * a]), jnp.stack([-s * x, -y])])


def check_pose(name: str, pose: Any) -> None:
    """Raises `ValueError` for what is not one `Transform`."""
    check_instance(name, pose, Transform, "a Transform")
    _check_shape(f"The rotation of {name}", pose.rotation, (3, 3))
    _check_shape(f"The translation of {name}", pose.translation, (3,))


def _check_shape(name: str, x: Array, shape: tuple[int, ...]) -> None:
    if jnp.shape(x) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {jnp.shape(x)}.")


def _dtype_of(placement: Transform) -> jnp.dtype:
    check_pose("placement", placement)
    return common_floating_type(placement.rotation, placement.translation)


def _direction(name: str, direction: ArrayLike, placement: Transform) -> Float[Array, "3"]:
    """The direction as a unit vector."""
    vector = as_array(name)(direction).astype(_dtype_of(placement))
    _check_shape(name, vector, (3,))
    if is_concrete(vector) and not (np.all(np.isfinite(vector)) and np.linalg.norm(vector) > 1e-12):
        raise ValueError(f"{name} must be finite and not zero, got {np.asarray(vector).tolist()}.")
    return unit(vector)
