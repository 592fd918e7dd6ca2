"""Differential inverse kinematics."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import lsq_linear

import jaxcfa
from helpers import assert_close, cast
from jaxcfa import inverse_kinematics as ik
from jaxcfa.closed_chains import project_configuration
from jaxcfa.closed_chains._relations import Places, residuals_of_constraints
from jaxcfa.io import ModelWarning
from loops import make
from robots import urdf_path

DT = 0.02


@pytest.fixture(scope="module")
def panda():
    with pytest.warns(ModelWarning):
        return jaxcfa.load_model(urdf_path("panda.urdf"))


HAND, REST = "panda_hand_tcp", np.array([0, -0.5, 0, -2.0, 0, 1.6, 0.8, 0.02, 0.02])


def reach(model, q, target, gain):
    targets = [ik.Cost(ik.FramePosition(HAND, target), 2.0), ik.Cost(ik.Posture(REST), 0.01)]
    return ik.velocity(model, targets, q, DT, gain=gain, damping=1e-3)


def some_states(model):
    """Configurations within the ranges, the first one at the ends of some, and targets far away and near."""
    qs = jax.vmap(lambda key: jaxcfa.random_configuration(model, key))(jax.random.split(jax.random.key(0), 6))
    qs = qs.at[0, 3].set(model.limits.upper[3]).at[0, 5].set(model.limits.lower[5])
    targets = jax.vmap(lambda q: jaxcfa.frame_pose(model, q, HAND).translation)(qs[::-1])
    return qs, targets.at[3].set(jaxcfa.frame_pose(model, qs[3], HAND).translation + 1e-3)


@pytest.mark.parametrize("gain", [20.0, 80.0])
def test_it_is_the_least_sum_of_squares_within_all_limits(panda, dtype, gain):
    model = cast(panda, dtype)
    qs, targets = some_states(panda)
    evaluate = jax.jit(jax.vmap(lambda q, target: reach(model, q, target, gain)))
    found = np.asarray(evaluate(qs.astype(dtype), targets.astype(dtype)))
    assert found.dtype == dtype
    limits, part, held = jax.tree.map(np.asarray, panda.limits), min(gain * DT, 1), 0
    for q, target, v in zip(np.asarray(qs), targets, found, strict=True):
        jacobian = jaxcfa.jacobian(panda, q, HAND)[3:]
        missing = jaxcfa.frame_pose(panda, q, HAND).translation - target
        rows = np.concatenate([np.sqrt(2) * jacobian, 0.1 * np.eye(9), np.sqrt(1e-3) * np.eye(9)])
        values = np.concatenate([np.sqrt(2) * part * missing, 0.1 * part * (q - REST), np.zeros(9)])
        farthest = limits.velocity * DT
        ends = np.maximum(limits.lower - q, -farthest), np.minimum(limits.upper - q, farthest)
        expected = lsq_linear(
            rows, -values, np.where(ends[1] > ends[0], ends, ends[0] + [[0] * 9, [1e-12] * 9]), "bvls"
        )
        assert_close(v, expected.x / DT, 1e-9 if dtype == np.float64 else 1e-4)
        held += np.sum(np.abs(expected.x) > 0.999 * farthest)
    assert 3 < held < 50


def test_a_hand_is_led_to_its_target_and_no_joint_leaves_its_limits(panda):
    target = jaxcfa.frame_pose(panda, jnp.array([1.0, 0.3, 0.5, -1.2, 0.4, 1.2, -0.5, 0.02, 0.02]), HAND)

    @jax.jit
    def led(q):
        def body(q, _):
            v = ik.velocity(panda, ik.FramePose(HAND, target), q, DT)
            return jaxcfa.integrate(panda, q, v, DT), (q, v)

        return jax.lax.scan(body, q, length=120)

    q, (qs, vs) = led(jnp.asarray(REST))
    reached = jaxcfa.frame_pose(panda, q, HAND)
    assert_close(reached.translation, target.translation, 1e-9)
    assert_close(reached.rotation, target.rotation, 1e-9)
    assert np.all(np.abs(vs) <= panda.limits.velocity)
    assert np.sum(np.any(np.abs(vs) == panda.limits.velocity, axis=1)) > 20
    assert np.all((qs >= panda.limits.lower - 1e-15) & (qs <= panda.limits.upper + 1e-15))


def test_derivatives_are_those_of_differences_with_limits_that_hold(panda):
    qs, targets = some_states(panda)

    def value(q, target, gain, offset, fastest):
        model = eqx.tree_at(lambda m: m.frame_placement.translation, panda, panda.frame_placement.translation + offset)
        model = eqx.tree_at(lambda m: m.limits.velocity, model, panda.limits.velocity * fastest)
        return reach(model, q, target, gain) @ jnp.arange(1.0, 10)

    point = qs[1], targets[1], jnp.asarray(20.0), jnp.zeros(3), jnp.asarray(1.0)
    v = reach(panda, *point[:3])
    assert 0 < np.sum(np.abs(v) >= 0.999 * panda.limits.velocity) < 7
    rng = np.random.default_rng(0)
    evaluate, h = jax.jit(value), 1e-5
    for number, slope in enumerate(jax.jit(jax.grad(value, range(5)))(*point)):
        change = jnp.asarray(rng.normal(size=np.shape(slope)))
        there, back = (evaluate(*point[:number], point[number] + x * change, *point[number + 1 :]) for x in (h, -h))
        assert_close(jnp.sum(slope * change), (there - back) / (2 * h), 1e-6)


def test_loops_stay_closed():
    model, constraints, guess, *_ = make("five-bar")
    start = project_configuration(model, constraints, guess).q

    @jax.jit
    def led(q):
        def body(q, _):
            v = ik.velocity(model, ik.Posture(start + 0.5), q, DT, constraints=constraints, gain=10.0)
            q = jaxcfa.integrate(model, q, v, DT)
            places = Places.of(jaxcfa.body_motions(model, q, jnp.zeros(model.nv)))
            return q, residuals_of_constraints(model, constraints, places, q)

        return jax.lax.scan(body, q, length=50)

    q, residuals = led(start)
    assert float(jnp.max(jnp.abs(q - start))) > 0.1
    # Of second order in the step, and closed again by the next.
    assert float(jnp.max(jnp.abs(residuals))) < 1e-2
    assert float(jnp.max(jnp.abs(residuals[-1]))) < 1e-6


def test_mistakes_are_explained(panda):
    pose = ik.FramePosition(HAND, (0.4, 0.0, 0.4))
    cases = {
        "dt must be positive": lambda: ik.velocity(panda, pose, REST, 0.0),
        "gain must be positive": lambda: ik.velocity(panda, pose, REST, DT, gain=-1.0),
        "damping must be positive": lambda: ik.velocity(panda, pose, REST, DT, damping=0.0),
        "There are no targets": lambda: ik.velocity(panda, [], REST, DT),
        r"q must have shape \(nq,\)": lambda: ik.velocity(panda, pose, REST[1:], DT),
        "velocity is not finite: look for .* in q, targets": lambda: ik.velocity(panda, pose, REST * np.nan, DT),
        "limits must be True or False": lambda: ik.velocity(panda, pose, REST, DT, limits="no"),
    }
    for message, call in cases.items():
        with pytest.raises(ValueError, match=message):
            call()
    traced = jax.jit(lambda weight: ik.velocity(panda, ik.Cost(pose, weight), REST, DT))
    assert np.all(np.isnan(traced(-1.0)))
    assert np.all(np.isfinite(traced(1.0)))
