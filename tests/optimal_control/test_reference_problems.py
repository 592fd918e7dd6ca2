"""Problems whose optima others have published or found, from the same starts."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from benchmarks.control_collection import COLLECTION
from benchmarks.control_problems import built
from jaxcfa import optimal_control as oc
from jaxcfa.structured import Doubling, Riccati
from robots import urdf_path

# Of crocoddyl 3.2.1 (FDDP) to rounding, from the initial state in all knots, and from zero states.
PENDULUM, PENDULUM_FROM_ZERO, KINOVA = 0.0036819660510785572, 0.020587507892, 3.6984227489289445


def cart_pole_step(x, u, t):
    """Explicit Euler; cart 10 kg, pole 1 kg at 0.5 m."""
    _, angle, speed, rate = x
    s, c = jnp.sin(angle), jnp.cos(angle)
    push = 10 + s**2
    linear = (u[0] + s * (0.5 * rate**2 + 9.81 * c)) / push
    angular = (-u[0] * c - 0.5 * rate**2 * c * s - 11 * 9.81 * s) / (0.5 * push)
    return x + 0.1 * jnp.stack([speed, rate, linear, angular])


def test_cart_pole():
    """Swung up under bounds to a hard end (the problem and its optimum by ipopt: primal-dual-lipa, 2025)."""
    end, x0 = jnp.array([0, np.pi, 0, 0]), jnp.array([0, 0.2, 0, -0.1])
    problem = oc.Problem(
        oc.FunctionDynamics(cart_pole_step, 4, 1),
        50,
        costs=[oc.Cost(oc.StateDifference(end), 0.2), oc.Cost(oc.Control(), 0.02)],
        end_costs=[oc.Cost(oc.StateDifference(end), 2000.0)],
        constraints=[oc.Bounds(oc.Control(), -5.0, 5.0)],
        end_constraints=[oc.Equality(oc.StateDifference(end))],
    )
    guess = jnp.linspace(x0, end, 51), jnp.zeros((50, 1))
    for solver in (
        oc.MultipleShooting(),
        oc.MultipleShooting(steps="linear", schedule=Riccati(Doubling()), together=4),
        oc.MultipleShooting(hessian="exact", steps="linear", max_iterations=400),
    ):
        found = oc.solve(problem, x0, guess, solver)
        assert oc.SolveStatus(int(found.status)) == oc.SolveStatus.SOLVED
        np.testing.assert_allclose(found.cost, 66.8026197, rtol=1e-6)
        assert found.violation < 1e-8
        # As many as by the recursion, although stages have no least cost with the curvature that is learned.
        assert found.iterations < 40 or solver.hessian == "exact"
        assert jnp.abs(found.controls).max() <= 5 + 1e-8
        np.testing.assert_allclose(found.states[-1], end, atol=1e-8)
        np.testing.assert_allclose(found.rollout(problem).states, found.states, atol=1e-6)


def pendulum():
    """The double pendulum of crocoddyl's example, driven at its first joint."""
    model = jaxcfa.load_model(urdf_path("double_pendulum.urdf"))

    def swing(stage):
        return jnp.concatenate([jnp.sin(stage.q), 1 - jnp.cos(stage.q), stage.v])

    weight = jnp.array([1, 1, 1, 1, 0.1, 0.1])
    dynamics = oc.RobotDynamics(model, 1e-2, actuated=["joint1"], passive_forces=False)
    costs = [oc.Cost(swing, 1e-5 * weight), oc.Cost(oc.Control(), 1e-4)]
    return oc.Problem(dynamics, 100, costs, [oc.Cost(swing, 100 * weight)])


@pytest.mark.filterwarnings("ignore::jaxcfa.io.ModelWarning")
@pytest.mark.slow
@pytest.mark.parametrize("solver", [oc.MultipleShooting(), oc.FDDP()], ids=["shooting", "fddp"])
def test_double_pendulum(solver):
    problem, x0 = pendulum(), jnp.array([3.14, 0, 0, 0])
    found = oc.solve(problem, x0, solver=solver)
    np.testing.assert_allclose(found.cost, PENDULUM, rtol=1e-6)
    zeros = jnp.zeros((101, 4)).at[0].set(x0), jnp.zeros((100, 1))
    np.testing.assert_allclose(oc.solve(problem, x0, zeros, solver).cost, PENDULUM_FROM_ZERO, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::jaxcfa.io.ModelWarning")
def test_kinova():
    """An arm that reaches a pose."""
    model = jaxcfa.load_model(urdf_path("kinova.urdf"))
    dt, q = 1e-2, jnp.array([1.5707, 2.618, -1.5707, 3.1415, 2.618, 0.0])
    x0 = jnp.concatenate([q, jnp.zeros(6)])
    turns = np.isin(np.arange(6), [0, 3, 5])

    def moved(stage):
        """Continuous joints take the shorter way round."""
        d = stage.q - q
        return jnp.concatenate([jnp.where(turns, jnp.arctan2(jnp.sin(d), jnp.cos(d)), d), stage.v])

    pose = oc.FramePose("j2s6s200_end_effector", jaxcfa.Transform(jnp.eye(3), jnp.array([0.6, 0.2, 0.5])))
    costs = [oc.Cost(pose, dt), oc.Cost(moved, 0.1 * dt), oc.Cost(oc.Control(), 0.1 * dt)]
    problem = oc.Problem(oc.RobotDynamics(model, dt, passive_forces=False), 100, costs, [oc.Cost(pose, 1e3)])
    found = oc.solve(problem, x0)
    np.testing.assert_allclose(found.cost, KINOVA, rtol=1e-7)
    again = oc.solve(problem, x0, found)
    assert again.iterations <= 2


def integrated(rates, dt):
    """A step by the classical method of Runge and Kutta."""

    def step(x, u, t):
        a = rates(x, u)
        b = rates(x + dt / 2 * a, u)
        c = rates(x + dt / 2 * b, u)
        return x + dt / 6 * (a + 2 * b + 2 * c + rates(x + dt * c, u))

    return step


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "name", "hessian", "iterations", "cost", "rtol"),
    [
        ("swing up", "cart-pole", "secant", 120, 29.2857448515, 1e-7),
        # To first order no motion of the arms turns the body.
        ("fly and turn", "turning by two arms", "secant", 100, 3.1846097957, 1e-8),
        ("fly and turn", "turning by two arms", "exact", 100, 3.1846097957, 1e-8),
        # Valleys that are curved and narrow, and one of several optima: ipopt takes 144 iterations to that of 5.58.
        ("find a way", "arm around a disc", "secant", 120, 6.4597902019, 1e-7),
    ],
)
def test_from_rest_without_a_guess(family, name, hessian, iterations, cost, rtol):
    """Under bounds, to a hard end; the optima by ipopt with exact Hessians."""
    posed = COLLECTION[family][name]
    found = oc.solve(built(posed), jnp.array(posed.start, float), solver=oc.MultipleShooting(hessian=hessian))
    assert int(found.status) == oc.SolveStatus.SOLVED
    assert found.iterations < iterations
    np.testing.assert_allclose(found.cost, cost, rtol=rtol)


def test_gaps_that_close_only_at_the_cost_of_the_end():
    """Lorenz's equations, whose linearised motions all run away; ipopt finds the cost of 32.4065."""

    def rates(x, u):
        return jnp.stack([10 * (x[1] - x[0]) + u[0], x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]])

    dynamics, end = oc.FunctionDynamics(integrated(rates, 0.02), 3, 1), jnp.array([-8.485, -8.485, 27.0])
    reached = [oc.Equality(oc.StateDifference(end))]
    problem = oc.Problem(dynamics, 100, [oc.Cost(oc.Control(), 0.01)], end_constraints=reached)
    found = oc.solve(problem, jnp.array([1.0, 1.0, 20.0]))
    assert int(found.status) == oc.SolveStatus.SOLVED
    np.testing.assert_allclose(found.states[-1], end, atol=1e-7)
    assert found.cost < 35


def test_sideways():
    """A unicycle at rest does not see how it could move aside, until it is disturbed; what is a solution is not."""

    def rates(x, u):
        return jnp.stack([u[0] * jnp.cos(x[2]), u[0] * jnp.sin(x[2]), u[1]])

    aside = [oc.Equality(oc.StateDifference(jnp.array([0.0, 1.0, 0.0])))]
    problem = oc.Problem(
        oc.FunctionDynamics(integrated(rates, 0.1), 3, 2), 20, [oc.Cost(oc.Control())], end_constraints=aside
    )
    found = oc.solve(problem, jnp.zeros(3))
    assert int(found.status) == oc.SolveStatus.SOLVED
    np.testing.assert_allclose(found.states[-1], [0, 1, 0], atol=1e-8)
    at_rest = dataclasses.replace(found, states=jnp.zeros((21, 3)), controls=jnp.zeros((20, 2)))
    with pytest.warns(UserWarning, match="INFEASIBLE"):
        stays = oc.solve(problem, jnp.zeros(3), at_rest)
    assert stays.iterations < 15
    np.testing.assert_allclose(stays.controls, 0, atol=1e-6)
    turning = jnp.zeros((21, 3)), jnp.tile(jnp.array([0.5, 1.0]), (20, 1))
    found = oc.solve(problem, jnp.zeros(3), turning)
    assert int(found.status) == oc.SolveStatus.SOLVED
    np.testing.assert_allclose(found.states[-1], [0, 1, 0], atol=1e-8)
