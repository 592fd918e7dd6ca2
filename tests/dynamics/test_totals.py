"""Totals where formulas could divide zero by zero."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close, cast
from jaxcfa.joints import Free, Revolute
from mechanisms import State
from public_functions import totals


def robot() -> jaxcfa.Model:
    """A free body, and an arm on it whose last links have no mass."""
    builder = jaxcfa.ModelBuilder()
    solid = {"mass": 1.0, "com": (0.1, 0.0, 0.05), "inertia": (0.02, 0.03, 0.04)}
    builder.add_body("base", None, Free(), **solid)
    builder.add_body("arm", "base", Revolute((0, 1, 0)), (-0.2, 0.0, 0.0), **solid)
    builder.add_body("hand", "arm", Revolute((0, 1, 0)), (0.3, 0.0, 0.0))
    builder.add_body("finger", "hand", Revolute((0, 0, 1)), (0.1, 0.0, 0.0))
    return builder.build(dtype="float64")


def everything(model, q, v):
    """Totals, and motions of frames relative to others, of which some are fixed to each other."""
    pairs, motions = (["finger", "base", -1], ["hand", "base", "arm"]), jaxcfa.body_motions(model, q, v)
    zero = jnp.zeros_like(v)
    found = totals(model, State(q, v, zero, jnp.zeros((model.nb, 6), q.dtype)), motions)
    relative = jaxcfa.relative_pose(model, q, *pairs, motions=motions).as_rotation_vector()
    jacobian = jaxcfa.relative_jacobian(model, q, *pairs, motions=motions)
    acceleration = jaxcfa.frame_acceleration(model, q, v, zero, "finger", "local", motions=motions)
    return jnp.concatenate([jnp.ravel(x) for x in (*found, relative, jacobian, acceleration)])


@pytest.mark.slow
def test_derivatives_are_finite_everywhere():
    """By displacement, velocity and mass, at rest in the neutral configuration, and after half a turn; both modes."""
    model = robot()
    neutral = jaxcfa.neutral(model)
    turned = neutral.at[3:7].set(jnp.array([0.0, 1.0, 0.0, 0.0]))

    @jax.jit
    def derivatives(q):
        def of(x):
            dq, v, heavier = jnp.split(x, [model.nv, 2 * model.nv])
            changed = eqx.tree_at(lambda m: m.mass, model, model.mass + heavier)
            return everything(changed, jaxcfa.integrate(model, q, dq), v)

        x = jnp.zeros(2 * model.nv + model.nb)
        along = jnp.cos(jnp.arange(1.0, 1 + len(x)))
        value, forward = jax.linearize(of, x)
        weights = jnp.sin(jnp.arange(1.0, 1 + len(value)))
        (reverse,) = jax.linear_transpose(forward, x)(weights)
        return value, forward(along) @ weights, reverse @ along

    for q in (neutral, turned):
        value, forward, reverse = jax.device_get(derivatives(q))
        assert np.all(np.isfinite(value))
        assert_close(reverse, forward, 1e-9)


def test_centers_of_subtrees_without_mass_are_their_origins():
    model = robot()
    for dtype in ("float64", "float32"):
        robot_, q = cast((model, jaxcfa.neutral(model).at[-2].set(0.5)), dtype)
        centers, masses = jaxcfa.subtree_centers_of_mass(robot_, q), jaxcfa.subtree_masses(robot_)
        assert centers.dtype == masses.dtype == dtype
        assert masses.tolist() == [2, 1, 0, 0]
        origins = np.asarray(jaxcfa.forward_kinematics(robot_, q).translation)
        assert np.array_equal(centers[2:], origins[2:])
        assert_close(centers[0], np.asarray(jaxcfa.center_of_mass(robot_, q)))
