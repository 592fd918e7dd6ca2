"""Inverse kinematics: targets are reached within limits, preferences are least, derivatives are those of solutions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from jaxcfa import closed_chains, inverse_kinematics as ik
from jaxcfa.joints import Anchored, Composite, Free, Prismatic, Revolute, Spherical
from jaxcfa.model._joint_groups import free_dofs
from jaxcfa.model._ranges import middle, rated_coordinates
from robots import urdf_path

HAND = "panda_hand"


@pytest.fixture(scope="module")
def panda() -> jaxcfa.Model:
    with pytest.warns(UserWarning, match="not modelled|ignored|mimic"):
        return jaxcfa.load_model(urdf_path("panda.urdf"))


def random_poses(model: jaxcfa.Model, frame: str, count: int, seed: int = 0) -> jaxcfa.Transform:
    keys = jax.random.split(jax.random.key(seed), count)
    return jax.vmap(lambda key: jaxcfa.frame_pose(model, jaxcfa.random_configuration(model, key), frame))(keys)


@pytest.mark.slow
def test_random_poses_are_reached_within_limits(panda):
    targets = random_poses(panda, HAND, 96)
    found = jax.jit(jax.vmap(lambda target: ik.solve(panda, ik.FramePose(HAND, target))))(targets)
    reached = np.asarray(found.reached)
    assert np.mean(reached) >= 0.98
    assert np.all((found.q >= panda.limits.lower) & (found.q <= panda.limits.upper))
    poses = jax.vmap(lambda q: jaxcfa.frame_pose(panda, q, HAND))(found.q)
    for pose, target in ((poses.translation, targets.translation), (poses.rotation, targets.rotation)):
        np.testing.assert_allclose(pose[reached], target[reached], atol=3e-8)


@pytest.mark.slow
def test_preferences_are_least_among_what_reaches_the_targets(panda):
    (target,) = random_poses(panda, HAND, 1, seed=3).translation
    rest = jnp.array([0.0, -0.5, 0.0, -1.8, 0.0, 1.5, 0.7, 0.02, 0.02])

    @jax.jit
    def solved(targets):
        """One program for solutions and derivatives in both modes, since it is compiling that takes time."""

        def solution(target):
            found = ik.solve(panda, ik.FramePosition(HAND, target), rest, preferences=ik.Posture(rest))
            return found.q, found

        def at(target):
            q, forward, found = jax.linearize(solution, target, has_aux=True)
            backward = jax.linear_transpose(forward, target)
            return found, jax.vmap(forward, out_axes=1)(jnp.eye(3)), jax.vmap(lambda w: backward(w)[0])(jnp.eye(q.size))

        return jax.lax.map(at, targets)

    step = 1e-3 * jnp.array([1.0, -2.0, 1.0])
    every, rates, reverses = solved(jnp.stack([target, target + step, target - step]))
    found, rate, reverse = jax.tree.map(lambda x: x[0], (every, rates, reverses))
    assert found.reached
    assert found.error < 1e-8
    jacobian = np.asarray(jaxcfa.jacobian(panda, found.q, HAND))[3:]
    _, _, rows = np.linalg.svd(jacobian)
    inside = (found.q > panda.limits.lower + 1e-6) & (found.q < panda.limits.upper - 1e-6)
    assert np.all(inside)
    np.testing.assert_allclose(rows[3:] @ (found.q - rest), 0, atol=1e-5)
    np.testing.assert_allclose(jacobian @ rate, np.eye(3), atol=1e-7)
    np.testing.assert_allclose(reverse, rate, atol=1e-9)
    np.testing.assert_allclose(rate @ step, (every.q[1] - every.q[2]) / 2, atol=1e-5)


def test_preferences_are_least_where_many_joints_are_at_their_ends():
    """What preferences pull is what the target and the ends push; and it is said where iterations run out before."""
    chain, solved = jaxcfa.chain(8, dtype="float64"), []
    for seed in (0, 10, 23):
        rng = np.random.default_rng(seed)
        ends, rest = rng.uniform(0.02, 0.5, 8), rng.uniform(-1, 1, 8)
        within = eqx.tree_at(lambda m: (m.limits.lower, m.limits.upper), chain, (jnp.array(-ends), jnp.array(ends)))
        rest = jnp.array(rest * ends)
        corner = jnp.array(ends * np.sign(rng.uniform(-1, 1, 8)))
        term = ik.FramePosition("tip", jaxcfa.frame_pose(within, corner, "tip").translation)
        solved.append(lambda q0, n, a=(within, term), rest=rest: ik.solve(*a, q0, preferences=ik.Posture(rest), **n))
        found = solved[-1](rest, {})
        assert found.reached
        assert found.settled
        assert found.iterations < 150
        jacobian, pull = np.asarray(jaxcfa.jacobian(within, found.q, "tip"))[3:], np.asarray(found.q - rest)
        free = np.abs(found.q) < ends - 1e-5
        multipliers = np.linalg.lstsq(jacobian[:, free].T, pull[free])[0]
        np.testing.assert_allclose(pull[free], jacobian[:, free].T @ multipliers, atol=2e-4)
        outwards = np.sign(found.q) * (jacobian.T @ multipliers - pull)
        assert np.all(outwards[~free] > -2e-4)
    with pytest.warns(UserWarning, match="reached, but preferences are not least after"):
        found = solved[-1](corner, {"max_iterations": 3})
    assert found.reached
    assert not found.settled


@pytest.fixture(scope="module")
def arm() -> jaxcfa.Model:
    """Three joints for three coordinates, and ranges on two of them."""
    builder = jaxcfa.ModelBuilder()
    builder.add_body("base", joint=Revolute((0, 0, 1)), mass=1.0, inertia=0.1)
    builder.add_body("upper", "base", Revolute((0, 1, 0)), (0, 0, 0.3), mass=1.0, inertia=0.1, lower=-1.5, upper=1.5)
    builder.add_body("fore", "upper", Revolute((0, 1, 0)), (0, 0, 0.5), mass=1.0, inertia=0.1, lower=0.1, upper=2.5)
    builder.add_frame("tip", "fore", (0, 0, 0.4))
    return builder.build()


@pytest.mark.slow
def test_derivatives_of_a_single_solution_in_both_modes_and_of_second_order(arm):
    """By a target in the closure of a function, and by the lengths of the arm."""
    q = jnp.array([0.3, 0.4, 0.9])
    target = jaxcfa.frame_pose(arm, q, "tip").translation

    def solved(target, offset):
        longer = eqx.tree_at(lambda m: m.frame_placement.translation, arm, arm.frame_placement.translation + offset)
        term = lambda stage: jaxcfa.frame_pose(stage.model, stage.q, "tip").translation - target  # noqa: E731
        return ik.solve(longer, term, q + 0.05).q

    zero, weights = jnp.zeros(3), jnp.arange(1.0, 4)

    @jax.jit
    def derivatives(targets):
        """One program for all: backwards, and forwards of the solution and of what was found backwards."""

        def at(target):
            def backwards(target):
                q, transpose = jax.vjp(solved, target, zero)
                return q, *transpose(weights)

            (_, by_target, by_length), forward = jax.linearize(backwards, target)
            rate, curvature, _ = jax.vmap(forward, out_axes=-1)(jnp.eye(3))
            return by_target, by_length, rate, curvature

        return jax.lax.map(at, targets)

    step = 1e-2 * jnp.array([0.01, -0.02, 0.015])
    every = derivatives(jnp.stack([target, target + step, target - step]))
    by_target, by_length, rate, curvature = (x[0] for x in every)
    jacobian = jaxcfa.jacobian(arm, q, "tip")[3:]
    rotation = jaxcfa.frame_pose(arm, q, "tip").rotation
    np.testing.assert_allclose(rate, jnp.linalg.inv(jacobian), atol=1e-7)
    np.testing.assert_allclose(by_target, weights @ rate, atol=1e-10)
    np.testing.assert_allclose(by_length, -weights @ jnp.linalg.solve(jacobian, rotation), atol=1e-7)
    np.testing.assert_allclose(2 * curvature @ step, every[0][1] - every[0][2], atol=1e-7)


def test_values_are_traced_without_derivatives(arm):
    """Which take ten times as long to trace."""
    options = {"tolerance": jnp.asarray(1e-6), "starts": np.int64(3)}
    solved = lambda target: ik.solve(arm, ik.FramePosition("tip", target), **options).q  # noqa: E731
    target = jnp.array([0.3, 0.1, 0.6])
    assert "eigh" not in str(jax.make_jaxpr(solved)(target))
    assert "eigh" in str(jax.make_jaxpr(lambda target: jax.jvp(solved, (target,), (target,)))(target))
    with pytest.raises(ValueError, match="tolerance must be positive"):
        jax.eval_shape(lambda target: ik.solve(arm, ik.FramePosition("tip", target), tolerance=0.0), target)


@pytest.mark.slow
def test_targets_out_of_reach_are_approached_and_said_to_be(arm):
    target = jnp.array([2.0, 0.5, 0.9])
    with pytest.warns(UserWarning, match="largest residual is"):
        found = ik.solve(arm, ik.FramePosition("tip", target), starts=3)
    assert ik.SolveStatus(int(found.status)) == ik.SolveStatus.INFEASIBLE
    with pytest.warns(UserWarning, match="The iterations were used up"):
        found_early = ik.solve(arm, ik.FramePosition("tip", target), starts=3, max_iterations=2)
    assert ik.SolveStatus(int(found_early.status)) == ik.SolveStatus.ITERATIONS
    # The arm points at the target, as straight as the range of its last joint lets it be.
    tip, shoulder = jaxcfa.frame_pose(arm, found.q, "tip").translation, jnp.array([0, 0, 0.3])
    reach = jnp.linalg.norm(tip - shoulder)
    np.testing.assert_allclose(
        tip - shoulder, reach * (target - shoulder) / jnp.linalg.norm(target - shoulder), atol=1e-6
    )
    np.testing.assert_allclose(found.q[2], 0.1, atol=1e-12)

    # It turns about the vertical with the target, the last joint held at its end.
    @jax.jit
    def solution_and_rates(target, end):
        found = lambda x, end: ik.solve(ending_at(arm, end), ik.FramePosition("tip", x), starts=3).q  # noqa: E731
        q, transpose = jax.vjp(found, target, end)
        return q, *jax.vmap(transpose)(jnp.eye(3))

    across = 1e-3 * jnp.array([0.3, -1.0, 2.0])
    (_, rate, by_end), (after, *_), (before, *_) = (
        solution_and_rates(target + x, 0.1 + y) for x, y in ((0.0, 0.0), (across, 1e-3), (-across, -1e-3))
    )
    np.testing.assert_allclose(rate @ across + by_end * 1e-3, (after - before) / 2, atol=1e-7)
    np.testing.assert_allclose(rate[2], 0, atol=1e-12)
    np.testing.assert_allclose(by_end[2], 1, atol=1e-12)


def ending_at(arm: jaxcfa.Model, end: jax.Array) -> jaxcfa.Model:
    """The arm, with another end of the range of its last joint."""
    return eqx.tree_at(lambda m: m.limits.lower, arm, arm.limits.lower.at[2].set(end))


@pytest.mark.slow
def test_solutions_move_with_the_ends_to_which_preferences_press(arm):
    @jax.jit
    def solution_and_rate(end):
        def found(end):
            height = lambda stage: jaxcfa.frame_pose(stage.model, stage.q, "tip").translation[2:] - 0.8  # noqa: E731
            pressing = ik.Posture(jnp.array([0.2, 0.3, -0.5]))
            return ik.solve(ending_at(arm, end), height, jnp.array([0.1, 0.4, 0.9]), preferences=pressing).q

        return jax.jvp(found, (end,), (jnp.ones_like(end),))

    (q, rate), (after, _), (before, _) = (solution_and_rate(0.1 + x) for x in (0.0, 1e-3, -1e-3))
    np.testing.assert_allclose(q[2], 0.1, atol=1e-6)
    np.testing.assert_allclose(rate, (after - before) / 2e-3, atol=1e-6)
    assert rate[1] < -0.3


def test_joints_at_their_ends_stay_there_if_the_others_reach_the_targets():
    """Of four in a plane, one is locked, and one stops at an end, or stands there beside too few others."""
    builder = jaxcfa.ModelBuilder()
    ranges = ((-2.0, 2.0), (0.4, 0.4), (-2.0, 2.0), (-2.0, 2.0))
    for i, (lower, upper) in enumerate(ranges):
        parent, placement = (str(i - 1), (0.5, 0.0, 0.0)) if i else (None, None)
        builder.add_body(str(i), parent, Revolute((0, 1, 0)), placement, lower=lower, upper=upper)
    builder.add_frame("tip", "3", (0.5, 0.0, 0.0))
    model = builder.build()
    q = jnp.array([0.1, 0.4, 0.6, -0.5])
    target = jaxcfa.frame_pose(model, q, "tip").translation

    def solution(end, target, first):
        ended = eqx.tree_at(lambda m: m.limits.upper, model, model.limits.upper.at[2].set(end))
        targets = [ik.FramePosition("tip", target), ik.Cost(lambda stage: stage.q[:1] - 0.1, first)]
        return ik.solve(ended, targets, q.at[2].set(end)).q

    @jax.jit
    def solution_and_rates(*x):
        return solution(*x), *jax.jacfwd(solution, (0, 1))(*x)

    along = jnp.array([1.0, 0.0, -2.0])
    (found, by_end, by_target), (after, *_), (before, *_) = (
        solution_and_rates(h, target + h * along, 0.0) for h in (0.0, 1e-4, -1e-4)
    )
    np.testing.assert_array_equal(found[1:3], [0.4, 0.0])
    rate = by_end + by_target @ along
    np.testing.assert_allclose(rate[1:3], (after - before)[1:3] / 2e-4, atol=1e-8)
    np.testing.assert_allclose(jaxcfa.jacobian(model, found, "tip")[3:] @ rate, along, atol=1e-8)
    # One joint is too few for two coordinates.
    found, by_end, by_target = solution_and_rates(0.6, target, 1.0)
    np.testing.assert_allclose(found, q, atol=1e-12)
    np.testing.assert_allclose(jaxcfa.jacobian(model, found, "tip")[3:] @ by_target, np.diag([1, 0, 1]), atol=1e-8)
    np.testing.assert_allclose([by_end[:2], by_target[:2, 0]], 0, atol=1e-8)


@pytest.mark.slow
def test_loops_stay_closed():
    bar = {"mass": 1.0, "com": (0.3, 0, 0), "inertia": (0.001, 0.03, 0.03)}
    builder = jaxcfa.ModelBuilder()
    builder.add_body("crank", joint=Revolute((0, 1, 0)), **bar)
    builder.add_body("coupler", "crank", Revolute((0, 1, 0)), (0.6, 0, 0), **bar)
    builder.add_body("rocker", joint=Revolute((0, 1, 0)), placement=(0.5, 0, 0), **bar)
    builder.add_frame("coupler_end", "coupler", (0.6, 0, 0))
    builder.add_frame("rocker_end", "rocker", (0.6, 0, 0))
    builder.add_frame("pen", "coupler", (0.3, 0, 0.2))
    linkage = builder.build()
    loop = closed_chains.loop_joint(linkage, "coupler_end", "rocker_end", Revolute((0, 1, 0)))
    closed = closed_chains.project_configuration(linkage, loop, jnp.array([-1.5, 1.5, -1.4])).q
    wanted = jaxcfa.frame_pose(linkage, closed, "pen").translation

    def height(stage):
        return jaxcfa.frame_pose(stage.model, stage.q, "pen").translation[2:] - wanted[2]

    found = ik.solve(linkage, height, closed + 0.2, constraints=loop)
    assert found.reached
    assert found.residual.shape == (1 + 5,)
    ends = [jaxcfa.frame_pose(linkage, found.q, name).translation for name in ("coupler_end", "rocker_end")]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-8)
    np.testing.assert_allclose(jaxcfa.frame_pose(linkage, found.q, "pen").translation[2], wanted[2], atol=1e-8)


@pytest.mark.slow
def test_floating_robots_with_quaternions_in_both_precisions(dtype):
    builder = jaxcfa.ModelBuilder()
    builder.add_body("trunk", joint=jaxcfa.joints.Free(), mass=5.0, inertia=0.3)
    for side, y in (("left", 0.2), ("right", -0.2)):
        builder.add_body(side, "trunk", jaxcfa.joints.Spherical(), (0, y, 0.1), mass=1.0, com=(0, 0, 0.2), inertia=0.02)
        builder.add_frame(f"{side}_hand", side, (0, 0, 0.4))
    robot = builder.build(dtype=dtype)
    goals = [jnp.array([0.3, y, 0.4], dtype) for y in (0.3, -0.1)]
    targets = [
        *(ik.FramePosition(f"{side}_hand", goal) for side, goal in zip(("left", "right"), goals, strict=True)),
        ik.Cost(ik.FrameDirection("trunk", jnp.array([0.0, 0.1, 1.0], dtype)), 2.0),
    ]
    preferences = [ik.CenterOfMass(jnp.array([0.1, 0.1, 0.2], dtype)), ik.Cost(ik.Posture(jaxcfa.neutral(robot)), 0.01)]
    found = ik.solve(robot, targets, preferences=preferences)
    assert found.reached
    assert found.q.dtype == dtype
    assert found.error < (1e-8 if dtype == jnp.float64 else 1.2e-5)
    quaternions = found.q[jnp.array([[3, 4, 5, 6], [7, 8, 9, 10], [11, 12, 13, 14]])]
    np.testing.assert_allclose(jnp.linalg.norm(quaternions, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([],), {}, "no targets"),
        (("tip",), {}, "must be terms such as FramePose"),
        (
            (ik.Cost(ik.FramePosition("tip"), during=(1, None)),),
            {},
            r"no stages: omit during=\(\(1, None\),\) of Frame",
        ),
        ((ik.FramePosition("tip"),), {"preferences": ik.Cost(jnp.sin, during=(0, 1))}, "preferences of inverse"),
        ((ik.FramePosition("tp", jnp.zeros(3)),), {}, "did you mean 'tip'"),
        ((ik.FramePosition("tip"), jnp.zeros(4)), {}, r"q0 must have shape \(nq,\) = \(3,\)"),
        ((ik.FramePosition("tip"),), {"tolerance": 0.0}, "tolerance must be positive"),
        ((ik.FramePosition("tip"),), {"starts": True}, "starts must be a positive integer"),
        ((ik.FramePosition("tip"),), {"tolerance": [0.1]}, "tolerance must be one number"),
        ((ik.FramePosition("tip", jnp.full(3, jnp.nan)),), {}, "not finite"),
        ((ik.FramePosition("tip"),), {"constraints": ["loop"]}, "constraints must be"),
    ],
)
def test_wrong_arguments_are_explained(arm, arguments, options, message):
    with pytest.raises(ValueError, match=message):
        ik.solve(arm, *arguments, **options)


def test_weights_that_are_no_weights_are_said_to_be(arm):
    rest = jnp.array([0.3, 0.4, 0.9])
    target = ik.FramePosition("tip", jaxcfa.frame_pose(arm, rest, "tip").translation)

    @jax.jit
    @jax.vmap
    def found(weight, preferred):
        preferences = ik.Cost(ik.Posture(rest), preferred)
        return ik.solve(arm, ik.Cost(target, weight), rest + 0.1, preferences=preferences, starts=1)

    wrong = np.array([np.nan, -1.0, np.inf])
    one = np.ones_like(wrong)
    solutions = found(np.concatenate([[1.0], wrong, one]), np.concatenate([[1.0], one, wrong]))
    np.testing.assert_array_equal(
        solutions.status, [ik.SolveStatus.SOLVED] + [ik.SolveStatus.NOT_FINITE] * (2 * len(wrong))
    )
    replaced = eqx.tree_at(lambda cost: cost.weight, ik.Cost(target), -1.0)
    for arguments, options in (((replaced,), {}), ((target,), {"preferences": replaced})):
        with pytest.raises(ValueError, match="weight of a cost must not be negative, got -1"):
            ik.solve(arm, *arguments, **options)


def test_a_model_without_joints_is_where_it_is():
    nothing = jaxcfa.ModelBuilder().build()
    with pytest.warns(UserWarning, match="not reached"):
        assert ik.solve(nothing, lambda stage: jnp.ones(1)).error == 1


def test_bodies_need_no_inertia_and_joints_in_series_keep_their_limits():
    """Hinges in one body are held at the ends of their ranges, and start anew within them, as in several bodies."""
    builder = jaxcfa.ModelBuilder()
    turning = Composite([Revolute((0, 0, 1)), Revolute((0, 1, 0))])
    wrist = Composite([Revolute((0, 1, 0)), Spherical()])
    builder.add_body("arm", None, turning, lower=(-1.0, -0.4), upper=(1.0, 0.4))
    builder.add_body("hand", "arm", wrist, (0.5, 0.0, 0.0), lower=[-2.0, *[-jnp.inf] * 4], upper=[2.0, *[jnp.inf] * 4])
    builder.add_frame("tip", "hand", (0.3, 0.0, 0.0))
    model = builder.build(dtype="float64")
    target = jaxcfa.frame_pose(model, np.array([0.9, -0.35, 1.8, 0.6, 0.0, 0.8, 0.0]), "tip")
    found = ik.solve(model, ik.FramePose("tip", target))
    assert found.reached
    assert np.all((found.q >= model.limits.lower) & (found.q <= model.limits.upper))
    with pytest.raises(ValueError, match=r"There is no control at the end .* nor in inverse kinematics"):
        ik.solve(model, lambda stage: stage.tau)
    with pytest.raises(ValueError, match="limits must be True or False, got 'yes'"):
        ik.solve(model, ik.FramePose("tip", target), limits="yes")
    np.testing.assert_array_equal(rated_coordinates(model), [0, 1, 2, -1, -1, -1])
    free = jaxcfa.ModelBuilder()
    free.add_body("body", joint=Anchored(Free(), (0.1, 0, 0)))
    free.add_body("six", "body", Composite([Prismatic(axis) for axis in np.eye(3)] + [Revolute(x) for x in np.eye(3)]))
    np.testing.assert_array_equal(free_dofs(free.build()), [True] * 6 + [False] * 6)


@pytest.mark.parametrize("far", [1e9, 1e16, 1e308])
def test_limits_that_are_far_away_count_as_none_for_starts(far):
    builder, last = jaxcfa.ModelBuilder(), None
    for name in "ab":
        last = builder.add_body(name, last, Revolute((0, 0, 1)), (1.0 if last is not None else 0.0, 0, 0), mass=1.0)
    last = builder.add_body("c", last, Prismatic((0, 0, 1)), mass=1.0, lower=-0.5, upper=far)
    builder.add_frame("tip", last, (1, 0, 0))
    model = builder.build()
    for number in (0, 1):
        model = jaxcfa.with_joint(model, number, lower=-far, upper=far)
    found = ik.solve(model, ik.FramePosition("tip", jnp.array([-0.3, 0, 2.0])))
    assert found.reached
    assert np.max(np.abs(found.q)) < 20
    assert np.array_equal(middle(model), [0, 0, 0])


def test_far_targets_take_few_steps_along_axes():
    builder = jaxcfa.ModelBuilder()
    for name, parent, axis in (("x", None, (1, 0, 0)), ("y", "x", (0, 1, 0)), ("z", "y", (0, 0, 1))):
        builder.add_body(name, parent, Prismatic(axis), mass=1.0)
    builder.add_body("hand", "z", Revolute((0, 1, 0)), mass=1.0)
    builder.add_frame("tip", "hand", (0.2, 0, 0))
    found = ik.solve(builder.build(), ik.FramePosition("tip", jnp.array([300.0, -700.0, 20.0])))
    assert found.reached
    assert found.iterations < 10


@pytest.mark.slow
def test_positions_of_free_joints_stop_at_their_limits():
    """As those of other joints do: the arm alone goes on from there, and follows its target."""
    builder = jaxcfa.ModelBuilder()
    builder.add_body("base", joint=Free(), mass=1.0, inertia=0.1, lower=-0.2, upper=0.2)
    builder.add_body("arm", "base", Prismatic((1, 0, 0)), mass=1.0, inertia=0.1, lower=0, upper=1)
    builder.add_frame("tip", "arm", (0.1, 0, 0))
    model = builder.build()

    def found(goal):
        rest = jaxcfa.neutral(model)
        return ik.solve(model, ik.FramePosition("tip", goal), rest, preferences=ik.Posture(rest)).q

    goal = jnp.array([1.2, 0.0, 0.0])
    q, rate = jax.jit(lambda goal: jax.jvp(found, (goal,), (jnp.array([1.0, 0, 0]),)))(goal)
    np.testing.assert_allclose(q, [0.2, 0, 0, 1, 0, 0, 0, 0.9], atol=1e-6)
    np.testing.assert_allclose(rate, [0] * 7 + [1], atol=1e-6)


def test_quaternions_have_no_ranges():
    builder = jaxcfa.ModelBuilder()
    builder.add_body("base", joint=Free(), mass=1.0, inertia=0.1, lower=-0.2, upper=0.4)
    builder.add_body("ball", "base", Spherical(), mass=1.0, inertia=0.1)
    builder.add_frame("tip", "ball", (1, 0, 0))
    model = builder.build()
    ball = model.q_slice("ball_joint")
    for limit in (0.5, (np.inf, 0.5, 0.5, 0.5)):
        with pytest.raises(ValueError, match=r"The upper of .* is a limit of a quaternion, which has none"):
            jaxcfa.with_joint(model, "ball_joint", upper=limit)
    with pytest.raises(ValueError, match="is a limit of a quaternion"):
        builder.add_body("other", joint=Composite([Revolute((0, 0, 1)), Spherical()]), lower=np.zeros(5))
    jaxcfa.with_joint(model, "ball_joint", upper=np.inf)
    model = eqx.tree_at(lambda m: m.limits.upper, model, model.limits.upper.at[ball].set(0.5))
    np.testing.assert_allclose(middle(model), [0.1, 0.1, 0.1, 1, 0, 0, 0, 1, 0, 0, 0])
    found = ik.solve(model, ik.FramePosition("tip", jnp.array([-0.5, 0.7, 0])), jaxcfa.neutral(model))
    assert found.reached
    np.testing.assert_allclose(jaxcfa.integrate(model, found.q, jnp.zeros(model.nv)), found.q, atol=1e-12)
    assert np.all(np.abs(found.q[:3]) <= 0.4)
