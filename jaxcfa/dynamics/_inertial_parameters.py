"""The ten inertial parameters of bodies, in which the dynamics is linear."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..model import Model
from ..model._arguments import as_arrays, check_model, is_concrete
from ..spatial import Inertia, steiner

# Of Ixx, Ixy, Iyy, Ixz, Iyz, Izz in a symmetric matrix, and of the matrix' entries among the six.
_ROWS, _COLUMNS = np.array([0, 0, 1, 0, 1, 2]), np.array([0, 1, 1, 2, 2, 2])
_ENTRIES = np.array([[0, 1, 3], [1, 2, 4], [3, 4, 5]])


def inertial_parameters(model: Model) -> Float[Array, "nb 10"]:
    """Inertial parameters of all bodies, `[m, hx, hy, hz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz]`.

    Mass [kg], first moment `h = m com` [kg m] and rotational inertia about the body's origin, not its centre of mass
    [kg m^2], in body axes: the order of Pinocchio's `Inertia.toDynamicParameters`. Inverse dynamics is linear in them,
    see `regressor`.

    **Returns:** (nb, 10).
    """
    check_model(model)
    return _inertial_parameters(model)


@jax.jit
def _inertial_parameters(model: Model) -> Float[Array, "nb 10"]:
    return to_parameters(model.spatial_inertia)


def with_inertial_parameters(model: Model, pi: ArrayLike) -> Model:
    """The model with other inertial parameters: the inverse of `inertial_parameters`.

    **Arguments:** `pi` (nb, 10), `[m, hx, hy, hz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz]` of each body about its origin, body
    axes [kg, kg m, kg m^2].

    Values are not checked: `jaxcfa.model.inertia_problems` says which ones no rigid body can have, and `LogCholesky`
    gives only possible ones. A massless body has its centre of mass in its origin, and no derivative with respect to
    its first moment.

    **Raises:** `ValueError` for a wrong shape, and for bodies with a first moment but no mass (if the values are known
    while tracing; if not, the moment is dropped).
    """
    (pi,) = as_arrays(model, pi=pi)
    if is_concrete(pi):
        _check_moments(model, np.asarray(pi))
    return _with_inertial_parameters(model, pi)


@jax.jit
def _with_inertial_parameters(model: Model, pi: Float[Array, "nb 10"]) -> Model:
    return with_inertias(model, *to_com(pi))


def with_inertias(
    model: Model, mass: Float[Array, "nb"], com: Float[Array, "nb 3"], inertia: Float[Array, "nb 3 3"]
) -> Model:
    """The model with other masses, centres of mass and inertias about them."""
    return eqx.tree_at(lambda m: (m.mass, m.com, m.inertia), model, (mass, com, inertia))


def to_parameters(inertia: Inertia) -> Float[Array, "*batch 10"]:
    """The ten parameters of spatial inertias."""
    six = inertia.rotational[..., _ROWS, _COLUMNS]
    return jnp.concatenate([inertia.mass[..., None], inertia.moment, six], axis=-1)


def to_com(
    pi: Float[Array, "*batch 10"],
) -> tuple[Float[Array, "*batch"], Float[Array, "*batch 3"], Float[Array, "*batch 3 3"]]:
    """Mass, centre of mass and rotational inertia about it, from the ten parameters."""
    mass, moment, about_origin = pi[..., 0], pi[..., 1:4], pi[..., 4:][..., _ENTRIES]
    massless = mass == 0
    # The divisor is safe too, so that derivatives are finite.
    com = jnp.where(massless[..., None], 0, moment / jnp.where(massless, 1, mass)[..., None])
    return mass, com, about_origin - steiner(com, moment)


def _check_moments(model: Model, pi: np.ndarray) -> None:
    wrong = np.flatnonzero((pi[:, 0] == 0) & np.any(pi[:, 1:4] != 0, axis=1))
    if wrong.size:
        names = [model.body_names[body] for body in wrong]
        raise ValueError(f"Bodies {names} have a first moment (pi[:, 1:4]) but no mass (pi[:, 0]); no model has that.")
