"""Sines and cosines that compilers vectorise: XLA:CPU calls a library for one number after the other.

That took a tenth of the time of dynamics and a quarter of that of kinematics in batches.
"""

import math
from fractions import Fraction
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

_QUARTER = Fraction("1.57079632679489661923132169163975144209858469968755291048747229615390820314310449931")
_EIGHTH = 0.8  # of a turn, a little more


class _Constants(NamedTuple):
    """**Fields:** numbers whose sum is a quarter of a turn, the first two of so few bits that their products with
    integers are exact for angles up to the `largest`; of the series of both functions, what follows the first terms."""

    quarter: tuple[float, float, float]
    largest: float
    sine: list[float]
    cosine: list[float]

    @classmethod
    def of(cls, bits: int, largest: float, terms: int) -> "_Constants":
        parts, rest = [], _QUARTER
        for _ in range(2):
            unit = Fraction(2) ** (math.frexp(float(rest))[1] - bits)
            parts.append(rest // unit * unit)
            rest -= parts[-1]
        sine = [(-1) ** n / math.factorial(2 * n + 1) for n in range(1, terms)]
        cosine = [(-1) ** n / math.factorial(2 * n) for n in range(2, terms)]
        return cls((float(parts[0]), float(parts[1]), float(rest)), largest, sine, cosine)


_CONSTANTS = {jnp.dtype("float32"): _Constants.of(11, 1e4, 6), jnp.dtype("float64"): _Constants.of(33, 1e6, 9)}


def sin_cos(x: Float[Array, "*n"]) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
    """Sine and cosine of angles (float32 or float64) [rad].

    Within a unit in the last place up to 1e4 (float32) or 1e6 (float64); beyond, of an angle that is nearer than the
    spacing of such numbers, also where that is several turns: the two stay on the circle.
    """
    constants, eps = _CONSTANTS[x.dtype], jnp.finfo(x.dtype).eps
    quarters = jnp.floor(x * (2 / math.pi) + 0.5)
    first, second, third = constants.quarter
    # What is left of the angle, and what rounding took from that: Cody & Waite's reduction.
    rough, correction = x - quarters * first, quarters * second
    left = rough - correction
    rest = (rough - left) - correction - quarters * third
    left, rest = left + rest, (left - (left + rest)) + rest
    left, rest = jnp.clip(left, -_EIGHTH, _EIGHTH), jnp.clip(rest, -float(eps), float(eps))
    square = left * left
    sine = left + (left * square * _polynomial(square, constants.sine) + rest)
    half = 0.5 * square
    cosine = 1 - half
    cosine = cosine + (((1 - cosine) - half) + (square * square * _polynomial(square, constants.cosine) - left * rest))
    place = quarters - 4 * jnp.floor(0.25 * quarters)
    crossed = (place == 1) | (place == 3)
    one, other = jnp.where(crossed, cosine, sine), jnp.where(crossed, sine, cosine)
    return jnp.where(place >= 2, -one, one), jnp.where((place == 1) | (place == 2), -other, other)


def sin_cos_of_any(x: Float[Array, "*n"]) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
    """`sin_cos(x)`, or by the library if one of the angles is too large for that."""
    return lax.cond(_is_small(x), sin_cos, lambda x: (jnp.sin(x), jnp.cos(x)), x)


def _is_small(x: Array) -> Bool[Array, ""]:
    """Whether all angles are; by halves, since XLA leaves it to a library to reduce many numbers at once."""
    limit, x = _CONSTANTS[x.dtype].largest, jnp.abs(x)
    while x.ndim:  # of rows first, which are vectors
        while (size := len(x)) > 1:
            half = -(-size // 2)
            x = jnp.maximum(x[:half], x[-half:])  # not a number, if one is none
        x = x[0]
    return x <= limit


def _polynomial(x: Array, coefficients: list[float]) -> Array:
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value
