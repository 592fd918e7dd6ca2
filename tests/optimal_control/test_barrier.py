"""Elastic inequalities: slack and excess as functions of the constraint."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcfa.optimal_control._interior_point import Barrier


@pytest.mark.parametrize(("parameter", "price"), [(0.1, 1.0), (1e-9, 1e8), (1e-5, 1e6), (1.0, 30.0)])
def test_slack_and_excess_are_the_best_ones(dtype, parameter, price):
    """`g + s = e`, both positive, on the central path, where multipliers are the slope of what inequalities cost."""
    barrier = Barrier(jnp.asarray(parameter, dtype), jnp.asarray(price, dtype))
    size = np.array([0, 1e-9, 1e-5, 1e-3, 0.1, 1, 10, 1e4])
    g = jnp.asarray(np.concatenate([-size, size]), dtype)
    slack, excess = barrier.divided(g)
    assert jnp.all(slack > 0)
    assert jnp.all(excess > 0)
    eps = 10 * jnp.finfo(dtype).eps
    # The smaller one of both has all its digits: the other follows from it.
    np.testing.assert_allclose(excess - slack, g, atol=float(eps * max(1e4, parameter / price)))
    z = parameter / slack
    np.testing.assert_allclose(z + parameter / excess, price, rtol=100 * float(eps) if dtype == "float64" else 1e-4)

    def cost(g):
        slack, excess = barrier.divided(g)
        return price * excess - parameter * (jnp.log(slack) + jnp.log(excess))

    # Solvers do not differentiate it, where both forms of it meet neither.
    slopes = jax.vmap(jax.grad(cost))(g)
    np.testing.assert_allclose(slopes[g != 0], z[g != 0], rtol=1e-3, atol=float(eps) * price)
    kept = barrier.near(jnp.asarray([-1.0, 0.0, 0.5, 1.0, 2.0], dtype) * price, jnp.zeros(5, dtype))
    assert jnp.all((kept > 0) & (kept < price))
    rate, change = barrier.pull(barrier.multipliers(g), g)
    assert jnp.all(jnp.isfinite(rate) & (rate > 0))
    np.testing.assert_allclose(change / price, 0, atol=1e-3)
