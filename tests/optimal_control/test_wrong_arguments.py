"""What makes no sense is refused, before anything is compiled."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from jaxcfa import optimal_control as oc
from jaxcfa.joints import Revolute, Spherical
from jaxcfa.optimal_control._solve import as_guess
from jaxcfa.optimal_control._states import as_state, strongly_typed
from jaxcfa.structured import Doubling

LINE = oc.FunctionDynamics(lambda x, u, t: x + 0.1 * jnp.stack([x[1], u[0]]), 2, 1)
EFFORT = oc.Cost(oc.Control())


def mechanism(*joints):
    builder = jaxcfa.ModelBuilder()
    parent = None
    for k, joint in enumerate(joints):
        parent = builder.add_body(f"body {k}", parent, joint, mass=1.0, com=(0, 0.1, 0.1), inertia=0.1)
    return builder.build()


class Scaled(oc.AbstractDynamics):
    """Vectors, whose tangent vectors may have another unit."""

    unit: float = eqx.field(static=True)
    state_size = 2
    tangent_blocks = (2,)
    control_size = 1

    def step(self, x, u, t):
        return x + u

    def plus(self, x, dx):
        return self.unit * dx + x

    def minus(self, x, origin):
        return (x - origin) / self.unit


def test_phases_on_other_manifolds_are_refused():
    """Of the same sizes: the states of one would be displaced as those of the other are."""
    turning, other, same = (
        oc.Phase(oc.RobotDynamics(mechanism(*joints), 0.1), 2)
        for joints in (
            (Spherical(), Revolute((0, 1, 0))),
            (Revolute((0, 1, 0)), Spherical()),
            (Spherical(), Revolute((1, 1, 0))),
        )
    )
    with pytest.raises(ValueError, match=r"same manifold, .* got Spherical, Revolute, and Revolute, Spherical"):
        oc.Problem([turning, other])
    assert oc.Problem([turning, same]).steps == 4
    with pytest.raises(ValueError, match=r"same manifold, .* states of FunctionDynamics, and states of Scaled"):
        oc.Problem([oc.Phase(LINE, 1), oc.Phase(Scaled(2.0), 1)])
    assert oc.Problem([oc.Phase(LINE, 1), oc.Phase(Scaled(1.0), 1)]).steps == 2
    with pytest.raises(ValueError, match="The dynamics of a phase must be such as RobotDynamics"):
        oc.Phase(3, 2)


def test_stages_that_there_are_not_are_refused():
    problem = {"dynamics": LINE, "steps": 5}
    with pytest.raises(ValueError, match=r"counts during \(5, None\), but the problem has 5 steps.*leave it out"):
        oc.Problem(**problem, costs=[oc.Cost(oc.Control(), during=[(0, 2), (5, None)])])
    with pytest.raises(ValueError, match=r"The Cost of .* at the end, which is stage 5, counts during \(\(0, 5\),\)"):
        oc.Problem(**problem, end_costs=[oc.Cost(lambda s: s.x, during=(0, 5))])
    with pytest.raises(ValueError, match=r"The Equality of .* at the end, which is stage 5"):
        oc.Problem(**problem, end_constraints=[oc.Equality(lambda s: s.x, during=(6, None))])
    oc.Problem(**problem, end_costs=[oc.Cost(lambda s: s.x, during=(2, None)), oc.Cost(lambda s: s.x, during=(5, 6))])


def test_bounds_and_weights_that_nothing_satisfies_are_refused():
    with pytest.raises(ValueError, match="Nothing satisfies lower = inf of Control"):
        oc.Bounds(oc.Control(), lower=[0.0, np.inf])
    with pytest.raises(ValueError, match="Nothing satisfies upper = -inf of Control"):
        oc.Bounds(oc.Control(), upper=-jnp.inf)
    with pytest.raises(ValueError, match=r"Bounds of Control.* got lower of shape \(2,\) and upper of shape \(3,\)"):
        oc.Bounds(oc.Control(), [1.0, 2.0], [3.0, 4.0, 5.0])
    with pytest.raises(ValueError, match="must be finite, got inf"):
        oc.Cost(oc.Control(), np.inf)


@pytest.mark.parametrize("value", [None, "no", {"x": 1.0}, 1j])
def test_terms_that_return_no_numbers_are_named(value):
    stage = oc.Stage(LINE, jnp.zeros(2), jnp.zeros(1), jnp.asarray(0))
    for read in (lambda: oc.Cost(lambda s: value).rows(stage), lambda: oc.SmoothCost(lambda s: value).value(stage)):
        with pytest.raises(ValueError, match=r"Cost must return real numbers in an array, got .* from <function"):
            read()
    with pytest.raises(ValueError, match=r"must return the next state of shape \(2,\)"):
        oc.FunctionDynamics(lambda x, u, t: value, 2, 1).step(jnp.zeros(2), jnp.zeros(1), 0)


def test_regulators_count_the_costs_of_the_first_stage():
    costs = [EFFORT, oc.Cost(lambda s: s.x, during=(0, 10))]
    late = oc.Cost(lambda s: s.x, 1e3, during=(10, None))
    at = jnp.zeros(2), jnp.zeros(1)
    gain = oc.lqr(oc.Problem(LINE, 20, [*costs, late]), *at).gain
    np.testing.assert_array_equal(gain, oc.lqr(oc.Problem(LINE, 1, [EFFORT, oc.Cost(lambda s: s.x)]), *at).gain)
    with pytest.raises(ValueError, match="problem must be a Problem"):
        oc.lqr(3, *at)
    with pytest.raises(ValueError, match="u must be a number or an array"):
        oc.lqr(oc.Problem(LINE, 20, costs), at[0], None)


class Sized(oc.AbstractDynamics):
    """Dynamics with a parameter."""

    size: jax.Array
    state_size = 2
    tangent_blocks = (2,)
    control_size = 1
    step = plus = minus = None


def test_derivatives_are_zero_where_a_term_does_not_count():
    """Where it has none: in reverse mode, zero times infinity."""

    def distance(stage):
        return jnp.linalg.norm(stage.x - 1)

    def value(x, t, kind):
        stage = oc.Stage(LINE, x, jnp.zeros(1), jnp.asarray(t))
        part = kind(distance, during=(1, None))
        return part.value(stage) if kind is oc.SmoothCost else part.rows(stage)[0][0]

    for kind in (oc.Cost, oc.SmoothCost):
        for derivative in (jax.grad, jax.jacfwd, jax.hessian):
            np.testing.assert_array_equal(derivative(value)(jnp.ones(2), 0, kind), 0)
        np.testing.assert_allclose(jax.grad(value)(jnp.array([4.0, 5.0]), 1, kind), [0.6, 0.8])

    def by_dynamics(size, t):
        part = oc.Cost(lambda stage: jnp.linalg.norm(stage.dynamics.size * stage.x - 1), during=(1, None))
        return part.rows(oc.Stage(Sized(size), jnp.ones(2), jnp.zeros(1), jnp.asarray(t)))[0][0]

    for derivative in (jax.grad, jax.jacfwd, jax.hessian):
        np.testing.assert_array_equal(derivative(by_dynamics)(1.0, 0), 0)
    np.testing.assert_allclose(jax.grad(by_dynamics)(2.0, 1), 2**0.5)


PENDULUM = oc.Problem(oc.RobotDynamics(mechanism(Revolute((0, 1, 0))), 0.1), 3, [EFFORT])
PLAN = oc.Solution(
    states=jnp.zeros((4, 2)),
    controls=jnp.zeros((3, 1)),
    gains=jnp.zeros((3, 1, 2)),
    **dict.fromkeys(["multipliers", "slack", "cost", "gap", "violation", "stationarity", "barrier"]),
    **dict.fromkeys(["iterations", "status", "history", "coordinates"]),
)


def test_states_are_pairs_or_arrays_of_real_numbers():
    joined = as_state(PENDULUM, (jnp.array([1.0]), jnp.array([2.0])))
    for pair in ([[1.0], [2]], [jnp.array([1.0]), np.array([2])]):
        np.testing.assert_array_equal(as_state(PENDULUM, pair), joined)
    rows = np.arange(4.0)[:, None], np.ones((4, 1))
    guess = as_guess(PENDULUM, joined, (rows, np.zeros((3, 1))))
    np.testing.assert_array_equal(guess.states, np.concatenate(rows, axis=1))
    for x in (1j * joined, "no", {"q": 1.0}, None, ("no", "way"), [[1.0], [2.0, 3.0], [4.0]]):
        with pytest.raises(ValueError, match=r"x0 must be a state of shape \(nx,\) = \(2,\), of real numbers, got"):
            oc.solve(PENDULUM, x)
    states, controls = jnp.zeros((4, 2)), jnp.zeros((3, 1))
    for wrong in (1j * states, "no", None, (rows[0], rows[1][:3])):
        with pytest.raises(ValueError, match="states, those of the guess, must be an array of real numbers"):
            oc.solve(PENDULUM, joined, (wrong, controls))
    for wrong in (1j * controls, "no", None):
        with pytest.raises(ValueError, match="controls, those of the guess, must be"):
            oc.solve(PENDULUM, joined, (states, wrong))


def test_pairs_that_are_exchanged_are_refused():
    """Together both have as many numbers as a state, and zeros of v would be a quaternion."""
    model = mechanism(Spherical(), Revolute((0, 1, 0)))
    problem = oc.Problem(oc.RobotDynamics(model, 0.1), 2, [EFFORT])
    q, v = jaxcfa.neutral(model), jnp.zeros(model.nv)
    with pytest.raises(ValueError, match=r"x0 must be a pair q \(5,\), v \(4,\), in this order, got \(4,\) and \(5,\)"):
        oc.solve(problem, (v, q))
    rows = jnp.tile(v, (3, 1)), jnp.tile(q, (3, 1))
    with pytest.raises(ValueError, match=r"of the guess, must be a pair q \(T \+ 1, 5\), v \(T \+ 1, 4\)"):
        oc.solve(problem, (q, v), (rows, jnp.zeros((2, 4))))
    with pytest.raises(ValueError, match=r"The target of Posture\[0:4\] is the quaternion of joint"):
        oc.Posture(jnp.zeros(5))(oc.Stage(problem.dynamics, as_state(problem, (q, v)), v, jnp.asarray(0)))


def test_functions_with_other_arguments():
    for wrong, arguments in ((lambda s, t: s.x, r"\(s, t\)"), (lambda: 0.0, r"\(\)")):
        with pytest.raises(ValueError, match=f"function of a stage alone, but .* has the arguments {arguments}"):
            oc.Bounds(wrong, 0.0)


@pytest.mark.parametrize(
    "function", [lambda s: np.sin(s.x), lambda s: s.x if s.x[0] > 0 else -s.x, lambda s: [s.x, -s.x][s.t]]
)
def test_functions_that_cannot_be_traced_are_explained(function):
    problem = oc.Problem(LINE, 2, [EFFORT, oc.Cost(function)])
    with pytest.raises(ValueError, match=r"The term of a Cost is compiled by JAX .* The function is <function"):
        oc.solve(problem, jnp.zeros(2))


def test_dynamics_that_cannot_be_traced_are_explained():
    line = oc.FunctionDynamics(lambda x, u, t: np.cos(x), 2, 1)
    with pytest.raises(ValueError, match=r"function\(x, u, t\) is compiled by JAX"):
        oc.solve(oc.Problem(line, 2, [EFFORT]), jnp.zeros(2))


def test_programs_do_not_depend_on_what_kind_of_numbers_weights_are():
    def types(weight):
        problem = strongly_typed(oc.Problem(LINE, 3, [oc.Cost(oc.Control(), weight)]), jnp.dtype("float64"))
        return [(x.dtype, x.weak_type) for x in jax.tree.leaves(problem)]

    assert types(0.5) == types(2) == types(np.float64(0.5)) == types(jnp.asarray(0.5, "float64"))


def test_robots_with_wrong_options_are_refused():
    model = mechanism(Revolute((0, 1, 0)))
    with pytest.raises(ValueError, match=r"dt must be a time step in seconds, got 0\.1j"):
        oc.RobotDynamics(model, 0.1j)
    with pytest.raises(ValueError, match="contacts must name every frame once"):
        oc.RobotInverseDynamics(model, 0.1, ["body 0", 0])
    with pytest.raises(ValueError, match="passive_forces must be True or False, got 'no'"):
        oc.RobotInverseDynamics(model, 0.1, passive_forces="no")


@pytest.mark.parametrize("t", [3, -1, 1.0, "no", True, np.array([0, 1])])
def test_controls_are_those_of_stages(t):
    with pytest.raises(ValueError, match="t must be the number of a stage, an integer from 0 to 2, got"):
        PLAN.control(PENDULUM, t, jnp.zeros(2))


def test_controls_of_stages_that_are_traced():
    for t in (1, np.int32(1), jnp.asarray(1)):
        assert PLAN.control(PENDULUM, t, jnp.zeros(2)).shape == (1,)
    assert jax.eval_shape(lambda t: PLAN.control(PENDULUM, t, jnp.zeros(2)), 1).shape == (1,)


def test_plans_of_other_sizes_and_numbers_are_refused():
    with pytest.raises(ValueError, match=r"\(T, m\) = \(5, 1\), got those of shape \(3, 1\)"):
        PLAN.rollout(oc.Problem(PENDULUM.dynamics, 5))
    for steps in (1.5, None, -1):
        with pytest.raises(ValueError, match="steps, one known number, must be an integer that is not negative"):
            PLAN.shifted(steps)
    with pytest.raises(ValueError, match="steps, one known number, must be"):
        jax.eval_shape(lambda steps: PLAN.shifted(steps).states, 1)
    with pytest.raises(ValueError, match=r"shifted is for one solution.* got \(5, 4, 2\); batch it with jax.vmap"):
        jax.tree.map(lambda x: jnp.stack([x] * 5), PLAN).shifted()
    with pytest.raises(ValueError, match=r"control is for one solution.* got \(5, 4, 2\); batch it with jax.vmap"):
        jax.tree.map(lambda x: jnp.stack([x] * 5), PLAN).control(PENDULUM, 0, jnp.zeros(2))


class Patient(oc.AbstractSolver):
    """A solver without iterations."""

    def run(self, problem, x0, guess, progress, /):
        raise NotImplementedError


def test_solvers_are_checked():
    for barrier in ("no", -1.0):
        with pytest.raises(ValueError, match="The barrier must be"):
            oc.mpc_step(PENDULUM, jnp.zeros(2), PLAN, barrier=barrier)
    with pytest.raises(ValueError, match="solver must be one with max_iterations"):
        oc.mpc_step(PENDULUM, jnp.zeros(2), PLAN, Patient())
    with pytest.raises(ValueError, match=r"optimizer must be one of optax, such as optax.lbfgs\(\), got 3"):
        oc.Shooting(optimizer=3)


def test_solvers_of_linear_quadratic_problems_are_checked():
    for schedule in (3, None, Doubling):
        with pytest.raises(ValueError, match=r"schedule must be a solver of linear-quadratic problems such as Riccati"):
            oc.MultipleShooting(schedule=schedule)
