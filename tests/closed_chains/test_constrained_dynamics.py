"""Dynamics of mechanisms with loops, against dense linear algebra with Jacobians by differentiation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import jaxcfa
from helpers import assert_close, cast, second_derivatives
from jaxcfa import ModelBuilder, Transform
from jaxcfa.closed_chains import (
    AbstractFrameConstraint,
    Baumgarte,
    Connect,
    ConstraintStatus,
    Direct,
    JointCoupling,
    LeastNorm,
    Proximal,
    connect,
    constrained_forward_dynamics,
    constrained_inverse_dynamics,
    couple,
    distance,
    impulse,
    loop_joint,
    project_configuration,
    project_velocity,
    weld,
)
from jaxcfa.joints import Cylindrical, Fixed, Free, Helical, Planar, Prismatic, Revolute, Spherical, Universal
from jaxcfa.structured import Doubling
from loops import NAMES, closed, loop


def residuals(model, constraints, q):
    """Of all constraints, from forward kinematics."""
    pose = jaxcfa.forward_kinematics(model, q)

    def body(i):
        return pose[i] if i >= 0 else Transform.identity(pose.translation.dtype)

    def position(i):
        return q[model.topology.q_starts[i]] if i >= 0 else jnp.zeros((), q.dtype)

    def one(c):
        if isinstance(c, JointCoupling):
            return c.residual(position(c.joint), position(c.reference))[None]
        return c.residual(body(c.body1), body(c.body2))

    return jnp.concatenate([one(c) for c in constraints])


def reference(model, constraints, q, v):
    """Mass matrix, bias forces, Jacobian of the constraints and its derivative along the motion."""

    def moved(dq):
        return residuals(model, constraints, jaxcfa.integrate(model, q, dq))

    def along(t):
        return jax.jvp(moved, (t * v,), (v,))[1]

    zero = jnp.zeros(())
    bias = jax.jvp(along, (zero,), (jnp.ones(()),))[1]
    matrix, forces = jaxcfa.mass_matrix(model, q), jaxcfa.bias_forces(model, q, v)
    return matrix, forces, jax.jacfwd(moved)(jnp.zeros_like(v)), bias


@jax.jit
def accelerations(model, constraints, q, v, tau):
    found = constrained_forward_dynamics(model, constraints, q, v, tau)
    numbers = np.array([(getattr(c, "body1", -1), getattr(c, "body2", -1)) for c in constraints])
    wrenches = jnp.zeros((model.nb + 1, 6)).at[numbers].add(found.wrenches)[:-1]
    return reference(model, constraints, q, v), found, jaxcfa.generalized_forces(model, q, wrenches)


@jax.jit
def others(model, constraints, q, v, tau, qdd, before):
    return (
        constrained_forward_dynamics(model, constraints, q, v, tau, solver=Proximal()),
        constrained_inverse_dynamics(model, constraints, q, v, qdd),
        impulse(model, constraints, q, before, 0.3),
    )


def dense(reference, tau):
    """Accelerations, and multipliers of least norm."""
    matrix, bias, jacobian, drift = map(np.asarray, reference)
    mobility = np.linalg.solve(matrix, jacobian.T)
    free = np.linalg.solve(matrix, tau - bias)
    multipliers = np.linalg.lstsq(jacobian @ mobility, -drift - jacobian @ free, rcond=1e-10)[0]
    return free + mobility @ multipliers, multipliers


@pytest.mark.parametrize("name", NAMES)
def test_accelerations_and_forces(name):
    (model, constraints, _, mobility, redundant), (q, v, tau) = loop(name)
    ours, found, forces = accelerations(model, constraints, q, v, tau)
    matrix, bias, jacobian, drift = map(np.asarray, ours)

    # The mechanism is what its name says.
    assert np.linalg.matrix_rank(jacobian, tol=1e-7) == len(jacobian) - redundant == model.nv - mobility
    assert np.max(np.abs(jacobian @ v)) < 1e-12

    qdd, multipliers = dense(ours, tau)
    assert_close(found.qdd, qdd, 1e-9)
    assert_close(found.multipliers, multipliers, 1e-9)
    assert_close(jacobian @ found.qdd + drift, np.zeros(len(jacobian)), 1e-9)
    assert found.residual < 1e-9
    assert ConstraintStatus(int(found.status)) == ConstraintStatus.OK
    assert_close(found.joint_forces, jacobian.T @ multipliers)
    assert_close(matrix @ found.qdd + bias, tau + found.joint_forces)
    # As external wrenches on the bodies they are the same forces, but for couplings, which have none.
    if not any(isinstance(c, JointCoupling) for c in constraints):
        assert_close(forces, found.joint_forces)


@pytest.mark.parametrize("name", ["welded twice", "leg"])
def test_other_functions(name):
    (model, constraints, *_), (q, v, tau) = loop(name)
    before = np.linspace(-1.0, 1.0, model.nv)
    ours, found, _ = accelerations(model, constraints, q, v, tau)
    matrix, bias, jacobian, _ = map(np.asarray, ours)
    proximal, torques, impact = others(model, constraints, q, v, tau, found.qdd, before)

    # Both solvers are held to the same motion; what is left in internal forces is the price of the iteration.
    assert_close(proximal.qdd, found.qdd, 1e-9)
    assert_close(proximal.multipliers, found.multipliers, 1e-6)

    # Of all torques that do the same those that do not work against the constraints are the smallest.
    assert_close(matrix @ found.qdd + bias, torques.tau + jacobian.T @ torques.multipliers)
    assert_close(jacobian @ torques.tau, np.zeros(len(jacobian)))

    assert_close(jacobian @ impact.v, -0.3 * jacobian @ before)
    assert_close(matrix @ (impact.v - before), jacobian.T @ impact.multipliers)


def test_direct_solver_and_schedules():
    (model, constraints, *_), (q, v, tau) = loop("spatial four-bar")
    f_ext = np.ones((model.nb, 6))

    @jax.jit
    def run(q, v, tau, f_ext):
        return [
            constrained_forward_dynamics(model, constraints, q, v, tau, f_ext, *options)
            for options in ((LeastNorm(),), (Direct(),), (Direct(), None, Doubling()))
        ]

    expected, *others = run(q, v, tau, f_ext)
    for found in others:
        assert_close(
            (found.qdd, found.multipliers, found.wrenches), (expected.qdd, expected.multipliers, expected.wrenches)
        )


def test_without_constraints_it_is_forward_dynamics():
    model = jaxcfa.chain(3, dtype="float64")
    state = np.array([0.1, 0.2, 0.3]), np.ones(3), np.array([1.0, -1.0, 0.5])
    found = constrained_forward_dynamics(model, (), *state)
    assert_close(found.qdd, jaxcfa.forward_dynamics(model, *state))
    assert found.multipliers.shape == (0,)
    assert found.status == ConstraintStatus.OK
    found = constrained_forward_dynamics(model, (), *state[:2], np.nan * state[2])
    assert found.status == ConstraintStatus.NOT_FINITE


JOINTS = {
    "fixed": Fixed(),
    "revolute": Revolute((0.6, 0.0, 0.8)),
    "prismatic": Prismatic((0.0, -0.6, 0.8)),
    "helical": Helical((0.6, 0.8, 0.0), 0.3),
    "cylindrical": Cylindrical((0.0, 0.6, 0.8)),
    "planar": Planar((0.6, 0.0, 0.8)),
    "spherical": Spherical(),
    "universal": Universal((1.0, 0.0, 0.0), (0.0, 0.6, 0.8)),
}


@pytest.mark.parametrize("name", JOINTS)
def test_loop_joints_are_joints(name):
    """A free body held by a loop joint to a moving one accelerates as it does in a tree with that joint."""
    joint = JOINTS[name]
    builder = ModelBuilder()
    solid = {"mass": 1.5, "com": (0.1, -0.2, 0.05), "inertia": (0.02, 0.03, 0.04)}
    base = builder.add_body("base", None, Revolute((0, 1, 0)), **solid)
    placement = np.asarray(Transform(jnp.eye(3), jnp.array([0.3, 0.1, 0.2])).as_matrix())
    builder.add_frame("socket", "base", placement)
    tree_builder = ModelBuilder()
    tree_builder.add_body("base", None, Revolute((0, 1, 0)), **solid)
    tree_builder.add_body("body", base, joint, placement, **solid)
    builder.add_body("body", None, Free(), **solid)
    tree, cut = tree_builder.build(dtype="float64"), builder.build(dtype="float64")
    constraint = loop_joint(cut, "socket", "body", joint)

    @jax.jit
    def run(q, v, tau):
        qdd = jaxcfa.forward_dynamics(tree, q, v, tau)
        pose = jaxcfa.frame_pose(tree, q, "body")
        twist = jaxcfa.jacobian(tree, q, "body") @ v
        acceleration = jaxcfa.jacobian(tree, q, "body") @ qdd + jaxcfa.jacobian_dot_v(tree, q, v, "body")
        quaternion = jaxcfa.spatial.matrix_to_quaternion(pose.rotation)
        cut_q = jnp.concatenate([q[:1], pose.translation, quaternion])
        cut_v = jnp.concatenate([v[:1], twist[3:], pose.rotation.T @ twist[:3]])
        found = constrained_forward_dynamics(cut, constraint, cut_q, cut_v, jnp.zeros(7).at[0].set(tau[0]))
        return (qdd[0], acceleration), found, jaxcfa.body_accelerations(cut, cut_q, cut_v, found.qdd)[1]

    q = np.asarray(jaxcfa.random_configuration(tree, jax.random.key(5)))
    v = np.linspace(0.5, -1.0, tree.nv)
    # Torques at the base only: nothing drives the joint.
    (base_qdd, acceleration), found, found_acceleration = run(q, v, np.eye(1, tree.nv)[0])
    assert_close((found.motion.residual, found.motion.rate), (0 * found.motion.residual,) * 2, 1e-12)
    assert_close(found.qdd[0], base_qdd, 1e-9)
    assert_close(found_acceleration, acceleration, 1e-9)


class OnParaboloid(AbstractFrameConstraint):
    """The origin of body 2 stays on a bowl that is fixed to body 1."""

    body1: int = eqx.field(static=True)
    body2: int = eqx.field(static=True)
    curvature: Array
    name: str = eqx.field(static=True, default="bowl")

    def residual(self, body1: Transform, body2: Transform):
        x, y, z = body1.rotation.T @ (body2.translation - body1.translation)
        return (z - 0.5 * self.curvature * (x**2 + y**2))[None]


def test_own_constraints():
    """A residual is all that a new kind of constraint needs: a particle in a bowl swings as its curvature says."""
    builder = ModelBuilder()
    builder.add_body("particle", None, Free(), mass=2.0, inertia=0.1)
    model = builder.build(gravity=(0.0, 0.0, -9.81), dtype="float64")
    bowl = OnParaboloid(-1, 0, jnp.asarray(3.0))
    q = np.array([0.1, 0.0, 0.5 * 3.0 * 0.01, 1.0, 0.0, 0.0, 0.0])
    found = constrained_forward_dynamics(model, bowl, q, np.zeros(6), np.zeros(6))
    slope = 0.3
    along = -9.81 * slope / (1 + slope**2)
    assert_close(found.qdd[:3], along * np.array([1.0, 0.0, slope]), 1e-12)
    assert_close(found.wrenches[0, 1, 3:], 2.0 * (found.qdd[:3] + np.array([0.0, 0.0, 9.81])), 1e-12)


@pytest.mark.parametrize("name", ["four-bar", "spatial four-bar"])
def test_derivatives(name):
    """Closing the loop, velocities, accelerations and forces, also internal ones, all in one differentiable chain."""
    (model, constraints, *_), (q, v, tau) = loop(name)

    def value(x):
        heavier = eqx.tree_at(lambda m: (m.mass, m.com), model, (model.mass * (1 + x[0]), model.com * (1 - x[1])))
        closed = project_configuration(heavier, constraints, jaxcfa.integrate(heavier, q, x[2] * v))
        moving = project_velocity(heavier, constraints, closed.q, v * (1 + x[3]))
        found = constrained_forward_dynamics(heavier, constraints, closed.q, moving, tau * (1 + x[4]))
        return jnp.concatenate([found.qdd, found.multipliers, found.wrenches.reshape(-1), found.joint_forces])

    @jax.jit
    def slopes(weights):
        zero, step = jnp.zeros(5), 1e-5 * jnp.eye(5)
        forward = jax.jacfwd(value)(zero)
        reverse = jax.grad(lambda x: value(x) @ weights)(zero)
        differences = jax.lax.map(lambda dx: (value(dx) - value(-dx)) / 2e-5, step)
        return forward, reverse, differences.T

    weights = np.linspace(-1.0, 2.0, jax.eval_shape(value, jnp.zeros(5)).shape[0])
    forward, reverse, differences = slopes(weights)
    assert_close(forward, differences, 1e-7)
    assert_close(reverse, weights @ forward, 1e-10)


def test_derivatives_by_one_argument_at_a_time():
    """What stays fixed has tangents that JAX knows to be zero, which not all of its rules accept."""
    (model, constraints, *_), (q, v, tau) = loop("four-bar by points")

    def values(tau, v, restitution):
        return (
            jnp.sum(constrained_forward_dynamics(model, constraints, q, v, tau).qdd ** 2),
            jnp.sum(project_velocity(model, constraints, q, v) ** 2),
            jnp.sum(impulse(model, constraints, q, v + 1.0, restitution).v ** 2),
        )

    @jax.jit
    def slopes(tau, v):
        along = jnp.arange(1.0, 4.0)
        reverse = (
            jax.grad(lambda tau: values(tau, v, 0.5)[0])(tau) @ along,
            jax.grad(lambda v: values(tau, v, 0.5)[1])(v) @ along,
            jax.grad(lambda restitution: values(tau, v, restitution)[2])(0.5),
        )
        forward = (
            jax.jvp(lambda t: values(tau + t * along, v, 0.5)[0], (0.0,), (1.0,))[1],
            jax.jvp(lambda t: values(tau, v + t * along, 0.5)[1], (0.0,), (1.0,))[1],
            jax.jvp(lambda t: values(tau, v, 0.5 + t)[2], (0.0,), (1.0,))[1],
        )
        return reverse, forward

    assert_close(*slopes(tau, v), 1e-10)
    # All orders of second derivatives can be had, too.
    jax.eval_shape(lambda tau: second_derivatives(lambda tau: values(tau, v, 0.5)[0], tau, v), tau)


def test_precisions_may_be_mixed():
    """Everything is done in the widest type."""
    (model, constraints, *_), (q, v, tau) = loop("four-bar by points")
    single = cast((model, constraints), np.float32)
    found = constrained_forward_dynamics(*single, q, v, tau)
    assert found.qdd.dtype == np.float64
    assert_close(found.qdd, constrained_forward_dynamics(model, constraints, q, v, tau).qdd, 1e-5)
    assert project_velocity(*single, q, v).dtype == np.float64


def test_small_mechanisms_in_single_precision():
    """A mechanism of a millimetre is not closed because its gaps are short."""
    (model, constraints, *_), (q, _, _) = loop("four-bar by points")
    size = 1e-3
    small, pins = cast(
        (
            eqx.tree_at(
                lambda m: (m.placement.translation, m.com, m.inertia),
                model,
                (model.placement.translation * size, model.com * size, model.inertia * size**2),
            ),
            eqx.tree_at(lambda c: (c[0].point1, c[0].point2), constraints, replace_fn=lambda x: x * size),
        ),
        np.float32,
    )
    moved = (q + np.array([0.0, 0.0, 0.02])).astype(np.float32)
    zero = np.zeros(3, np.float32)
    found = constrained_forward_dynamics(small, pins, moved, zero, zero)
    assert ConstraintStatus.OPEN in ConstraintStatus(int(found.status))
    closed = project_configuration(small, pins, moved)
    assert np.max(np.abs(closed.residual)) < 1e-4 * size


def test_axes_must_point_the_same_way():
    """A hinge with its pin upside down is open."""
    builder = ModelBuilder()
    builder.add_body("lid", None, Free(), mass=1.0, inertia=0.1)
    model = builder.build(dtype="float64")
    hinge = loop_joint(model, -1, "lid", Revolute((0, 0, 1)))
    upside_down = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0])
    still = np.zeros(6)
    found = constrained_forward_dynamics(model, hinge, upside_down, still, still)
    assert ConstraintStatus.OPEN in ConstraintStatus(int(found.status))
    tilted = np.array([0.0, 0.0, 0.0, 0.3, 0.9, 0.1, 0.0])
    turned = project_configuration(model, hinge, tilted).q
    assert_close(jaxcfa.frame_pose(model, turned, "lid").rotation[:, 2], np.array([0.0, 0.0, 1.0]), 1e-9)


def test_batches_and_single_precision():
    (model, constraints, *_), (q, v, tau) = loop("four-bar")
    single = cast((model, constraints), np.float32)

    @jax.jit
    def run(q, v, tau):
        return jax.vmap(lambda *x: constrained_forward_dynamics(*single, *x))(q, v, tau)

    factors = np.array([1.0, 0.5, -2.0])
    states = [np.broadcast_to(q, (3, 3)), factors[:, None] * v, factors[:, None] * tau]
    found = run(*(x.astype(np.float32) for x in states))
    assert found.qdd.dtype == found.multipliers.dtype == np.float32
    expected = [constrained_forward_dynamics(model, constraints, *x) for x in zip(*states, strict=True)]
    assert_close(found.qdd, np.stack([x.qdd for x in expected]), 2e-4)
    assert_close(found.multipliers, np.stack([x.multipliers for x in expected]), 2e-4)
    assert np.all(found.status == 0)
    states[2] = states[2] * np.array([1.0, np.nan, 1.0])[:, None]
    found = run(*(x.astype(np.float32) for x in states))
    assert np.array_equal(np.any(np.isnan(found.qdd), axis=1), [False, True, False])
    assert np.array_equal(found.status == 0, [True, False, True])


def test_what_is_not_finite_is_never_said_to_be_right():
    """Where nothing has inertia, which cannot be seen while the model is traced, and where NaN is given."""
    (model, constraints, *_), (q, v, tau) = loop("welded twice")
    massless = eqx.tree_at(lambda m: (m.mass, m.inertia), model, replace_fn=jnp.zeros_like)
    _, found, _ = accelerations(massless, constraints, q, v, tau)
    proximal, _, impact = others(massless, constraints, q, v, tau, v, v)
    for result in (found, proximal, impact):
        assert not np.any(np.isfinite(result.multipliers))
        status = ConstraintStatus(int(result.status))
        assert ConstraintStatus.NOT_FINITE | ConstraintStatus.UNSATISFIED in status
        assert ConstraintStatus.OPEN not in status
    projected, _ = closed(massless, constraints, q, v)
    assert not projected.closed

    _, torques, impact = others(model, constraints, q, v, tau, v * np.nan, v)
    assert np.all(np.isnan(torques.tau))
    assert np.isnan(torques.residual)
    assert impact.status == ConstraintStatus.OK


def test_stabilization():
    """Residuals obey the equation of a damped oscillator."""
    (model, constraints, *_), (q, v, tau) = loop("four-bar by points")
    off = np.array([0.01, -0.02, 0.015])
    found = constrained_forward_dynamics(model, constraints, q + off, v + off, tau, stabilization=Baumgarte(20.0, 0.7))
    motion = found.motion
    # But for the direction out of the plane, in which nothing moves.
    assert_close(motion.acceleration, -2 * 0.7 * 20.0 * motion.rate - 20.0**2 * motion.residual, 1e-9)
    assert found.residual < 1e-9
    assert ConstraintStatus(int(found.status)) == ConstraintStatus.OPEN | ConstraintStatus.MOVING


def test_contradictions_are_reported():
    """Two rods that pull a slider with different accelerations."""
    builder = ModelBuilder()
    builder.add_body("slider", None, Prismatic((1, 0, 0)), mass=1.0)
    builder.add_body("other", None, Prismatic((1, 0, 0)), mass=1.0)
    model = builder.build(dtype="float64")
    both = couple(model, 0, 1, (0.0, 1.0)), couple(model, 0, 1, (0.0, 1.0, 1.0))
    found = constrained_forward_dynamics(model, both, np.zeros(2), np.ones(2), np.ones(2))
    assert ConstraintStatus(int(found.status)) == ConstraintStatus.UNSATISFIED
    assert found.residual > 0.1


def test_impacts():
    """A falling rod is caught at its end; momentum and energy by hand."""
    builder = ModelBuilder()
    builder.add_body("rod", None, Free(), mass=2.0, com=(0.5, 0.0, 0.0), inertia=(0.01, 2.0 / 12, 2.0 / 12))
    model = builder.build(gravity=(0, 0, 0), dtype="float64")
    q, v = jaxcfa.neutral(model), np.array([0.0, 0.0, -3.0, 0.0, 0.0, 0.0])
    pin = connect(model, -1, "rod")
    found = impulse(model, pin, q, v)
    # Angular momentum about the pin is kept: 2 * 3 * 0.5 = (2 / 3) w about y.
    assert_close(found.v, np.array([0.0, 0.0, 0.0, 0.0, 4.5, 0.0]), 1e-12)
    assert_close(found.multipliers, np.array([0.0, 0.0, 2.0 * (3.0 - 0.5 * 4.5)]), 1e-12)
    assert_close(found.wrenches[0, 1, 3:], found.multipliers, 1e-12)
    elastic = impulse(model, pin, q, v, restitution=1.0)
    assert_close(jaxcfa.kinetic_energy(model, q, elastic.v), jaxcfa.kinetic_energy(model, q, v), 1e-12)


def test_inverse_dynamics_with_few_actuators():
    """The crank alone moves a four-bar; nothing moves a rod that falls."""
    (model, constraints, *_), (q, v, tau) = loop("four-bar")
    qdd = constrained_forward_dynamics(model, constraints, q, v, tau).qdd
    found = constrained_inverse_dynamics(model, constraints, q, v, qdd, actuated=["bar0_joint"])
    assert found.residual < 1e-10
    assert np.all(found.tau[1:] == 0)
    assert_close(constrained_forward_dynamics(model, constraints, q, v, found.tau).qdd, qdd)
    none = constrained_inverse_dynamics(model, (), q, v, qdd + 1.0, actuated=[0])
    assert none.residual > 0.01


@pytest.fixture(scope="module")
def model():
    return loop("welded twice")[0].model


class TestErrors:
    def test_singular_matrix(self):
        (model, constraints, *_), state = loop("four-bar")
        with pytest.raises(ValueError, match="is singular: constraints repeat one another"):
            constrained_forward_dynamics(model, constraints, *state, solver=Direct())
        with pytest.raises(ValueError, match="is singular: constraints repeat one another"):
            impulse(model, constraints, *state[:2], solver=Direct())
        traced = jax.jit(lambda *x: constrained_forward_dynamics(model, constraints, *x, solver=Direct()))(*state)
        assert ConstraintStatus.SINGULAR in ConstraintStatus(int(traced.status))

    def test_names_and_bodies(self, model):
        with pytest.raises(ValueError, match="No frame or body named 'nowhere'"):
            weld(model, "left end", "nowhere")
        with pytest.raises(ValueError, match="belong to the same body"):
            connect(model, "left end", "left grip")
        with pytest.raises(ValueError, match="length must be one positive number, got 0"):
            distance(model, "left end", "right end", 0.0)
        with pytest.raises(ValueError, match="No joint named 'elbow'"):
            couple(model, "elbow", None, [1.0])
        with pytest.raises(ValueError, match="cannot be coupled with itself"):
            couple(model, 0, 0, [1.0])
        with pytest.raises(ValueError, match="Only joints of one degree of freedom"):
            couple(loop("spatial four-bar")[0].model, "coupler_joint", None, [1.0])

    def test_loop_joints(self, model):
        with pytest.raises(ValueError, match="either joint or free"):
            loop_joint(model, "left end", "right end")
        with pytest.raises(ValueError, match="constrains nothing"):
            loop_joint(model, "left end", "right end", free=[True] * 6)
        with pytest.raises(ValueError, match="6 booleans"):
            loop_joint(model, "left end", "right end", free=[True] * 3)
        with pytest.raises(ValueError, match="A loop can be closed by a joint that is"):
            loop_joint(model, "left end", "right end", Free())
        with pytest.raises(ValueError, match="must be perpendicular"):
            loop_joint(model, "left end", "right end", Universal((1, 0, 0), (1, 1, 0)))

    def test_arguments(self, model):
        constraint = weld(model, "left end", "right end")
        with pytest.raises(ValueError, match=r"q must have shape \(nq,\) = \(14,\), got \(3,\)"):
            constrained_forward_dynamics(model, constraint, np.zeros(3), np.zeros(14), np.zeros(14))
        with pytest.raises(ValueError, match="Was it made for another model"):
            project_velocity(jaxcfa.chain(3, dtype="float64"), constraint, np.zeros(3), np.zeros(3))
        point, still = jnp.zeros(3), np.zeros(14)
        wrong = {
            "relates number 0 to itself": Connect(0, 0, point, point),
            "functions are for one mechanism": Connect(-1, 0, jnp.zeros((2, 3)), jnp.zeros((2, 3))),
            "only reference can be -1": JointCoupling(-1, 0, jnp.zeros(2), jnp.zeros(()), jnp.zeros(())),
        }
        for message, mistaken in wrong.items():
            with pytest.raises(ValueError, match=message):
                project_velocity(model, mistaken, still, still)
        with pytest.raises(ValueError, match="restitution must be one number"):
            impulse(model, constraint, still, still, np.zeros(2))
        with pytest.raises(ValueError, match="tolerance must be positive"):
            project_configuration(model, constraint, np.zeros(14), -1.0)
        for solver in (LeastNorm, Proximal):
            with pytest.raises(ValueError, match="must be"):
                solver(-1.0)

    def test_loops_that_cannot_close(self):
        builder = ModelBuilder()
        builder.add_body("arm", None, Revolute((0, 1, 0)), mass=1.0, inertia=0.1)
        builder.add_frame("hand", "arm", (1.0, 0.0, 0.0))
        builder.add_frame("far", None, (3.0, 0.0, 0.0))
        model = builder.build(dtype="float64")
        reach = connect(model, "hand", "far", "reach")
        with pytest.raises(ValueError, match=r"cannot be closed .*Connect 'reach' is still off by 2 "):
            project_configuration(model, reach, np.array([0.5]))
        assert not jax.jit(lambda q: project_configuration(model, reach, q))(np.array([0.5])).closed
