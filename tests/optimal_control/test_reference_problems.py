"""Problems whose optima others have published or found, from the same starts."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
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


def swing_step(x, u, t):
    """A cart of 1 kg with a pole of 0.3 kg at 0.5 m that hangs where the angle is zero; semi-implicit Euler."""
    place, angle, speed, rate = x
    s, c = jnp.sin(angle), jnp.cos(angle)
    push = 1 + 0.3 * s**2
    linear = (0.15 * s * rate**2 + u[0] + 0.3 * 9.81 * c * s) / push
    angular = -(0.15 * c * s * rate**2 + u[0] * c + 1.3 * 9.81 * s) / (0.5 * push)
    speed, rate = speed + 0.05 * linear, rate + 0.05 * angular
    return jnp.stack([place + 0.05 * speed, angle + 0.05 * rate, speed, rate])


@pytest.mark.slow
def test_swing_up_from_rest():
    """From an equilibrium, under bounds, to a hard end; the optimum by ipopt with exact Hessians."""
    problem = oc.Problem(
        oc.FunctionDynamics(swing_step, 4, 1),
        40,
        [oc.Cost(oc.Control(), 0.05)],
        constraints=[oc.Bounds(oc.Control(), -20.0, 20.0), oc.Bounds(lambda stage: stage.x[:1], -2.0, 2.0)],
        end_constraints=[oc.Equality(lambda stage: stage.x - jnp.array([1.0, np.pi, 0.0, 0.0]))],
    )
    found = oc.solve(problem, jnp.zeros(4))
    assert int(found.status) == oc.SolveStatus.SOLVED
    assert found.iterations < 120
    np.testing.assert_allclose(found.cost, 29.3161329, rtol=1e-7)


def integrated(rates, dt):
    """A step by the classical method of Runge and Kutta."""

    def step(x, u, t):
        a = rates(x, u)
        b = rates(x + dt / 2 * a, u)
        c = rates(x + dt / 2 * b, u)
        return x + dt / 6 * (a + 2 * b + 2 * c + rates(x + dt * c, u))

    return step


def turning_by_two_arms(x, u):
    """A body without thrust that turns because its two arms go round in a circle and come back."""
    return jnp.stack([u[0], u[1], -(u[0] * (1 + jnp.cos(x[1])) + 0.5 * u[1] * jnp.cos(x[0])) / 3])


def points_of_arm(x):
    """Middles and ends of three links of one metre."""
    angles = jnp.cumsum(x[:3])
    links = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=-1)
    ends = jnp.cumsum(links, axis=0)
    return jnp.concatenate([ends - links / 2, ends])


def around_a_disc(stage):
    return jnp.sum((points_of_arm(stage.x) - jnp.array([1.6, 1.4])) ** 2, axis=-1)


@pytest.mark.slow
@pytest.mark.parametrize("hessian", ["secant", "exact"])
def test_constraints_that_contradict_one_another_near_the_guess(hessian):
    """To first order no motion of the arms turns the body; the optimum by ipopt."""
    problem = oc.Problem(
        oc.FunctionDynamics(integrated(turning_by_two_arms, 0.1), 3, 2),
        60,
        [oc.Cost(oc.Control(), 0.1)],
        constraints=[oc.Bounds(oc.Control(), -3.0, 3.0)],
        end_constraints=[oc.Equality(oc.StateDifference(jnp.array([0.0, 0.0, 1.0])))],
    )
    found = oc.solve(problem, jnp.zeros(3), solver=oc.MultipleShooting(hessian=hessian))
    assert int(found.status) == oc.SolveStatus.SOLVED
    assert found.iterations < 100
    np.testing.assert_allclose(found.cost, 3.1846097957, rtol=1e-8)


@pytest.mark.slow
def test_arm_around_a_disc():
    """Valleys that are curved and narrow; the optimum by ipopt, which takes 144 iterations."""
    problem = oc.Problem(
        oc.FunctionDynamics(integrated(lambda x, u: jnp.concatenate([x[3:], u]), 0.05), 6, 3),
        40,
        [oc.Cost(oc.Control(), 0.01)],
        constraints=[oc.Bounds(oc.Control(), -20.0, 20.0), oc.Bounds(around_a_disc, 0.16, np.inf)],
        end_constraints=[
            oc.Equality(lambda stage: points_of_arm(stage.x)[-1] - jnp.array([-0.3, 2.5])),
            oc.Equality(lambda stage: stage.x[3:]),
        ],
    )
    found = oc.solve(problem, jnp.array([0.2, 0.3, 0.2, 0.0, 0.0, 0.0]))
    assert int(found.status) == oc.SolveStatus.SOLVED
    assert found.iterations < 120
    np.testing.assert_allclose(found.cost, 5.5775654969, rtol=1e-7)


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
    assert stays.iterations < 5
    np.testing.assert_allclose(stays.controls, 0, atol=1e-6)
    turning = jnp.zeros((21, 3)), jnp.tile(jnp.array([0.5, 1.0]), (20, 1))
    found = oc.solve(problem, jnp.zeros(3), turning)
    assert int(found.status) == oc.SolveStatus.SOLVED
    np.testing.assert_allclose(found.states[-1], [0, 1, 0], atol=1e-8)
