"""Spatial inertias about a body's origin."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..numerics import cross, dot, identity, matmul, matvec, outer, skew, transpose
from ._numbers import of_numbers
from ._vectors import pack


class Inertia(eqx.Module):
    """Rigid-body inertia about a reference point, linear in its ten parameters. Leading axes are a batch.

    The first moment `mass * com` is kept in place of the centre of mass, so massless bodies need no special case
    and inertias add component by component.

    **Fields:** `mass` [kg], `moment` (first moment about the reference point, kg m), `rotational` (second moment
    about the reference point, kg m^2).
    """

    mass: Float[Array, "*batch"]
    moment: Float[Array, "*batch 3"]
    rotational: Float[Array, "*batch 3 3"]

    @staticmethod
    @of_numbers
    def from_com(
        mass: Float[Array, "*batch"], com: Float[Array, "*batch 3"], inertia: Float[Array, "*batch 3 3"]
    ) -> "Inertia":
        """From mass, centre of mass and rotational inertia about the centre of mass (parallel-axis theorem)."""
        moment = mass[..., None] * com
        return Inertia(mass, moment, inertia + steiner(com, moment))

    @of_numbers
    def rotated(self, rotation: Float[Array, "*#batch 3 3"]) -> "Inertia":
        """The same inertia expressed in other axes."""
        rotational = matmul(matmul(rotation, self.rotational), transpose(rotation))
        return Inertia(self.mass, matvec(rotation, self.moment), rotational)

    @of_numbers
    def shifted(self, r: Float[Array, "*#batch 3"]) -> "Inertia":
        """The same inertia about a reference point displaced by `-r` (child's origin to parent's origin)."""
        mr = self.mass[..., None] * r
        cross_terms = steiner(r, self.moment)
        rotational = self.rotational + cross_terms + transpose(cross_terms) + steiner(r, mr)
        return Inertia(self.mass, self.moment + mr, rotational)

    def __add__(self, other: "Inertia") -> "Inertia":
        return Inertia(self.mass + other.mass, self.moment + other.moment, self.rotational + other.rotational)

    @of_numbers
    def mv(self, x: Float[Array, "*#batch 6"]) -> Float[Array, "*batch 6"]:
        """Momentum of a motion vector: `[J w + h x v; m v - h x w]`."""
        w, v = x[..., :3], x[..., 3:]
        moment = matvec(self.rotational, w) + cross(self.moment, v)
        return pack(moment, self.mass[..., None] * v - cross(self.moment, w))

    def as_matrix(self) -> Float[Array, "*batch 6 6"]:
        """6 x 6 matrix `[[J, [h]x], [-[h]x, m 1]]`."""
        h = skew(self.moment)
        m = self.mass[..., None, None] * identity(3, h)
        top = jnp.concatenate([self.rotational, h], axis=-1)
        bottom = jnp.concatenate([-h, m], axis=-1)
        return jnp.concatenate([top, bottom], axis=-2)


@of_numbers
def steiner(r: Float[Array, "*#batch 3"], h: Float[Array, "*#batch 3"]) -> Float[Array, "*batch 3 3"]:
    """`-[r]x [h]x = (r . h) 1 - h r^T`: with `h = m r` the parallel-axis term of a mass `m` at `r`."""
    product = outer(h, r)
    return dot(r, h)[..., None, None] * identity(3, product) - product


@of_numbers
def inverse_inertia(
    mass: Float[Array, "*batch"], com: Float[Array, "*batch 3"], compliance: Float[Array, "*batch 3 3"]
) -> Float[Array, "*batch 6 6"]:
    """Inverse of the spatial inertia about a reference point: the acceleration that a wrench gives.

    `[[K, -K [c]x], [[c]x K, 1/m - [c]x K [c]x]]` with `c` the centre of mass and `K`, `compliance`, the inverse of the
    rotational inertia about it. Unlike inverting the matrix this loses no digits if `c` is far away.
    """
    lever = skew(com)
    upper = -matmul(compliance, lever)
    lower = (1 / mass)[..., None, None] * identity(3, lever) + matmul(lever, upper)
    top = jnp.concatenate([compliance, upper], axis=-1)
    return jnp.concatenate([top, jnp.concatenate([transpose(upper), lower], axis=-1)], axis=-2)
