"""Stops at the ends of the joints' ranges."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..compilation import jit_of_one_state
from ..configuration import integrate, neutral
from ..dynamics import mass_matrix
from ..joints import AbstractJoint
from ..model import Model, map_joints
from ..model._arguments import as_positive
from ..model._ranges import ends_of_ranges, even_displacement
from ..typing import Velocity

_SAMPLES = 8  # configurations in which inertias are looked at


def _as_frequency(value: Any) -> Array | None:
    return None if value is None else as_positive("frequency of stops")(value)


class Stops(eqx.Module):
    """Springs and dampers at the ends of the ranges, from `model.limits.lower` to `upper`, that keep joints inside.

    By x beyond the end a degree of freedom feels `-s(x) m (w^2 x + 2 damping w v)`. The inertia m is the largest
    diagonal element of the mass matrix in the neutral and some other configurations, evenly in the ranges. A joint with
    this inertia and no other moving obeys `x'' + 2 damping w x' + w^2 x = 0`, whatever its size, and a load that would
    accelerate it by a is held at `x = a / w^2`; where an arm is folded, its stops are harder. The factor s is zero at
    the end of the range, and one from `width` on, with a continuous slope, so that motions can be differentiated. As
    long as x is not zero the damper slows a joint that returns, too.

    By default the frequencies are those of the model, `model.limits.stop_frequency`, which `with_joint` changes. They
    are read from MJCF files, so that stops give way as far as MuJoCo's: of `solreflimit="time ratio"` and
    `solimplimit="d0 d width ..."` they are `w = 1 / (time ratio sqrt(1 - d))`. (Files' widths and margins are not read:
    where d0 is small, MuJoCo's stops give way by up to that width before they are as hard.) All others are 224 rad/s,
    what MuJoCo's defaults make. Steps of `SemiImplicitEuler` are stable at every length; explicit ones need less than
    `2 / w`, 9 ms. A joint that carries next to nothing itself, but has to bear what a loop hands on to it, needs a
    higher frequency.

    **Fields:** `frequency` w of all joints [rad/s], or `None` for those of the model; `damping` ratio, 1 for a stop
    that returns nothing; `width` [rad, m].
    """

    frequency: Float[Array, ""] | None = eqx.field(converter=_as_frequency, default=None)
    damping: Float[Array, ""] = eqx.field(converter=as_positive("damping of stops", or_zero=True), default=1.0)
    width: Float[Array, ""] = eqx.field(converter=as_positive("width of stops"), default=1e-3)


class StopForces(eqx.Module):
    """The stops of a model.

    **Fields:** `stiffness` (nv,) [N m/rad, N/m], `damping` (nv,) [N m s/rad, N s/m]; `width` [rad, m].
    """

    stiffness: Float[Array, "nv"]
    damping: Float[Array, "nv"]
    width: Float[Array, ""]

    def at(
        self, model: Model, q: Float[Array, "nq"], ahead: Float[Array, ""] | float
    ) -> tuple[Velocity, Float[Array, "nv"]]:
        """The f and D >= 0, both (nv,), of the forces `f - D v` at q, or where v leads within the time `ahead` [s]."""
        lower, upper = ends_of_ranges(model)
        beyond = map_joints(model, _beyond, ("q", lower), ("q", upper), ("q", q), out="v")
        inside = 1 - jnp.minimum((beyond / self.width) ** 2, 1)
        part = 1 - inside**2
        stiffness = part * self.stiffness
        return -stiffness * beyond, part * self.damping + ahead * stiffness


@jit_of_one_state
def stop_forces(model: Model, stops: Stops) -> StopForces:
    """The stops that a model's inertias make of the frequencies and the damping ratio."""
    start, ends = neutral(model), ends_of_ranges(model)

    def inertias(number: Int[Array, ""]) -> Float[Array, "nv"]:
        displacement = even_displacement(model, ends, start, number)
        return jnp.diagonal(mass_matrix(model, integrate(model, start, jnp.where(number > 0, displacement, 0))))

    inertia = jnp.max(jax.vmap(inertias)(jnp.arange(_SAMPLES)), axis=0)
    given = model.limits.stop_frequency if stops.frequency is None else stops.frequency
    frequency, damping, width = (x.astype(inertia.dtype) for x in (given, stops.damping, stops.width))
    return StopForces(inertia * frequency**2, 2 * damping * frequency * inertia, width)


def _beyond(
    joint: AbstractJoint, lower: Float[Array, "nq"], upper: Float[Array, "nq"], q: Float[Array, "nq"]
) -> Float[Array, "nv"]:
    """The displacement of a joint from its range, zero inside."""
    return joint.difference(jnp.clip(q, lower.astype(q.dtype), upper.astype(q.dtype)), q)
