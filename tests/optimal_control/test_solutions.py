"""Solutions: their derivatives, batches, precision, feedback, and what they say when there is none."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa import optimal_control as oc
from jaxcfa.joints import Free, Revolute
from jaxcfa.simulation._inputs import input_names

STEPS, DT = 20, 0.1


def pendulum_step(mass, x, u):
    speed = x[1] + DT * (u[0] - 9.81 * mass * jnp.sin(x[0])) / mass
    return jnp.stack([x[0] + DT * speed, speed])


def swing(parameters, bound=4.0, effort=0.1, number=0):
    """A pendulum that is brought to an angle, at rest, with a bounded torque; all parameters in closures and leaves.

    `number` chooses one of several masses, where there are.
    """
    masses, target, weight = jnp.atleast_1d(parameters["mass"]), parameters["target"], parameters["weight"]
    return oc.Problem(
        oc.FunctionDynamics(lambda x, u, t: pendulum_step(masses[number], x, u), 2, 1),
        STEPS,
        costs=[oc.Cost(lambda stage: stage.x - target, weight), oc.Cost(oc.Control(), effort)],
        end_costs=[oc.SmoothCost(lambda stage: 50 * jnp.sum((stage.x - target) ** 2))],
        constraints=[oc.Bounds(oc.Control(), -bound, bound), oc.Bounds(lambda stage: stage.x[1:], upper=1.0)],
        end_constraints=[oc.Equality(lambda stage: stage.x[1:])],
    )


PARAMETERS = {"mass": jnp.asarray(1.0), "target": jnp.array([1.2, 0.0]), "weight": jnp.asarray(0.5)}
X0 = jnp.array([-0.3, 0.1])


def test_derivatives_equal_differences():
    """By start, goal, weight and mass, with active bounds; in both modes, and of second order."""
    solver = oc.MultipleShooting(stationarity=1e-10, tolerance=1e-11)
    guess = oc.solve(swing(PARAMETERS), X0)
    assert jnp.sum(jnp.abs(guess.controls) > 4 - 1e-6) > 2
    assert jnp.sum(guess.states[:, 1] > 1.0 - 1e-6) > 0
    weights = np.random.default_rng(0).standard_normal((STEPS + 1, 3))

    @jax.jit
    def value(parameters, x0):
        found = oc.solve(swing(parameters), x0, guess, solver)
        motion = jnp.vdot(weights[:, :2], found.states) + jnp.vdot(weights[1:, 2:], found.controls)
        return jnp.stack([found.cost, motion, found.multipliers.costates[5, 0]])

    point = PARAMETERS, X0
    reverse, forward = jax.jit(jax.jacrev(value, (0, 1)))(*point), jax.jit(jax.jacfwd(value, (0, 1)))(*point)
    assert_close(reverse, forward, rtol=1e-10)
    flat, restore = jax.flatten_util.ravel_pytree(point)
    for i, h in ((i, 1e-5) for i in range(len(flat))):
        ahead, behind = (value(*restore(flat.at[i].add(sign * h))) for sign in (1, -1))
        slope = jnp.concatenate([x.reshape(3, -1) for x in jax.tree.leaves(forward)], axis=1)[:, i]
        assert_close(slope, (ahead - behind) / (2 * h), rtol=1e-5)

    def slope(mass):
        return jax.grad(lambda m: value({**PARAMETERS, "mass": m}, X0)[0])(mass)

    slope = jax.jit(jax.value_and_grad(slope))
    (_, curvature), (ahead, _), (behind, _) = (slope(1.0 + h) for h in (0, 1e-5, -1e-5))
    np.testing.assert_allclose(curvature, (ahead - behind) / 2e-5, rtol=1e-4)


def test_batches_and_single_precision(monkeypatch):
    """Members of a batch are what each is alone, whatever the others take; float32 stays float32."""
    monkeypatch.setattr("jaxcfa.optimal_control._solver._ENOUGH", 1)  # so that not all are solved at the same time
    rng = np.random.default_rng(1)
    starts, weights = X0 + 0.2 * rng.standard_normal((11, 2)), np.geomspace(0.1, 10, 11)
    parameters = {**PARAMETERS, "mass": jnp.array([1.0, 1.3])}

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(0, 0, 0))
    def batch(x0, weight, number):
        # The number is a traced integer in the closure of the dynamics.
        return oc.solve(swing({**parameters, "weight": weight}, number=number), x0)

    found = batch(starts, weights, np.arange(11) % 2)
    assert jnp.all(found.status == oc.SolveStatus.SOLVED)
    assert len(np.unique(found.iterations)) > 3
    for i in (2, 9):
        alone = oc.solve(swing({**parameters, "weight": jnp.asarray(weights[i])}, number=i % 2), starts[i])
        assert_close((found.states[i], found.controls[i]), (alone.states, alone.controls), rtol=1e-7)
        assert found.iterations[i] == alone.iterations

    single = jax.tree.map(lambda x: x.astype(jnp.float32), PARAMETERS)
    found = oc.solve(swing(single), starts[0].astype(jnp.float32))
    assert found.controls.dtype == jnp.float32
    assert found.status == oc.SolveStatus.SOLVED
    expected = oc.solve(swing(PARAMETERS), starts[0])
    np.testing.assert_allclose(found.cost, expected.cost, rtol=1e-3)


def test_states_with_quaternions():
    """A body in space is turned by more than a right angle, along the manifold."""
    builder = jaxcfa.ModelBuilder()
    builder.add_body("base", joint=Free(), mass=2.0, inertia=(0.2, 0.3, 0.4))
    model = builder.build(gravity=(0, 0, 0))
    target = jaxcfa.integrate(model, jaxcfa.neutral(model), jnp.array([0.3, 0, 0, 0.5, 1.5, -1.0]))
    costs = [oc.Cost(oc.Control(), 0.01), oc.Cost(oc.Velocity(), 0.01)]
    ends = [oc.Cost(oc.Posture(target), 100.0), oc.Cost(oc.Velocity(), 10.0)]
    problem = oc.Problem(oc.RobotDynamics(model, 0.1, actuated=model.joint_names), 10, costs, ends)
    found = oc.solve(problem, (jaxcfa.neutral(model), jnp.zeros(6)))
    assert found.status == oc.SolveStatus.SOLVED
    assert_close(jnp.linalg.norm(found.q[:, 3:7], axis=1), np.ones(11), rtol=1e-12)
    assert jnp.linalg.norm(jaxcfa.difference(model, found.q[-1], target)) < 0.1
    motion = jaxcfa.rollout(model, found.q[0], found.v[0], found.controls, 0.1)
    assert found.solved
    assert_close(found.trajectory(problem), motion, rtol=1e-6)
    # Feedback takes states as `solve` does: pairs, too.
    nearby = jaxcfa.integrate(model, found.q[3], 0.1 * jnp.ones(6)), found.v[3]
    assert_close(found.control(problem, 3, nearby), found.control(problem, 3, jnp.concatenate(nearby)))
    assert jnp.linalg.norm(found.control(problem, 3, nearby) - found.controls[3]) > 1e-2
    assert_close(found.rollout(problem, (found.q[0], found.v[0])).states, found.states, rtol=1e-6)
    with pytest.raises(ValueError, match=r"x must be a pair q \(7,\), v \(6,\), in this order, got \(6,\) and \(6,\)"):
        found.control(problem, 3, (found.v[3], found.v[3]))
    with pytest.raises(ValueError, match=r"x must be a state .* or a pair q \(7,\), v \(6,\), got \(12,\)"):
        found.control(problem, 3, jnp.concatenate([found.v[3], found.v[3]]))
    # Phases of other steps, and under accelerations.
    drive = functools.partial(oc.RobotDynamics, model, actuated=model.joint_names)
    phases = oc.Problem([oc.Phase(drive(dt=0.1), 4), oc.Phase(drive(dt=0.2), 6)])
    assert_close(found.trajectory(phases).t, np.append(0.1 * np.arange(4), 0.4 + 0.2 * np.arange(7)), 1e-12)
    under_accelerations = oc.Problem(oc.RobotInverseDynamics(model, 0.1, actuated=False), 10)
    torques = jax.vmap(lambda *x: jaxcfa.inverse_dynamics(model, *x))(found.q[:-1], found.v[:-1], found.controls)
    assert_close(found.trajectory(under_accelerations).tau, torques, 1e-12)
    with pytest.raises(ValueError, match="trajectories with q, v and tau, got dynamics of type FunctionDynamics"):
        found.trajectory(oc.Problem(oc.FunctionDynamics(lambda x, u, t: x, 13, 6), 10))
    with pytest.raises(ValueError, match=r"controls of shape \(T, m\) = \(5, 6\), got those of shape \(10, 6\)"):
        found.trajectory(oc.Problem(drive(dt=0.1), 5))


def test_phases_and_periodic_motions():
    """A push for some stages only; and the forced motion of an oscillator that closes on itself."""

    def slides(push):
        return oc.FunctionDynamics(lambda x, u, t: jnp.stack([x[0] + DT * x[1], x[1] + DT * (u[0] + push)]), 2, 1)

    phases = [oc.Phase(slides(0.0), 4), oc.Phase(slides(3.0), 6)]
    cost = oc.Cost(oc.Control(), 1.0)
    late = oc.Equality(lambda stage: stage.u, during=(8, None))
    problem = oc.Problem(phases, costs=[cost], constraints=[late], end_constraints=[oc.Equality(lambda s: s.x)])
    found = oc.solve(problem, jnp.array([1.0, 0.0]))
    assert found.status == oc.SolveStatus.SOLVED
    assert_close(found.states[-1], np.zeros(2), rtol=1e-8)
    assert_close(found.controls[8:], np.zeros((2, 1)), rtol=1e-8)
    # The shortest controls that satisfy all equations.
    force = np.repeat([0.0, 3.0], [4, 6])
    reach = np.stack([DT**2 * np.arange(9, -1, -1), DT * np.ones(10)])
    rows = np.concatenate([reach, np.eye(10)[8:]])
    rest = np.concatenate([-np.array([1.0, 0.0]) - reach @ force, np.zeros(2)])
    assert_close(found.controls[:, 0], rows.T @ np.linalg.solve(rows @ rows.T, rest), rtol=1e-6)

    def forced(x, u, t):
        return jnp.stack(
            [x[0] + DT * x[1], x[1] + DT * (u[0] - 4 * x[0] - 0.1 * x[1] + jnp.sin(2 * np.pi * t / STEPS))]
        )

    problem = oc.Problem(oc.FunctionDynamics(forced, 2, 1), STEPS, [oc.Cost(oc.Control(), 1.0)], start="periodic")
    found = oc.solve(problem, jnp.zeros(2))
    assert_close(found.controls, np.zeros((STEPS, 1)), rtol=1e-6)
    assert_close(found.states[-1], found.states[0], rtol=1e-9)
    assert jnp.abs(found.states).max() > 0.1


def test_model_predictive_control():
    """In closed loop with a heavier pendulum than the plan knows, and a kick, after which the open loop misses."""
    problem = swing(PARAMETERS, bound=15.0, effort=1e-3)
    plan = oc.solve(problem, X0)

    def apply(x, u, t):
        return pendulum_step(1.03, x, u) + jnp.where(t == 10, 1.0, 0.0) * jnp.array([0.0, 1.0])

    @jax.jit
    def closed_loop(plan):
        def step(carry, t):
            plan, x = carry
            after = apply(x, plan.controls[0], t)
            return (oc.mpc_step(problem, after, plan), after), after

        return jax.lax.scan(step, (plan, X0), jnp.arange(40))[1]

    states, x = closed_loop(plan), X0
    for t, u in enumerate(plan.controls):
        x = apply(x, u, t)
    missed = jnp.abs(x - PARAMETERS["target"]).max()
    assert missed > 0.3
    assert jnp.abs(states[-1] - PARAMETERS["target"]).max() < 0.4 * missed
    assert_close(plan.shifted(3).controls[:-3], plan.controls[3:])


@pytest.mark.parametrize("solver", [oc.MultipleShooting(), oc.FDDP(), oc.Shooting()])
def test_all_guesses_and_predictions_share_a_program(solver):
    traced = []

    def speed(stage: oc.Stage):
        traced.append(stage)
        return stage.x[1:]

    dynamics = oc.FunctionDynamics(lambda x, u, t: x + 0.1 * jnp.stack([x[1], u[0]]), 2, 1)
    bounds = [oc.Bounds(oc.Control(), -1, 1)] if isinstance(solver, oc.MultipleShooting) else []
    costs = [oc.Cost(oc.Control()), oc.Cost(speed), oc.Cost(lambda stage: stage.x[:1] - 0.5)]
    problem = oc.Problem(dynamics, 10, costs, constraints=bounds)
    first = oc.solve(problem, jnp.zeros(2), solver=solver)
    before = len(traced)
    guesses = first, first.shifted(), (first.states, first.controls)
    again = [oc.solve(problem, jnp.array([0.1, 0.0]), guess, solver) for guess in guesses]
    assert before > 0
    assert len(traced) == before
    plan = oc.mpc_step(problem, first.states[1], first, solver, iterations=2)
    # What plans are continued by is compared in a small program of its own.
    assert len(traced) == before + 2
    oc.mpc_step(problem, plan.states[1], plan, solver, iterations=3)
    assert len(traced) == before + 2
    assert all(found.solved for found in (first, *again))
    assert plan.iterations <= 2
    for found in again[1:]:
        assert_close(found.controls, again[0].controls, 1e-5)


def test_plans_start_where_the_robot_is():
    """Pushed to a velocity beyond its bounds, which no plan can keep then: it brakes as hard as it can."""
    problem = oc.Problem(
        oc.FunctionDynamics(lambda x, u, t: x + 0.1 * jnp.stack([x[1], u[0]]), 2, 1),
        20,
        [oc.Cost(oc.Control(), 0.01), oc.Cost(lambda stage: stage.x, 1.0)],
        constraints=[oc.Bounds(oc.Control(), -1, 1), oc.Bounds(lambda stage: stage.x[1:], -0.5, 0.5, during=(1, None))],
    )
    plan, pushed = oc.solve(problem, jnp.array([2.0, 0.0])), jnp.array([2.0, 0.9])
    plan = oc.mpc_step(problem, pushed, plan)
    assert plan.gap < 1e-9
    assert jnp.all(plan.states[0] == pushed)
    assert plan.controls[0, 0] < -0.9
    plan = oc.mpc_step(problem, pushed, plan, iterations=30, shift=0)
    assert_close(plan.states[:5, 1], jnp.array([0.9, 0.8, 0.7, 0.6, 0.5]), 1e-3)


@pytest.mark.parametrize("shift", [1, 3])
def test_plans_that_end_in_motion_go_on(shift):
    """A pendulum that is to go round: of the last state no gap is left after a single iteration."""
    costs = [oc.Cost(lambda stage: stage.x[1:] - 3.0, 0.1), oc.Cost(oc.Control(), 0.01)]
    bounds = [oc.Bounds(oc.Control(), -6.0, 6.0)]
    dynamics = oc.FunctionDynamics(lambda x, u, t: pendulum_step(1.0, x, u), 2, 1)
    problem, x = oc.Problem(dynamics, 10, costs, constraints=bounds), jnp.array([0.0, 3.0])
    plan = oc.solve(problem, x)
    following = jax.jit(lambda x, plan: oc.mpc_step(problem, x, plan, shift=shift))
    for _ in range(12):
        for u in plan.controls[:shift]:
            x = pendulum_step(1.0, x, u)
        plan = following(x, plan)
        assert plan.violation < 1e-9
    phases = [oc.Phase(dynamics, 7), oc.Phase(dynamics, 3)]
    again = oc.mpc_step(oc.Problem(phases, None, costs, constraints=bounds), x, plan, shift=5)
    assert_close(again.states, oc.mpc_step(problem, x, plan, shift=5).states, rtol=1e-10)


def test_regulator():
    """The inverted pendulum stays up; the gain is that of a long finite horizon."""
    problem = oc.Problem(
        oc.FunctionDynamics(lambda x, u, t: pendulum_step(1.0, x, u), 2, 1),
        1,
        [oc.Cost(oc.StateDifference(jnp.array([np.pi, 0])), 1.0), oc.Cost(oc.Control(), 0.1)],
    )
    up = jnp.array([np.pi, 0.0])
    found = oc.lqr(problem, up, jnp.zeros(1))
    assert found.residual < 1e-10
    x = up + jnp.array([0.1, 0.2])
    for _ in range(60):
        x = pendulum_step(1.0, x, found.gain @ (x - up))
    assert_close(x, up, rtol=1e-3)
    with pytest.raises(ValueError, match="must be an equilibrium"):
        oc.lqr(problem, jnp.array([1.0, 0.0]), jnp.zeros(1))


def test_shooting():
    """The same minimum by the gradient of a simulation alone."""
    parts = {"costs": swing(PARAMETERS).costs, "end_costs": swing(PARAMETERS).end_costs}
    problem = oc.Problem(swing(PARAMETERS).dynamics, STEPS, **parts)
    expected = oc.solve(problem, X0)
    found = oc.solve(problem, X0, solver=oc.Shooting())
    assert found.status == oc.SolveStatus.SOLVED
    for solution in (expected, found):  # NaN would stop programs under jax_debug_nans
        assert not any(np.any(np.isnan(x)) for x in jax.tree.leaves(solution))
    assert_close((found.states, found.gains), (expected.states, expected.gains), rtol=1e-4)
    np.testing.assert_allclose(found.cost, expected.cost, rtol=1e-8)


def test_errors():
    problem = swing(PARAMETERS)
    with pytest.raises(ValueError, match=r"x0 must be a state of shape \(nx,\) = \(2,\), got \(3,\)"):
        oc.solve(problem, jnp.zeros(3))
    with pytest.raises(ValueError, match=r"controls of the guess must have shape \(20, 1\)"):
        oc.solve(problem, X0, (jnp.zeros((21, 2)), jnp.zeros((19, 1))))
    with pytest.raises(ValueError, match=r"lower 2.0 and upper 1.0"):
        oc.Bounds(oc.Control(), 2.0, 1.0)
    with pytest.raises(ValueError, match="must not be negative"):
        oc.Cost(oc.Control(), -1.0)
    with pytest.raises(ValueError, match="no control at the end"):
        oc.solve(oc.Problem(problem.dynamics, 3, end_costs=[oc.Cost(oc.Control())]), X0)
    with pytest.raises(ValueError, match="FDDP solves problems without constraints"):
        oc.solve(problem, X0, solver=oc.FDDP())
    with pytest.raises(ValueError, match="did you mean 'hinge'"):
        oc.RobotDynamics(hinged(), 0.1, actuated=["hing"])
    bad = oc.Problem(problem.dynamics, 5, [oc.Cost(lambda stage: jnp.log(stage.x[:1] - 0.1 + stage.t))])
    with pytest.raises(ValueError, match=r"The Cost of <function .* at stage 0"):
        oc.solve(bad, X0)


def hinged():
    builder = jaxcfa.ModelBuilder()
    builder.add_body("arm", joint=Revolute((0, 1, 0)), mass=1.0, inertia=0.1, joint_name="hinge")
    return builder.build()


def test_what_cannot_be_satisfied_is_said():
    """Ends that are too far for the bounds, in a batch with others that are not."""

    def solve(end, bound):
        constraints = [oc.Bounds(oc.Control(), -bound, bound)]
        reached = [oc.Equality(lambda stage: stage.x - end)]
        problem = oc.Problem(swing(PARAMETERS).dynamics, 5, [oc.Cost(oc.Control())], (), constraints, reached)
        return oc.solve(problem, X0)

    with pytest.warns(UserWarning, match=r"Not solved after \d+ iterations \(INFEASIBLE\).*violation"):
        found = solve(3.0, 0.1)
    assert found.violation > 0.1
    ends = jnp.array([[0.1, 0.2], [3.0, 3.0], [0.1, 0.2], [-0.3, 2.0]])
    found = jax.jit(jax.vmap(solve))(ends, jnp.array([20.0, 0.1, 0.1, 2.0]))
    can, cannot = oc.SolveStatus.SOLVED, oc.SolveStatus.INFEASIBLE
    np.testing.assert_array_equal(found.status, [can, cannot, cannot, cannot])
    assert jnp.all(found.iterations < 150)


def test_controls_that_limits_clip_are_named():
    """Where bounds let them be larger than what the model has."""
    weak = jaxcfa.with_joint(jaxcfa.chain(2), "joint1", effort_limit=0.01)
    assert input_names(weak, oc.RobotDynamics(weak, 0.1, limits=True).actuated) == ["joint0", "joint1"]
    assert input_names(weak, oc.RobotDynamics(weak, 0.1, actuated=["joint1"]).actuated) == ["joint1"]
    problem = oc.Problem(
        oc.RobotDynamics(jaxcfa.add_motors(weak), 0.1, actuated="actuators"),
        2,
        [oc.Cost(oc.Control(), 1e-3)],
        constraints=[oc.Bounds(oc.Control(), -0.1, 0.1)],
        end_constraints=[oc.Equality(oc.Posture(jnp.full(2, 3.0)))],
    )
    with pytest.warns(
        UserWarning, match=r"At stage 0 limits of the model clip the controls of 'joint1': changing them"
    ):
        oc.solve(problem, jnp.zeros(4), solver=oc.MultipleShooting(max_iterations=2))


def test_solutions_do_not_depend_on_the_unit_of_costs():
    """However dear everything is."""

    @jax.jit
    def solve(dear, end):
        constraints = [oc.Bounds(oc.Control(), -4.0, 4.0), oc.Bounds(lambda stage: stage.x[1:], upper=1.0)]
        reached = [oc.Equality(lambda stage: stage.x[1:] - end)]
        costs = [oc.Cost(lambda stage: stage.x - PARAMETERS["target"], 0.5 * dear), oc.Cost(oc.Control(), 0.1 * dear)]
        return oc.solve(oc.Problem(swing(PARAMETERS).dynamics, 10, costs, (), constraints, reached), X0)

    expected = solve(1.0, 0.0)
    for dear in (1e5, 1e9):
        found = solve(dear, 0.0)
        assert found.status == oc.SolveStatus.SOLVED
        assert found.iterations < 40
        assert_close((found.states, found.controls), (expected.states, expected.controls), rtol=1e-6)


def test_derivatives_do_not_depend_on_the_unit_of_costs():
    """The last speed follows what it is to be, however dear everything else is."""

    def last(end, dear=1e9):
        reached = [oc.Equality(lambda stage: stage.x[1:] - end)]
        cost = oc.Cost(lambda stage: stage.x - PARAMETERS["target"], dear)
        problem = oc.Problem(swing(PARAMETERS).dynamics, 5, [cost], (), (), reached)
        return oc.solve(problem, X0).states[-1, 1]

    np.testing.assert_allclose(jax.jvp(last, (0.0,), (1.0,))[1], 1.0, rtol=1e-4)


def test_violations_that_no_longer_fall_end_the_search():
    """A square that is to be negative: the nearest is soon found, and found again from two other motions."""
    end = [oc.Equality(lambda stage: stage.x[:1] ** 2 + 0.5)]
    dynamics = oc.FunctionDynamics(lambda x, u, t: x + 0.1 * jnp.stack([x[1], u[0] - jnp.sin(x[0])]), 2, 1)
    problem, start = oc.Problem(dynamics, 5, [oc.Cost(oc.Control(), 1e-3)], end_constraints=end), jnp.array([0.3, 0.0])
    with pytest.warns(UserWarning, match="INFEASIBLE"):
        found = oc.solve(problem, start)
    assert found.iterations < 150
    np.testing.assert_allclose(found.violation, 0.5, atol=0.01)
    with pytest.warns(UserWarning, match=r"ITERATIONS.*look whether they contradict one another.*gauss_newton"):
        oc.solve(problem, start, solver=oc.MultipleShooting(max_iterations=20))


def test_swing_ups_are_told_of_the_hessian_that_they_need():
    up = [oc.Equality(oc.Posture(jnp.array([-jnp.pi / 2])))]
    problem = oc.Problem(oc.RobotDynamics(jaxcfa.chain(1), 0.05), 4, [oc.Cost(oc.Control())], end_constraints=up)
    with pytest.warns(UserWarning, match=r'ITERATIONS.*MultipleShooting\(hessian="secant"\)'):
        oc.solve(problem, (jnp.array([1.5]), jnp.zeros(1)), solver=oc.MultipleShooting(max_iterations=1))


def test_gradient_of_a_batch():
    """Where some of what a batch depends on is batched, and what is differentiated is not."""
    starts = jnp.asarray([[0.3, 0.1], [-0.2, 0.4], [0.5, -0.3]])

    def cost(weight, x0):
        dynamics = oc.FunctionDynamics(lambda x, u, t: x + 0.1 * jnp.stack([x[1], u[0] - jnp.sin(x[0])]), 2, 1)
        problem = oc.Problem(dynamics, 6, [oc.Cost(oc.Control(), weight)], [oc.Cost(lambda stage: stage.x, 10.0)])
        return jnp.sum(oc.solve(problem, x0).states ** 2)

    one_by_one = jax.jit(jax.grad(cost))
    together = jax.jit(jax.grad(lambda weight: jnp.sum(jax.vmap(cost, (None, 0))(weight, starts))))
    weight = jnp.asarray(0.3)
    assert_close(together(weight), sum(one_by_one(weight, x0) for x0 in starts), rtol=1e-7)


def test_integers_are_numbers():
    """Bounds and weights that are written as integers have derivatives like others."""

    def cost(at, one=1):
        problem = oc.Problem(
            oc.FunctionDynamics(lambda x, u, t: x + DT * u, 1, 1),
            4,
            [oc.Cost(oc.Control(), one)],
            [oc.Cost(oc.StateDifference(jnp.ones(1)), 2 * one)],
            [oc.Bounds(oc.Control(), -3 * one, 3 * one)],
        )
        return oc.solve(problem, jnp.stack([at])).cost

    assert_close(jax.grad(cost)(0.5), jax.grad(cost)(0.5, 1.0), rtol=1e-12)


@pytest.mark.compiled
def test_progress_of_shooting_is_shown(capfd):
    """The loop that shows it once did not compile."""
    dynamics = oc.FunctionDynamics(lambda x, u, t: pendulum_step(1.0, x, u), 2, 1)
    problem = oc.Problem(dynamics, 5, [oc.Cost(oc.Control())], [oc.Cost(lambda stage: stage.x - 1.0)])
    oc.solve(problem, X0, solver=oc.Shooting(max_iterations=20, stationarity=1e-2), progress=True)
    assert "iteration    2 of 20: cost " in capfd.readouterr().err
