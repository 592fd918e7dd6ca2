"""Robots under accelerations, with torques by inverse dynamics and forces at contacts."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import evaluation
import jaxcfa
from helpers import assert_close
from jaxcfa import optimal_control as oc
from jaxcfa.joints import Free, Prismatic, Revolute

FEET = ("left_foot", "right_foot")


def walker() -> jaxcfa.Model:
    """A body in space with two legs of two joints."""
    builder = jaxcfa.ModelBuilder()
    builder.add_body("body", None, Free(), mass=3.0, inertia=(0.03, 0.05, 0.04), com=(0.01, 0.02, 0.1))
    for name, side in (("left", 1), ("right", -1)):
        builder.add_body(f"{name}_thigh", "body", Revolute((0, 1, 0)), (0, 0.1 * side, 0), mass=0.5, com=(0, 0, -0.1))
        knee = {"mass": 0.3, "com": (0, 0, -0.1), "inertia": 0.002, "damping": 0.3}
        builder.add_body(f"{name}_shank", f"{name}_thigh", Revolute((1, 1, 0)), (0, 0, -0.2), **knee)
        turned = jaxcfa.Transform.from_rpy(0.3, -0.4, 0.2 * side, jnp.array([0.02, 0.0, -0.2]))
        builder.add_frame(f"{name}_foot", f"{name}_shank", turned)
    return builder.build()


@pytest.mark.slow
def test_same_motion_as_under_torques():
    model, dt, steps = jaxcfa.chain(2), 0.05, 15
    q, rest = jnp.array([0.3, 0.8]), jnp.zeros(2)
    target = jaxcfa.frame_pose(model, q + 0.3, model.body_names[-1]).translation
    terms = [oc.Cost(oc.JointTorques(), 1e-4), oc.Cost(oc.Velocity(), 1e-2)]
    end = [oc.Cost(oc.FramePosition(model.body_names[-1], target), 1e3), oc.Cost(oc.Velocity(), 1.0)]
    bounds = [oc.Bounds(oc.JointTorques(), -60.0, 60.0)]
    found = [
        oc.solve(oc.Problem(dynamics, steps, terms, end, bounds), (q, rest))
        for dynamics in (oc.RobotDynamics(model, dt, passive_forces=False), oc.RobotInverseDynamics(model, dt))
    ]
    assert [int(x.status) for x in found] == [0, 0]
    assert_close(found[1].cost, found[0].cost, rtol=1e-6)
    assert_close(found[1].q, found[0].q, rtol=1e-4)


def hopper() -> jaxcfa.Model:
    """A body in the plane on a leg of two links."""
    builder = jaxcfa.ModelBuilder()
    builder.add_body("along", None, Prismatic((1, 0, 0)), mass=0.0)
    builder.add_body("up", "along", Prismatic((0, 0, 1)), mass=0.0)
    builder.add_body("body", "up", Revolute((0, 1, 0)), mass=5.0, inertia=0.05)
    link = {"com": (0, 0, -0.15), "effort_limit": 80.0}
    builder.add_body("thigh", "body", Revolute((0, 1, 0)), mass=1.0, inertia=(0.01, 0.01, 0.001), **link)
    builder.add_body(
        "shank", "thigh", Revolute((0, 1, 0)), (0, 0, -0.3), mass=0.5, inertia=(0.005, 0.005, 5e-4), **link
    )
    builder.add_frame("foot", "shank", (0, 0, -0.3))
    return builder.build()


@pytest.mark.slow
def test_a_hopper_jumps():
    """Standing, in the air, standing: the optimum by ipopt with exact Hessians, from standing still all the way.

    By Hessians of Gauss and Newton it is not found in 200 iterations.
    """
    model, dt, leaves, lands, end = hopper(), 0.04, 8, 15, 23
    dynamics = oc.RobotInverseDynamics(model, dt, ["foot"], actuated=model.joint_names[-2:])
    q = jnp.array([0.0, 0.0, 0.0, 0.6, -1.2])
    q = q - jnp.eye(5)[:2].T @ jaxcfa.frame_pose(model, q, "foot").translation[::2]
    in_plane, effort = jnp.array([0, 2]), model.limits.effort
    stands = [(0, leaves), (lands, end)]
    place = jaxcfa.frame_pose(model, q, "foot").translation
    constraints = [
        oc.Equality(lambda s: oc.FramePosition("foot", place)(s)[in_plane], during=[(1, leaves + 1), (lands, end)]),
        oc.Equality(lambda s: oc.PointVelocity("foot")(s)[in_plane], during=(lands, lands + 1)),
        oc.Equality(oc.ContactForce("foot"), during=(leaves, lands)),
        oc.Equality(lambda s: oc.ContactForce("foot")(s)[1], during=stands),
        oc.Bounds(oc.FrictionPyramid("foot", 0.7), lower=0.0, during=stands),
        oc.Bounds(oc.JointTorques(), -effort, effort),
    ]
    weights = [(oc.JointTorques(), 1e-2), (lambda s: s.u[:5], 1e-4), (oc.Velocity(), 1e-1)]
    costs = [oc.Cost(term, weight * dt) for term, weight in weights]
    at_end = [oc.Equality(oc.Posture(q)), oc.Equality(oc.Velocity())]
    problem = oc.Problem(dynamics, end, costs, constraints=constraints, end_constraints=at_end)
    t = jnp.arange(end)
    forces = jnp.zeros((end, 8)).at[:, 7].set(jnp.where((t < leaves) | (t >= lands), jnp.sum(model.mass) * 9.81, 0))
    guess = jnp.tile(jnp.concatenate([q, jnp.zeros(5)]), (end + 1, 1)), forces
    found = oc.solve(problem, (q, jnp.zeros(5)), guess=guess, solver=oc.MultipleShooting(hessian="exact"))
    assert found.solved
    assert found.iterations < 50
    np.testing.assert_allclose(found.cost, 7.6478781952, rtol=1e-6)
    height = jax.vmap(lambda q: jaxcfa.frame_pose(model, q, "foot").translation[2])(found.q)
    assert jnp.all(height[leaves + 1 : lands] > 5e-3)


def test_advice_names_another_hessian():
    """That which helps: for problems whose torques are constrained to vanish, for robots under torques, and others."""
    model = hopper()
    driven = {"actuated": model.joint_names[-2:]}
    kinds = {
        'need MultipleShooting(hessian="exact")': oc.RobotInverseDynamics(model, 0.02, **driven),
        'need MultipleShooting(hessian="secant")': oc.RobotDynamics(model, 0.02, **driven),
        'MultipleShooting(hessian="gauss_newton"), or "exact", may be': oc.FunctionDynamics(
            lambda x, u, t: x + u, 2, 2
        ),
    }
    for advice, dynamics in kinds.items():
        problem = oc.Problem(dynamics, 2, [oc.Cost(oc.Control(), 1.0), oc.Cost(lambda s: jnp.cosh(s.x[:2] - 1), 9.0)])
        with pytest.warns(UserWarning, match=re.escape(advice)):
            oc.solve(problem, jnp.zeros(dynamics.state_size), solver=oc.MultipleShooting(max_iterations=1))


def test_torques_and_their_derivatives():
    """Those of inverse dynamics under the forces at the contacts; derivatives by differences."""
    model, rng = walker(), np.random.default_rng(0)
    dynamics = oc.RobotInverseDynamics(model, 0.01, FEET)
    x = jnp.concatenate([jaxcfa.random_configuration(model, jax.random.key(0)), jnp.asarray(rng.normal(size=model.nv))])
    u = jnp.asarray(rng.normal(size=dynamics.control_size))
    assert dynamics.actuated == tuple(range(6, 10))

    @jax.jit
    def torques(dx, du):
        stage = oc.Stage(dynamics, dynamics.plus(x, dx), u + du, jnp.asarray(0))
        jacobians = jaxcfa.jacobian(model, stage.q, list(FEET))[:, 3:]
        forces = jnp.stack([dynamics.force(u + du, foot) for foot in FEET])
        pushed = jnp.einsum("kij,ki->j", jacobians, forces)
        bare = jaxcfa.inverse_dynamics(model, stage.q, stage.v, dynamics.accelerations(u + du))
        return stage.tau, bare - pushed - jaxcfa.passive_forces(model, stage.q, stage.v, 0.1)

    zeros = jnp.zeros(2 * model.nv), jnp.zeros_like(u)
    tau, expected = torques(*zeros)
    assert_close(tau, expected)

    @jax.jit
    def rows(dq, dv, du):
        here = oc.Stage(dynamics, x, u, jnp.asarray(0))
        _ = here.tau
        return here.displaced(dq, dv, du, first_order=True).tau

    parts = jnp.zeros(model.nv), jnp.zeros(model.nv), jnp.zeros_like(u)
    by_state = jnp.concatenate(jax.jacfwd(rows, (0, 1))(*parts), axis=1)
    for z, zero, jacobian in ((0, zeros[0], by_state), (1, zeros[1], jax.jacfwd(rows, 2)(*parts))):
        way, step = jnp.asarray(rng.normal(size=zero.shape)), 1e-6
        ends = [torques(*(*zeros[:z], sign * step * way, *zeros[z + 1 :]))[0] for sign in (1, -1)]
        assert_close(jacobian @ way, (ends[0] - ends[1]) / (2 * step), rtol=1e-6)


@pytest.mark.slow
def test_stands_on_one_foot_and_then_on_both():
    """Forces carry the weight, each foot only where it may; forward dynamics give the same accelerations."""
    model, dt, steps, middle = walker(), 0.02, 12, 5
    q = jaxcfa.neutral(model).at[7:].set(jnp.array([0.4, -0.5, 0.4, -0.5]))
    places = [jaxcfa.frame_pose(model, q, foot).translation for foot in FEET]
    dynamics = oc.RobotInverseDynamics(model, dt, FEET)
    constraints = [
        oc.Equality(oc.ContactForce("left_foot"), during=[(0, 2), (3, middle)]),
        oc.Equality(oc.ContactForce("left_foot"), during=(2, 3)),
        oc.Equality(oc.FramePosition("right_foot", places[1]), during=(1, None)),
        oc.Equality(oc.PointVelocity("left_foot"), during=(middle + 1, None)),
        oc.Bounds(lambda stage: stage.u[-4:-3], lower=0.0, during=(middle, None)),
    ]
    costs = [oc.Cost(oc.Posture(q), 10.0), oc.Cost(oc.Velocity(), 0.1), oc.Cost(lambda stage: stage.u, 1e-4)]
    problem = oc.Problem(dynamics, steps, costs, [oc.Cost(oc.Posture(q), 10.0)], constraints)
    with evaluation.compiled():  # NumPy would give up on its loops after seconds
        found = oc.solve(problem, (q, jnp.zeros(model.nv)))
    assert int(found.status) == 0
    assert found.violation < 1e-8

    @jax.jit
    @jax.vmap
    def at_stage(x, u, t):
        stage = oc.Stage(dynamics, x, u, t)
        passive = jaxcfa.passive_forces(model, stage.q, stage.v, 0.1)
        qdd = jaxcfa.forward_dynamics(model, stage.q, stage.v, stage.tau + passive, dynamics.wrenches_at(stage))
        return stage.tau, qdd, dynamics.force(u, "left_foot")

    tau, qdd, force = at_stage(found.states[:-1], found.controls, jnp.arange(steps))
    assert_close(tau[:, :6], jnp.zeros(()))
    assert_close(qdd, found.controls[:, : model.nv], rtol=1e-6)
    assert_close(force[:middle], jnp.zeros(()))
    assert jnp.abs(force[middle:]).max() > 1


def test_phases_with_different_contacts():
    """What needs the force at a contact counts where there is one; frames are named and numbered."""
    model = jaxcfa.chain(2)
    base, hand = model.body_names
    phases = [oc.Phase(oc.RobotInverseDynamics(model, 0.05, [frame]), 2) for frame in (hand, base)]

    def solved(wanted):
        of_base = lambda stage: oc.ContactForce(base)(stage)[:2] - wanted  # noqa: E731
        costs = [
            oc.Cost(oc.Control(), 1e-3),
            oc.Cost(oc.ContactForce(model.frame_number(hand), jnp.ones(3)), during=(0, 2)),
            oc.SmoothCost(lambda stage: jnp.sum(of_base(stage) ** 2), during=(2, None)),
        ]
        constraints = [
            oc.Bounds(of_base, None, [jnp.inf, -0.5], during=(3, None)),
            oc.Equality(lambda stage: oc.ContactForce(hand)(stage)[:1] - 0.3, during=(1, 2)),
        ]
        problem = oc.Problem(phases, None, costs, [oc.Cost(oc.Velocity())], constraints)
        return oc.solve(problem, (jnp.array([0.3, 0.8]), jnp.zeros(2)))

    def forces_and_status(wanted):
        found = solved(wanted)
        return found.controls[:, 2:], found.status

    forces, rate, status = jax.jit(lambda x: jax.jvp(forces_and_status, (x,), (1.0,), has_aux=True))(2.0)
    kept, free, given = 1 / 1.001, 2 / 2.001, 2.0
    assert status == oc.SolveStatus.SOLVED
    assert_close(
        forces, np.array([[kept] * 3, [0.3, kept, kept], [given * free] * 2 + [0], [given * free, 1.5, 0]]), 1e-6
    )
    assert_close(rate, np.array([[0.0] * 3, [0.0] * 3, [free, free, 0], [free, 1, 0]]), 1e-6)


@pytest.mark.parametrize("normal", [(0.0, 0.0, 1.0), (0.3, -0.2, 0.9), (1.0, 0.0, 0.0), (0.0, 0.0, -2.0)])
def test_friction_pyramid(normal):
    """Four sides, two across the others, about the normal; of the ground those along x and y."""
    dynamics = oc.RobotInverseDynamics(walker(), 0.01, FEET)
    term = oc.FrictionPyramid("right_foot", 0.5, jnp.array(normal))

    def room(force):
        u = jnp.zeros(dynamics.control_size).at[-3:].set(force)
        return term(oc.Stage(dynamics, jnp.zeros(21), u, jnp.asarray(0)))

    sides, up = np.asarray(jax.jacobian(room)(jnp.zeros(3))), np.array(normal) / np.linalg.norm(normal)
    assert_close(room(3 * jnp.asarray(up)), jnp.full(4, 1.5))
    assert_close(sides @ up, np.full(4, 0.5))
    across = sides - np.outer(sides @ up, up)
    assert_close(across @ across.T, np.block([[np.eye(2), -np.eye(2)], [-np.eye(2), np.eye(2)]]), 1e-12)
    if normal == (0.0, 0.0, 1.0):
        assert_close(sides, np.array([[-1, 0, 0.5], [0, -1, 0.5], [1, 0, 0.5], [0, 1, 0.5]]))


def test_errors():
    model = walker()
    dynamics = oc.RobotInverseDynamics(model, 0.01, FEET)
    with pytest.raises(ValueError, match="The friction of FrictionPyramid must be positive and finite, got -1"):
        oc.FrictionPyramid("left_foot", -1.0)
    with pytest.raises(ValueError, match="The normal of FrictionPyramid must not be zero"):
        oc.FrictionPyramid("left_foot", 0.5, jnp.zeros(3))
    with pytest.raises(ValueError, match=r"The normal of FrictionPyramid must be a vector \(3,\), got shape \(2,\)"):
        oc.FrictionPyramid("left_foot", 0.5, [0.0, 1.0])
    with pytest.raises(ValueError, match="left_foot"):
        oc.RobotInverseDynamics(model, 0.01, ["left_fot"])
    with pytest.raises(ValueError, match="once"):
        oc.RobotInverseDynamics(model, 0.01, ["left_foot"] * 2)
    with pytest.raises(ValueError, match=r"a list of frames, such as \['left_foot', 'right_foot'\], got PointContacts"):
        oc.RobotInverseDynamics(model, 0.01, jaxcfa.ground_contacts(model, FEET))
    phases = [oc.Phase(oc.RobotInverseDynamics(model, 0.01, feet), 2) for feet in (FEET, FEET[:1])]
    with pytest.raises(ValueError, match="all have the same contacts, and constrain forces to zero"):
        oc.Problem(phases)
    # Of a model with actuators others are not driven without a word.
    servos = jaxcfa.add_servos(model, 1.0, joints="left_thigh_joint")
    for make in (lambda x: oc.RobotDynamics(x, 0.01), lambda x: oc.RobotInverseDynamics(x, 0.01)):
        with pytest.warns(UserWarning, match="none that acts on 'left_shank_joint', 'right_thigh_joint', 'right_shank"):
            make(servos)
        several = jax.tree.map(lambda x: jnp.stack([x, x]), model)
        with pytest.raises(ValueError, match=r"^Robot\w*Dynamics takes single models, but"):
            make(several)
        make(jaxcfa.add_servos(model, 1.0))
    with pytest.raises(ValueError, match=r"\['left_foot'\]"):
        oc.RobotInverseDynamics(model, 0.01, "left_foot")
    for kind in (oc.RobotDynamics, oc.RobotInverseDynamics):
        for wrong in (0.0, -0.1, float("nan")):
            with pytest.raises(ValueError, match="friction_velocity must be positive and finite, one known number"):
                kind(model, 0.01, friction_velocity=wrong)
    with pytest.raises(ValueError, match="not among the contacts"):
        dynamics.force(jnp.zeros(16), model.body_names[0])
    u = jnp.arange(16.0)
    assert_close(dynamics.force(u, model.frame_number("left_foot")), dynamics.force(u, "left_foot"))
    # By default both have no motor at the base.
    assert (
        oc.RobotDynamics(model, 0.01).actuated == oc.RobotInverseDynamics(model, 0.01).actuated == tuple(range(6, 10))
    )
    base = jaxcfa.lock_joints(model, model.joint_names[1:], jaxcfa.neutral(model))
    with pytest.raises(ValueError, match="The model has free joints only, which no motor drives unless they are named"):
        oc.RobotDynamics(base, 0.01)
    flying = jaxcfa.add_thrusters(base, model.body_names[0], force=(0, 0, 1.0))
    with pytest.raises(ValueError, match='or by its actuators: actuated="actuators"'):
        oc.RobotDynamics(flying, 0.01)
    stage = oc.Stage(oc.RobotDynamics(model, 0.01), jnp.zeros(21), jnp.zeros(10), jnp.asarray(0))
    with pytest.raises(ValueError, match="RobotInverseDynamics"):
        oc.ContactForce("left_foot")(stage)
    x0 = jaxcfa.neutral(model), jnp.zeros(model.nv)
    with pytest.raises(ValueError, match="FDDP"):
        oc.solve(oc.Problem(dynamics, 3, [oc.Cost(oc.Velocity())]), x0, solver=oc.FDDP())
    with pytest.raises(ValueError, match="during"):
        oc.Cost(oc.Velocity(), during=[(0, 1), (2,)])
