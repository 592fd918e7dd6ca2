"""Hessians of Gauss and Newton, and how fast steps by them converge."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa import optimal_control as oc
from jaxcfa.optimal_control._local import model_of

# Missing curvature relative to the known one, of three unknowns: without acceleration errors shrink by 0.9 in each
# iteration (the example of one unknown is in Madsen, Nielsen & Tingleff, Methods for non-linear least squares problems,
# 2004), and there are some hundred of them.
MISSING = (0.6, -0.8, -0.9)
# Of the first unknown whole steps go farther than twice the way, so that all of them are halved.
TOO_FAR = (-2.8, 0.6, 0.5)


def slow(missing, bounded, dtype):
    def residual(stage):
        x = stage.x
        return jnp.concatenate([x + 1, np.array(missing, dtype) * x * x + x - 1])

    bounds = [oc.Bounds(oc.Control(), -100.0, 100.0)] if bounded else []
    steps = oc.FunctionDynamics(lambda x, u, t: x + u, 3, 3)
    return oc.Problem(steps, 1, costs=[oc.Cost(oc.Control(), 1e-6)], end_costs=[oc.Cost(residual)], constraints=bounds)


@pytest.mark.parametrize(
    ("missing", "far", "bounded", "dtype"),
    [
        (MISSING, 1.0, False, np.float64),
        (MISSING, 1.0, True, np.float64),
        (MISSING, 1.0, False, np.float32),
        (TOO_FAR, 0.3, False, np.float64),
    ],
)
def test_few_iterations_where_residuals_are_large(missing, far, bounded, dtype):
    starts = far * jnp.asarray(np.random.default_rng(0).uniform(-0.3, 0.4, (5, 3)), dtype)
    solver = oc.MultipleShooting(hessian="gauss_newton")
    found = jax.jit(jax.vmap(lambda x0: oc.solve(slow(missing, bounded, dtype), x0, solver=solver)))(starts)
    np.testing.assert_array_equal(found.status, oc.SolveStatus.SOLVED)
    np.testing.assert_allclose(found.states[:, -1], 0, atol=1e-5 if dtype == np.float64 else 2e-2)
    assert jnp.all(found.iterations <= 30), found.iterations


def test_hessians_are_those_of_all_residuals():
    """Of costs that depend on some blocks of the state and control, on all, and on none."""
    model = jaxcfa.chain(2, dtype=jnp.float64)
    terms = [
        lambda s: jnp.sin(s.q),
        lambda s: s.v[:1] * s.u,
        lambda s: jnp.concatenate([s.x, s.u]) * s.x[0],
        lambda s: jnp.ones(2),
        oc.Control(),
        oc.FramePosition(model.body_names[-1], jnp.ones(3)),
    ]
    costs = [oc.Cost(term, 0.5 + i) for i, term in enumerate(terms)]
    problem = oc.Problem(oc.RobotDynamics(model, 0.1), 3, costs=costs, end_costs=[oc.Cost(terms[0])])
    rng = np.random.default_rng(0)
    states, controls = jnp.asarray(rng.normal(size=(4, 4))), jnp.asarray(rng.normal(size=(3, 2)))
    found = jax.jit(lambda *motion: model_of(problem, states[0], *motion).stages)(states, controls)

    def rows(z, t):
        stage = oc.Stage(problem.dynamics, z[:4], z[4:], t)
        return jnp.concatenate([jnp.sqrt(cost.weight) * cost.term(stage) for cost in costs])

    z, t = jnp.concatenate([states[:-1], controls], axis=1), jnp.arange(3)
    jacobians, residuals = jax.jit(jax.vmap(jax.jacfwd(rows)))(z, t), jax.vmap(rows)(z, t)
    assert_close(found.hessian, jacobians.mT @ jacobians, rtol=1e-12)
    assert_close(found.gradient, (jacobians.mT @ residuals[..., None])[..., 0], rtol=1e-12)
