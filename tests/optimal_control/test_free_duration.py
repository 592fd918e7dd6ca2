"""Motions whose duration is found with them, and starts of which some coordinates are free."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa import optimal_control as oc
from jaxcfa.joints import Prismatic
from mechanisms import mechanism, random_state


def cart(mass: float = 2.0) -> jaxcfa.Model:
    builder = jaxcfa.ModelBuilder()
    builder.add_body("cart", None, Prismatic((1, 0, 0)), mass=mass)
    return builder.build()


def race(force, distance, steps: int = 12) -> oc.Problem:
    """A cart from rest to rest in the least time."""
    return oc.Problem(
        oc.RobotDynamics(cart(), 0.1),
        steps,
        [oc.Cost(oc.Duration(), 10.0)],
        constraints=[oc.Bounds(oc.Control(), -force, force)],
        end_constraints=[oc.Equality(oc.Posture(jnp.reshape(distance, 1))), oc.Equality(oc.Velocity())],
        step_lengths=(1e-3, 1.0),
    )


def test_least_time_and_its_derivatives():
    """`2 sqrt(m d / F)`, of a batch; the plan is a guess, a feedback and a trajectory."""

    def plan(distance, force, guess=None):
        return oc.solve(race(force, distance), jnp.zeros(2), guess=guess)

    def duration(distance, force):
        return 12 * plan(distance, force).step_lengths[0]

    distances, forces = jnp.array([1.0, 0.3]), jnp.array([3.0, 5.0])
    found = jax.jit(jax.vmap(jax.value_and_grad(duration, (0, 1))))(distances, forces)
    least = 2 * jnp.sqrt(2 * distances / forces)
    assert_close(found, (least, (least / distances / 2, -least / forces / 2)), rtol=1e-5)

    first = plan(1.0, 3.0)
    assert first.solved
    assert plan(1.0, 3.0, first).iterations <= 5
    problem = race(3.0, 1.0)
    moved = first.trajectory(problem)
    assert_close(moved.t, jnp.linspace(0, least[0], 13), rtol=1e-6)
    again = jaxcfa.rollout(cart(), moved.q[0], moved.v[0], moved.tau, dt=first.step_lengths[0])
    assert_close((moved.q, moved.v), (again.q, again.v), rtol=1e-7)
    # Of a state without step lengths those of the plan are meant.
    assert_close(first.control(problem, 3, (first.q[3], first.v[3])), first.controls[3])
    assert_close(first.rollout(problem, (first.q[0], first.v[0])).states, first.states, rtol=1e-7)


def test_phases_have_lengths_of_their_own():
    """Effort and duration in balance, of two carts with a rest between them: an optimum in closed form."""
    masses, steps, way = np.array([1.0, 3.0]), np.array([6, 9]), np.array([0.25, 0.75])
    phases = [oc.Phase(oc.RobotDynamics(cart(m), 0.1), n) for m, n in zip(masses, steps.tolist(), strict=True)]
    rest = [oc.Equality(term, during=(6, 7)) for term in (oc.Posture(jnp.array([0.25])), oc.Velocity())]
    problem = oc.Problem(
        phases,
        costs=[oc.Cost(oc.Duration(), 10.0), oc.Cost(lambda stage: jnp.sqrt(stage.dt) * stage.u, 2.0)],
        constraints=rest,
        end_constraints=[oc.Equality(oc.Posture(jnp.ones(1))), oc.Equality(oc.Velocity())],
        step_lengths=(1e-3, 1.0),
    )
    found = oc.solve(problem, jnp.zeros(2))
    assert found.solved
    length = (18 * 2.0 * masses**2 * way**2 / (10.0 * steps**2 * (steps**2 - 1))) ** 0.25
    assert_close(found.step_lengths, jnp.asarray(length), rtol=1e-6)
    ends = jnp.asarray(np.cumsum(steps * length))
    assert_close(found.trajectory(problem).t[jnp.array([6, 15])], ends, rtol=1e-6)


@pytest.mark.parametrize("name", ["torques", "accelerations"])
def test_linearised_steps(name):
    """In closed form, and by differentiation; with step lengths in the state."""
    model = mechanism("forest")
    kinds = {"torques": oc.RobotDynamics, "accelerations": oc.RobotInverseDynamics}
    problem = oc.Problem(
        [oc.Phase(kinds[name](model, dt, actuated=False), 3) for dt in (0.1, 0.2)], step_lengths=(1e-3, 0.5)
    )
    assert problem.start == ("given",) * (2 * model.nv) + ("free",) * 2
    dynamics = problem.phases[1].dynamics
    state = random_state(model)
    x = jnp.concatenate([state.q, state.v, jnp.array([0.05, 0.02])])
    u = jnp.linspace(-1, 1, dynamics.control_size)

    @jax.jit
    def both(x, u):
        closed = dynamics.linearized_step_at(oc.Stage(dynamics, x, u, jnp.asarray(4)))
        return closed, oc.AbstractDynamics.linearized_step(dynamics, x, u, jnp.asarray(4))

    closed, differentiated = both(x, u)
    assert_close(closed, differentiated, rtol=1e-9)
    given = problem.phases[1].dynamics.dynamics
    assert given.dt == 0.2
    longer = oc.RobotInverseDynamics if name == "accelerations" else oc.RobotDynamics
    step = longer(model, 0.02, actuated=False).step(x[:-2], u, jnp.asarray(4))
    assert_close(closed[0], jnp.concatenate([step, x[-2:]]), rtol=1e-9)


def test_a_start_of_which_something_is_free():
    """The speed with which to throw up what is to be at a height in so many steps; where it is thrown is given."""
    dt, steps, height = 0.1, 10, 2.0

    def thrown(x, u, t):
        return jnp.stack([x[0] + dt * x[1], x[1] - 9.81 * dt])

    def throw(height):
        return oc.solve(
            oc.Problem(
                oc.FunctionDynamics(thrown, 2, 1),
                steps,
                [oc.Cost(oc.Control())],
                end_constraints=[oc.Equality(lambda stage: stage.x[:1] - height)],
                start=["given", "free"],
            ),
            jnp.array([0.5, 0.0]),
        )

    found = throw(height)
    speed = (height - 0.5 + 9.81 * dt**2 * steps * (steps - 1) / 2) / (dt * steps)
    assert found.solved
    assert_close(found.states[0], jnp.array([0.5, speed]), rtol=1e-7)
    slope = jax.grad(lambda height: throw(height).states[0, 1])(height)
    assert_close(slope, 1 / (dt * steps), rtol=1e-6)


def test_wrong_arguments():
    model = cart()
    dynamics = oc.RobotDynamics(model, 0.1)
    problem = oc.Problem(dynamics, 4, [oc.Cost(oc.Control())], step_lengths=(0.01, 1.0))
    plan = oc.solve(oc.Problem(dynamics, 4, [oc.Cost(oc.Control())]), jnp.zeros(2))
    with pytest.raises(ValueError, match="step_lengths are those of robots"):
        oc.Problem(oc.FunctionDynamics(lambda x, u, t: x, 2, 1), 4, step_lengths=(0.01, 0.1))
    with pytest.raises(ValueError, match="step_lengths must be a pair"):
        oc.Problem(dynamics, 4, step_lengths=0.1)
    with pytest.raises(ValueError, match=r"must be between the shortest and the longest, got 0.1 and .* \(0.2, 0.3\)"):
        oc.Problem(dynamics, 4, step_lengths=(0.2, 0.3))
    with pytest.raises(ValueError, match="one for each of the 2 states, got 3"):
        oc.Problem(dynamics, 4, start=["given", "free", "free"])
    with pytest.raises(ValueError, match='"given", "free" or "periodic"'):
        oc.Problem(dynamics, 4, start=["given", "open"])
    with pytest.raises(ValueError, match="Only problems with step_lengths find them"):
        _ = plan.step_lengths
    with pytest.raises(ValueError, match="mpc_step plans over time steps of a given length"):
        oc.mpc_step(problem, jnp.zeros(2), plan)
    with pytest.raises(ValueError, match="lqr is feedback over time steps of a given length"):
        oc.lqr(problem, jnp.zeros(2), jnp.zeros(1))
    with pytest.raises(ValueError, match="FDDP solves problems without constraints and with a given start"):
        oc.solve(problem, jnp.zeros(2), solver=oc.FDDP())
