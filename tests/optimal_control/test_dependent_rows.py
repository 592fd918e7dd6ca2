"""Equalities that follow from one another to first order, such as those of all corners of a foot."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa import optimal_control as oc
from jaxcfa.joints import Revolute
from jaxcfa.optimal_control._dependent_rows import independent
from jaxcfa.optimal_control._local import LocalModel, Multipliers, Rows, StageModel, Values

CORNERS = {f"corner{k}": ("b5", (x, y, 0.3)) for k, (x, y) in enumerate([(0.1, 0.05), (0.1, -0.05), (-0.1, 0.05)])}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("count", "rank"), [(1, 1), (6, 4), (30, 18)])
def test_the_gradient_stays(count, rank, dtype):
    """As many rows as the rank are left, of whatever sizes; those of zeros have no multipliers."""
    random = np.random.default_rng(count)
    base = random.standard_normal((rank, 40))
    rows = np.concatenate([base, random.standard_normal((count - rank, rank)) @ base])[random.permutation(count)]
    rows = (np.exp(random.standard_normal(count))[:, None] * rows).astype(dtype)
    rows[1:2] = 0 if count > rank else rows[1:2]
    h, y = (jnp.asarray(random.standard_normal(count), dtype) for _ in range(2))
    none, size = jnp.zeros((0,), dtype), rows.shape[1]
    end = StageModel(jnp.zeros(size, dtype), jnp.zeros((size, size), dtype), jnp.asarray(rows), jnp.zeros((0, size)))
    stages = jax.tree.map(lambda x: jnp.stack([x, x]), end)

    def both(x):
        return Rows(jnp.stack([x, x]), x)

    values = Values(none, none, none, both(h), both(none))
    local, multipliers = independent(
        LocalModel(values, none, none, stages, end), Multipliers(none, both(y), both(none))
    )
    found, moved, left = local.end.equalities, multipliers.equalities.end, local.values.equalities.end
    kept = np.any(np.asarray(found) != 0, axis=1)
    assert np.linalg.matrix_rank(found, tol=1e-3) == np.sum(kept) == np.linalg.matrix_rank(rows, tol=1e-3)
    assert_close(moved @ found, y @ rows, rtol=1e-4 if dtype == np.float32 else 1e-10)
    assert_close(found, rows * kept[:, None], rtol=0)
    assert_close(left, h * kept if count > 1 else h, rtol=0)
    if count > 1:
        assert np.all(np.asarray(moved)[~kept] == 0)
    assert_close(multipliers.equalities.stages[1], moved, rtol=1e-5)


@pytest.mark.compiled
def test_three_corners_of_a_hand_are_led_to_their_places():
    """Nine rows for six degrees of freedom: their multipliers once grew until no step went on."""
    builder, below = jaxcfa.ModelBuilder(), None
    for k, axis in enumerate(np.eye(3)[[2, 1, 1, 0, 1, 0]]):
        place = None if below is None else jaxcfa.Transform(jnp.eye(3), jnp.array([0, 0, 0.3]))
        builder.add_body(f"b{k}", below, Revolute(axis), place, mass=1.0, com=(0, 0, 0.15), inertia=0.02)
        below = f"b{k}"
    model = jaxcfa.add_frames(builder.build(), CORNERS)
    start = jnp.array([0.1, 0.5, 0.6, 0.2, -0.4, 0.3])
    goal = start + np.random.default_rng(1).uniform(-1, 1, 6)
    places = [oc.Equality(oc.FramePosition(x, jaxcfa.frame_pose(model, goal, x).translation)) for x in CORNERS]
    costs = [oc.Cost(oc.Control(), 1e-3), oc.Cost(oc.Velocity(), 0.01)]
    problem = oc.Problem(oc.RobotDynamics(model, 0.05), 20, costs, end_constraints=places)
    found = oc.solve(problem, (start, jnp.zeros(6)))
    assert found.status == oc.SolveStatus.SOLVED
    assert found.violation < 1e-8
    reached = jaxcfa.frame_pose(model, found.states[-1][:6], "b5")
    expected = jaxcfa.frame_pose(model, goal, "b5")
    assert_close((reached.rotation, reached.translation), (expected.rotation, expected.translation), rtol=1e-7)
