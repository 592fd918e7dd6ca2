"""Inertias that a rigid body can have, as a function of ten unconstrained numbers."""

import functools
from collections.abc import Iterable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..model import Model
from ..model._arguments import as_arrays, is_concrete
from ..numerics import dot, identity, symmetrise
from ..numerics._options import floating_numbers
from ..spatial import Inertia
from ..structured._small_spd import ldl_factor
from ..typing import NameOrNumber
from ._inertial_parameters import to_com, to_parameters, with_inertias

# A pivot of this many rounding errors of the second moments is zero: the body is a sheet, a rod or a point.
_ROUNDING = 4
_IN_DOUBLE = ", and nearly flat ones only in float64"


class LogCholesky(eqx.Module):
    """Physically consistent inertias of bodies, by ten unconstrained parameters each.

    A mass distribution has a positive definite pseudo-inertia `P = [[Sigma, h], [h^T, m]]` (4 x 4), with the second
    moments `Sigma = tr(I) / 2 - I` about the origin, and each such P is that of a mass distribution. With
    `theta = [alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3]`

        P = U U^T,  U = e^alpha [[e^d1, s12, s13, t1], [0, e^d2, s23, t2], [0, 0, e^d3, t3], [0, 0, 0, 1]]

    (Rucker & Wensing 2022, "Smooth parameterization of rigid-body inertia"; the order is also that of Pinocchio's
    `LogCholeskyParameters`). So every theta has positive mass `e^(2 alpha)` and principal moments that
    satisfy the triangle inequality, up to rounding; the map is smooth and one to one, and optimizers need no
    constraints. The centre of mass is `t`.

    ```python
    start = LogCholesky.of(model)
    gradient = jax.grad(lambda x: loss(x.apply(model)))(start)
    ```

    **Fields:** `theta` (..., 10): alpha and d are logarithms, in kg and m; s and t are in m. `bodies`: the names (or
    numbers) of the bodies that the rows are of, or `None` for all bodies of a model.

    **Raises:** `ValueError` if the last axis has not ten elements, and for `bodies` that are no list.
    """

    theta: Float[Array, "*batch 10"]
    bodies: tuple[NameOrNumber, ...] | None = eqx.field(static=True)

    def __init__(self, theta: ArrayLike, bodies: Sequence[NameOrNumber] | None = None):
        self.theta = _ten_numbers("theta", theta)
        self.bodies = None if bodies is None else _listed(bodies)

    @classmethod
    def of(cls, model: Model, bodies: Sequence[NameOrNumber] | None = None) -> "LogCholesky":
        """The parameters (nb, 10) of a model's bodies, or (k, 10) of some.

        **Arguments:** `bodies`: names or numbers of k bodies; all if not given. `apply` finds them by their names, also
        in another model, and leaves the others as they are, such as massless links and rotors.

        **Raises:** `ValueError` for a body that the model has not, or that is there twice, and naming the bodies whose
        pseudo-inertia is not positive definite: without mass, of principal moments that break the triangle inequality,
        or without extent in some direction, such as a point mass. (If the model is traced, their parameters are not
        finite instead.)
        """
        if bodies is None:
            return cls(_checked(_of_com(model.mass, model.com, symmetrise(model.inertia)), model.body_names))
        rows = _numbers(model, bodies)
        theta = _of_com(*(x[rows,] for x in (model.mass, model.com, symmetrise(model.inertia))))
        names = [model.body_names[i] for i in rows]
        return cls(_checked(theta, names), names)

    @classmethod
    def from_inertial_parameters(cls, pi: ArrayLike) -> "LogCholesky":
        """The parameters of bodies whose inertial parameters are `pi` (..., 10), see `inertial_parameters`.

        In single precision `LogCholesky.of` is more accurate: inertias about a distant origin have lost digits.

        **Raises:** `ValueError` for a wrong shape, and as `of`, with numbers in place of names.
        """
        return cls(_checked(_of_parameters(_ten_numbers("pi", pi))))

    def inertial_parameters(self) -> Float[Array, "*batch 10"]:
        """`[m, hx, hy, hz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz]` about the bodies' origins [kg, kg m, kg m^2]."""
        return _to_parameters(self.theta)

    def apply(self, model: Model) -> Model:
        """The model with these masses, centres of mass and inertias, of the `bodies` alone if they are given.

        **Raises:** `ValueError` unless `theta` has shape (nb, 10), or (k, 10) for k `bodies` that the model has.
        """
        if self.bodies is None:
            (theta,) = as_arrays(model, theta=self.theta)
            return _apply(theta, model)
        rows = _numbers(model, self.bodies)
        if self.theta.shape != (len(rows), 10):
            raise ValueError(
                f"theta must have shape {(len(rows), 10)}, a row for each of bodies, got {self.theta.shape}."
            )
        return _apply_to(rows, self.theta, model)


def _numbers(model: Model, bodies: Sequence[NameOrNumber]) -> tuple[int, ...]:
    """Numbers of bodies, each there once."""
    numbers = [model.body_index(body) for body in _listed(bodies)]
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"Each of bodies must be there once, got {bodies!r:.200}. Leave out what is repeated.")
    return tuple(numbers)


def _listed(bodies: Sequence[NameOrNumber]) -> tuple[NameOrNumber, ...]:
    if isinstance(bodies, str) or not isinstance(bodies, Iterable):
        raise ValueError(f"bodies must be a list of names or numbers, such as ['hand'], got {bodies!r:.200}.")
    return tuple(bodies)


@jax.jit
def _apply(theta: Float[Array, "nb 10"], model: Model) -> Model:
    return with_inertias(model, *_to_com(theta))


@functools.partial(jax.jit, static_argnums=0)
def _apply_to(rows: tuple[int, ...], theta: Float[Array, "k 10"], model: Model) -> Model:
    pairs = zip((model.mass, model.com, model.inertia), _to_com(theta), strict=True)
    return with_inertias(model, *(old.at[rows,].set(new.astype(old.dtype)) for old, new in pairs))


@jax.jit
def _to_parameters(theta: Float[Array, "*batch 10"]) -> Float[Array, "*batch 10"]:
    return to_parameters(Inertia.from_com(*_to_com(theta)))


def _to_com(
    theta: Float[Array, "*batch 10"],
) -> tuple[Float[Array, "*batch"], Float[Array, "*batch 3"], Float[Array, "*batch 3 3"]]:
    """Mass, centre of mass and inertia about it. Nothing is taken about the origin, so float32 loses no digits."""
    mass, (d1, d2, d3) = jnp.exp(2 * theta[..., 0]), jnp.moveaxis(jnp.exp(theta[..., 1:4]), -1, 0)
    s12, s23, s13 = jnp.moveaxis(theta[..., 4:7], -1, 0)
    o = jnp.zeros_like(d1)
    x, y, z = (jnp.stack(row, axis=-1) for row in ((d1, s12, s13), (o, d2, s23), (o, o, d3)))
    xx, yy, zz = dot(x, x), dot(y, y), dot(z, z)
    xy, yz, xz = -dot(x, y), -dot(y, z), -dot(x, z)
    # Sums of squares, not a trace less its own elements: exact also for slender bodies.
    rows = (yy + zz, xy, xz), (xy, xx + zz, yz), (xz, yz, xx + yy)
    gyration = jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)
    return mass, theta[..., 7:], mass[..., None, None] * gyration


@jax.jit
def _of_parameters(pi: Float[Array, "*batch 10"]) -> Float[Array, "*batch 10"]:
    return _of_com(*to_com(pi))


@jax.jit
def _of_com(
    mass: Float[Array, "*batch"], com: Float[Array, "*batch 3"], inertia: Float[Array, "*batch 3 3"]
) -> Float[Array, "*batch 10"]:
    """The inverse of `_to_com`; not finite where the pseudo-inertia is not positive definite."""
    alpha = 0.5 * jnp.log(mass)
    trace = inertia[..., 0, 0] + inertia[..., 1, 1] + inertia[..., 2, 2]
    second = (0.5 * trace[..., None, None] * identity(3, inertia) - inertia) / mass[..., None, None]
    floor = _ROUNDING * float(jnp.finfo(mass.dtype).eps) * 0.5 * trace / mass
    floor = jnp.broadcast_to(floor[..., None], com.shape)
    # Rows and columns in reverse order make the lower triangular factor an upper one.
    factor = ldl_factor(second[..., ::-1, ::-1], floor)
    d3, d2, d1 = jnp.moveaxis(0.5 * jnp.log(factor.pivots), -1, 0)
    s23, s13 = (factor.lower[..., i, 0] * jnp.exp(d3) for i in (1, 2))
    s12 = factor.lower[..., 2, 1] * jnp.exp(d2)
    return jnp.concatenate([jnp.stack([alpha, d1, d2, d3, s12, s23, s13], axis=-1), com], axis=-1)


def _checked(theta: Float[Array, "*batch 10"], names: Sequence[str] = ()) -> Float[Array, "*batch 10"]:
    if is_concrete(theta):
        wrong = ~np.all(np.isfinite(theta), axis=-1)
        if wrong.any():
            numbers = np.unique(np.argwhere(np.atleast_1d(wrong))[:, -1]).tolist()
            raise ValueError(
                f"The inertias of bodies {[names[i] for i in numbers] if names else numbers} are not physically "
                "consistent: the pseudo-inertia is not positive definite. Masses must be positive, and the sum of any "
                f"two principal moments about the centre of mass must exceed the third by what {theta.dtype} can tell: "
                f"bodies as flat as a sheet do not{_IN_DOUBLE if theta.dtype.itemsize < 8 else ''}. Replace these "
                "inertias, or leave these bodies out (LogCholesky.of(model, bodies=...))."
            )
    return theta


def _ten_numbers(name: str, x: ArrayLike) -> Float[Array, "*batch 10"]:
    array = floating_numbers(name, x)
    if array.ndim == 0 or array.shape[-1] != 10:
        raise ValueError(f"{name} must have shape (..., 10), got {array.shape}.")
    return array
