"""Problems as users write them: closures of all kinds, learned models, bounds far away, guesses of other problems."""

import contextlib
import dataclasses
import functools
import warnings
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.tree_util import Partial

import jaxcfa
from helpers import assert_close, traced_again
from jaxcfa import inverse_kinematics, optimal_control as oc
from jaxcfa.joints import Revolute
from jaxcfa.spatial import quaternion_exp, quaternion_multiply, quaternion_to_matrix, rotation_log
from jaxcfa.structured import Doubling, Riccati, StageMultipliers
from program_size import equations

STEPS = 5
START = jnp.array([0.5, 0.0])


def mass_on_a_line(x, u, t):
    return pushed(1.0, x, u)


def pushed(mass, x, u):
    return x + 0.1 * jnp.stack([x[1], u[0] / mass])


def line_problem(function=mass_on_a_line, *, constraints=(), end=()):
    """A mass that is to come to the origin in half a second."""
    return oc.Problem(
        oc.FunctionDynamics(function, 2, 1),
        STEPS,
        [oc.Cost(oc.Control(), 0.01)],
        [oc.Cost(lambda s: s.x, 10.0)],
        constraints=constraints,
        end_constraints=end,
    )


def test_bounds_that_are_far_away_stop_nothing():
    at_end = [oc.Equality(lambda s: s.x - jnp.array([1.0, 0.0]))]
    found = oc.solve(line_problem(constraints=[oc.Bounds(oc.Control(), -1e6, 1e6)], end=at_end), START)
    assert found.status == oc.SolveStatus.SOLVED
    np.testing.assert_allclose(found.states[-1], [1, 0], atol=1e-7)


@pytest.mark.parametrize("limit", [1e15, 1e19])
def test_bounds_that_stand_for_none_stop_nothing(limit):
    """In both precisions, near and beyond what counts as infinite; what nothing satisfies is said, also of NaN."""
    dtype = np.float32 if limit < 1e19 else np.float64

    @jax.jit
    @jax.vmap
    def status(lower, upper):
        at_end = [oc.Equality(lambda s: s.x - jnp.array([1.0, 0.0], dtype))]
        problem = line_problem(constraints=[oc.Bounds(oc.Control(), lower, upper)], end=at_end)
        return oc.solve(problem, START.astype(dtype)).status

    most = np.finfo(dtype).max
    far = np.array([np.inf, most, limit, 0.9 * limit, np.nan, -np.inf, -most], dtype)
    expected = [oc.SolveStatus.SOLVED] * 4 + [oc.SolveStatus.NOT_FINITE] + [oc.SolveStatus.INFEASIBLE] * 2
    upper = np.concatenate([far, np.full(3, np.inf, dtype)])
    lower = np.concatenate([np.full(len(far), -most), -far[3:6]])
    np.testing.assert_array_equal(status(lower, upper), expected + expected[3:6])


def test_rows_with_bounds_that_stand_for_none_are_left_out():
    rows = oc.Bounds(lambda s: s.x, [-1e20, 0.0], [1.0, 1e30]).rows(Stand(START))
    np.testing.assert_array_equal(rows, [0.0, -0.5])


@pytest.mark.parametrize("solver", [oc.MultipleShooting(max_iterations=3), oc.FDDP(max_iterations=3)])
def test_costs_that_fall_without_bound_are_recognised(solver):
    problem = oc.Problem(line_problem().dynamics, 2, [oc.SmoothCost(lambda s: -(s.u[0] ** 2))])
    guess = jnp.broadcast_to(START, (3, 2)), jnp.ones((2, 1))
    with pytest.warns(UserWarning, match=r"\(UNBOUNDED\): the cost falls without bound. Give every control"):
        assert oc.solve(problem, START, guess, solver).status == oc.SolveStatus.UNBOUNDED
    with pytest.warns(UserWarning, match="Not solved"):  # the next step would be to minus infinity
        assert jnp.isfinite(oc.solve(problem, START, (guess[0], 1e150 * guess[1]), solver).cost)


def test_what_stands_still_at_its_worst_is_told_from_what_may_rest():
    """A pendulum hanging below, which is to point up, and one that is up already."""

    def found(angle, guess=None):
        cost = oc.Cost(lambda s: jnp.stack([jnp.sin(s.x[0]), jnp.cos(s.x[0]) - 1]), 1e4)
        problem = oc.Problem(oc.FunctionDynamics(mass_on_a_line, 2, 1), 5, [oc.Cost(oc.Control())], [cost])
        return oc.solve(problem, jnp.array([angle, 0.0]), guess)

    with pytest.warns(UserWarning, match="Standing still was found optimal without a step, at the cost 20000:"):
        worst = found(np.pi)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert found(np.pi, worst).iterations == 0  # which was asked for
        best, nearby = found(0.0), found(np.pi - 0.01)
    assert best.cost == 0
    assert nearby.cost < 15000


def test_gains_whatever_solves_the_linear_quadratic_problems():
    def stretch(stage):
        return stage.x

    problem = oc.Problem(line_problem().dynamics, 3, [oc.Cost(oc.Control()), oc.Cost(stretch)], [oc.Cost(stretch, 9.0)])

    def gains(schedule, steps):
        return oc.solve(problem, START, solver=oc.MultipleShooting(schedule=schedule, steps=steps)).gains

    expected = gains(Riccati(), None)
    assert jnp.all(jnp.abs(expected[0]) > 0.1)
    np.testing.assert_allclose(gains(StageMultipliers(), "nonlinear"), expected, atol=1e-8)
    assert oc.MultipleShooting(schedule=Doubling()).schedule == Riccati(Doubling())


class Plant:
    """What JAX cannot look into."""

    def __init__(self, mass):
        self.mass = mass

    def step(self, x, u, t):
        return pushed(self.mass, x, u)


CLOSURES = {
    "function of an object": lambda mass: (lambda plant: lambda x, u, t: plant.step(x, u, t))(Plant(mass)),
    "Partial of a function": lambda mass: Partial(lambda x, u, t: pushed(mass, x, u)),
    "compiled function": lambda mass: jax.jit(lambda x, u, t: pushed(mass, x, u)),
}


@functools.cache
def slope_by_mass():
    cost = jax.jit(lambda mass: oc.solve(line_problem(lambda x, u, t: pushed(mass, x, u)), START).cost)
    return (cost(1.0 + 1e-4) - cost(1.0 - 1e-4)) / 2e-4


@pytest.mark.parametrize("kind", CLOSURES)
def test_derivatives_by_what_functions_close_over(kind):
    """Without `jit` around it, so that differentiation itself is all that is traced."""

    def cost(mass):
        return oc.solve(line_problem(CLOSURES[kind](mass)), START).cost

    expected = slope_by_mass()
    assert abs(expected) > 1e-3
    np.testing.assert_allclose(jax.jacfwd(cost)(1.0), expected, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(cost)(1.0), expected, rtol=1e-6)


class Weighted(oc.AbstractTerm):
    """A term with a function, which may close over anything, and an array of its own."""

    function: Callable
    weight: jax.Array

    def __call__(self, stage):
        return self.weight * self.function(stage.x)


def test_derivatives_by_what_functions_in_terms_close_over():
    def cost(scale):
        term = Weighted(lambda x: scale * x, scale + 1)
        return oc.solve(oc.Problem(line_problem().dynamics, 2, [oc.Cost(oc.Control()), oc.Cost(term)]), START).cost

    expected = (cost(1.0 + 1e-4) - cost(1.0 - 1e-4)) / 2e-4
    np.testing.assert_allclose(jax.grad(cost)(1.0), expected, rtol=1e-6)


def test_terms_that_close_over_what_is_traced_see_the_dynamics_of_their_phase():
    def plan(wanted):
        gains = jnp.array(1.0), jnp.array(3.0)
        phases = [oc.Phase(oc.FunctionDynamics(lambda x, u, t, k=k: x + k * u, 1, 1), 2) for k in gains]
        next_state = oc.Cost(lambda s: s.dynamics.step(s.x, s.u, s.t) - wanted)
        return oc.solve(oc.Problem(phases, costs=[next_state, oc.Cost(oc.Control(), 0.1)]), jnp.zeros(1)).controls

    np.testing.assert_allclose(jax.jit(plan)(1.0), plan(1.0), atol=1e-9)


class Turning(oc.AbstractDynamics):
    """Orientations that are turned by rotation vectors u, and by `drift` in every step."""

    drift: jax.Array
    state_size = 4
    tangent_blocks = (3,)
    control_size = 3

    def step(self, x, u, t):
        return self.plus(x, u + self.drift * jnp.array([1.0, 0.3, 0.0]))

    def plus(self, x, dx):
        return quaternion_multiply(x, quaternion_exp(dx))

    def minus(self, x, origin):
        return rotation_log(quaternion_to_matrix(origin).T @ quaternion_to_matrix(x))


class Given(Turning):
    """What moves them is a function."""

    function: Callable = eqx.field(static=True)

    def step(self, x, u, t):
        return self.plus(x, self.function(u))


@pytest.mark.parametrize("derivative", [jax.grad, jax.jacfwd])
def test_own_dynamics_that_close_over_what_is_differentiated_by_are_refused(derivative):
    def cost(scale):
        problem = oc.Problem(Given(jnp.zeros(()), lambda u: scale * u), 2, [oc.Cost(oc.Control())])
        return oc.solve(problem, jnp.array([1.0, 0, 0, 0])).cost

    with pytest.raises(ValueError, match=r"step of Given closes over an array .* make this array a field"):
        derivative(cost)(1.0)


def test_bounds_that_are_replaced_must_have_the_rows_that_were_kept():
    bounds = oc.Bounds(lambda s: s.x, upper=[1.0, jnp.inf])
    problem = line_problem(constraints=[eqx.tree_at(lambda b: b.upper, bounds, jnp.array([0.5, 2.0]))])
    with pytest.raises(ValueError, match=r"The upper bounds of .* were infinite in some rows when they were made"):
        oc.solve(problem, START)
    for upper, message in (
        (0.5, "The upper bounds of .* were infinite in some rows"),
        ([jnp.nan, jnp.inf], "NaN in upper"),
        ([1.0, -jnp.inf], "Nothing satisfies upper = -inf"),
    ):
        problem = line_problem(constraints=[eqx.tree_at(lambda b: b.upper, bounds, jnp.array(upper))])
        with pytest.raises(ValueError, match=message):
            oc.solve(problem, START)


@pytest.mark.slow
def test_derivatives_by_what_moves_orientations():
    goal = quaternion_to_matrix(quaternion_exp(jnp.array([0.9, -1.2, 0.7])))
    weights = jnp.array([1.0, 2.0, 4.0])
    solver = oc.MultipleShooting(stationarity=1e-12, hessian="gauss_newton")

    def turned(stage):
        return weights * rotation_log(goal.T @ quaternion_to_matrix(stage.x))

    @jax.jit
    def states(drift):
        problem = oc.Problem(Turning(drift), 2, [oc.Cost(oc.Control())], [oc.Cost(turned)])
        return oc.solve(problem, jnp.array([1.0, 0, 0, 0]), solver=solver).states

    expected = (states(0.3 + 1e-4) - states(0.3 - 1e-4)) / 2e-4
    assert np.max(np.abs(expected)) > 1e-2
    np.testing.assert_allclose(jax.jacfwd(states)(0.3), expected, atol=1e-7)


def test_what_is_not_finite_at_the_guess_is_named():
    with pytest.raises(ValueError, match="The dynamics is not finite at the guess, at stage 0"):
        oc.solve(line_problem(lambda x, u, t: x + 0.1 * jnp.log(x - 1) * u), START)
    rooted = oc.Problem(line_problem().dynamics, STEPS, [oc.Cost(lambda s: jnp.linalg.norm(s.u))])
    for solver in (oc.MultipleShooting(), oc.FDDP()):
        with pytest.raises(ValueError, match=r"derivative of the Cost of .* not finite .*, at stage 0. A norm"):
            oc.solve(rooted, START, solver=solver)


def test_bounds_that_the_start_violates_are_named():
    fast = START.at[1].set(2.0)
    bounds = [oc.Bounds(oc.Control(), -9.0, 9.0), oc.Bounds(lambda s: s.x[1:], -1.5, 1.5)]
    with pytest.warns(UserWarning, match=r"start violates the Bounds of <function .* at stage 0.*during=\(1, None\)"):
        oc.solve(line_problem(constraints=bounds), fast)


def test_targets_of_other_shapes_are_refused():
    """Which would otherwise make more rows by broadcasting."""
    model = jaxcfa.chain(1)
    stage = oc.Stage(oc.RobotDynamics(model, 0.1), jnp.zeros(2), jnp.zeros(1), jnp.asarray(0))
    tip = model.body_names[-1]
    terms = [
        oc.Control(jnp.zeros(3)),
        oc.Velocity(jnp.zeros(2)),
        oc.FrameDistance(tip, point=jnp.zeros((2, 3))),
        oc.FrameDistance(tip, target=jnp.zeros(2)),
        oc.RelativePose(tip, -1, jaxcfa.Transform(jnp.stack([jnp.eye(3)] * 2), jnp.zeros((2, 3)))),
        oc.FramePosition(tip, jnp.zeros(2)),
        oc.FrameDirection(tip, 1.0),
        oc.FrameDirection(tip, [0, 0, 1], axis=[1.0]),
        oc.FrameOrientation(tip, jnp.array([0.0, 0.0, 0.0, 1.0])),
        oc.StateDifference(jnp.zeros(3)),
        oc.FramePose(tip, jaxcfa.Transform(jnp.stack([jnp.eye(3)] * 2), jnp.zeros((2, 3)))),
        oc.Posture(jnp.zeros(2)),
    ]
    for term in terms:
        with pytest.raises(ValueError, match=f"of {type(term).__name__} must be"):
            term(stage)
    left_handed = jnp.diag(jnp.array([1.0, 1.0, -1.0]))
    for term in (
        lambda x: oc.FramePose("tip", jaxcfa.Transform(x, jnp.zeros(3))),
        functools.partial(oc.FrameOrientation, "tip"),
    ):
        for wrong in left_handed, 2 * jnp.eye(3), np.stack([np.eye(3), left_handed]):
            with pytest.raises(ValueError, match=r"must be a rotation, an orthogonal matrix of determinant 1, got \["):
                term(wrong)
        term(jax.random.orthogonal(jax.random.key(0), 3))
    with pytest.raises(ValueError, match=r"of FramePose must be a Transform, got ArrayImpl.* Transform\.from_matrix"):
        oc.FramePose(tip, jnp.eye(4))
    with pytest.raises(
        ValueError, match=r"of RelativePose must be a Transform, got ArrayImpl.* Transform\.from_matrix"
    ):
        oc.RelativePose(tip, -1, jnp.eye(4))
    with pytest.raises(ValueError, match=r"direction of FrameDirection must not be zero.*got \[0\.0, 0\.0, 0\.0\]"):
        oc.FrameDirection(tip, jnp.zeros(3))
    with pytest.raises(ValueError, match="axis of FrameDirection must not be zero"):
        oc.FrameDirection(tip, [0, 0, 1], axis=[0, 0, 0])
    with pytest.raises(ValueError, match="to another frame or to a point, got both"):
        oc.FrameDistance(tip, "world", point=[0, 0, 1])


def test_a_tolerance_below_rounding_is_not_searched_for_long():
    """The cost stays, and the gradient grows no smaller."""
    drag = lambda x, u, t: mass_on_a_line(x, u - 0.3 * jnp.tanh(3 * x[1:]), t)  # noqa: E731
    problem = line_problem(drag, constraints=[oc.Bounds(oc.Control(), -6.0, 6.0)])
    fine = oc.solve(problem, START)
    assert fine.solved
    with pytest.warns(UserWarning, match=r"STALLED.*as good as precision allows"):
        found = oc.solve(problem, START, solver=oc.MultipleShooting(stationarity=1e-300))
    assert found.iterations <= fine.iterations + 25
    assert_close(found.states, fine.states, 1e-6)


def test_terms_between_two_frames():
    """How one frame is seen from another, and how far it is away."""
    model = jaxcfa.random_tree(5, jax.random.key(0))
    dynamics = oc.RobotDynamics(model, 0.1, actuated=False)
    q, v = jaxcfa.random_configuration(model, jax.random.key(1)), jnp.zeros(model.nv)
    hand, other = model.body_names[-1], model.body_names[2]
    target = jaxcfa.Transform.from_rpy(0.3, -0.2, 0.1, (0.1, 0.2, 0.3))

    def term(x, term):
        return term(oc.Stage(dynamics, dynamics.plus(jnp.concatenate([q, v]), x), jnp.zeros(model.nv), jnp.asarray(0)))

    still = jnp.zeros(2 * model.nv)
    seen = jaxcfa.relative_pose(model, q, hand, other)
    assert_close(term(still, oc.RelativePose(hand, other)), seen.log())
    assert_close(term(still, oc.RelativePose(hand, other, target)), (target.inverse() @ seen).log())
    assert_close(term(still, oc.RelativePose(hand, -1)), jaxcfa.frame_pose(model, q, hand).log())
    assert_close(term(still, oc.RelativePose(hand, other, seen)), jnp.zeros(6))
    at_target = oc.RelativePose(hand, other, seen)
    assert_close(
        jax.jacfwd(term)(still, at_target)[:, : model.nv],
        jnp.kron(jnp.eye(2), seen.rotation.T) @ jaxcfa.relative_jacobian(model, q, hand, other),
    )
    distance = jnp.linalg.norm(seen.translation)
    assert_close(term(still, oc.FrameDistance(hand, other, target=0.3)), distance[None] - 0.3)


@dataclasses.dataclass
class Unhashable:
    """A function whose class is compared by its fields."""

    gain: float

    def __call__(self, *arguments):
        return self.gain * arguments[0].x


def test_functions_that_programs_cannot_be_known_by_are_refused():
    for make in (oc.Cost, oc.SmoothCost, oc.Equality, lambda term: oc.Bounds(term, 0.0)):
        with pytest.raises(ValueError, match=r"of a stage must be hashable.*got Unhashable\(gain=2\.0\).*Module"):
            make(Unhashable(2.0))
    with pytest.raises(ValueError, match="function must be hashable"):
        oc.FunctionDynamics(Unhashable(2.0), 2, 1)
    with pytest.raises(ValueError, match=r"The frame of FramePosition.*hashable.*got \['left', 'right'\]"):
        oc.FramePosition(["left", "right"])


def test_stages_and_bounds_that_mean_nothing_are_refused():
    for during in ((-1, None), (3, 2), [(0, 2), (4, 1)], range(2), range(0, 4, 3), [range(2), (3, 4)]):
        with pytest.raises(ValueError, match="0 <= first <= end"):
            oc.Cost(oc.Control(), during=during)
    late = oc.Cost(oc.Control(), during=[(0, 2), (3, 9)])
    with pytest.raises(ValueError, match=r"The Cost of Control\(.*counts during \(3, 9\), but the problem has 5 steps"):
        oc.Problem(oc.FunctionDynamics(mass_on_a_line, 2, 1), 5, [late])
    with pytest.raises(ValueError, match="NaN in upper"):
        oc.Bounds(oc.Control(), 0.0, [1.0, jnp.nan])
    assert oc.Cost(oc.Control(), during=(np.int64(1), np.int64(3))).during == ((1, 3),)
    dynamics = oc.FunctionDynamics(mass_on_a_line, 2, 1)
    assert oc.Problem(dynamics, np.int64(3)).phases[0] == oc.Phase(dynamics, np.int32(3))
    with pytest.raises(ValueError, match="Solution of a Problem"):
        oc.mpc_step(line_problem(), START, None)
    with pytest.raises(ValueError, match="shift must be an integer that is not negative"):
        oc.mpc_step(line_problem(), START, None, shift=0.5)


class Learned(eqx.Module):
    net: eqx.nn.MLP

    def __call__(self, x, u, t):
        return x + 0.1 * self.net(jnp.concatenate([x, u]))


class Part(oc.AbstractTerm):
    first: int
    name: str = "part"

    def __call__(self, stage):
        return stage.x[self.first : self.first + 1]


def test_learned_dynamics_and_terms_with_settings():
    net = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0), activation=jnp.tanh, dtype=START.dtype)
    problem = oc.Problem(
        oc.FunctionDynamics(Learned(net), 2, 1), STEPS, [oc.Cost(oc.Control(), 0.1)], [oc.Cost(Part(1), 10.0)]
    )
    assert oc.solve(problem, START).status == oc.SolveStatus.SOLVED


def test_programs_do_not_grow_with_the_states():
    """Of many states: products with gains and Hessians are not written out."""

    def size(n):
        dynamics = oc.FunctionDynamics(lambda x, u, t: 0.9 * x + u, n, 1)
        problem = oc.Problem(dynamics, 3, [oc.Cost(oc.Control())], [oc.Cost(lambda s: s.x)])

        def solve(x0):
            found = oc.solve(problem, x0, solver=oc.MultipleShooting(hessian="secant", steps="both"))
            return found.control(problem, 0, x0)

        return equations(solve, jnp.ones(n))

    assert size(20) == size(30)


def test_guesses_of_problems_with_other_constraints():
    plan = oc.solve(line_problem(), START)
    bounded = line_problem(constraints=[oc.Bounds(oc.Control(), -20.0, 20.0)])
    np.testing.assert_allclose(
        oc.solve(bounded, START, guess=plan).controls, oc.solve(bounded, START).controls, atol=1e-5
    )
    # Of a plan without bounds only states and controls count, not how small its barrier has become.
    tight = line_problem(constraints=[oc.Bounds(oc.Control(), -2.0, 2.0)])
    found = [oc.solve(tight, START, guess=guess) for guess in (plan, (plan.states, plan.controls))]
    np.testing.assert_array_equal(*(x.history.cost for x in found))
    assert plan.shifted(STEPS + 3).controls.shape == plan.controls.shape
    # Rows without bounds are left out in compiled functions, too.
    ends = np.array([-1.0, -np.inf]), np.array([1.0, np.inf])
    rows = jax.eval_shape(lambda: oc.Bounds(lambda s: s.x, *ends).rows(Stand(START)))
    assert rows.shape == (2,)


def test_bounds_of_a_batch_are_of_all_rows():
    limits = jnp.array([jnp.inf, 1.0, 2.0])
    rows = jax.vmap(lambda bounds: bounds.rows(Stand(START)))(oc.Bounds(lambda s: s.x, -limits, limits))
    expected = [jnp.concatenate([-x - START, START - x]) for x in limits[1:]]
    np.testing.assert_allclose(rows, [[-1, -1, -1, -1], *expected])
    # Of fewer problems than there are rows, too.
    three = jnp.arange(3.0)
    rows = jax.vmap(lambda bounds: bounds.rows(Stand(three)))(oc.Bounds(lambda s: s.x, -limits[:2], limits[1:]))
    np.testing.assert_allclose(rows, [[-1, -1, -1, *three - 1], [*-three - 1, *three - 2]])


def test_arrays_of_numpy_and_numbers_replace_arrays():
    problem = line_problem(constraints=[oc.Bounds(oc.Control(), -3.0, 3.0)])
    plan = oc.solve(problem, START)
    numbers = lambda p: (p.costs[0].weight, p.end_costs[0].weight, p.constraints[0].upper)  # noqa: E731
    for given in ((np.array(0.01), np.float64(10), np.full(1, 3.0)), (0.01, 10, 3)):
        found = oc.solve(eqx.tree_at(numbers, problem, given), START)
        np.testing.assert_array_equal(found.controls, plan.controls)
    following = [oc.mpc_step(*x, shift=0) for x in ((problem, START, plan), jax.device_get((problem, START, plan)))]
    np.testing.assert_array_equal(*(x.controls for x in following))


class Scaled(oc.AbstractTerm):
    """Whose slope by the scale is infinite at zero."""

    scale: jax.Array

    def __call__(self, stage):
        return (1 + jnp.sqrt(self.scale)) * stage.x


def test_derivatives_by_one_thing_where_those_by_another_are_infinite():
    def cost(x0, scale):
        end = [oc.Cost(Scaled(scale), 10.0)]
        return oc.solve(oc.Problem(line_problem().dynamics, 2, [oc.Cost(oc.Control(), 0.01)], end), x0).cost

    forward, backward = (derivative(cost)(START, jnp.zeros(())) for derivative in (jax.jacfwd, jax.grad))
    np.testing.assert_allclose(forward, backward, rtol=1e-9)
    assert np.all(np.abs(forward) > 0.1)


@dataclasses.dataclass
class Stand:
    x: jax.Array


def test_costs_and_gaps_are_those_of_what_is_returned():
    problem = line_problem()
    solvers = [oc.MultipleShooting(max_iterations=n, hessian="gauss_newton") for n in (1, 2)]
    for solver in (*solvers, oc.FDDP(max_iterations=1)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = oc.solve(problem, START, (jnp.ones((STEPS + 1, 2)), jnp.ones((STEPS, 1))), solver=solver)
        cost = 0.005 * jnp.sum(found.controls**2) + 5 * jnp.sum(found.states[-1] ** 2)
        np.testing.assert_allclose(found.cost, cost, rtol=1e-12)
        reached = jax.vmap(mass_on_a_line, (0, 0, None))(found.states[:-1], found.controls, 0)
        gap = jnp.max(jnp.abs(reached - found.states[1:]))
        np.testing.assert_allclose([found.gap, found.violation], gap, atol=1e-12)
        assert found.stationarity == found.history.stationarity[solver.max_iterations - 1]  # before the last step


def test_regulators_refuse_what_is_no_equilibrium_in_single_precision():
    builder = jaxcfa.ModelBuilder()
    builder.add_body("arm", None, Revolute((0, 1, 0)), mass=1.0, com=(0.3, 0, 0), inertia=0.1)
    problem = oc.Problem(
        oc.RobotDynamics(builder.build(dtype="float32"), 0.01), 1, [oc.Cost(lambda s: s.x), oc.Cost(oc.Control())]
    )
    with pytest.raises(ValueError, match="must be an equilibrium"):
        oc.lqr(problem, np.zeros(2, np.float32), np.zeros(1, np.float32))


def test_regulators_that_do_not_stabilise_are_refused():
    costs = [oc.Cost(lambda s: s.x), oc.Cost(oc.Control())]

    def regulator(rows, costs=costs):
        matrix = jnp.array(rows)
        dynamics = oc.FunctionDynamics(lambda x, u, t: matrix @ jnp.concatenate([x, u]), len(rows), 1)
        return oc.lqr(oc.Problem(dynamics, 1, costs), jnp.zeros(len(rows)), jnp.zeros(1))

    drift = [[1.0, 0.1, 0, 0, 0], [0, 1, 0, 0, 0.1], [0, 0, 1, 0.1, 0], [0, 0, 0, 1, 0]]  # one of two masses is driven
    for rows in (drift, [[1, 0, 0.1], [0, 1, 0]], [[1, 0, 0.1], [0, 1.1, 0]]):
        with pytest.raises(ValueError, match="No stabilising feedback"):
            regulator(rows)
    with pytest.raises(ValueError, match="No stabilising feedback"):
        regulator([[1, 0.1, 0], [0, 1, 0.1]], costs[1:])
    # What is stable by itself needs no feedback, and what stays where it is none if that costs nothing.
    np.testing.assert_array_equal(regulator([[0.5, 0.1, 0], [0, 0.9, 0.1]], costs[1:]).gain, 0)
    found = regulator([[1, 0.1, 0], [0, 1, 0.1]], [oc.Cost(lambda s: s.x[1:]), costs[1]])
    assert found.residual < 1e-10
    np.testing.assert_array_equal(found.gain[:, 0], 0)
    # Controls need no cost where the states to which they lead have one.
    np.testing.assert_allclose(regulator([[1, 0, 0.5], [0, 0.9, 0]], costs[:1]).gain, [[-2, 0]], atol=1e-12)


def test_regulators_need_joints_that_are_driven():
    model = jaxcfa.chain(2)
    dynamics = oc.RobotInverseDynamics(model, 0.1, actuated=[0])
    with pytest.raises(ValueError, match=r"RobotInverseDynamics leaves 1 equations of each step .* Use RobotDynamics"):
        oc.lqr(oc.Problem(dynamics, 1, [oc.Cost(oc.Control())]), jnp.zeros(4), jnp.zeros(2))


def test_optimisers_that_diverge_keep_what_was_finite():
    unstable = line_problem(lambda x, u, t: x + 0.1 * jnp.stack([x[1], jnp.exp(u[0])]))
    for iterations in (2, 50):  # also if it is the last step that leads there
        with pytest.warns(UserWarning, match="STALLED"):
            found = oc.solve(unstable, START, solver=oc.Shooting(optax.sgd(1e3), max_iterations=iterations))
        assert np.all(np.isfinite(found.states))
        assert np.isfinite(found.cost)
        assert np.any(found.controls != 0)


class Pendulum(oc.AbstractDynamics):
    """Which nothing drives."""

    state_size = 2
    tangent_blocks = (2,)
    control_size = 0

    def step(self, x, u, t):
        v = x[1:] - 0.1 * jnp.sin(x[:1])
        return jnp.concatenate([x[:1] + 0.1 * v, v])

    def plus(self, x, dx):
        return x + dx

    def minus(self, x, origin):
        return x - origin


@pytest.mark.parametrize("solver", [oc.MultipleShooting(), oc.FDDP(), oc.Shooting()])
def test_without_controls_what_is_left_is_a_simulation(solver):
    problem = oc.Problem(Pendulum(), STEPS, [oc.Cost(lambda s: s.x)])
    found = oc.solve(problem, START, solver=solver)
    x = START
    for state in found.states:
        np.testing.assert_allclose(state, x, atol=1e-8)
        x = problem.dynamics.step(x, None, 0)
    assert found.status == oc.SolveStatus.SOLVED


def test_single_precision_stays_single():
    x0 = START.astype(jnp.float32)

    def cost(mass):
        problem = oc.Problem(
            oc.FunctionDynamics(lambda x, u, t: pushed(mass, x, u), 2, 1), STEPS, [oc.Cost(oc.Control(), 1)]
        )
        return oc.solve(problem, x0).cost

    assert jax.jit(cost)(jnp.float32(1)).dtype == jnp.float32


def test_plans_go_on_from_measurements_of_less_precision():
    problem = line_problem(constraints=[oc.Bounds(oc.Control(), -20.0, 20.0)])
    plan = oc.solve(problem, START)
    found = oc.mpc_step(problem, np.float32([0.4, 0.1]), plan)
    assert jax.tree.map(jnp.result_type, found) == jax.tree.map(jnp.result_type, plan)


def test_plans_and_motions_are_traced_once(caplog):
    problem = line_problem(constraints=[oc.Bounds(oc.Control(), -20.0, 20.0)])
    plan = oc.solve(problem, START)

    def go_on():
        nonlocal plan
        plan = oc.mpc_step(problem, plan.states[1], plan)
        plan.rollout(problem, plan.states[0])

    assert traced_again(caplog, go_on) == []


def test_batches_of_targets_that_functions_close_over_without_compiling():
    model = jaxcfa.chain(2, axes=[(0, 1, 0)] * 2).astype("float64")
    wanted = jnp.array([[0.3, -0.4], [0.1, 0.7]])

    def reach(q):
        return inverse_kinematics.solve(model, lambda s: s.q - q, jnp.zeros(2)).q

    np.testing.assert_allclose(jax.vmap(reach)(wanted), wanted, atol=1e-8)


@pytest.mark.parametrize("limit", [None, 50.0])
def test_solutions_do_not_depend_on_the_units_of_controls(limit):
    """Costs of controls alone, whose gradient is zero at first: forces of a mass [kg], with and without bounds."""

    @jax.jit
    def solution(mass, weight):
        bounds = [oc.Bounds(oc.Control(), -limit * mass, limit * mass)] if limit else []
        end = oc.Equality(lambda s: s.x - jnp.array([0.5, 0.0]))
        dynamics = oc.FunctionDynamics(lambda x, u, t: pushed(mass, x, u), 2, 1)
        cost = oc.Cost(oc.Control(), weight)
        return oc.solve(oc.Problem(dynamics, 20, [cost], constraints=bounds, end_constraints=[end]), jnp.zeros(2))

    usual = solution(1.0, 1.0)
    for mass, weight in ((1.0, 1e4), (1.0, 1e8), (1e3, 1.0), (1e-3, 1.0), (1e4, 1e2)):
        found = solution(mass, weight)
        assert found.status == oc.SolveStatus.SOLVED
        assert found.iterations <= 25
        np.testing.assert_allclose(found.controls / mass, usual.controls, rtol=1e-5, atol=1e-5)


def test_equalities_that_contradict_one_another_are_infeasible_in_any_unit():
    for weight in (1.0, 1e6):
        ends = [oc.Equality(lambda s, x=x: s.x[:1] - x) for x in (0.5, 0.6)]
        problem = oc.Problem(
            oc.FunctionDynamics(mass_on_a_line, 2, 1), STEPS, [oc.Cost(oc.Control(), weight)], end_constraints=ends
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert oc.solve(problem, START).status == oc.SolveStatus.INFEASIBLE


def test_violations_that_no_control_changes_are_infeasible_soon_and_named():
    """A point on a circle, whose second state follows from the first alone, just off the circle."""

    def slides(x, u, t):
        return x + 0.1 * jnp.concatenate([x[2:], u])

    def off_circle(s):
        return jnp.sum(s.x[:2] ** 2, keepdims=True) - 1

    for first, iterations in (1, 90), (2, 40):
        problem = oc.Problem(
            oc.FunctionDynamics(slides, 4, 2),
            12,
            [oc.Cost(oc.Control(), 3e-3)],
            [oc.Cost(lambda s: s.x - jnp.array([0.0, 1.0, 0.0, 0.0]), 10.0)],
            constraints=[oc.Equality(off_circle, during=(first, None))],
        )
        said = contextlib.nullcontext() if first == 2 else pytest.warns(UserWarning, match=r"off_circle.* at stage 1\.")
        with said:
            plan = oc.solve(problem, jnp.array([1.0, 0.0, 0.0, 0.3]))
        assert plan.status == (oc.SolveStatus.SOLVED if first == 2 else oc.SolveStatus.INFEASIBLE)
        assert plan.iterations <= iterations


def test_plans_keep_bounds_again_after_a_push():
    """The feedback of the plan, which knows no bounds, asks for up to four times the largest force; from the plan alone
    its narrow barrier lets no step through."""

    def off(s):
        return s.x - jnp.array([1.0, 0.0])

    def dragged(drag, x, u, t):
        return mass_on_a_line(x, u - drag * x[1] * jnp.abs(x[1]), t)

    for drag in 0.0, 0.5:
        problem = oc.Problem(
            oc.FunctionDynamics(Partial(dragged, jnp.asarray(drag)), 2, 1),
            20,
            [oc.Cost(oc.Control(), 0.01), oc.Cost(off, 0.1)],
            [oc.Cost(off, 10.0)],
            constraints=[oc.Bounds(oc.Control(), -2.0, 2.0)],
        )
        plan = oc.solve(problem, jnp.array([0.55, 0.55]))
        for push in (0.05, 0.5, 1.0, 2.0):
            x = plan.states[1] + jnp.array([0.0, push])
            best, anew = oc.solve(problem, x), oc.solve(problem, x, plan.shifted())
            assert anew.solved
            assert anew.iterations <= (2 if push < 0.1 else 14)
            np.testing.assert_allclose(anew.controls[0], best.controls[0], atol=1e-3)
            if drag == 0:
                soon, later = (oc.mpc_step(problem, x, plan, iterations=k) for k in (4, 8))
                assert soon.violation < 1e-3
                np.testing.assert_allclose(soon.controls[0], best.controls[0], atol=0.15)
                np.testing.assert_allclose(later.controls[0], best.controls[0], atol=0.01)
                np.testing.assert_allclose(later.cost, best.cost, rtol=1e-3)
