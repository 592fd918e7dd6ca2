"""First and second derivatives of forward dynamics where formulas divide zero by zero, against differences."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from jaxcfa.joints import Free, Revolute, Spherical

STEP = 1e-5


@functools.cache
def robot():
    """A free body with a ball joint and an arm, two of whose axes meet in a link without mass."""
    builder = jaxcfa.ModelBuilder()
    solid = {"mass": 1.0, "com": (0.1, 0.0, 0.05), "inertia": (0.02, 0.03, 0.04)}
    builder.add_body("base", None, Free(), **solid)
    builder.add_body("upper arm", "base", Spherical(), (0.2, 0.0, 0.0), **solid)
    builder.add_body("shoulder", "base", Revolute((0, 0, 1)), (-0.2, 0.0, 0.0))
    builder.add_body("arm", "shoulder", Revolute((0, 1, 0)), **solid)
    builder.add_body("forearm", "arm", Revolute((0, 1, 0)), (0.3, 0.0, 0.0), **solid)
    return builder.build(dtype="float64")


def quaternions(q, value):
    """The configuration with another quaternion in the base and the ball joint."""
    return q.at[3:7].set(jnp.array(value)).at[7:11].set(jnp.array(value))


POINTS = {
    "neutral, straight": lambda q: q,
    "double cover": lambda q: quaternions(q, [-1.0, 0.0, 0.0, 0.0]),
    "half a turn": lambda q: quaternions(q, [0.0, 1.0, 0.0, 0.0]),
    "half a turn, negative": lambda q: quaternions(q, [0.0, 0.0, -1.0, 0.0]),
}


def loss(q, x):
    """A function of accelerations at a displaced configuration and another velocity."""
    model = robot()
    displacement, v = jnp.split(x, 2)
    tau = jnp.linspace(-1.0, 1.0, model.nv)
    qdd = jaxcfa.forward_dynamics(model, jaxcfa.integrate(model, q, displacement), v, tau)
    return jnp.sum(jnp.sin(qdd))


@jax.jit
def derivatives(q, x, along):
    """The value, the gradient and, forward over reverse, the second derivative's product with a direction."""
    (value, gradient), (_, product) = jax.jvp(lambda x: jax.value_and_grad(loss, 1)(q, x), (x,), (along,))
    return value, gradient, product


@pytest.mark.slow
@pytest.mark.parametrize("moves", [False, True], ids=["at rest", "moving"])
@pytest.mark.parametrize("point", POINTS)
def test_first_and_second_derivatives(point, moves):
    q = POINTS[point](jaxcfa.neutral(robot()))
    nv = robot().nv
    x = jnp.concatenate([jnp.zeros(nv), jnp.cos(jnp.arange(nv)) * moves])
    along = jnp.sin(jnp.arange(1, 1 + 2 * nv))
    _, gradient, product = derivatives(q, x, along)
    after, before = (derivatives(q, x + step * along, along)[:2] for step in (STEP, -STEP))
    slope, curvature = ((y - z) / (2 * STEP) for y, z in zip(after, before, strict=True))
    np.testing.assert_allclose(gradient @ along, slope, rtol=1e-6, atol=1e-6)
    scale = np.max(np.abs(curvature))
    np.testing.assert_allclose(product, curvature, rtol=0, atol=1e-6 * scale)


@pytest.mark.slow
def test_both_covers_are_the_same():
    q, x = jaxcfa.neutral(robot()), jnp.cos(jnp.arange(2 * robot().nv))
    other = quaternions(q, [-1.0, 0.0, 0.0, 0.0])
    gradients = [derivatives(cover, x, x)[1] for cover in (q, other)]
    np.testing.assert_allclose(*gradients, rtol=1e-12)
