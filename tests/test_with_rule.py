"""Second derivatives of loops over what has derivative rules of its own, in all orders of forward and reverse mode."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import second_derivatives
from jaxcfa import joints, optimal_control as oc
from jaxcfa.numerics import instantiate, with_rule


def _root_without_derivatives(x, steps):
    """By as many iterations of Heron's as it takes, which stop the derivatives."""
    x = jax.lax.stop_gradient(x)
    return jax.lax.while_loop(lambda y: jnp.any(jnp.abs(y * y - x) > 1e-6 * x), lambda y: (y + x / y) / 2, x), steps


def _rate_of_root(primals, tangents):
    y, steps = root(*primals)
    assert "SymbolicZero" in type(tangents[1]).__name__  # of whole numbers, always
    return (y, steps), (instantiate(tangents[0]) / (2 * y), tangents[1])


root = with_rule(_root_without_derivatives, _rate_of_root)


def in_a_loop(step, length=2):
    """The sum of squares after some steps of `lax.scan`, as a function of the start."""

    def run(x):
        return jnp.sum(jax.lax.scan(lambda x, _: (step(x), None), x, length=length)[0] ** 2)

    return run


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transformed", [lambda f: f, jax.jit, jax.checkpoint], ids=["plain", "jit", "checkpoint"])
def test_rules_count_in_loops(dtype, transformed):
    x, along = (jnp.array(x, dtype) for x in ([2.0, 3.0], [0.5, -1.0]))
    run = in_a_loop(transformed(lambda x: root(x, 3)[0]))  # the sum of roots
    np.testing.assert_allclose(run(x), jnp.sum(jnp.sqrt(x)), rtol=1e-5)
    exact = -0.25 * jnp.sum(along**2 * x**-1.5)
    if dtype == "float64":
        *orders, _ = second_derivatives(run, x, along)
        np.testing.assert_allclose(orders, exact, rtol=1e-5)
    np.testing.assert_allclose(along @ jax.hessian(run)(x) @ along, exact, rtol=1e-5)
    batch = jax.vmap(jax.hessian(run))(jnp.stack([x, 2 * x]))
    np.testing.assert_allclose(batch[1], np.diag(-0.25 * (2 * x) ** -1.5), rtol=1e-5, atol=1e-9)


def test_a_batch_of_some_arguments_and_of_none():
    x = jnp.array([2.0, 3.0])
    y, steps = jax.vmap(root, (None, 0))(x, jnp.arange(3))
    np.testing.assert_allclose(y, jnp.tile(jnp.sqrt(x), (3, 1)), rtol=1e-6)
    np.testing.assert_array_equal(steps, [0, 1, 2])
    assert jax.vmap(lambda x: root(x, 3)[0])(jnp.zeros((0, 2))).shape == (0, 2)


def test_what_is_closed_over_may_be_traced():
    def scaled(x, scale):
        rule = lambda primals, tangents: (run(*primals), scale * instantiate(tangents[0]))  # noqa: E731
        run = with_rule(lambda x: x * scale, rule)
        return run(x)

    assert jax.jit(scaled)(2.0, 3.0) == 6
    np.testing.assert_array_equal(jax.vmap(scaled, (None, 0))(2.0, jnp.arange(3.0)), [0, 2, 4])
    assert jax.jit(jax.grad(scaled))(2.0, 3.0) == 3


def ball_on_the_ground(height):
    builder = jaxcfa.ModelBuilder()
    builder.add_body("ball", joint=joints.Free(), mass=1.3, inertia=0.01)
    model = builder.build()
    contacts = jaxcfa.ground_contacts(model, "ball", radius=0.1, stiction_velocity=0.05)
    q, still = jaxcfa.neutral(model).at[2].set(height), jnp.zeros((2, 6))

    def run(v):
        return jnp.sum(jaxcfa.rollout(model, q, v, still, dt=5e-3, contacts=contacts).v[-1] ** 2)

    return run, jnp.array([0.1, 0.2, -0.05, 0.3, 0.4, 0.1]), jnp.array([0.3, 0.2, 0.1, -0.4, 0.5, 0.6])


@pytest.mark.parametrize("height", [0.099, 0.2], ids=["in contact", "above"])
def test_motions_in_contact(height):
    *orders, differences = second_derivatives(*ball_on_the_ground(height))
    np.testing.assert_allclose(orders, differences, rtol=1e-6)


def test_plans_and_postures():
    """Solvers in a loop, as a controller is. By rules that loops forget these derivatives are zero, or wrong."""
    cost, end = oc.Cost(oc.Control()), oc.Cost(lambda stage: stage.x * jnp.array([1.0, 2.0]), 3.0)
    pendulum = oc.FunctionDynamics(lambda x, u, t: x + 0.1 * jnp.stack([x[1], u[0] - jnp.sin(x[0])]), 2, 1)
    problem = oc.Problem(pendulum, 3, [cost], [end])
    model = jaxcfa.chain(2)
    q = jnp.array([0.3, 0.8])
    hand = model.body_names[-1]
    place = jaxcfa.frame_pose(model, q, hand).translation

    def reached(x):
        target = oc.FramePosition(hand, place + jnp.append(0.1 * x, 0.0))
        return jaxcfa.inverse_kinematics.solve(model, target, q, starts=1).q

    for step in lambda x: oc.solve(problem, x).states[-1], reached:
        *orders, differences = second_derivatives(in_a_loop(step), jnp.array([0.3, 0.2]), jnp.array([0.5, -1.0]))
        np.testing.assert_allclose(orders, differences, rtol=1e-4)
