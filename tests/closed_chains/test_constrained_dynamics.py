"""Dynamics of mechanisms with loops, against dense linear algebra with Jacobians by differentiation."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
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
from jaxcfa.closed_chains._checks import row_labels
from jaxcfa.joints import Cylindrical, Fixed, Free, Helical, Planar, Prismatic, Revolute, Spherical, Universal
from jaxcfa.structured import Doubling
from loops import all_loops, closed, loop, make, some_loops
from mujoco_models import mass_matrix


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


def reference(model, constraints, q, v, f_ext):
    """Mass matrix, bias forces, Jacobian of the constraints and its derivative along the motion."""

    def moved(dq):
        return residuals(model, constraints, jaxcfa.integrate(model, q, dq))

    jacobian, change = jax.jvp(jax.jacfwd(moved), (jnp.zeros_like(v),), (v,))
    return jaxcfa.mass_matrix(model, q), jaxcfa.bias_forces(model, q, v, f_ext), jacobian, change @ v


@jax.jit
def accelerations(model, constraints, q, v, tau, f_ext):
    found = constrained_forward_dynamics(model, constraints, q, v, tau, f_ext)
    numbers = np.array([(getattr(c, "body1", -1), getattr(c, "body2", -1)) for c in constraints])
    wrenches = jnp.zeros((model.nb + 1, 6)).at[numbers].add(found.wrenches)[:-1]
    return reference(model, constraints, q, v, f_ext), found, jaxcfa.generalized_forces(model, q, wrenches)


@jax.jit
def others(model, constraints, q, v, tau, f_ext, qdd, before):
    return (
        constrained_forward_dynamics(model, constraints, q, v, tau, f_ext, solver=Proximal()),
        constrained_inverse_dynamics(model, constraints, q, v, qdd, f_ext, actuated=False),
        impulse(model, constraints, q, before, 0.3),
    )


def wrenches_on(model):
    return np.random.default_rng(1).normal(size=(model.nb, 6))


@functools.cache
def solved():
    """Accelerations of all mechanisms, by one program."""
    model, _, state = all_loops()
    return accelerations(model, model.constraints, *state, wrenches_on(model))


def dense(reference, tau):
    """Accelerations, and multipliers of least norm."""
    matrix, bias, jacobian, drift = map(np.asarray, reference)
    mobility = np.linalg.solve(matrix, jacobian.T)
    free = np.linalg.solve(matrix, tau - bias)
    multipliers = np.linalg.lstsq(jacobian @ mobility, -drift - jacobian @ free, rcond=1e-10)[0]
    return free + mobility @ multipliers, multipliers


def own(part, together):
    """The part of one mechanism in `reference` of all."""
    matrix, bias, jacobian, drift = map(np.asarray, together)
    return matrix[part.v, part.v], bias[part.v], jacobian[part.rows, part.v], drift[part.rows]


@pytest.mark.slow
def test_accelerations_and_forces():
    _, parts, state = all_loops()
    together, all_found, all_forces = solved()
    for part in parts:
        name, (_, constraints, _, mobility, redundant), (_, v, tau) = part.name, part.loop, part.of(state)
        ours = matrix, bias, jacobian, drift = own(part, together)
        qdd, multipliers, joint_forces = (
            np.asarray(x)[rows]
            for x, rows in zip(
                (all_found.qdd, all_found.multipliers, all_found.joint_forces), (part.v, part.rows, part.v), strict=True
            )
        )

        # The mechanism is what its name says.
        rank = np.linalg.matrix_rank(jacobian, tol=1e-7)
        assert rank == len(jacobian) - redundant == part.loop.model.nv - mobility, name
        assert np.max(np.abs(jacobian @ v)) < 1e-12, name

        expected_qdd, expected_multipliers = dense(ours, tau)
        assert_close(qdd, expected_qdd, 1e-9, name)
        assert_close(multipliers, expected_multipliers, 1e-9, name)
        assert_close(jacobian @ qdd + drift, np.zeros(len(jacobian)), 1e-9, name)
        assert_close(joint_forces, jacobian.T @ expected_multipliers, what=name)
        assert_close(matrix @ qdd + bias, tau + joint_forces, what=name)
        # As external wrenches on the bodies they are the same forces, but for couplings, which have none.
        if not any(isinstance(c, JointCoupling) for c in constraints):
            assert_close(all_forces[part.v], joint_forces, what=name)
    assert all_found.residual < 1e-9
    assert ConstraintStatus(int(all_found.status)) == ConstraintStatus.OK


@pytest.mark.slow
def test_other_functions():
    model, parts, state = all_loops()
    together, found, _ = solved()
    before = np.linspace(-1.0, 1.0, model.nv)
    f_ext, qdd = wrenches_on(model), np.asarray(found.qdd)  # the types of another test, so that it is traced once
    proximal, torques, impact = others(model, model.constraints, *state, f_ext, qdd, before)
    for part in parts:
        name, v, rows = part.name, part.v, part.rows
        matrix, bias, jacobian, _ = own(part, together)

        # Both solvers are held to the same motion; what is left in internal forces is the price of the iteration.
        assert_close(proximal.qdd[v], found.qdd[v], 1e-9, name)
        assert_close(proximal.multipliers[rows], found.multipliers[rows], 1e-6, name)

        # Of all torques that do the same those that do not work against the constraints are the smallest.
        assert_close(matrix @ found.qdd[v] + bias, torques.tau[v] + jacobian.T @ torques.multipliers[rows], 1e-9, name)
        assert_close(jacobian @ torques.tau[v], np.zeros(len(jacobian)), 1e-9, name)

        assert_close(jacobian @ impact.v[v], -0.3 * jacobian @ before[v], 1e-9, name)
        assert_close(matrix @ (impact.v - before)[v], jacobian.T @ impact.multipliers[rows], 1e-9, name)


@pytest.mark.slow
def test_direct_solver_and_schedules():
    model, (part,), state = some_loops("spatial four-bar")
    everything, parts, _ = all_loops()
    (there,) = (x for x in parts if x.name == part.name)
    f_ext = wrenches_on(everything)[there.bodies]
    _, expected, _ = solved()

    @jax.jit
    def run(q, v, tau, f_ext):
        return [
            constrained_forward_dynamics(model, model.constraints, q, v, tau, f_ext, Direct(), None, schedule)
            for schedule in (None, Doubling())
        ]

    for found in run(*state, f_ext):
        assert_close(found.qdd, expected.qdd[there.v], 1e-9)
        assert_close(found.multipliers, expected.multipliers[there.rows], 1e-9)
        assert_close(found.joint_forces, expected.joint_forces[there.v], 1e-9)


def test_a_coupling_whose_dependent_joint_is_locked_holds_the_other():
    model = jaxcfa.chain(2, dtype="float64")
    first, second = model.joint_names
    model = dataclasses.replace(model, constraints=(couple(model, second, first, (0.1, 2.0)),))
    held = jaxcfa.lock_joints(model, second, [0.0, 0.5])
    (coupling,) = held.constraints
    assert (coupling.joint, coupling.reference) == (-1, 0)
    found = constrained_forward_dynamics(held, held.constraints, [0.2], [0.0], [3.0])
    assert found.status == ConstraintStatus.OK
    assert_close((found.qdd, found.residual), (np.zeros(1), 0.0), 1e-12)
    assert_close(found.joint_forces, jaxcfa.bias_forces(held, [0.2], [0.0]) - 3.0)


def test_joints_that_share_their_body_are_coupled_as_in_mujoco():
    inertial = '<inertial pos="0.1 0.2 0.3" mass="1" diaginertia="0.3 0.4 0.5"/>'
    text = f"""<mujoco><option><flag contact="disable"/></option><worldbody><body name="base">
      <joint name="x" type="slide" axis="1 0 0"/><joint type="ball"/><joint name="z" type="slide"/>{inertial}
      <body name="leg"><joint name="h1" axis="1 0 0"/><joint name="h2" axis="0 1 0"/>{inertial}
        <body pos="0 0 -1"><joint name="ankle"/>{inertial}</body></body></body></worldbody>
      <equality><joint joint1="h1" joint2="z" polycoef="0.3 0.5 2 0 0"/><joint joint1="h2" joint2="h1"/>
        <joint joint1="x" polycoef="0.2 0 0 0 0"/><joint joint1="ankle" joint2="h2" polycoef="0 -1 0 0 0"/></equality>
    </mujoco>"""
    model, mj = jaxcfa.load_model(text), mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(mj)
    data.qpos[:] = [0.1, 0.5, -0.5, 0.5, 0.5, 0.4, 0.7, -0.3, 0.2]
    data.qvel[:] = [0.3, -0.2, 0.5, 0.1, 0.6, -0.4, 0.2, 0.9]
    mujoco.mj_forward(mj, data)
    jacobian = data.efc_J.reshape(-1, mj.nv)[:4]
    system = np.block([[mass_matrix(mj, data), -jacobian.T], [jacobian, np.zeros((4, 4))]])
    drift = [-2 * 2 * data.qvel[4] ** 2, 0, 0, 0]
    expected = np.linalg.solve(system, np.concatenate([-data.qfrc_bias, np.negative(drift)]))
    found = constrained_forward_dynamics(model, model.constraints, data.qpos, data.qvel, np.zeros(mj.nv))
    assert_close(jnp.concatenate([found.qdd, found.multipliers]), expected, 1e-9)
    # The same by names, and where a leg is held or everything is larger.
    made = [
        couple(model, "h1", "z", (0.3, 0.5, 2.0, 0, 0), "equality0"),
        couple(model, "h2", "h1", (0, 1.0, 0, 0, 0), "equality1"),
        couple(model, "x", None, (0.2, 0, 0, 0, 0), "equality2"),
        couple(model, "ankle", "h2", (0, -1.0, 0, 0, 0), "equality3"),
    ]
    assert eqx.tree_equal(tuple(made), model.constraints)
    rest = jaxcfa.lock_joints(model, "h1+h2", data.qpos).constraints
    assert [(c.joint, c.reference, c.reference_coordinate) for c in rest] == [(-1, 0, 4), (0, -1, 0), (1, -1, 0)]
    assert (rest[0].joint_offset, rest[2].reference_offset) == (-data.qpos[6], -data.qpos[7])
    larger = jaxcfa.scale(model, 2.0).constraints
    assert [c.coefficients[:3].tolist() for c in larger[:3]] == [[0.3, 0.25, 0.5], [0, 1, 0], [0.4, 0, 0]]
    with pytest.raises(ValueError, match=r"'h1.h2' has 2; of those in it, 'h1', 'h2', give one"):
        couple(model, "h1+h2", "z", [1.0])
    with pytest.raises(ValueError, match="'h2' cannot be coupled with itself"):
        couple(model, "h2", "h2", [1.0])
    wrong = dataclasses.replace(made[0], reference_coordinate=2)
    with pytest.raises(ValueError, match=r"couples coordinate 2 of joint 'x.*z', but only joints of one degree"):
        constrained_forward_dynamics(model, wrong, data.qpos, data.qvel, np.zeros(mj.nv))


@pytest.mark.compiled
def test_without_constraints_it_is_forward_dynamics():
    model = jaxcfa.chain(3, dtype="float64")
    state = np.array([0.1, 0.2, 0.3]), np.ones(3), np.array([1.0, -1.0, 0.5])
    found = constrained_forward_dynamics(model, (), *state)
    assert_close(found.qdd, jaxcfa.forward_dynamics(model, *state))
    assert found.multipliers.shape == (0,)
    assert found.status == ConstraintStatus.OK
    found = constrained_forward_dynamics(model, (), *state[:2], np.nan * state[2])
    assert found.status == ConstraintStatus.NOT_FINITE

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(0, None, None))
    def of_states(q, v, tau):
        found = [constrained_forward_dynamics(model, (), q, v, tau, solver=solver) for solver in (Direct(), Proximal())]
        hit = impulse(model, [], q, v)
        return [x.qdd for x in found], [hit.v, project_velocity(model, [], q, v)], [x.status for x in [*found, hit]]

    accelerations, velocities, status = of_states(state[0][None] * [[1.0], [2.0]], *state[1:])
    assert_close([x[0] for x in accelerations], [jaxcfa.forward_dynamics(model, *state)] * 2)
    assert_close(velocities, [np.ones((2, 3))] * 2)
    assert np.all(np.stack(status) == ConstraintStatus.OK)


def test_constraints_of_what_cannot_move():
    model, nothing = jaxcfa.chain(2, joint=Fixed(), dtype="float64"), jnp.zeros(0)
    found = constrained_forward_dynamics(model, weld(model, 0, 1), nothing, nothing, nothing)
    assert found.qdd.shape == (0,)
    assert_close(found.multipliers, np.zeros(6))
    assert found.status == ConstraintStatus.OPEN


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


@pytest.mark.slow
def test_loop_joints_are_joints():
    """A free body held by a loop joint to a moving one accelerates as it does in a tree with that joint."""
    closures = {name: functools.partial(loop_joint, joint=joint) for name, joint in JOINTS.items()}
    closures |= {"weld": weld, "connect": connect}
    joints = JOINTS | {"weld": Fixed(), "connect": Spherical()}
    solid = {"mass": 1.5, "com": (0.1, -0.2, 0.05), "inertia": (0.02, 0.03, 0.04)}
    placement = np.asarray(Transform(jnp.eye(3), jnp.array([0.3, 0.1, 0.2])).as_matrix())
    tree_builder, cut_builder = ModelBuilder(), ModelBuilder()
    for name, joint in joints.items():
        for builder in (tree_builder, cut_builder):
            builder.add_body(f"base {name}", None, Revolute((0, 1, 0)), **solid)
        tree_builder.add_body(name, f"base {name}", joint, placement, **solid)
        cut_builder.add_frame(f"socket {name}", f"base {name}", placement)
        cut_builder.add_body(name, None, Free(), **solid)
    tree, cut = tree_builder.build(dtype="float64"), cut_builder.build(dtype="float64")
    constraints = tuple(close(cut, f"socket {name}", name) for name, close in closures.items())
    # Bodies on fixed joints are merged with their bases.
    carriers, places = zip(*map(tree.locate, joints), strict=True)
    places = jax.tree.map(lambda *x: jnp.stack(x), *places)
    tree_bases, bases, bodies = (
        np.array([model.locate(prefix + name)[0] for name in joints])
        for model, prefix in ((tree, "base "), (cut, "base "), (cut, ""))
    )

    def of_frame(pose, twist, acceleration, place):
        """Pose, velocity and acceleration of a frame in a body, from those of the body."""
        angular, lever = twist[:3], pose.rotation @ place.translation
        inward = jnp.cross(angular, jnp.cross(angular, lever))
        return (
            pose @ place,
            twist.at[3:].add(jnp.cross(angular, lever)),
            acceleration.at[3:].add(jnp.cross(acceleration[:3], lever) + inward),
        )

    @jax.jit
    def run(q, v):
        dofs, cut_dofs = tree.topology.v_starts[tree_bases], cut.topology.v_starts[bases]
        # Torques at the bases only: nothing drives the joints.
        qdd = jaxcfa.forward_dynamics(tree, q, v, jnp.zeros(tree.nv).at[dofs].set(1.0))
        motion = (
            jaxcfa.forward_kinematics(tree, q),
            *(f(tree, q, v, *x) for f, x in ((jaxcfa.body_velocities, ()), (jaxcfa.body_accelerations, (qdd,)))),
        )
        carried = jax.tree.map(lambda x: x[np.array(carriers)], motion)
        pose, twist, acceleration = jax.vmap(of_frame)(*carried, places)
        quaternions = jax.vmap(jaxcfa.spatial.matrix_to_quaternion)(pose.rotation)
        spin = jax.vmap(lambda rotation, w: rotation.T @ w)(pose.rotation, twist[:, :3])
        angles = q[tree.topology.q_starts[tree_bases]][:, None]
        cut_q = jnp.concatenate([angles, pose.translation, quaternions], axis=1).reshape(-1)
        cut_v = jnp.concatenate([v[dofs][:, None], twist[:, 3:], spin], axis=1).reshape(-1)
        cut_tau = jnp.zeros(cut.nv).at[cut_dofs].set(1.0)
        found = constrained_forward_dynamics(cut, constraints, cut_q, cut_v, cut_tau)
        found_acceleration = jaxcfa.body_accelerations(cut, cut_q, cut_v, found.qdd)[bodies]
        return (qdd[dofs], acceleration), found, (found.qdd[cut_dofs], found_acceleration)

    q = np.asarray(jaxcfa.random_configuration(tree, jax.random.key(5)))
    v = np.concatenate([np.linspace(0.5, -1.0, 1 + joint.nv) for joint in joints.values()])
    (base_qdd, acceleration), found, (found_base_qdd, found_acceleration) = run(q, v)
    assert_close((found.motion.residual, found.motion.rate), (0 * found.motion.residual,) * 2, 1e-12)
    for i, name in enumerate(joints):
        assert_close(found_base_qdd[i], base_qdd[i], 1e-9, name)
        assert_close(found_acceleration[i], acceleration[i], 1e-9, name)


def test_loop_joints_are_made_of_joints_that_are_traced():
    """As those of a model are in compiled functions; with derivatives by their axes, also along z."""
    model = make("four-bar").model
    close = functools.partial(loop_joint, model, "ground", "bar end")
    hinge = Revolute((0, 0, 1))
    for joint in (*JOINTS.values(), hinge):
        found, expected = jax.jit(close)(joint), close(joint)
        assert_close((found.frame1, found.frame2), (expected.frame1, expected.frame2), 1e-12)
    own = jax.jit(lambda m: loop_joint(m, "ground", "bar end", m.joint("bar0_joint").joint).frame1)(model)
    assert_close(own, close(model.joint("bar0_joint").joint).frame1, 1e-12)
    plain = close(Fixed()).frame1.rotation
    assert_close(close(hinge).frame1.rotation, plain, 1e-15)

    def axis(t):
        tilted = eqx.tree_at(lambda joint: joint.axis, hinge, jnp.stack([t, 0.0, 1.0]))
        return close(tilted).frame1.rotation[:, 2]

    turned = jax.jacfwd(axis)(0.0)
    assert_close(turned, plain[:, 0], 1e-12)


def test_particles_on_a_parabola_and_a_circle():
    """A coupling and a distance in motion, by hand: signs of their accelerations by the motion and of their forces."""
    builder = ModelBuilder()
    for name in ("bead", "bob"):
        builder.add_body(f"{name} carriage", None, Prismatic((1, 0, 0)))
        builder.add_body(name, f"{name} carriage", Prismatic((0, 0, 1)), mass=2.0)
    model = builder.build(gravity=(0.0, 0.0, -9.81), dtype="float64")
    constraints = couple(model, 1, 0, (0.0, 0.0, 1.5)), distance(model, -1, "bob", 0.5)
    x, vx, circle, speed = 0.4, -1.2, 0.3, 2.0
    along, outward = np.array([np.cos(circle), np.sin(circle)]), np.array([np.sin(circle), -np.cos(circle)])
    q = np.array([x, 1.5 * x**2, *(0.5 * outward)])
    found = constrained_forward_dynamics(
        model, constraints, q, np.array([vx, 3 * x * vx, *(speed * along)]), np.zeros(4)
    )
    # z = 1.5 x^2, with the force of the constraint across the parabola.
    lift = (3 * vx**2 + 9.81) / (1 + (3 * x) ** 2)
    assert_close(found.qdd[:2], np.array([-3 * x * lift, lift - 9.81]), 1e-12)
    # The rod pulls against gravity and the centrifugal force.
    pull = 2.0 * (speed**2 / 0.5 + 9.81 * np.cos(circle))
    assert_close(found.qdd[2:], -9.81 * np.sin(circle) * along - speed**2 / 0.5 * outward, 1e-12)
    assert_close(found.multipliers, np.array([2.0 * lift, -pull]), 1e-12)
    assert_close(found.wrenches[1, 1, 3:], -pull * np.array([outward[0], 0.0, outward[1]]), 1e-12)


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


@pytest.mark.slow
def test_derivatives():
    """Closing the loop, velocities, accelerations and forces, also internal ones, all in one differentiable chain."""
    (model, constraints, *_), (q, v, tau) = loop("spatial four-bar")
    constraints = 2 * constraints  # of which a half is redundant

    def value(x):
        heavier = eqx.tree_at(lambda m: (m.mass, m.com), model, (model.mass * (1 + x[0]), model.com * (1 - x[1])))
        closed = project_configuration(heavier, constraints, jaxcfa.integrate(heavier, q, x[2] * v))
        moving = project_velocity(heavier, constraints, closed.q, v * (1 + x[3]))
        found = constrained_forward_dynamics(heavier, constraints, closed.q, moving, tau * (1 + x[4]))
        return jnp.concatenate([found.qdd, found.multipliers, found.wrenches.reshape(-1), found.joint_forces])

    direction = np.array([0.7, -1.3, 0.4, 1.1, -0.6])

    @jax.jit
    def with_slopes(points):
        """One program for values and derivatives, all at the same points, since it is compiling that takes time."""

        def at(x):
            y, forward = jax.linearize(value, x)
            reverse = jax.linear_transpose(forward, x)(jnp.linspace(-1.0, 2.0, len(y)))[0]
            return y, forward(direction), reverse

        return jax.lax.map(at, points)

    steps = 1e-5 * np.eye(5)
    y, forward, reverse = with_slopes(np.concatenate([np.zeros((1, 5)), steps, -steps]))
    by_differences = (y[1:6] - y[6:]) / 2e-5
    weights = np.linspace(-1.0, 2.0, y.shape[1])
    assert_close(forward[0], direction @ by_differences, 1e-7)
    assert_close(reverse[0], by_differences @ weights, 1e-7)
    assert_close(reverse[0] @ direction, forward[0] @ weights, 1e-10)


def slider(dtype="float64"):
    """On the x axis, with a post of height 0.6."""
    builder = ModelBuilder()
    builder.add_body("slider", None, Prismatic((1, 0, 0)), mass=2.0)
    builder.add_frame("post", None, (0.0, 0.0, 0.6))
    return builder.build(dtype=dtype)


def test_second_derivatives_of_projected_configurations():
    """A rod of length l holds a slider at `x = sqrt(l^2 - h^2)`."""
    model = slider()
    rod = distance(model, "post", "slider", 1.0)

    @jax.jit
    def slopes(length):
        def place(length):
            return project_configuration(model, eqx.tree_at(lambda c: c.length, rod, length), jnp.array([0.7])).q[0]

        slope, second = jax.linearize(jax.grad(place), length)
        return jnp.stack([place(length), slope, second(1.0), *jax.linear_transpose(second, length)(1.0)])

    second = -(0.6**2) / 0.8**3
    assert_close(slopes(jnp.array(1.0)), np.array([0.8, 1 / 0.8, second, second]), 1e-11)


def test_derivatives_of_internal_impulses():
    """A slider hits a rod of slope a and a wall at once: impulses `-p (a, 1) / (1 + a^2)` have the least norm."""
    model = slider()
    hit = distance(model, "post", "slider", 1.0), couple(model, 0, None, 0.8)

    @jax.jit
    def impulses_and_slopes(x):
        found, forward = jax.linearize(lambda x: impulse(model, hit, x[None], np.ones(1)).multipliers, x)
        return found, forward(1.0), jnp.stack([jax.linear_transpose(forward, x)(w)[0] for w in jnp.eye(2)])

    def expected(x):
        a = x  # over the length of one metre
        return -2.0 * jnp.stack([a, 1.0]) / (1 + a**2)

    x = jnp.array(0.8)
    slope = jax.jacfwd(expected)(x)
    assert_close(impulses_and_slopes(x), (expected(x), slope, slope), 1e-12)


@pytest.mark.slow
def test_second_derivatives_of_internal_forces():
    """Of a slider that is pushed against a rod of slope a and a wall, or hits them: `-p (a, 1) / (1 + a^2)`."""
    model = slider()
    held = distance(model, "post", "slider", 1.0), couple(model, 0, None, 0.8)
    weights, still, one = jnp.array([0.3, -1.7]), jnp.zeros(1), jnp.ones(1)

    def pushed(x):
        return weights @ constrained_forward_dynamics(model, held, x[None], still, one).multipliers

    def hit(x):
        return weights @ impulse(model, held, x[None], one).multipliers / 2

    def expected(x):
        return -weights @ jnp.stack([x, 1.0]) / (1 + x**2)

    x = jnp.array(0.8)
    found = jax.jit(lambda x: (jax.jacfwd(jax.grad(pushed))(x), jax.grad(jax.jacfwd(hit))(x)))(x)
    assert_close(found, (jax.grad(jax.grad(expected))(x),) * 2, 1e-8)


@pytest.mark.slow
def test_derivatives_by_one_argument_at_a_time():
    """What stays fixed has tangents that JAX knows to be zero, which not all of its rules accept."""
    (model, constraints, *_), (q, v, tau) = loop("four-bar")

    def values(tau, v):
        return (
            lambda q: jnp.sum(constrained_forward_dynamics(model, constraints, q, v, tau).qdd ** 2),
            lambda v: jnp.sum(project_velocity(model, constraints, q, v) ** 2),
            lambda restitution: jnp.sum(impulse(model, constraints, q, v + 1.0, restitution).v ** 2),
        )

    def both_modes(f, x, along):
        _, forward = jax.linearize(f, x)
        return forward(along), jnp.vdot(jax.linear_transpose(forward, x)(jnp.ones(()))[0], along)

    @jax.jit
    def slopes(tau, v):
        along = jnp.arange(1.0, 4.0)
        arguments = (jnp.asarray(q), v), (v, along), (jnp.array(0.5), jnp.ones(()))
        return tuple(zip(*(both_modes(f, *x) for f, x in zip(values(tau, v), arguments, strict=True)), strict=True))

    assert_close(*slopes(tau, v), 1e-10)


@pytest.mark.slow
def test_precisions_may_be_mixed():
    """Everything is done in the widest type."""
    (model, constraints, *_), (q, v, tau) = loop("four-bar")
    single = cast((model, constraints), np.float32)
    found = constrained_forward_dynamics(*single, q, v, tau)
    assert found.qdd.dtype == np.float64
    assert_close(found.qdd, constrained_forward_dynamics(model, constraints, q, v, tau).qdd, 1e-5)
    assert project_velocity(*single, q, v).dtype == np.float64


@jax.jit
def in_batches(model, constraints, q, v, tau):
    return jax.vmap(constrained_forward_dynamics, (None, None, 0, 0, 0))(model, constraints, q, v, tau)


def test_small_mechanisms_in_single_precision():
    """A mechanism of a millimetre is not closed because its gaps are short."""
    (model, constraints, *_), (q, _, _) = loop("four-bar")
    size = 1e-3
    small, pins = cast(
        (
            eqx.tree_at(
                lambda m: (m.placement.translation, m.com, m.inertia),
                model,
                (model.placement.translation * size, model.com * size, model.inertia * size**2),
            ),
            eqx.tree_at(
                lambda c: (c[0].frame1.translation, c[0].frame2.translation),
                constraints,
                replace_fn=lambda x: x * size,
            ),
        ),
        np.float32,
    )
    moved = (q + np.array([0.0, 0.0, 0.02])).astype(np.float32)
    zero = np.zeros((3, 3), np.float32)
    found = in_batches(small, pins, np.stack([moved] * 3), zero, zero)
    assert ConstraintStatus.OPEN in ConstraintStatus(int(found.status[0]))
    closed = project_configuration(small, pins, moved)
    assert np.max(np.abs(closed.residual[-3:])) < 1e-4 * size


def test_fingers_that_slide_are_open_by_parts_of_their_range():
    """Without one, by parts of a metre."""
    for upper, opens in ((0.04, True), (np.inf, False), (3.0, False)):
        builder = ModelBuilder()
        for i in range(2):
            builder.add_body(f"finger{i}", None, Prismatic((1, 0, 0)), mass=0.1, lower=0.0, upper=upper)
        model, still = builder.build(dtype="float64"), np.zeros(2)
        coupled = couple(model, 0, 1, (0.0, 1.0))
        for gap, status in ((1e-7, ConstraintStatus.OK), (2e-6, ConstraintStatus.OPEN if opens else 0)):
            found = constrained_forward_dynamics(model, coupled, np.array([0.02, 0.02 + gap]), still, still)
            assert found.status == status


def test_points_beside_an_axis_can_be_closed():
    """Of a gantry whose tool is a ten thousandth of a millimetre beside its only axis, and of a cam near its rest."""
    builder = ModelBuilder()
    for i, name in enumerate(("x", "y", "z")):
        builder.add_body(name, ("x", "y")[i - 1] if i else None, Prismatic(np.eye(3)[i]), mass=2.0, inertia=0.1)
    builder.add_body("yaw", "z", Revolute((0, 0, 1)), mass=1.0, inertia=0.1)
    builder.add_frame("tool", "yaw", (1e-7, 0.0, -0.2))
    gantry = builder.build()
    place = Transform(jnp.eye(3), jnp.array([1.234, 0.777, 0.913]))
    builder = ModelBuilder()
    builder.add_body("cam", None, Revolute((0, 0, 1)), mass=1.0, inertia=0.1)
    builder.add_body("follower", None, Prismatic((0, 0, 1)), mass=1.0)
    cam = builder.build()
    closures = (
        (gantry, connect(gantry, (-1, place), "tool"), np.array([0.1, 0.2, 0.3, 0.4])),
        (cam, couple(cam, "follower_joint", "cam_joint", (0.7, 0.0, 0.1)), np.array([1e-9, 0.75])),
    )
    for dtype in (np.float32, np.float64):
        for model, constraint, q in cast(closures, dtype):
            found = project_configuration(model, constraint, q)
            still = np.zeros(model.nv, dtype)
            assert constrained_forward_dynamics(model, constraint, found.q, still, still).status == ConstraintStatus.OK
            assert np.max(np.abs(found.residual)) < 10 * np.finfo(dtype).eps ** 0.75


def test_axes_must_point_the_same_way():
    """A hinge with its pin upside down is open."""
    builder = ModelBuilder()
    builder.add_body("lid", None, Free(), mass=1.0, inertia=0.1)
    model = builder.build(dtype="float64")
    hinge = loop_joint(model, -1, "lid", Revolute((0, 0, 1)))
    upside_down = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0])
    with pytest.raises(
        ValueError, match=r"constraint 0, a LoopJoint of the world and body 'lid', is still off by 3\.1"
    ):
        project_configuration(model, hinge, upside_down, max_iterations=1)
    arm = jaxcfa.chain(2)
    label = "constraint 0, a JointCoupling of joint 'joint1',"
    assert row_labels(arm, (couple(arm, "joint1", None, (0.0,)),)) == [label]
    tilted = np.array([0.0, 0.0, 0.0, 0.3, 0.9, 0.1, 0.0])
    turned = project_configuration(model, hinge, tilted).q
    assert_close(jaxcfa.frame_pose(model, turned, "lid").rotation[:, 2], np.array([0.0, 0.0, 1.0]), 1e-9)


def test_batches_and_single_precision():
    (model, constraints, *_), (q, v, tau) = loop("four-bar")
    single = cast((model, constraints), np.float32)
    factors = np.array([1.0, 0.5, -2.0])
    states = [np.broadcast_to(q, (3, 3)), factors[:, None] * v, factors[:, None] * tau]
    found = in_batches(*single, *(x.astype(np.float32) for x in states))
    assert found.qdd.dtype == found.multipliers.dtype == np.float32
    expected = [constrained_forward_dynamics(model, constraints, *x) for x in zip(*states, strict=True)]
    assert_close(found.qdd, np.stack([x.qdd for x in expected]), 2e-4)
    assert_close(found.multipliers, np.stack([x.multipliers for x in expected]), 2e-4)
    assert np.all(found.status == 0)
    states[2] = states[2] * np.array([1.0, np.nan, 1.0])[:, None]
    found = in_batches(*single, *(x.astype(np.float32) for x in states))
    assert np.array_equal(np.any(np.isnan(found.qdd), axis=1), [False, True, False])
    assert np.array_equal(found.status == 0, [True, False, True])


@pytest.mark.slow
def test_what_is_not_finite_is_never_said_to_be_right():
    """Where nothing has inertia, which cannot be seen while the model is traced, and where NaN is given."""
    model, _, (q, v, tau) = all_loops()
    constraints, f_ext = model.constraints, wrenches_on(model)
    massless = eqx.tree_at(lambda m: (m.mass, m.inertia), model, replace_fn=jnp.zeros_like)
    _, found, _ = accelerations(massless, constraints, q, v, tau, f_ext)
    proximal, _, impact = others(massless, constraints, q, v, tau, f_ext, v, v)
    for result in (found, proximal, impact):
        assert not np.any(np.isfinite(result.multipliers))
        status = ConstraintStatus(int(result.status))
        assert ConstraintStatus.NOT_FINITE | ConstraintStatus.UNSATISFIED in status
        assert ConstraintStatus.OPEN not in status
    projected, _ = closed(massless, constraints, q, v)
    assert not projected.closed

    _, torques, impact = others(model, constraints, q, v, tau, f_ext, v * np.nan, v)
    assert np.all(np.isnan(torques.tau))
    assert np.isnan(torques.residual)
    assert impact.status == ConstraintStatus.OK


def test_stabilization():
    """Residuals obey the equation of a damped oscillator; their rates and accelerations are those by differences."""
    model, constraints, *_ = make("four-bar by points")
    _, (q, v, tau) = loop("four-bar")
    off = np.array([0.01, -0.02, 0.015])

    def find(q, v):
        return constrained_forward_dynamics(model, constraints, q, v, tau, stabilization=Baumgarte(20.0, 0.7))

    found = find(q + off, v + off)
    motion = found.motion
    # But for the direction out of the plane, in which nothing moves.
    assert_close(motion.acceleration, -2 * 0.7 * 20.0 * motion.rate - 20.0**2 * motion.residual, 1e-9)
    assert found.residual < 1e-9
    assert ConstraintStatus(int(found.status)) == ConstraintStatus.OPEN | ConstraintStatus.MOVING

    h, qdd = 1e-5, found.qdd
    before, after = (find(q + off + t * (v + off) + t**2 / 2 * qdd, v + off + t * qdd).motion for t in (-h, h))
    assert_close((after.residual - before.residual) / (2 * h), motion.rate, 1e-8)
    assert_close((after.rate - before.rate) / (2 * h), motion.acceleration, 1e-8)


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


def test_nothing_drives_a_base_that_floats_unless_asked_for():
    """As in simulation and optimal control, in whose words it is said what is driven."""
    model = jaxcfa.chain(3, floating_base=True, dtype="float64")
    q, still, qdd = jaxcfa.neutral(model), np.zeros(8), np.ones(8)
    free = np.asarray(jaxcfa.inverse_dynamics(model, q, still, qdd))
    ways = {None: np.arange(8) >= 6, False: np.ones(8, bool), (model.joint_names[-1],): np.arange(8) == 7}
    for actuated, driven in ways.items():
        found = constrained_inverse_dynamics(model, (), q, still, qdd, actuated=actuated)
        assert_close(found.tau, np.where(driven, free, 0))
        assert_close(found.residual, np.max(np.where(driven, 0, np.abs(free))))
    for wrong in (True, "actuators", model.joint_names[-1], 1):
        with pytest.raises(ValueError, match=r"actuated must be a list of joints, .* or False for all joints"):
            constrained_inverse_dynamics(model, (), q, still, qdd, actuated=wrong)
    for wrong in ([], [1, 1]):
        with pytest.raises(ValueError, match="actuated must name one joint or more, each once"):
            constrained_inverse_dynamics(model, (), q, still, qdd, actuated=wrong)


@pytest.mark.parametrize("actuated", [None, ["bar0_joint"]])
def test_derivatives_of_inverse_dynamics(actuated):
    """By the configuration, also where loops are open then, and by masses, of several states at once."""
    (model, constraints, *_), (q, v, qdd) = loop("four-bar")  # of which some rows are redundant

    def cost(x):
        heavier = eqx.tree_at(lambda m: m.mass, model, model.mass * (1 + x[3]))
        found = constrained_inverse_dynamics(heavier, constraints, q + x[:3], v, qdd, actuated=actuated)
        return jnp.sum(found.tau**2) + jnp.sum(jnp.sin(found.multipliers)) + found.residual

    def derivatives(x):
        along = jnp.array([0.3, -0.7, 0.4, 0.5])
        return [jnp.vdot(jax.grad(cost)(x), along), *second_derivatives(cost, x, along)]

    step = 1e-5 * jnp.array([0.3, -0.7, 0.4, 0.5])
    costs, (slope, *curvatures) = jax.jit(lambda x: (jax.vmap(cost)(x), jax.vmap(derivatives)(x)))(
        jnp.stack([0 * step, step, -step])
    )
    assert_close(slope[0], (costs[1] - costs[2]) / 2e-5, 1e-7)
    assert_close(curvatures[:4], [curvatures[4]] * 4, 1e-6)


@pytest.fixture(scope="module")
def model():
    return make("welded twice").model


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
        with pytest.raises(ValueError, match=r"length must be positive and finite, got 0\.0\. Use connect"):
            distance(model, "left end", "right end", 0.0)
        for length in (np.inf, np.nan):
            with pytest.raises(ValueError, match=f"length must be positive and finite, got {length}"):
                distance(model, "left end", "right end", length)
        with pytest.raises(ValueError, match=r"coefficients must be one finite number or more, got \[0, nan\]"):
            couple(model, 0, 1, [0, np.nan])
        with pytest.raises(ValueError, match="No joint named 'elbow'"):
            couple(model, "elbow", None, [1.0])
        with pytest.raises(ValueError, match="None"):
            couple(model, None, 0, [1.0])
        with pytest.raises(ValueError, match="cannot be coupled with itself"):
            couple(model, 0, 0, [1.0])
        with pytest.raises(ValueError, match="Only joints of one degree of freedom"):
            couple(make("spatial four-bar").model, "coupler_joint", None, [1.0])

    def test_loop_joints(self, model):
        with pytest.raises(ValueError, match="either joint or free"):
            loop_joint(model, "left end", "right end")
        with pytest.raises(ValueError, match="constrains nothing"):
            loop_joint(model, "left end", "right end", free=[True] * 6)
        for free in ([True] * 3, 6):
            with pytest.raises(ValueError, match="6 booleans"):
                loop_joint(model, "left end", "right end", free=free)
        with pytest.raises(ValueError, match=r"joint must be a joint .* Write Revolute\(\.\.\.\)"):
            loop_joint(model, "left end", "right end", Revolute)
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
            "relates number -1 to itself": JointCoupling(-1, -1, jnp.zeros(2), jnp.zeros(()), jnp.zeros(())),
        }
        for message, mistaken in wrong.items():
            with pytest.raises(ValueError, match=message):
                project_velocity(model, mistaken, still, still)
        for wrong in (np.zeros(2), -0.5, np.nan):
            with pytest.raises(ValueError, match="restitution must be"):
                impulse(model, constraint, still, still, wrong)
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

    def test_stabilization(self):
        for message, wrong in {
            "frequency of .* must be positive and finite, got 0": (0.0,),
            "frequency of .* must be positive and finite, got nan": (jnp.nan,),
            "damping of .* must be finite and not negative, got -1": (20.0, -1.0),
            r"frequency of .* must be one number, got shape \(2,\)": (np.ones(2),),
        }.items():
            with pytest.raises(ValueError, match=message):
                Baumgarte(*wrong)
        assert Baumgarte(20.0, 0.0).damping == 0

    def test_only_singular_mass_matrices_are_called_so(self):
        """Not what comes with NaN, and not velocities so large that accelerations overflow."""
        model = slider()
        rod = distance(model, "post", "slider", 1.0)
        at, still = np.array([0.8]), np.zeros(1)
        assert np.isnan(constrained_forward_dynamics(_with_nan(model), rod, at, still, still).qdd[0])
        broken = eqx.tree_at(lambda c: c.length, rod, jnp.array(jnp.nan))
        assert np.isnan(constrained_forward_dynamics(model, broken, at, still, still, stabilization=Baumgarte(1.0)).qdd)
        with pytest.raises(ValueError, match="accelerations are too large for float64"):
            constrained_forward_dynamics(model, rod, at, np.array([1e200]), still)
        builder = ModelBuilder()
        builder.add_body("point", None, Revolute((0, 0, 1)), mass=1.0, com=(0.0, 0.0, 0.3))
        singular = builder.build(dtype="float64")
        with pytest.raises(ValueError, match="invertible mass matrix"):
            constrained_forward_dynamics(singular, couple(singular, 0, None, 0.0), still, still, still)


def _with_nan(model):
    return eqx.tree_at(lambda m: m.placement.translation, model, jnp.full((1, 3), jnp.nan))
