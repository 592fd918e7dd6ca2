"""What makes no sense is refused, before anything is compiled."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from jaxcfa import optimal_control as oc
from jaxcfa.joints import Revolute, Spherical
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


def test_solvers_of_linear_quadratic_problems_are_checked():
    for schedule in (3, None, Doubling):
        with pytest.raises(ValueError, match=r"schedule must be a solver of linear-quadratic problems such as Riccati"):
            oc.MultipleShooting(schedule=schedule)
