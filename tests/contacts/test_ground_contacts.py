"""Contacts with the ground, held to what mechanics says of balls and blocks, to MuJoCo, and to differences."""

import dataclasses
import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close, cast, second_derivatives
from jaxcfa import ground_contacts, joints
from jaxcfa.closed_chains import couple, project_velocity
from jaxcfa.contacts import AbstractSurface, FlatGround, Placed
from jaxcfa.simulation import RungeKutta4
from jaxcfa.viz._ground import surface_of

G = 9.81
MASS, RADIUS, SIDE = 2.0, 0.1, 0.4
STILL = jnp.zeros(6)
CORNERS = [[x, y, -SIDE / 4] for x in (-SIDE / 2, SIDE / 2) for y in (-SIDE / 2, SIDE / 2)]
DT = 2e-3
STICTION = jnp.array(1e-3)


def free_body(inertia=0.008):
    builder = jaxcfa.ModelBuilder()
    builder.add_body("body", joint=joints.Free(), mass=MASS, inertia=jnp.eye(3) * inertia)
    return builder.build()


def at(height):
    return jnp.array([0.0, 0.0, height, 1.0, 0.0, 0.0, 0.0])


def passive(t, q, v):
    return jnp.zeros_like(v)


def rolled(model, contacts, q, v, steps, dt=DT):
    return jaxcfa.rollout(model, q, v, passive, dt, steps=steps, contacts=contacts)


def test_a_spinning_ball_begins_to_roll():
    """Friction leaves the angular momentum about a point of the ground as it is: `w (1 + m r^2 / I)` becomes w."""
    model = free_body()
    contacts = ground_contacts(model, "body", radius=RADIUS, friction=0.3)
    end = rolled(model, contacts, at(RADIUS), STILL.at[4].set(7.0), 500).v[-1]
    spin = 7.0 / (1 + MASS * RADIUS**2 / 0.008)
    # It is pressed in by a millimetre.
    np.testing.assert_allclose([end[4], end[0]], [spin, spin * RADIUS], rtol=0.02)
    np.testing.assert_allclose(end[jnp.array([1, 2, 3, 5])], 0, atol=1e-6)


def test_a_block_slides_or_sticks_on_a_slope():
    """Above the angle of friction it accelerates, below it creeps by less than the stiction velocity."""
    angle = 0.4
    normal = jnp.array([-np.sin(angle), 0.0, np.cos(angle)])
    model = free_body(0.02)
    contacts = ground_contacts(model, ["body"] * 4, CORNERS, ground=FlatGround(2 * normal))
    q = jnp.concatenate([normal * SIDE / 4, jnp.array([np.cos(angle / 2), 0.0, -np.sin(angle / 2), 0.0])])

    @jax.jit
    @jax.vmap
    def ends(friction):
        return rolled(model, dataclasses.replace(contacts, friction=jnp.full(4, friction)), q, STILL, 300).v[-1]

    sliding, sticking = ends(jnp.array([0.2, 0.9])) @ jnp.array([-np.cos(angle), 0, -np.sin(angle), 0, 0, 0])
    expected = 300 * DT * G * (np.sin(angle) - 0.2 * np.cos(angle))
    np.testing.assert_allclose(sliding, expected, rtol=5e-3)
    assert 0 < sticking < 1e-4


def test_what_lies_still_is_held_up_by_springs():
    model = free_body(0.02)
    contacts = ground_contacts(model, ["body"] * 4, CORNERS, stiffness=[1e4, 1e4, 1e4, 1e4])
    # In long steps, too.
    motion = rolled(model, contacts, at(SIDE / 4 + 0.05), STILL, 100, dt=0.02)
    state = jaxcfa.contact_state(model, contacts, motion.q[-1], motion.v[-1])
    np.testing.assert_allclose(state.gap, -MASS * G / 4e4, rtol=1e-6)
    np.testing.assert_allclose(jnp.sum(state.force, 0), [0, 0, MASS * G], atol=1e-6)
    np.testing.assert_allclose(state.position[:, :2], np.array(CORNERS)[:, :2], atol=1e-9)
    np.testing.assert_allclose(state.normal, np.tile([0.0, 0.0, 1.0], (4, 1)))


@pytest.mark.parametrize(("dissipation", "rest"), [(0.0, 1.0), (0.1, 0.92)])
def test_a_ball_bounces(dissipation, rest):
    """With the coefficient of restitution of Hunt & Crossley's law, one without dissipation: in short steps."""
    model = free_body()
    contacts = ground_contacts(model, "body", radius=RADIUS, stiffness=1e4, dissipation=dissipation)
    motion = rolled(model, contacts, at(RADIUS), STILL.at[2].set(-1.0), 500, dt=1e-4)
    np.testing.assert_allclose(jnp.max(motion.v[:, 2]), rest, atol=0.02)


def test_long_steps_take_energy_from_a_bounce():
    """As the documents say, of the default stiffness without dissipation."""
    model = free_body()
    contacts = ground_contacts(model, "body", radius=RADIUS, dissipation=0.0)
    for dt, rest in ((1e-4, 0.99), (1e-3, 0.86), (5e-3, 0.47)):
        motion = rolled(model, contacts, at(RADIUS + 0.01), STILL.at[2].set(-1.0), 500, dt=dt)
        np.testing.assert_allclose(jnp.max(motion.v[:, 2]) / -jnp.min(motion.v[:, 2]), rest, atol=0.02)


class Waves(AbstractSurface):
    """A sine along x, of a height that can be differentiated."""

    height: jax.Array | float

    def distance(self, point):
        return point[2] - self.height * jnp.sin(3 * point[0])


def test_the_ground_can_be_any_surface():
    model = free_body()
    slope = ground_contacts(model, "body", radius=RADIUS, ground=FlatGround([1.0, 0.0, 2.0], [0.0, 0.0, 0.3]))
    same = ground_contacts(model, "body", radius=RADIUS, ground=lambda p: 2 * p[2] + p[0] - 0.6)
    found = [rolled(model, x, at(0.405), STILL, 10).q[-1] for x in (slope, same)]
    np.testing.assert_allclose(*found, rtol=1e-12)
    valley = ground_contacts(model, "body", radius=RADIUS, ground=Waves(0.1), friction=0.3)
    end = rolled(model, valley, at(0.2).at[0].set(-0.45), STILL, 1500)
    # It ends in the bottom of a valley, pressed in by a millimetre.
    np.testing.assert_allclose(end.q[-1, :3], [-np.pi / 6, 0, -0.1 + RADIUS], atol=0.06)
    assert_close(jaxcfa.contact_state(model, valley, end.q[-1], end.v[-1]).normal[0, 1], 0.0)


class Profile(AbstractSurface):
    """A ground whose height along x is a function, which is no array."""

    height: Callable

    def distance(self, point):
        return point[2] - self.height(point[0])


def test_grounds_may_hold_functions_and_be_made_in_compiled_functions():
    model = free_body()
    step = ground_contacts(model, "body", ground=Profile(jnp.cos))
    assert_close(jaxcfa.contact_state(model, step, at(3.0), STILL).gap, jnp.array([2.0]))
    one = jaxcfa.step(model, at(3.0), STILL, STILL, DT, contacts=step)
    assert_close(rolled(model, step, at(3.0), STILL, 1).q[-1], one[0], 1e-12)
    assert_close(surface_of(step.ground, np.zeros(3), 1.0).vertices[0], np.array([-1.0, -1.0, np.cos(1.0)]))
    normal = jnp.array([0.0, 0.0, 2.0])
    assert jax.jit(lambda point: FlatGround(normal).distance(point))(jnp.ones(3)) == 2


class Slope(eqx.Module):
    """A user's callable with an array."""

    steepness: jax.Array

    def __call__(self, point):
        return point[2] - self.steepness * point[0]


def test_contacts_are_made_in_compiled_functions_and_of_modules_with_arrays():
    model = free_body()

    @jax.jit
    def gap(steepness, friction):
        own = ground_contacts(model, "body", ground=Slope(steepness), friction=friction, stiction_velocity=STICTION)
        return jaxcfa.contact_state(model, own, at(1.0).at[0].set(0.5), STILL).gap[0]

    assert_close(gap(0.75, 1.0), (1 - 0.375) / 1.25)
    assert_close(jax.grad(gap)(0.0, 1.0), -0.5)


def test_sliding_is_that_of_mujoco():
    """A ball that slides, then rolls; contacts are as hard as MuJoCo's get."""
    xml = f"""<mujoco><option timestep="0.001" cone="elliptic" impratio="100" integrator="implicitfast"/><worldbody>
        <geom type="plane" size="9 9 1" friction="0.4" solref="0.002 1"/><body pos="0 0 {RADIUS}"><freejoint/>
        <geom size="{RADIUS}" mass="{MASS}" friction="0.4" solref="0.002 1"/></body></worldbody></mujoco>"""
    compiled = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(compiled)
    data.qvel[:] = [2.0, 0.5, 0, 3.0, 0, 0]
    model = free_body()
    np.testing.assert_allclose(compiled.body_inertia[1], model.inertia[0].diagonal())
    contacts = ground_contacts(model, "body", radius=RADIUS, friction=0.4, stiffness=1e6)
    motion = rolled(model, contacts, jnp.asarray(data.qpos), jnp.asarray(data.qvel), 500, dt=1e-3)
    mujoco.mj_step(compiled, data, 500)
    np.testing.assert_allclose(motion.q[-1, :3], data.qpos[:3], atol=5e-3)
    np.testing.assert_allclose(motion.v[-1, :3], data.qvel[:3], atol=1e-3)
    # The body's axes have turned by more than a turn, not by quite the same angles.
    np.testing.assert_allclose(*(np.linalg.norm(v[3:]) for v in (motion.v[-1], data.qvel)), rtol=5e-3)


def hopper():
    """A body on a leg of two links, with a foot in the ground, its state, torques, and contacts of foot and body."""
    builder = jaxcfa.ModelBuilder()
    body = builder.add_body("body", joint=joints.Free(), mass=3.0, inertia=jnp.eye(3) * 0.05)
    thigh = builder.add_body(
        "thigh", body, joints.Revolute([0, 1, 0]), mass=0.5, com=[0, 0, -0.1], inertia=jnp.eye(3) * 0.002, damping=0.1
    )
    builder.add_body(
        "shank", thigh, joints.Revolute([0, 1, 0]), placement=[0, 0, -0.2], mass=0.3, inertia=jnp.eye(3) * 0.001
    )
    model = builder.build()
    q = jnp.array([0.0, 0.0, 0.3495, 0.99, 0.02, 0.1, 0.03, 0.5, -1.0])
    v = jnp.array([0.3, -0.2, -0.3, 0.1, 0.2, -0.1, 0.4, -0.5])
    contacts = ground_contacts(model, ["shank", "body"], [[0, 0, -0.2], [0.1, 0, 0]], 0.02, stiffness=2e4, friction=0.5)
    q = q.at[3:7].divide(jnp.linalg.norm(q[3:7]))
    gap = jaxcfa.contact_state(model, contacts, q, v).gap[0]
    return model, q.at[2].add(-gap - 2e-3), v, jnp.arange(8.0) * 0.3 - 1, contacts


def test_a_step_obeys_the_equation_of_motion():
    """The change of momentum is that by impulses in the cones of friction, opposite to sliding."""
    model, q, v, tau, contacts = hopper()
    after = jaxcfa.step(model, q, v, tau, DT, contacts=contacts).v
    free = jaxcfa.step(model, q, v, tau, DT).v
    before = jaxcfa.contact_state(model, contacts, q, v)
    assert before.gap[0] < 0 < before.gap[1]
    heavier = jaxcfa.mass_matrix(model, q) + DT * jnp.diag(model.damping)
    # Impulses at the foot alone: six equations of the base give three unknowns.
    jacobian = jax.jacobian(lambda v: jaxcfa.contact_state(model, contacts, q, v).velocity[0])(v)
    impulse, rest = np.linalg.lstsq(jacobian.T, heavier @ (after - free))[:2]
    np.testing.assert_allclose(rest, 0, atol=1e-20)
    u = jacobian @ after
    depth, n = -before.gap[0] - DT * u[2], before.velocity[0, 2]
    np.testing.assert_allclose(impulse[2], DT * 2e4 * depth * (1 - 20 * u[2]), rtol=1e-8)
    limit = DT * 0.5 * 2e4 * -before.gap[0] * (1 - 20 * n)
    np.testing.assert_allclose(impulse[:2], -limit * u[:2] / jnp.sqrt(u[:2] @ u[:2] + 1e-8), rtol=1e-6)
    np.testing.assert_allclose(before.force[0, 2], limit / DT / 0.5, rtol=1e-12)


def test_a_ball_lands_within_a_step():
    """The ground pushes at the end of the step that begins above it."""
    contacts = ground_contacts(free_body(), "body", radius=RADIUS, stiffness=2e4)
    end = jaxcfa.step(free_body(), at(RADIUS + 1e-3), STILL.at[2].set(-1.0), STILL, 0.01, contacts=contacts)
    u = end.v[2]
    assert RADIUS - 2e-3 < end.q[2] < RADIUS
    np.testing.assert_allclose(MASS * (u + 1 + 0.01 * G), 0.01 * 2e4 * (-1e-3 - 0.01 * u) * (1 - 20 * u), rtol=1e-6)


def test_a_step_of_no_length_changes_nothing():
    model, q, v = free_body(), at(RADIUS - 1e-3), STILL.at[2].set(-1.0)
    contacts = ground_contacts(model, "body", radius=RADIUS)
    end = jax.jit(lambda dt: jaxcfa.step(model, q, v, STILL, dt, contacts=contacts))(0.0)
    np.testing.assert_array_equal(end.v, v)
    np.testing.assert_array_equal(end.q, q)


def test_derivatives_are_those_of_differences():
    """By the state, torques, and what the contacts and the model are: each group by itself, in both modes."""
    model, q, v, tau, contacts = hopper()
    contacts = dataclasses.replace(contacts, stiction_velocity=jnp.array(0.05))
    arguments = {
        "q": jnp.zeros(model.nv),
        "v": v,
        "tau": tau,
        "mass": model.mass,
        "friction": contacts.friction,
        "stiffness": contacts.stiffness / 1e4,
        "points": contacts.points,
        "radius": contacts.radius,
        "normal": contacts.ground.normal,
    }
    keys = jax.random.split(jax.random.key(1), len(arguments))
    along = {name: jax.random.normal(k, x.shape) for k, (name, x) in zip(keys, arguments.items(), strict=True)}

    def after(x):
        own = dataclasses.replace(
            contacts,
            friction=x["friction"],
            stiffness=x["stiffness"] * 1e4,
            points=x["points"],
            radius=x["radius"],
            surface=FlatGround(x["normal"]),
        )
        heavy = dataclasses.replace(model, mass=x["mass"])
        return jaxcfa.step(heavy, jaxcfa.integrate(model, q, x["q"]), x["v"], x["tau"], DT, contacts=own).v

    weights = jnp.cos(jnp.arange(8.0))

    groups = ("q", "v", "tau"), ("mass",), ("friction", "stiffness"), ("points", "radius", "normal")
    assert sorted(sum(groups, ())) == sorted(arguments)

    @jax.jit
    def both(x):
        forward, reverse = {}, {}
        for names in groups:
            some = {name: x[name] for name in names}
            _, slope = jax.linearize(lambda some: after(x | some), some)
            still = jax.tree.map(jnp.zeros_like, some)
            forward |= {name: slope(still | {name: along[name]}) for name in names}
            reverse |= jax.linear_transpose(slope, some)(weights)[0]
        return forward, reverse

    forward, reverse = both(arguments)
    differences = jax.jit(jax.vmap(lambda x: after(x)))
    for name in arguments:
        steps = jnp.array([1e-6, -1e-6])
        moved = {k: jnp.stack([x, x]) for k, x in arguments.items()}
        moved[name] = jax.vmap(lambda h, name=name: arguments[name] + h * along[name])(steps)
        ends = differences(moved)
        assert_close(forward[name], (ends[0] - ends[1]) / 2e-6, 1e-6, name)
        np.testing.assert_allclose(jnp.vdot(reverse[name], along[name]), forward[name] @ weights, rtol=1e-8)


@pytest.mark.slow
def test_second_derivatives_are_those_of_differences():
    model, q, v, tau, contacts = hopper()
    contacts = dataclasses.replace(contacts, stiction_velocity=jnp.array(0.05))
    weights = jnp.cos(jnp.arange(8.0))

    def worth(x):
        v, tau, friction = jnp.split(x, (8, 16))
        own = dataclasses.replace(contacts, friction=friction)
        return jaxcfa.step(model, q, v, tau, DT, contacts=own).v @ weights

    x = jnp.concatenate([v, tau, contacts.friction])
    *orders, difference = jax.jit(lambda x: second_derivatives(worth, x, jnp.sin(1 + jnp.arange(x.size))))(x)
    np.testing.assert_allclose(orders, difference, rtol=1e-5, atol=1e-5)


HEIGHTS = jnp.linspace(-0.01, 0.03, 40)


def from_a_height(model, q, v, tau, contacts):
    return lambda height: jaxcfa.step(model, q.at[2].add(height), v, tau, DT, contacts=contacts).v


@functools.cache
def from_each_height():
    one = from_a_height(*hopper())
    return jax.jit(lambda x: jax.lax.map(one, x))(HEIGHTS)


def test_batches_and_single_precision_are_as_single_states(dtype):
    found = jax.jit(jax.vmap(from_a_height(*cast(hopper(), dtype))))(HEIGHTS.astype(dtype))
    assert found.dtype == dtype
    assert_close(found, from_each_height(), 2e-4 if dtype == "float32" else 1e-9)


def test_the_deepest_alone_push():
    """As if there were no others: a batch of values and of derivatives in both modes."""
    model, q, v, tau, contacts = hopper()
    frames = ["body", *contacts.frames, "shank"]
    points = jnp.concatenate([contacts.points[1:], contacts.points, jnp.array([[0, 0, -0.199]])])
    several = ground_contacts(model, frames, points, 0.02, stiffness=2e4, friction=0.5, most=1)
    single = ground_contacts(model, "shank", contacts.points[0], 0.02, stiffness=2e4, friction=0.5, most=1)
    assert (several.most, single.most) == (1, None)
    gap, force = (getattr(jaxcfa.contact_state(model, several, q, v), name) for name in ("gap", "force"))
    assert np.all(gap[jnp.array([1, 3])] < 0)
    assert np.flatnonzero(force[:, 2]).tolist() == [1]

    @jax.jit
    @jax.vmap
    def found(friction, v):
        def after(contacts):
            own = dataclasses.replace(contacts, friction=contacts.friction * friction)
            return lambda v: jaxcfa.step(model, q, v, tau, DT, contacts=own).v

        def both(contacts):
            end, forward = jax.linearize(after(contacts), v)
            return end, forward(jnp.cos(v)), jax.linear_transpose(forward, v)(jnp.cos(v))[0]

        return both(several), both(single)

    several_found, single_found = found(jnp.ones(2), jnp.stack([v, -v]))
    for x, y in zip(several_found, single_found, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)


def test_what_is_deep_in_the_ground_comes_out():
    """No faster than dissipation allows, also in single precision, where rounding hides what redundant points do."""
    model = free_body(0.02)
    points = np.random.default_rng(0).uniform(-0.2, 0.2, (4, 3)) * [1, 1, 0]
    contacts = ground_contacts(model, ["body"] * 4, points, stiction_velocity=1e-6)
    given = model, contacts, at(-0.3), STILL
    found, expected = (
        jaxcfa.step(model, q, v, jnp.zeros_like(v), DT, contacts=contacts).v
        for model, contacts, q, v in (cast(given, "float32"), given)
    )
    np.testing.assert_allclose(expected[2], 1 / 20, rtol=0.01)
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.compiled  # whose rounding errors are larger than those of NumPy
def test_many_points_at_any_depth_and_velocity_in_single_precision():
    model = free_body(0.02)
    points = np.random.default_rng(0).uniform(-0.2, 0.2, (32, 3)) * [1, 1, 0]
    contacts = ground_contacts(model, ["body"] * 32, points)
    heights, v = -jnp.linspace(0.0, 0.5, 24), jax.random.normal(jax.random.key(1), (24, 6)).at[-1].set(0.0)

    @jax.jit
    def after(model, contacts, heights, v):
        def one(height, v):
            q = at(0.0).astype(v.dtype).at[2].set(height)
            return jaxcfa.step(model, q, v, jnp.zeros_like(v), DT, contacts=contacts).v

        return jax.vmap(one)(heights, v)

    given = model, contacts, heights, v
    found, expected = after(*cast(given, "float32")), after(*given)
    np.testing.assert_allclose(expected[-1, 2], 1 / 20, rtol=0.01)
    np.testing.assert_allclose(found, expected, atol=3e-3)
    assert np.median(np.max(np.abs(found - expected), axis=1)) < 5e-6


def test_loops_are_kept_while_feet_push():
    """Constraints and contacts are solved for together."""
    model, q, v, tau, contacts = hopper()
    loop = couple(model, "shank_joint", "thigh_joint", [0.0, -2.0])
    closed = project_velocity(model, loop, q, v)
    after = jaxcfa.step(model, q, closed, tau, DT, contacts=contacts, constraints=loop).v
    free = jaxcfa.step(model, q, closed, tau, DT, constraints=loop).v
    residual = project_velocity(model, loop, q, after) - after
    assert jnp.max(jnp.abs(residual)) < 1e-3
    assert after[2] - free[2] > 0.01


def test_linearisation_and_optimal_control_know_the_ground():
    model, q, v, tau, contacts = hopper()
    dynamics = jaxcfa.optimal_control.RobotDynamics(model, DT, actuated=False, contacts=contacts)

    @jax.jit
    def matrices(tau):
        by_tau = jax.jacobian(lambda tau: jaxcfa.step(model, q, v, tau, DT, contacts=contacts).v)(tau)
        of_dynamics = dynamics.linearized_step(jnp.concatenate([q, v]), tau, 0.0)[1]
        return jaxcfa.linearize(model, q, v, tau, DT, contacts=contacts), by_tau, of_dynamics

    (a, b), by_tau, of_dynamics = matrices(tau)
    assert_close(b[model.nv :], by_tau)
    assert_close(of_dynamics, a)


def test_what_cannot_be_is_refused():
    model = free_body()
    contacts = ground_contacts(model, "body")
    q, v = at(1.0), STILL
    for message, options in {
        "fixed to the world": {"frames": [-1]},
        "no_such": {"frames": "no_such"},
        "one or more": {"frames": []},
        "friction must be finite and not negative": {"friction": -1.0},
        "radius must be one number, or one for each of 1": {"radius": [1.0, 2.0]},
        r"points must have shape \(n, 3\) = \(1, 3\)": {"points": [1.0, 2.0]},
        "most must be a positive integer": {"most": 0},
        "stiction_velocity must be one positive number": {"stiction_velocity": 0.0},
        "does not vanish in float64, got 1e-200": {"stiction_velocity": 1e-200},
        "ground must be a surface of jaxcfa.contacts, such as FlatGround": {"ground": FlatGround},
        r"must be one real number .*, got shape \(3,\)": {"ground": lambda p: p},
        "must be one real number .* dtype bool": {"ground": lambda p: p[2] > 0},
        r"must be one real number .*, got shape \(2,\)": {"ground": Waves(jnp.ones(2))},
        r"must be one real number .* shape \(2,\) and": {"ground": Placed(Waves(jnp.ones(2)), [0.0, 0.0, 1.0])},
    }.items():
        with pytest.raises(ValueError, match=message):
            ground_contacts(model, **{"frames": "body"} | options)
    with pytest.raises(ValueError, match=r"does not vanish in float32, got 1e-30"):
        ground_contacts(model.astype("float32"), "body", stiction_velocity=1e-30)
    with pytest.raises(ValueError, match="normal of the ground"):
        FlatGround([0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="ground_contacts takes single models"):
        ground_contacts(dataclasses.replace(model, mass=jnp.ones((3, 1))), "body")
    with pytest.raises(ValueError, match="point of the ground must be finite"):
        FlatGround(point=[0.0, 0.0, jnp.nan])
    with pytest.raises(ValueError, match="SemiImplicitEuler"):
        jaxcfa.step(model, q, v, v, DT, RungeKutta4(), contacts=contacts)
    with pytest.raises(ValueError, match="contacts must be those of ground_contacts"):
        jaxcfa.step(model, q, v, v, DT, contacts=["body"])
    for batch in ({"friction": jnp.ones(())}, {"points": jnp.zeros((2, 1, 3))}, {"stiction_velocity": jnp.ones(2)}):
        with pytest.raises(ValueError, match=f"{next(iter(batch))} of contacts must have shape"):
            jaxcfa.step(model, q, v, v, DT, contacts=dataclasses.replace(contacts, **batch))
    with pytest.raises(ValueError, match="surface must be a surface"):
        jaxcfa.step(model, q, v, v, DT, contacts=dataclasses.replace(contacts, surface=lambda p: p[2]))
    with pytest.raises(ValueError, match=r"no mass .* give stiffness"):
        ground_contacts(dataclasses.replace(model, mass=jnp.zeros(1)), "body")
    with pytest.raises(ValueError, match="body"):
        jaxcfa.contact_state(jaxcfa.chain(2), contacts, jnp.zeros(2), jnp.zeros(2))


def test_many_points_in_batches():
    """In more states than are searched at a time, of which some take many iterations, others none."""
    text = '<mujoco><worldbody><body><freejoint/><geom type="box" size=".2 .1 .05"/></body></worldbody></mujoco>'
    model = jaxcfa.load_model(text)
    points = np.random.default_rng(0).uniform([-0.2, -0.1, -0.05], [0.2, 0.1, -0.04], (24, 3))
    contacts = ground_contacts(model, [0] * 24, points, friction=0.5)
    heights, speeds = np.linspace(0.03, 0.07, 40), np.random.default_rng(1).normal(size=(40, 6))
    q = jnp.array([[0, 0, z, 1, 0.02, 0, 0] for z in heights])

    def after(state):
        q, v = state
        return jaxcfa.step(model, q, v, jnp.zeros(6), 5e-3, contacts=contacts).v

    states = q / jnp.linalg.norm(q[:, 3:], axis=1, keepdims=True), jnp.asarray(speeds)
    assert_close(jax.jit(jax.vmap(after))(states), jax.jit(lambda x: jax.lax.map(after, x))(states))
