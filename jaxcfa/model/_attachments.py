"""What a file adds to the mechanism: actuators and stored configurations."""

import functools

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._layout import LAYOUT, shape_of

INITIAL = "qpos0"  # the keyframe that every model from MJCF has


class Actuators(eqx.Module):
    """Actuators with an affine force law: motors, position and velocity servos, thrusters.

    With control `u`, the actuator's length `l` and velocity `l'`,
    `force = clip(gain clip(u) + bias[0] + bias[1] l + bias[2] l')`. It acts through constant moment arms,
    `tau = moment^T force`, on a frame, `tau = J^T wrench force` with the frame's Jacobian in its own axes, or on both.

    **Fields:** `names`; `frames`, the name of the frame or body on which each acts, or `None`; `moment` (nu, nv), the
    gear ratios; `wrench` (nu, 6), `[moment; force]` of a unit force in the axes of the frame, at its origin;
    `length_offset` (nu,) and `length_gradient` (nu, nq): `l = length_gradient q + length_offset`; `gain` (nu,); `bias`
    (nu, 3); `control_lower`, `control_upper`, `force_lower`, `force_upper` (nu,), infinite where there is no limit.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    frames: tuple[str | None, ...] = eqx.field(static=True)
    moment: Float[Array, "*batch nu nv"]
    wrench: Float[Array, "*batch nu 6"]
    length_gradient: Float[Array, "*batch nu nq"]
    length_offset: Float[Array, "*batch nu"]
    gain: Float[Array, "*batch nu"]
    bias: Float[Array, "*batch nu 3"]
    control_lower: Float[Array, "*batch nu"]
    control_upper: Float[Array, "*batch nu"]
    force_lower: Float[Array, "*batch nu"]
    force_upper: Float[Array, "*batch nu"]

    @staticmethod
    def none(nq: int, nv: int, dtype: jnp.dtype) -> "Actuators":
        """No actuators."""
        sizes = {"nu": 0, "nq": nq, "nv": nv}
        # One array for those of equal shapes, which are then one argument of programs.
        zeros = functools.cache(lambda letters: jnp.zeros(shape_of(letters, sizes), dtype))
        return Actuators((), (), **{name: zeros(letters) for name, letters in LAYOUT["actuators"].items()})


class Keyframes(eqx.Module):
    """Named configurations.

    **Fields:** `names`; `q` (nk, nq); `v` (nk, nv); `control` (nk, nu), what the actuators are told there.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    q: Float[Array, "*batch nk nq"]
    v: Float[Array, "*batch nk nv"]
    control: Float[Array, "*batch nk nu"]

    @staticmethod
    def none(nq: int, nv: int, dtype: jnp.dtype) -> "Keyframes":
        """No stored configurations."""
        return Keyframes((), *(jnp.zeros((0, size), dtype) for size in (nq, nv, 0)))
