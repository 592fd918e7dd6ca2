"""Contacts between all that collides in a file."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from jaxcfa.contacts import AllContacts, FlatGround
from jaxcfa.viz import collision_contacts

# All in one place, so that MuJoCo finds each pair that its filters leave.
HEAP = """<mujoco>{flags}<worldbody>
  <geom name="rock" size=".2"/><geom name="fog" size=".2" contype="0" conaffinity="0"/>
  <body name="base"><geom name="base" size=".2"/>
    <body name="upper"><joint/><geom name="upper" size=".2"/><geom name="sleeve" size=".2" contype="2" conaffinity="4"/>
      <body name="welded"><geom name="welded" size=".2"/>
      <body name="lower"><joint/><geom name="lower" size=".2"/>
        <body name="hand"><joint/><geom name="hand" size=".2"/></body></body></body></body></body>
  <body name="ball"><freejoint/><geom name="ball" size=".2"/></body>
  <body name="marble"><freejoint/><geom name="marble" size=".2" contype="4" conaffinity="0"/></body>
  <body name="ghost"><freejoint/><geom name="ghost" size=".2" contype="0" conaffinity="0"/>
    <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body></worldbody>
  <contact><exclude body1="upper" body2="hand"/><exclude body1="ball" body2="base"/><pair geom1="ghost" geom2="ball"/>
    <pair geom1="lower" geom2="hand"/></contact></mujoco>"""


@pytest.mark.parametrize("flags", ["", '<option><flag filterparent="disable"/></option>'])
def test_what_touches_what_is_as_in_mujoco(flags):
    """By bits of geoms, between bodies that no joint connects, without those excluded, with pairs."""
    mujoco = pytest.importorskip("mujoco")
    text = HEAP.format(flags=flags)
    theirs = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(theirs)
    mujoco.mj_forward(theirs, data)
    moving = {"upper": "upper", "sleeve": "upper", "welded": "upper"} | {
        x: x for x in ("lower", "hand", "ball", "marble", "ghost")
    }
    expected = {frozenset(moving.get(theirs.geom(x).name, "world") for x in contact.geom) for contact in data.contact}
    expected = {x for x in expected if len(x) == 2}  # what is welded together counts as one, and welds to the world
    model = jaxcfa.load_model(text)

    def pairs(**options):
        names = {"welded": "upper", -1: "world", None: "world"}
        return {
            frozenset(names.get(x, x) for x in (frame, part.carrier))
            for part in collision_contacts(text, model, **options).parts
            for frame in part.frames
        }

    found = pairs(self_collisions=True)
    assert found == expected
    assert frozenset({"ball", "ghost"}) in found
    assert pairs() == {x for x in expected if not x <= {"upper", "lower", "hand"}}
    # The base of the arm, which the ball is not to touch, does not move either.
    (part,) = collision_contacts(text, model, bodies="ball").parts
    assert (part.frames, part.carrier) == (("ball",), None)
    assert isinstance(part.surface, jaxcfa.contacts.Rough)


# Of every priority, with and without friction by `condim`, and pairs of their own. All in one place again.
ROUGH = """<mujoco><worldbody><geom name="floor" type="plane" pos="0 0 .1" size="0 0 1" friction=".9"/>
  <geom name="ice" size=".1" friction=".1" priority="2"/><geom name="sand" size=".1" friction="1.2"/>
  <body name="a"><freejoint/><geom name="a" size=".1" friction=".5" priority="1"/></body>
  <body name="b"><freejoint/><geom name="b" size=".1" friction=".3" condim="1"/></body>
  <body name="c"><freejoint/><geom name="c" size=".1" friction=".4" condim="1" priority="1"/></body>
  <body name="d"><freejoint/><geom name="d" size=".1" friction=".2" condim="6"/></body>
  <body name="e"><freejoint/><geom name="e" size=".1" friction=".6" condim="1"/></body></worldbody>
  <contact><pair geom1="d" geom2="a" friction="1.5 1.5 0 0 0"/><pair geom1="sand" geom2="b" condim="1"/></contact>
  </mujoco>"""


def test_friction_is_that_of_mujoco():
    mujoco = pytest.importorskip("mujoco")
    theirs = mujoco.MjModel.from_xml_string(ROUGH)
    data = mujoco.MjData(theirs)
    mujoco.mj_forward(theirs, data)
    expected, found = {}, {}
    for contact in data.contact:
        pair = frozenset(theirs.geom(x).name if theirs.geom(x).bodyid else None for x in contact.geom)
        expected.setdefault(pair, set()).add(contact.friction[0] * (contact.dim > 1))
    with pytest.warns(jaxcfa.io.ModelWarning, match=r"friction against spinning and rolling .*: a geom of body 'd'"):
        contacts = collision_contacts(ROUGH, jaxcfa.load_model(ROUGH))
    for part in contacts.parts:
        own = part.surface.touch(jnp.zeros(3)).friction
        for frame, friction in zip(part.frames, part.friction, strict=True):
            largest = float(friction if own is None else jnp.maximum(friction, own))
            found.setdefault(frozenset({frame, part.carrier}), set()).add(largest)
    assert found == expected
    assert len(expected) == 15


SCENE = """<mujoco><worldbody><geom type="plane" size="0 0 1" friction=".3"/>
  <body name="table" pos="1 0 .2"><geom type="box" size=".3 .3 .2" friction=".6"/></body>
  <body name="box" pos="1 0 .502"><freejoint/><geom type="box" size=".1 .1 .1" mass="2" friction=".2"/></body>
  <body name="ball" pos="1.02 0 .653"><freejoint/><geom size=".05" mass=".3" friction="1"/></body>
  <body name="post" pos="-1 0 0"><geom type="box" size=".1 .1 .5"/><body name="arm" pos="0 0 .6"><joint axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 .5 0 0" size=".05" mass="1"/></body></body></worldbody></mujoco>"""


def test_a_scene_comes_to_rest():
    """In use: a ball on a box on a table, and an arm that falls through its own post."""
    model = jaxcfa.load_model(SCENE)
    contacts = collision_contacts(SCENE, model, most=12)
    start, still = model.keyframe("qpos0"), jnp.zeros(model.nv)
    motion = jaxcfa.rollout(model, start, still, jnp.zeros((60, model.nv)), dt=0.01, contacts=contacts)
    end = np.asarray(motion.q[-1])
    np.testing.assert_allclose(end[[2, 9]], [0.5, 0.65], atol=2e-3)
    np.testing.assert_allclose(end[[0, 1, 7, 8]], [1, 0, 1.02, 0], atol=5e-3)
    state = jaxcfa.contact_state(model, contacts, end, motion.v[-1])
    weights = {(None, "box"): 2.3, ("box", "ball"): 0.3}
    n, forces = 0, {}
    for part in contacts.parts:
        for frame, force in zip(part.frames, np.asarray(state.force[n : n + part.count]), strict=True):
            forces[part.carrier, frame] = forces.get((part.carrier, frame), 0) + force
        n += part.count
    for pair, weight in weights.items():
        np.testing.assert_allclose(forces[pair] @ [0, 0, 1], 9.81 * weight, rtol=2e-2)
    assert np.count_nonzero(np.any(np.asarray(state.force) != 0, axis=1)) <= 12
    assert start[14] == 0 < end[14]  # falls


def test_equal_shapes_stand_on_each_other():
    """None of their corners is in another one: boxes on a pedestal, a can on a can, and a hull on a hull."""
    mesh = '<mesh name="brick" vertex="1 1 1 -1 1 1 1 -1 1 -1 -1 1 1 1 -1 -1 1 -1 1 -1 -1 -1 -1 -1" scale=".1 .1 .1"/>'
    shapes = ('type="box" size=".1 .1 .1"', 'type="cylinder" size=".1 .1"', 'type="mesh" mesh="brick"')
    bodies = [
        f'<body pos="{i} 0 .1"><geom {geom}/></body>'
        + "".join(f'<body pos="{i} 0 {z}"><freejoint/><geom {geom} mass="1"/></body>' for z in (0.301, 0.502))
        for i, geom in enumerate(shapes)
    ]
    text = f"<mujoco><asset>{mesh}</asset><worldbody>{''.join(bodies)}</worldbody></mujoco>"
    model = jaxcfa.load_model(text)
    contacts, q = collision_contacts(text, model, most=48), model.keyframe("qpos0")
    motion = jaxcfa.rollout(model, q, jnp.zeros(model.nv), jnp.zeros((25, model.nv)), dt=0.02, contacts=contacts)
    poses = motion.q[-1].reshape(6, 7)
    np.testing.assert_allclose(poses[:, 2].reshape(3, 2), [[0.3, 0.5]] * 3, atol=4e-3)
    np.testing.assert_allclose(poses[:, :2].reshape(3, 2, 2), [[[i, 0]] * 2 for i in range(3)], atol=2e-3)


# Three scenes, each with a bit of its own: a cart, a rod that falls on another, and a plate on a ball that stands.
NEAREST = """<mujoco><option timestep=".002"/><default>
  <default class="cart"><geom contype="1" conaffinity="1"/></default>
  <default class="rod"><geom contype="2" conaffinity="2"/></default>
  <default class="plate"><geom contype="4" conaffinity="4"/></default></default>
  <worldbody><geom type="plane" size="0 0 1" contype="7" conaffinity="7"/>
  <body pos="0 0 .0998" childclass="cart"><freejoint/><geom type="box" size=".2 .1 .03" pos="0 0 .1" mass="3"/>
  <body name="front" pos=".15 0 0"><joint axis="0 1 0"/>
    <geom type="cylinder" size=".1 .1" euler="90 0 0" mass="1"/></body>
  <body name="back" pos="-.15 0 0"><joint axis="0 1 0"/>
    <geom type="cylinder" size=".1 .1" euler="90 0 0" mass="1"/></body></body>
  <body pos="2 .1 .05" childclass="rod"><freejoint/><geom type="capsule" size=".05 .5" euler="90 0 0"/></body>
  <body pos="2.02 0 .16" childclass="rod"><freejoint/><geom type="capsule" size=".05 .3" euler="0 90 0"/></body>
  <body pos="4 0 .1" childclass="plate"><geom size=".1"/></body>
  <body pos="4 0 .26" childclass="plate"><freejoint/><geom type="box" size=".3 .3 .05"/></body>
  </worldbody></mujoco>"""


def test_wheels_roll_and_what_crosses_stays_apart_as_in_mujoco():
    mujoco = pytest.importorskip("mujoco")
    theirs = mujoco.MjModel.from_xml_string(NEAREST)
    data, torque = mujoco.MjData(theirs), 0.5
    data.qfrc_applied[6:8] = torque
    mujoco.mj_step(theirs, data, 150)
    model = jaxcfa.load_model(NEAREST)
    contacts = collision_contacts(NEAREST, model, most=16)
    q, v = model.keyframe("qpos0"), jnp.zeros(model.nv)
    tau = jnp.zeros((60, model.nv)).at[:, 6:8].set(torque)
    motion = jaxcfa.rollout(model, q, v, tau, dt=5e-3, contacts=contacts)
    coordinates = jaxcfa.convert.MuJoCo(model, theirs)
    np.testing.assert_allclose(motion.q[-1], coordinates.q_from(data.qpos), atol=4e-3)
    np.testing.assert_allclose(motion.q[-1, 7:9], motion.q[-1, 0] / 0.1, rtol=1e-2)  # where wheels do not slip


def test_all_that_push_at_a_time_are_the_deepest():
    """Of all, and of those that push in their groups; each pushes as if it were alone."""
    model = jaxcfa.load_model(SCENE)
    each = collision_contacts(SCENE, model, most=None, stiffness=1e4)
    q, v = model.keyframe("qpos0").at[2].set(0.49).at[9].set(0.64), jnp.zeros(model.nv)
    everything = jaxcfa.contact_state(model, each, q, v)
    push = np.any(np.asarray(everything.force) != 0, axis=1)
    for most in (1, 5, each.count, 1000):
        state = jaxcfa.contact_state(model, AllContacts(each.groups, most), q, v)
        which = np.any(np.asarray(state.force) != 0, axis=1)
        assert which.sum() == min(most, push.sum())
        assert np.max(state.gap[which]) <= np.min(np.append(state.gap[push & ~which], 0)) + 1e-12
        np.testing.assert_allclose(state.force[which], everything.force[which], rtol=1e-9)
    floor = jaxcfa.ground_contacts(model, ["box", "ball", "arm"], radius=[0.6, 0.7, 0.7], most=2, stiffness=1e4)
    both = AllContacts((floor, AllContacts(each.groups, 2)), 3)
    assert [x.most for x in (both + floor).groups] == [3, 2]
    assert [len(x) for x in ((each + floor).groups, (floor + each).groups)] == [len(each.groups) + 1] * 2
    state = jaxcfa.contact_state(model, both, q, v)
    of_floor = np.any(np.asarray(state.force[:3]) != 0, axis=1)
    assert of_floor.sum() == 2
    assert np.count_nonzero(np.any(np.asarray(state.force) != 0, axis=1)) == 3
    tau = jnp.zeros(model.nv)
    moved = [jaxcfa.step(model, q, v, tau, 1e-3, contacts=x).v for x in (AllContacts(each.groups, 20), each)]
    np.testing.assert_allclose(*moved, atol=1e-9)


def test_links_of_urdf_files():
    """Neighbours do not touch, others if that is asked for; there is no floor but the one that is given."""
    shape = '<collision><geometry><sphere radius=".1"/></geometry></collision>'
    mass = '<mass value="1"/><inertia ixx=".01" iyy=".01" izz=".01" ixy="0" ixz="0" iyz="0"/>'
    link = f'<link name="{{0}}"><inertial>{mass}</inertial>{shape}</link>'
    joint = '<joint name="{1}" type="{2}"><parent link="{0}"/><child link="{1}"/><axis xyz="0 1 0"/></joint>'
    joints = [("a", "b", "continuous"), ("b", "c", "fixed"), ("c", "d", "continuous"), ("d", "e", "continuous")]
    text = f'<robot name="r">{"".join(map(link.format, "abcde"))}{"".join(joint.format(*x) for x in joints)}</robot>'
    model = jaxcfa.load_model(text)
    with pytest.raises(ValueError, match=r"nothing that moves touches anything. It has 5 shapes .* 4 of them on bod"):
        collision_contacts(text, model)
    with pytest.raises(ValueError, match="points must be at least 6"):
        collision_contacts(text, model, points=3)
    with pytest.raises(ValueError, match="self_collisions must be"):
        collision_contacts(text, model, self_collisions=1)
    with pytest.raises(ValueError, match="most must be a positive integer"):
        collision_contacts(text, model, self_collisions=True, most=0)
    with pytest.raises(ValueError, match="did you mean"):
        collision_contacts(text, model, self_collisions=True, bodies=["bb"])
    parts = collision_contacts(text, model, self_collisions=True).parts
    touched = {(part.carrier, frame) for part in parts for frame in part.frames}
    assert touched == {(None, "d"), (None, "e"), ("b", "e"), ("e", "b"), ("e", "c")}
    (part,) = collision_contacts(text, model, ground=FlatGround(point=[0, 0, -1.0])).parts
    assert set(part.frames) == set("bcde")
    free = jaxcfa.load_model(text, floating_base=True)
    parts = collision_contacts(text, free, self_collisions=True).parts
    touched = {(part.carrier, frame) for part in parts for frame in part.frames}
    assert touched == {(x, y) for x, y in [("a", "d"), ("a", "e"), ("b", "e")]} | {
        ("d", "a"),
        ("e", "a"),
        ("e", "b"),
        ("e", "c"),
    }


def test_derivatives_and_batches():
    """Through those that are chosen, in a batch each by itself."""
    model = jaxcfa.load_model(SCENE)
    contacts = collision_contacts(SCENE, model, most=6, bodies=["box", "ball"], stiffness=1e3)
    q, v, tau = model.keyframe("qpos0").at[2].set(0.495).at[9].set(0.64), jnp.zeros(model.nv), jnp.zeros(model.nv)

    def speed(shift):
        return jaxcfa.step(model, q.at[9].add(shift), v, tau, 5e-3, contacts=contacts).v

    shifts = jnp.array([-4e-3, 1e-3, 2e-2])
    batch = jax.jit(jax.vmap(speed))(shifts)
    jacobian = jax.jacfwd(speed)
    for shift, found in zip(shifts, batch, strict=True):
        np.testing.assert_allclose(found, speed(shift), atol=1e-9)
    differences = (speed(1e-3 + 1e-6) - speed(1e-3 - 1e-6)) / 2e-6
    np.testing.assert_allclose(jacobian(1e-3), differences, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jax.grad(lambda x: speed(x)[8])(1e-3), differences[8], rtol=1e-5)
