"""Hessians of Gauss and Newton, and how fast steps by them converge."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa import optimal_control as oc
from jaxcfa.optimal_control._acceleration import Memory, accelerated
from jaxcfa.optimal_control._fddp import feedback
from jaxcfa.optimal_control._interior_point import Point, Step
from jaxcfa.optimal_control._local import Multipliers, Rows, model_of

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


def double_integrator():
    """A linear problem whose Hessians couple all unknowns, and a motion without gaps that is not its solution."""
    a, b = np.array([[1.0, 0.2], [-0.1, 0.9]]), np.array([[0.3], [0.7]])
    root = np.array([[1.0, 0.3, -0.2], [0.4, 2.0, 0.5], [-0.3, 0.1, 1.5]])
    dynamics = oc.FunctionDynamics(lambda x, u, t: a @ x + b @ u, 2, 1)
    costs = [oc.Cost(lambda stage: root @ jnp.concatenate([stage.x, stage.u]) - 1)]
    problem = oc.Problem(dynamics, 4, costs, [oc.Cost(lambda stage: root[:, :2] @ stage.x + 1)])
    states, controls = [np.array([1.0, -0.5])], np.array([[0.3], [-0.2], [0.8], [0.1]])
    for u in controls:
        states.append(a @ states[-1] + b @ u)
    return problem, jnp.asarray(states), jnp.asarray(controls)


def test_slopes_of_the_cost_to_go_belong_to_the_motion_as_it_is():
    """Not to where the feedback leads: they are those of the best motion from each of its states."""
    problem, states, controls = double_integrator()
    gains, costates = feedback(model_of(problem, states[0], states, controls))
    for first in (0, 1):
        rest = oc.Problem(problem.dynamics, 4 - first, problem.costs, problem.end_costs)
        best = oc.solve(rest, states[first])
        assert jnp.max(jnp.abs(best.states[1] - states[first + 1])) > 0.1
        assert_close(costates[first], best.multipliers.costates[0], 1e-8)
        assert_close(gains[first:], best.gains, 1e-8)


def test_acceleration_is_exact_where_steps_are_wrong_in_two_ways():
    """Steps that leave out parts of two directions: from two pairs of them it is known what is missing."""
    problem, states, controls = double_integrator()
    local = model_of(problem, states[0], states, controls)
    rng, none = np.random.default_rng(0), Rows(jnp.zeros((4, 0)), jnp.zeros(0))
    ways = rng.normal(size=(2, 5, 2)), rng.normal(size=(2, 4, 1))
    multipliers = Multipliers(jnp.zeros((5, 2)), none, none)
    left, taken = np.array([1.0, -2.0]), np.array([0.4, 1.7])
    memory = Memory.nothing(problem, Point(states, controls, multipliers, none))
    for k in range(3):
        dx, du = (np.tensordot(left, way, 1) for way in ways)
        point = Point(states + dx, controls + du, multipliers, none)
        proposed = (jnp.asarray(np.tensordot(-taken * left, way, 1)) for way in ways)
        step = Step(*proposed, multipliers, none, jnp.zeros((4, 1, 2)))
        found, memory = accelerated(problem.dynamics, local, point, step, memory, jnp.asarray(k > 0))
        left = left - taken * left
    assert_close((found.states, found.controls), (-dx, -du), 1e-10)
