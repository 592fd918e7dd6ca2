"""Problems that are solved in single precision first."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa import optimal_control as oc


def arm_problem() -> oc.Problem:
    """Two links go to a posture and stop there, with bounds of torque that are reached."""
    model = jaxcfa.chain(2)
    return oc.Problem(
        oc.RobotDynamics(model, 0.05),
        12,
        costs=[oc.Cost(oc.Control(), 1e-3), oc.Cost(oc.Velocity(), 0.1)],
        constraints=[oc.Bounds(oc.Control(), -60.0, 60.0)],
        end_constraints=[oc.Equality(lambda stage: stage.q - 0.7), oc.Equality(oc.Velocity())],
    )


def cart(x, u, t):
    return x + 0.1 * jnp.stack([x[1], jnp.sin(x[0]) + u[0]])


def cart_problem() -> oc.Problem:
    costs = [oc.Cost(lambda stage: stage.x), oc.Cost(oc.Control(), 0.1)]
    return oc.Problem(oc.FunctionDynamics(cart, 2, 1), 20, costs, [oc.Cost(lambda stage: stage.x, 50.0)])


START = jnp.array([0.3, -0.4]), jnp.zeros(2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "x0", "solver"),
    [
        (arm_problem(), START, oc.MultipleShooting()),
        (cart_problem(), jnp.array([1.0, -2.0]), oc.MultipleShooting()),
        (cart_problem(), jnp.array([1.0, -2.0]), oc.FDDP()),
    ],
    ids=["arm", "function", "fddp"],
)
def test_the_solution_is_that_of_the_solver(problem, x0, solver):
    alone, both = (oc.solve(problem, x0, solver=each) for each in (solver, oc.MixedPrecision(solver)))
    assert both.solved
    assert both.states.dtype == both.history.cost.dtype == jnp.float64
    assert_close(both.cost, alone.cost, 1e-9)
    assert_close(both.states, alone.states, 1e-6)
    assert both.violation < 1e-8
    # The history is that of both, one after the other.
    entries = np.isfinite(both.history.cost)
    assert entries.sum() == both.iterations + 1
    assert np.all(entries[: int(both.iterations) + 1])
    assert_close(both.history.cost[both.iterations], both.cost, 1e-9)
    assert both.history.violation.shape == (400,)


@pytest.mark.slow
def test_derivatives_and_batches():
    def cost(goal, solver):
        """A function closes over what is differentiated by."""
        end = [oc.Cost(lambda stage: stage.x - goal, 50.0)]
        problem = oc.Problem(oc.FunctionDynamics(cart, 2, 1), 10, [oc.Cost(oc.Control(), 0.1)], end)
        return oc.solve(problem, jnp.array([1.0, -2.0]), solver=solver).cost

    goals = jnp.array([0.5, 0.7])
    found, alone = (jax.vmap(jax.value_and_grad(cost), (0, None))(goals, x) for x in (SOLVER, oc.MultipleShooting()))
    assert_close(found[0], alone[0], 1e-9)
    assert_close(found[1], alone[1], 1e-6)


SOLVER = oc.MixedPrecision()


def test_in_single_precision_it_is_the_solver_itself():
    x0 = jnp.array([1.0, -2.0], jnp.float32)
    both, alone = (oc.solve(cart_problem(), x0, solver=solver) for solver in (SOLVER, oc.MultipleShooting()))
    assert both.states.dtype == jnp.float32
    assert jax.tree.structure(both) == jax.tree.structure(alone)
    np.testing.assert_array_equal(both.states, alone.states)


def test_what_single_precision_cannot_hold_begins_at_the_guess():
    """Costs beyond its largest number."""
    costs = [oc.Cost(lambda stage: 1e25 * stage.x), oc.Cost(oc.Control(), 1e49)]
    problem = oc.Problem(oc.FunctionDynamics(cart, 2, 1), 10, costs)
    both, alone = (oc.solve(problem, jnp.ones(2), solver=solver) for solver in (SOLVER, oc.MultipleShooting()))
    assert jnp.isfinite(both.cost)
    assert_close(both.cost, alone.cost, 1e-6)


def test_errors():
    with pytest.raises(ValueError, match=r"solver must be MultipleShooting\(\.\.\.\) or FDDP\(\.\.\.\), got Shooting"):
        oc.MixedPrecision(oc.Shooting())
    problem = cart_problem()
    plan = oc.solve(problem, jnp.zeros(2))
    with pytest.raises(ValueError, match="solver must be one with max_iterations"):
        oc.mpc_step(problem, jnp.zeros(2), plan, SOLVER)
