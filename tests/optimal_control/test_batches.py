"""So many problems at a time that they are compiled as batches are: see `jaxcfa.one_function`."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxcfa
from evaluation import compiled
from helpers import assert_close
from jaxcfa import optimal_control as oc

MODEL = jaxcfa.chain(2, dtype=jnp.float64)
HAND = MODEL.body_names[-1]
COSTS = [oc.Cost(oc.Control(), 1e-3), oc.Cost(oc.Velocity(), 0.1)]


def test_many_are_solved_as_one_is(on_cpu):
    """With bounds and equalities, which have all parts that others lack."""
    problem = oc.Problem(
        oc.RobotDynamics(MODEL, 0.05),
        6,
        costs=COSTS,
        end_costs=[oc.Cost(oc.FramePosition(HAND, jnp.array([0.5, 0.5, 0.0])), 10.0)],
        constraints=[oc.Bounds(oc.Control(), -3.0, 3.0)],
        end_constraints=[oc.Equality(oc.Velocity())],
    )
    q = jnp.asarray(np.random.default_rng(0).uniform(-0.3, 0.3, (20, 2)))
    with compiled():
        found = jax.jit(jax.vmap(lambda q: oc.solve(problem, (q, jnp.zeros(2)))))(q)
    np.testing.assert_array_equal(found.status, oc.SolveStatus.SOLVED)
    one = jax.jit(lambda q: oc.solve(problem, (q, jnp.zeros(2))))(q[3])
    assert_close(found.states[3], one.states, rtol=1e-6)
