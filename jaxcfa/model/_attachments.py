"""What a file adds to the mechanism: actuators and stored configurations."""

import functools

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._layout import LAYOUT, shape_of

INITIAL = "qpos0"  # the keyframe that every model from MJCF has


class Actuators(eqx.Module):
    """Actuators with an affine force law acting through constant moment arms (motors, position and velocity servos).

    With control `u`, the actuator's length `l` and velocity `l'`,
    `force = clip(gain clip(u) + bias[0] + bias[1] l + bias[2] l')` and `tau = moment^T force`.

    **Fields:** `names`; `moment` (nu, nv), the gear ratios; `length_offset` (nu,) and `length_gradient` (nu, nq):
    `l = length_gradient q + length_offset`; `gain` (nu,); `bias` (nu, 3); `control_lower`, `control_upper`,
    `force_lower`, `force_upper` (nu,), infinite where there is no limit.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    moment: Float[Array, "*batch nu nv"]
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
        return Actuators((), **{name: zeros(letters) for name, letters in LAYOUT["actuators"].items()})


class Keyframes(eqx.Module):
    """Named configurations.

    **Fields:** `names`; `q` (nk, nq); `v` (nk, nv).
    """

    names: tuple[str, ...] = eqx.field(static=True)
    q: Float[Array, "*batch nk nq"]
    v: Float[Array, "*batch nk nv"]

    @staticmethod
    def none(nq: int, nv: int, dtype: jnp.dtype) -> "Keyframes":
        """No stored configurations."""
        return Keyframes((), jnp.zeros((0, nq), dtype), jnp.zeros((0, nv), dtype))
