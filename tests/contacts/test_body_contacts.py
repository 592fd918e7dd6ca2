"""Contacts between bodies, held to what mechanics says of balls, blocks and planks, and to differences."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close, cast
from jaxcfa import body_contacts, ground_contacts, joints
from jaxcfa.contacts import AllContacts, Box, Capsule, FlatGround, Sphere

G = 9.81
DT = 2e-3
WEIGHTLESS = [0.0, 0.0, 0.0]


def free(name, mass, inertia, gravity=(0.0, 0.0, -G)):
    builder = jaxcfa.ModelBuilder()
    builder.add_body(name, joint=joints.Free(), mass=mass, inertia=inertia * jnp.eye(3))
    return builder.build(gravity=gravity)


def placed(*positions):
    return jnp.concatenate([jnp.array([*position, 1.0, 0.0, 0.0, 0.0]) for position in positions])


def rolled(model, contacts, q, v, steps, tau=None, dt=DT):
    force = jnp.zeros(model.nv, q.dtype) if tau is None else tau
    return jaxcfa.rollout(model, q, v, lambda t, q, v: force, dt, steps=steps, contacts=contacts)


def test_a_ball_rolls_on_a_plank_that_is_pulled():
    """The plank feels 2/7 of the ball's mass, and the ball follows with 2/7 of its acceleration."""
    model = jaxcfa.combine([free("plank", 2.0, 0.5), free("ball", 0.7, 0.4 * 0.7 * 0.01)])
    ends = [[x, y, -0.05] for x in (-1.0, 1.0) for y in (-0.3, 0.3)]
    ice = ground_contacts(model, ["plank"] * 4, ends, friction=0.0)
    touch = body_contacts(model, "ball", "plank", Box([1.0, 0.3, 0.05]), radius=0.1, friction=0.8)
    pull = jnp.zeros(12).at[0].set(1.5)
    start = placed([0.0, 0.0, 0.05], [0.1, 0.0, 0.2])
    end = rolled(model, ice + touch, start, jnp.zeros(12), 400, pull)
    speed = 400 * DT * 1.5 / (2.0 + 0.7 * 2 / 7)
    np.testing.assert_allclose(end.v[-1, jnp.array([0, 6])], [speed, 2 / 7 * speed], rtol=0.01)
    np.testing.assert_allclose(end.v[-1, 10], -5 / 7 * speed / 0.1, rtol=0.01)
    state = jaxcfa.contact_state(model, ice + touch, end.q[-1], end.v[-1])
    np.testing.assert_allclose(state.force[:, 2].sum() - state.force[-1, 2], 2.7 * G, rtol=1e-3)
    np.testing.assert_allclose(state.force[-1, 2], 0.7 * G, rtol=1e-3)


def test_momentum_is_kept_when_bodies_meet():
    """Both kinds, where a ball hits a spinning rod off its centre."""
    rod, ball = free("rod", 1.5, 0.05, WEIGHTLESS), free("ball", 0.4, 0.002, WEIGHTLESS)
    model = jaxcfa.combine([rod, ball])
    shape = Capsule([-0.4, 0.0, 0.0], [0.4, 0.0, 0.0], 0.05)
    contacts = body_contacts(model, "ball", "rod", shape, radius=0.1, friction=0.5, stiffness=1e4, dissipation=0.3)
    q = placed([0.0, 0.0, 0.0], [0.3, 0.02, 0.2])
    v = jnp.array([0, 0, 0, 0.1, 0.4, 0.2, 0.3, 0.2, -1.0, 3.0, 0, 1.0])
    motion = rolled(model, contacts, q, v, 1500, dt=2e-4)
    before, after = (jaxcfa.momentum(model, motion.q[i], motion.v[i]) for i in (0, -1))
    np.testing.assert_allclose(after[3:], before[3:], atol=1e-12)  # linear
    np.testing.assert_allclose(after[:3], before[:3], atol=2e-4)  # angular: to the order of the steps
    assert jnp.abs(motion.v[-1, 0]) > 0.01  # friction has acted
    assert motion.v[-1, 8] > -0.3


def test_either_body_may_carry_the_shape():
    model = jaxcfa.combine([free("one", 1.0, 0.01), free("two", 0.5, 0.02)])
    law = {"friction": 0.4, "stiffness": 1e4}
    one_on_two = body_contacts(model, "one", "two", Sphere(0.2), radius=0.1, **law)
    two_on_one = body_contacts(model, "two", "one", Sphere(0.1), radius=0.2, **law)
    q = placed([0.05, 0.02, 0.294], [0.0, 0.0, 0.0])
    v = jnp.linspace(-1.0, 1.0, 12)
    found = [jaxcfa.step(model, q, v, jnp.zeros(12), DT, contacts=x).v for x in (one_on_two, two_on_one)]
    # Bodies touch in the middle of the overlap or at one of the surfaces, a millimetre apart.
    np.testing.assert_allclose(*found, atol=0.02)
    assert jnp.max(jnp.abs(found[0] - jaxcfa.step(model, q, v, jnp.zeros(12), DT).v)) > 0.1
    states = [jaxcfa.contact_state(model, x, q, v) for x in (one_on_two, two_on_one)]
    assert_close(states[0].gap, states[1].gap)
    np.testing.assert_allclose(states[0].force, -states[1].force, rtol=2e-3)


def test_where_no_direction_leads_out_nothing_pushes_and_nothing_holds():
    """Centres of balls that coincide."""
    model = jaxcfa.combine([free("one", 1.0, 0.01), free("two", 0.5, 0.02)])
    contacts = body_contacts(model, "one", "two", Sphere(0.2))
    q, v = placed(jnp.zeros(3), jnp.zeros(3)), jnp.linspace(-1.0, 1.0, 12)
    assert_close(*(jaxcfa.step(model, q, v, jnp.zeros(12), DT, contacts=x).v for x in (contacts, None)))


def test_a_shape_that_is_fixed_to_the_world_is_ground():
    """Also where its frame is tilted."""
    c, s = np.cos(0.3), np.sin(0.3)
    tilt = jaxcfa.Transform(jnp.array([[c, 0, s], [0, 1, 0], [-s, 0, c]]), jnp.array([0.1, 0.0, 0.2]))
    model = jaxcfa.add_frames(free("ball", 1.0, 0.01), {"slope": (-1, tilt)})
    normal = tilt.rotation[:, 2]
    on_frame = body_contacts(model, "ball", "slope", FlatGround(), radius=0.1, friction=0.3)
    on_ground = ground_contacts(model, "ball", radius=0.1, friction=0.3, ground=FlatGround(normal, tilt.translation))
    q, v = placed(tilt.translation + 0.0995 * normal), jnp.linspace(-0.5, 0.5, 6)
    states = [jaxcfa.contact_state(model, x, q, v) for x in (on_frame, on_ground)]
    for x, y in zip(*map(jax.tree.leaves, states), strict=True):
        assert_close(x, y)
    assert_close(*(rolled(model, x, q, v, 20).v for x in (on_frame, on_ground)))
    assert (on_frame.carrier, on_frame.ground) == (None, on_frame.surface)
    assert (on_frame + on_ground).ground is on_frame.surface
    plane = FlatGround(normal, tilt.translation)
    assert body_contacts(model, "ball", -1, plane).ground is plane

    @jax.jit
    def gap(place):
        moved = jaxcfa.add_frames(model, {"moved": (-1, place)})
        return jaxcfa.contact_state(moved, body_contacts(moved, "ball", "moved", FlatGround(), radius=0.1), q, v).gap

    assert_close(gap(tilt), states[0].gap)


def gripper():
    """A cube between two fingers on a wrist that turns, the forces that close them, and their contacts."""
    builder = jaxcfa.ModelBuilder()
    wrist = builder.add_body("wrist", joint=joints.Revolute([0, 0, 1]), mass=1.0, inertia=0.01 * jnp.eye(3))
    for name, side in {"left": 1.0, "right": -1.0}.items():
        builder.add_body(
            name, wrist, joints.Prismatic([0, -side, 0]), [0.2, side * 0.05, 0], mass=0.2, inertia=1e-4 * jnp.eye(3)
        )
    model = jaxcfa.combine([builder.build(), free("cube", 0.1, 1e-4)])
    tips = [[0.02, 0, 0.01], [-0.02, 0, -0.01]] * 2
    contacts = body_contacts(
        model, ["left", "left", "right", "right"], "cube", Box([0.04, 0.03, 0.04]), tips, 0.02, stiffness=2e4
    )
    q = jnp.concatenate([jnp.zeros(3), placed([0.2, 0.0, 0.0])])
    tau = jnp.zeros(model.nv).at[1:3].set(5.0)
    return model, contacts, q, jnp.zeros(model.nv), tau


def test_fingers_hold_a_cube_while_the_wrist_turns():
    model, contacts, q, v, tau = gripper()
    motion = rolled(model, contacts, q, v, 250, tau.at[0].set(0.1))
    state = jaxcfa.contact_state(model, contacts, motion.q[-1], motion.v[-1])
    assert motion.q[-1, 0] > 0.3
    # The cube has turned with the wrist, about its centre and about the wrist's axis, and has not fallen.
    poses = jaxcfa.forward_kinematics(model, motion.q[-1])
    wrist, cube = (jax.tree.map(lambda x, i=i: x[i], poses) for i in (0, 3))
    np.testing.assert_allclose(cube.rotation, wrist.rotation, atol=5e-3)
    # Equal forces close the fingers, wherever between its ends: the cube is in their middle.
    middle = (motion.q[-1, 2] - motion.q[-1, 1]) / 2
    np.testing.assert_allclose(wrist.rotation.T @ cube.translation, [0.2, middle, 0], atol=2e-3)
    np.testing.assert_allclose(state.gap, -2.5 / 2e4, rtol=0.05)


def test_derivatives_are_those_of_differences():
    """By the state, forces, masses and what the contacts and the shape are: in both modes."""
    model, contacts, q, v, tau = gripper()
    v = v + 0.05 * jnp.sin(1 + jnp.arange(v.size))
    contacts = dataclasses.replace(contacts, stiction_velocity=jnp.array(0.05))
    arguments = {
        "q": jnp.full(model.nv, 1e-3),
        "v": v,
        "tau": tau,
        "mass": model.mass,
        "friction": contacts.friction,
        "points": contacts.points,
        "half_lengths": contacts.surface.half_lengths,
        "center": contacts.surface.center,
    }
    keys = jax.random.split(jax.random.key(1), len(arguments))
    along = {name: jax.random.normal(k, x.shape) for k, (name, x) in zip(keys, arguments.items(), strict=True)}
    still = jax.tree.map(jnp.zeros_like, arguments)

    def after(x):
        shape = Box(x["half_lengths"], x["center"])
        own = dataclasses.replace(contacts, friction=x["friction"], points=x["points"], surface=shape)
        heavy = dataclasses.replace(model, mass=x["mass"])
        return jaxcfa.step(heavy, jaxcfa.integrate(model, q, x["q"]), x["v"], x["tau"], DT, contacts=own).v

    weights = jnp.cos(jnp.arange(model.nv))

    @jax.jit
    def both(x):
        _, slope = jax.linearize(after, x)
        return {name: slope({**still, name: along[name]}) for name in x}, jax.linear_transpose(slope, x)(weights)[0]

    forward, reverse = both(arguments)
    differences = jax.jit(jax.vmap(after))
    for name in arguments:
        steps = jnp.array([1e-7, -1e-7])
        moved = {k: jnp.stack([x, x]) for k, x in arguments.items()}
        moved[name] = jax.vmap(lambda h, name=name: arguments[name] + h * along[name])(steps)
        ends = differences(moved)
        assert_close(forward[name], (ends[0] - ends[1]) / 2e-7, 1e-5, name)
        np.testing.assert_allclose(jnp.vdot(reverse[name], along[name]), forward[name] @ weights, rtol=1e-8)
        assert jnp.max(jnp.abs(forward[name])) > 1e-3


def test_batches_and_single_precision_are_as_single_states(dtype):
    shifts = jnp.linspace(-2e-3, 2e-3, 16)

    def after(model, contacts, q, v, tau):
        return lambda shift: jaxcfa.step(model, q.at[1].add(shift), v, tau, DT, contacts=contacts).v

    wide = gripper()
    found = jax.jit(jax.vmap(after(*cast(wide, dtype))))(shifts.astype(dtype))
    assert found.dtype == dtype
    expected = jax.jit(lambda x: jax.lax.map(after(*wide), x))(shifts)
    assert_close(found, expected, 1e-3 if dtype == "float32" else 1e-9)


def test_the_sum_of_contacts_has_all_of_them():
    """In order, each with its own number of those that push at a time."""
    model, contacts, q, v, _ = gripper()
    floor = ground_contacts(model, "cube", ground=FlatGround(point=[0, 0, 5e-4]), stiffness=1e3)
    pair = dataclasses.replace(contacts, most=2)
    together = floor + pair + contacts
    assert [part.most for part in together.parts] == [None, 2, None]
    q = q.at[1:3].add(jnp.array([5e-4, 1e-3]))
    state = jaxcfa.contact_state(model, together, q, v)
    for part, where in ((floor, slice(1)), (pair, slice(1, 5)), (contacts, slice(5, 9))):
        for x, y in zip(*map(jax.tree.leaves, (jaxcfa.contact_state(model, part, q, v), state)), strict=True):
            assert_close(x, y[where])
    assert [np.count_nonzero(state.force[part, 1]) for part in (slice(1, 5), slice(5, 9))] == [2, 4]
    deep = np.argsort(state.gap[1:5])[:2]
    frames, shape = [contacts.frames[i] for i in deep], contacts.surface
    two = body_contacts(model, frames, "cube", shape, contacts.points[deep], 0.02, stiffness=2e4)
    assert_close(*(jaxcfa.step(model, q, v, v, DT, contacts=x).v for x in (floor + pair, sum([floor, two]))))
    with pytest.raises(TypeError):
        floor + 1


def test_frames_that_are_given_by_numbers_are_those_of_the_model():
    """Another model has them by their names, or not at all."""
    model, *_ = gripper()
    contacts = body_contacts(model, np.array([1, 2]), 3, Box([0.04, 0.03, 0.04]), [0.0, 0.0, 0.1], 0.02)
    assert (contacts.frames, contacts.carrier) == (("left", "right"), "cube")
    assert body_contacts(model, -1, "cube", Sphere(0.1)).frames == (-1,)
    fewer = jaxcfa.lock_joints(model, ["left_joint"])
    assert (fewer.body_names, model.body_names[1]) == (("wrist", "right", "cube"), "left")
    q = placed([0.1, 0.2, 0.3])
    gaps = [
        jaxcfa.contact_state(x, contacts, jnp.concatenate([joints, q]), jnp.zeros(x.nv)).gap
        for x, joints in ((model, jnp.zeros(3)), (fewer, jnp.zeros(2)))
    ]
    assert_close(*gaps)
    other = jaxcfa.combine([jaxcfa.chain(3), free("cube", 0.1, 1e-4)])
    with pytest.raises(ValueError, match="No frame or body named 'left'"):
        jaxcfa.contact_state(other, contacts, jaxcfa.neutral(other), jnp.zeros(other.nv))


def test_what_cannot_be_is_refused():
    model, contacts, q, v, tau = gripper()
    for message, options in {
        r"\['left'\] are on the body that carries the surface, 'left'": {"body": "left"},
        "no_such": {"body": "no_such"},
        "fixed to the world": {"frames": [-1], "body": -1},
        "shape must be a surface of jaxcfa.contacts, such as Box": {"shape": 0.1},
        "most must be a positive integer": {"most": 0},
    }.items():
        with pytest.raises(ValueError, match=message):
            body_contacts(model, **{"frames": "left", "body": "cube", "shape": Sphere(0.1)} | options)
    with pytest.raises(ValueError, match="body_contacts takes single models"):
        body_contacts(dataclasses.replace(model, mass=jnp.ones((3, model.nb))), "left", "cube", Sphere(0.1))
    with pytest.raises(ValueError, match=r"ground_contacts.* or body_contacts"):
        jaxcfa.step(model, q, v, tau, DT, contacts=[contacts])
    with pytest.raises(ValueError, match="contacts must be one or more"):
        jaxcfa.step(model, q, v, tau, DT, contacts=AllContacts(()))
    with pytest.raises(ValueError, match="No frame or body named 'left'"):
        jaxcfa.contact_state(jaxcfa.chain(2), contacts, jnp.zeros(2), jnp.zeros(2))
