"""Sine and cosine that compilers vectorise: XLA:CPU calls a library for one number after the other."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class _Numbers(NamedTuple):
    """**Fields:** `half_pi`: in parts, of which products with the number of quarter turns are exact as long as that is
    small; `sine` and `cosine`: of the angle within an eighth of a turn, by powers of its square, from the third and the
    fourth power of the angle on.
    """

    half_pi: tuple[float, ...]
    sine: tuple[float, ...]
    cosine: tuple[float, ...]


# Cody & Waite's reduction, and near-minimax polynomials: those of Cephes and of fdlibm.
_SINGLE = _Numbers(
    (1.5703125, 4.837512969970703e-4, 7.549789948768648e-8),
    (-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4),
    (4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5),
)
_DOUBLE = _Numbers(
    (1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21),
    (
        -1.66666666666666307295e-1,
        8.33333333332211858878e-3,
        -1.98412698295895385996e-4,
        2.75573136213857245213e-6,
        -2.50507477628578072866e-8,
        1.58962301576546568060e-10,
    ),
    (
        4.16666666666665929218e-2,
        -1.38888888888730564116e-3,
        2.48015872888517045348e-5,
        -2.75573141792967388112e-7,
        2.08757008419747316778e-9,
        -1.13585365213876817300e-11,
    ),
)
_LARGEST = 0.8  # of an angle that is left, a little more than pi / 4


def sin_cos(x: Float[Array, "*n"]) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
    """Sine and cosine of angles (float32 or float64) [rad].

    Within one and a half units in the last place of 1 for angles up to 1e4 (float32) or 1e5 (float64); beyond, of an
    angle that is nearer than the spacing of such numbers, also where that is several turns: the two stay on the circle.
    """
    numbers = _SINGLE if x.dtype == np.float32 else _DOUBLE
    turns = jnp.floor(x * x.dtype.type(2 / np.pi) + x.dtype.type(0.5))
    angle = x
    for part in numbers.half_pi:
        angle = angle - turns * x.dtype.type(part)
    angle = jnp.clip(angle, -_LARGEST, _LARGEST)
    square = angle * angle
    sine = angle + angle * square * _polynomial(square, numbers.sine)
    cosine = 1 - 0.5 * square + square * square * _polynomial(square, numbers.cosine)
    quarter = turns - 4 * jnp.floor(0.25 * turns)
    crossed = (quarter == 1) | (quarter == 3)
    first, second = jnp.where(crossed, cosine, sine), jnp.where(crossed, sine, cosine)
    return jnp.where(quarter >= 2, -first, first), jnp.where((quarter == 1) | (quarter == 2), -second, second)


def _polynomial(x: Array, coefficients: tuple[float, ...]) -> Array:
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value
