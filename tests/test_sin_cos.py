"""Sines of many numbers, to an ulp. The reference has more digits, or is the C library's where there are none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa.numerics import sin_cos, sin_cos_of_any

MORE_DIGITS = {"float32": np.float64, "float64": np.longdouble}


@pytest.mark.compiled
def test_sines_are_right_to_an_ulp(dtype):
    """Of both signs, near multiples of a quarter of a turn, and where the library is called after all."""
    both = jax.jit(sin_cos_of_any)
    quarters = np.arange(-300, 300) * (np.pi / 2)
    for x in (np.linspace(-7, 7, 5000), quarters, quarters + 1e-3, 1e3 * np.linspace(-1, 1, 5000), [-1e-30, 0, 1e9]):
        x = np.asarray(x, dtype)
        exact = x.astype(MORE_DIGITS[dtype.name])
        for found, wanted in zip(both(x), (np.sin(exact), np.cos(exact)), strict=True):
            allowed = np.spacing(np.abs(wanted.astype(dtype))) + np.finfo(dtype).eps ** 2 * np.abs(exact)
            assert np.all(np.abs(np.asarray(found) - wanted) <= allowed)
    for x in (np.inf, -np.inf, np.nan):
        found = both(np.asarray([x, 1.0], dtype))[0]
        assert np.isnan(found[0])
        assert_close(found[1], np.sin(1.0), rtol=np.finfo(dtype).eps)


@pytest.mark.compiled
def test_angles_that_are_turns_apart_stay_on_the_circle(dtype):
    x = np.random.default_rng(0).uniform(-1e12, 1e12, 10_000).astype(dtype)
    found = [np.asarray(y, np.longdouble) for y in jax.jit(sin_cos)(x)]
    assert np.max(np.abs(found[0] ** 2 + found[1] ** 2 - 1)) < 4 * np.finfo(dtype).eps


@pytest.mark.compiled
def test_batches_use_them(on_cpu, dtype):
    """Wherever joints are, also beyond what sums and products can do, and to the digits of the library."""
    model = jaxcfa.chain(2, dtype=dtype)
    poses = jax.jit(jax.vmap(lambda q: jaxcfa.forward_kinematics(model, q).rotation))
    assert " floor(" in poses.lower(jnp.zeros((40, 2), dtype)).compile().as_text()
    q = jnp.linspace(-9, 9, 80, dtype=dtype).reshape(40, 2)
    one = jnp.stack([jax.jit(lambda q: jaxcfa.forward_kinematics(model, q).rotation)(x) for x in q[:3]])
    assert_close(poses(q)[:3], one, rtol=4 * float(jnp.finfo(dtype).eps))
    far = q.at[5, 0].set(1e7)
    assert_close(poses(far)[6:], poses(q)[6:], rtol=4 * float(jnp.finfo(dtype).eps))
    assert_close(poses(far)[5, 0, 0, 0], np.cos(np.asarray(far[5, 0])), rtol=4 * float(jnp.finfo(dtype).eps))
