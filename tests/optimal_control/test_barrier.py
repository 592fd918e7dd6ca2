"""Elastic inequalities: slack and excess as functions of the constraint; constraints that contradict one another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcfa.optimal_control._interior_point import Barrier, distance_to_feasible
from jaxcfa.optimal_control._local import LocalModel, Multipliers, Rows, StageModel, Values


@pytest.mark.parametrize(("parameter", "price"), [(0.1, 1.0), (1e-9, 1e8), (1e-5, 1e6), (1.0, 30.0)])
def test_slack_and_excess_are_the_best_ones(dtype, parameter, price):
    """`g + s = e`, both positive, on the central path, where multipliers are the slope of what inequalities cost."""
    barrier = Barrier(jnp.asarray(parameter, dtype), jnp.asarray(price, dtype))
    size = np.array([0, 1e-9, 1e-5, 1e-3, 0.1, 1, 10, 1e4])
    g = jnp.asarray(np.concatenate([-size, size]), dtype)
    slack, excess = barrier.divided(g)
    assert jnp.all(slack > 0)
    assert jnp.all(excess > 0)
    eps = 10 * jnp.finfo(dtype).eps
    # The smaller one of both has all its digits: the other follows from it.
    np.testing.assert_allclose(excess - slack, g, atol=float(eps * max(1e4, parameter / price)))
    z = parameter / slack
    np.testing.assert_allclose(z + parameter / excess, price, rtol=100 * float(eps) if dtype == "float64" else 1e-4)

    def cost(g):
        slack, excess = barrier.divided(g)
        return price * excess - parameter * (jnp.log(slack) + jnp.log(excess))

    # Solvers do not differentiate it, where both forms of it meet neither.
    slopes = jax.vmap(jax.grad(cost))(g)
    np.testing.assert_allclose(slopes[g != 0], z[g != 0], rtol=1e-3, atol=float(eps) * price)
    kept = barrier.near(jnp.asarray([-1.0, 0.0, 0.5, 1.0, 2.0], dtype) * price, jnp.zeros(5, dtype))
    assert jnp.all((kept > 0) & (kept < price))
    rate, change = barrier.pull(barrier.multipliers(g), g)
    assert jnp.all(jnp.isfinite(rate) & (rate > 0))
    np.testing.assert_allclose(change / price, 0, atol=1e-3)


def random_model(rng, steps=3, n=2, m=1, rows=(1, 2)):
    """Derivatives of a problem, and multipliers, of inequalities positive ones."""
    e, i = rows
    z = n + m

    def stage(*axes, z):
        shapes = (z,), (z, z), (e, z), (i, z)
        return StageModel(*(rng.normal(size=(*axes, *shape)) for shape in shapes))

    multipliers = Multipliers(
        rng.normal(size=(steps + 1, n)),
        Rows(rng.normal(size=(steps, e)), rng.normal(size=e)),
        Rows(rng.uniform(size=(steps, i)), rng.uniform(size=i)),
    )
    a, b = rng.normal(size=(steps, n, n)), rng.normal(size=(steps, n, m))
    return a, b, stage(steps, z=z), stage(z=n), multipliers


@pytest.mark.parametrize("start", ["given", "free", "periodic"])
def test_no_step_that_satisfies_the_constraints_is_shorter_than_multipliers_prove(start):
    """For steps of a known size, and constraints that these just satisfy."""
    rng = np.random.default_rng(0)
    proved = []
    for scale in np.geomspace(1e-2, 1e2, 40):
        a, b, stages, end, multipliers = random_model(rng)
        dx, du = scale * rng.uniform(-1, 1, (4, 2)), scale * rng.uniform(-1, 1, (3, 1))
        missing = {"given": dx[0], "free": np.zeros(2), "periodic": dx[0] - dx[-1]}[start]
        dz = np.concatenate([dx[:-1], du], axis=1)
        gaps = dx[1:] - np.einsum("tij,tj->ti", a, dx[:-1]) - np.einsum("tij,tj->ti", b, du)

        def satisfied(kind, room):
            along = Rows(np.einsum("tkz,tz->tk", getattr(stages, kind), dz), getattr(end, kind) @ dx[-1])  # noqa: B023
            return Rows(*(-x - room * rng.uniform(size=x.shape) for x in along))

        equalities, inequalities = satisfied("equalities", 0), satisfied("inequalities", 0.1 * scale)
        values = Values(jnp.zeros(()), gaps, missing, equalities, inequalities)
        found = distance_to_feasible(LocalModel(values, a, b, stages, end), multipliers, start, scale, scale)
        assert found <= 1 + 1e-12
        proved.append(float(found))
    assert max(proved) > 0.05


def test_contradictions_are_proved():
    """`u >= 1` and `u <= -1` in the only step, whose multipliers are alike."""
    rows = np.array([[0.0, -1.0], [0.0, 1.0]])
    stages = StageModel(np.zeros((1, 2)), np.zeros((1, 2, 2)), np.zeros((1, 0, 2)), rows[None])
    end = StageModel(np.zeros(1), np.zeros((1, 1)), np.zeros((0, 1)), np.zeros((0, 1)))
    none = Rows(np.zeros((1, 0)), np.zeros(0))
    values = Values(jnp.zeros(()), np.zeros((1, 1)), np.zeros(1), none, Rows(np.ones((1, 2)), np.zeros(0)))
    local = LocalModel(values, np.ones((1, 1, 1)), np.ones((1, 1, 1)), stages, end)
    for second, distance in ((1.0, np.inf), (1.1, 21.0), (0.5, 3.0)):
        multipliers = Multipliers(np.zeros((2, 1)), none, Rows(np.array([[1.0, second]]), np.zeros(0)))
        np.testing.assert_allclose(distance_to_feasible(local, multipliers, "given", 1.0, 1.0), distance)
