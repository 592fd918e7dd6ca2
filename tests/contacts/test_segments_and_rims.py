"""What touches where it is nearest: limbs against the nearest of many points, wheels against the laws of rolling."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close, cast, second_derivatives
from jaxcfa import body_contacts, contact_state, ground_contacts, joints
from jaxcfa.contacts import Box, Capsule, ConvexHull, Cylinder, FlatGround, Placed, Sphere, Union
from jaxcfa.contacts._nearest_places import _LEAN

HALF = np.array([[0.1, 0.2, 0.4], [-0.1, -0.2, -0.4]])


def free(mass, inertia, gravity=(0.0, 0.0, -9.81)):
    builder = jaxcfa.ModelBuilder()
    builder.add_body("body", joint=joints.Free(), mass=mass, inertia=inertia)
    return builder.build(gravity=gravity)


def states(count, seed=0):
    rng = np.random.default_rng(seed)
    turns = rng.normal(size=(count, 4))
    away = rng.normal(size=(count, 3))
    away *= rng.uniform(0.35, 0.8, (count, 1)) / np.linalg.norm(away, axis=1, keepdims=True)
    return jnp.concatenate([away, turns / np.linalg.norm(turns, axis=1, keepdims=True)], axis=1)


SURFACES = {
    "sphere": Sphere(0.2),
    "capsule": Capsule([-0.2, 0.0, 0.0], [0.2, 0.1, 0.0], 0.1),
    "cylinder": Cylinder(0.1, 0.2),
    "box": Box([0.1, 0.2, 0.15]),
    "hull": ConvexHull(np.random.default_rng(1).normal(size=(20, 3)) * 0.1),
    "ground": FlatGround([0.1, 0.2, 1.0], [0.0, 0.0, -0.4]),
    "union": Union([Sphere(0.1), Placed(Box([0.1, 0.1, 0.1]), [0.3, 0.1, 0.0]), FlatGround(point=[0.0, 0.0, -0.4])]),
}


def far_along(model, surface, q, count=2001):
    """Distances (k, count) of points along the segment, and how many metres along it they are."""
    t = np.linspace(-1, 1, count)
    poses = jax.vmap(lambda q: jaxcfa.frame_pose(model, q, "body"))(q)
    points = poses.translation[:, None] + jnp.einsum("kij,cj->kci", poses.rotation, t[:, None] * HALF[0])
    return jax.vmap(jax.vmap(lambda x: surface.touch(x).distance))(points)


@pytest.mark.parametrize("name", SURFACES)
def test_limbs_touch_where_they_are_nearest(name):
    """No point along them is nearer than the least of many, and that but by as little as they lean."""
    model, surface, q = free(1.0, 0.1), SURFACES[name], states(40)
    contacts = ground_contacts(model, ["body"] * 2, radius=0.03, segments=HALF, ground=surface)
    gaps = jax.vmap(lambda q: contact_state(model, contacts, q, jnp.zeros(6)).gap)(q) + 0.03
    least = far_along(model, surface, q).min(axis=1, keepdims=True)
    assert jnp.all(gaps > least - 1e-4)  # between two of the points
    # Slopes of round things, nearest at the distance r from their axis, are the lean at r times as much beside that.
    straight = 0.46 * _LEAN * (name in ("cylinder", "hull"))  # almost along their sides, r is large
    beside = 1e-4 + _LEAN**2 * (0.4 + jnp.abs(least)) + straight
    assert jnp.all(gaps.min(axis=1, keepdims=True) - least < beside)
    assert jnp.all(gaps - least < 2 * 0.46 * _LEAN + 1e-4)


def test_what_lies_touches_at_both_ends_of_where_it_does():
    model, q = free(1.0, 0.1), jnp.array([0.02, 0.0, 0.13, 1.0, 0.0, 0.0, 0.0])
    ends = np.array([[0.5, 0, 0], [-0.5, 0, 0]])
    for surface, where in ((Box([0.1, 0.2, 0.1]), [0.1, -0.1]), (FlatGround(point=[0, 0, 0.1]), [0.52, -0.48])):
        contacts = ground_contacts(model, ["body"] * 2, radius=0.035, segments=ends, ground=surface)
        state = contact_state(model, contacts, q, jnp.zeros(6))
        np.testing.assert_allclose(state.position[:, 0], where, atol=2e-3)
        np.testing.assert_allclose(state.gap, -0.005, atol=1e-4)
        np.testing.assert_allclose(state.normal @ jnp.array([0, 0, 1]), 1, atol=1e-3)


def test_wheels_roll_down_a_slope():
    """With g sin(slope) / (1 + I / (m r^2)), straight down."""
    angle, r = 0.7, 0.1
    axis = np.array([-np.sin(angle), np.cos(angle), 0.0])
    down = np.array([np.cos(angle), np.sin(angle), 0.0])
    slope, about = 0.2, 0.6 * 2.0 * r**2
    inertia = 0.005 * np.eye(3) + (about - 0.005) * np.outer(axis, axis)
    model = free(2.0, inertia, 9.81 * (np.sin(slope) * down - np.cos(slope) * np.array([0, 0, 1])))
    rims = ground_contacts(model, ["body"] * 2, np.outer([0.05, -0.05], axis), rims=r * axis, friction=0.8)
    q = jnp.array([0, 0, r - 5e-4, 1.0, 0, 0, 0])
    motion = jaxcfa.rollout(model, q, jnp.zeros(6), jnp.zeros((200, 6)), 5e-3, contacts=rims)
    speed = 9.81 * np.sin(slope) / 1.6
    # Friction sticks within the stiction velocity only.
    np.testing.assert_allclose(motion.q[-1, :2], speed / 2 * down[:2], rtol=1e-2, atol=1e-4)
    np.testing.assert_allclose(motion.q[-1, 2], r, atol=1e-3)
    np.testing.assert_allclose(motion.v[-1, 3:] @ axis, speed / r, rtol=1e-2)


def test_rims_that_lie_touch_in_their_middle():
    """Where no place of the rim is lowest, and just off that: finite, with derivatives."""
    model, surface = free(1.0, 0.1), FlatGround()
    rim = ground_contacts(model, "body", rims=[0, 0, 0.1], ground=surface)

    def position(turn):
        q = jaxcfa.integrate(model, jnp.array([0, 0, 0.01, 1.0, 0, 0, 0]), jnp.array([0, 0, 0, 0, 1.0, 0]) * turn)
        return contact_state(model, rim, q, jnp.zeros(6)).position

    for turn, x in ((0.0, 0.0), (0.01, 0.05), (0.5, 0.1 * np.cos(0.5))):
        np.testing.assert_allclose(position(turn), [[x, 0, 0.01 - x * np.tan(turn)]], atol=1e-4)
        assert jnp.all(jnp.isfinite(jax.jacrev(position)(turn)))


SHAPE = Box([0.1, 0.2, 0.15])


def rod_on_a_shape():
    """A body that touches another by a segment, its reverse, and a rim, all of them with an edge or near it."""
    own, other = jaxcfa.ModelBuilder(), jaxcfa.ModelBuilder()
    own.add_body("rod", joint=joints.Free(), mass=1.3, inertia=(0.1, 0.2, 0.15))
    other.add_body("shape", joint=joints.Free(), mass=0.8, inertia=(0.02, 0.03, 0.04))
    model = jaxcfa.combine([own.build(), other.build()])
    points, radius, rims = [[0, 0, 0], [0, 0, 0], [0.05, 0.1, -0.02]], [0.06, 0.06, 0.0], np.diag([0.0, 0.0, 0.275])
    segments = np.append(HALF, np.zeros((1, 3)), axis=0)
    law = {"stiffness": 500.0, "stiction_velocity": 0.1}
    contacts = body_contacts(model, ["rod"] * 3, "shape", SHAPE, points, radius, segments=segments, rims=rims, **law)
    turned = jaxcfa.spatial.quaternion_exp(jnp.array([1.0, 0.6, 0.2]))
    q = jnp.concatenate([jnp.array([0.03, 0.02, 0.335]), turned, jnp.array([0, 0, 0, 1.0, 0, 0, 0])])
    return model, contacts, q


def test_derivatives_are_those_of_differences():
    """Of a step, by the state, the segments, the rims, and what the shape is."""
    model, contacts, q = rod_on_a_shape()
    v = 0.1 * jnp.sin(1 + jnp.arange(model.nv))
    assert jnp.all(contact_state(model, contacts, q, v).gap < -1e-3)
    arrays = {"q": jnp.zeros(model.nv), "v": v, "half_lengths": SHAPE.half_lengths}
    arrays |= {name: getattr(contacts, name) for name in ("segments", "rims")}
    along = {k: jnp.cos(1 + jnp.arange(x.size)).reshape(x.shape) for k, x in arrays.items()}
    for name in ("segments", "rims"):  # what is a point has corners there
        along[name] *= jnp.any(arrays[name] != 0, axis=1, keepdims=True)

    def after(x):
        q_now, still = jaxcfa.integrate(model, q, x["q"]), jnp.zeros(model.nv)
        changed = {"surface": Box(x["half_lengths"]), "segments": x["segments"], "rims": x["rims"]}
        own = dataclasses.replace(contacts, **changed)
        return jaxcfa.step(model, q_now, x["v"], still, 2e-3, contacts=own).v

    weights = jnp.cos(jnp.arange(model.nv))
    _, forward = jax.linearize(after, arrays)
    (reverse,) = jax.vjp(after, arrays)[1](weights)
    still = jax.tree.map(jnp.zeros_like, arrays)
    moved = [{**arrays, name: arrays[name] + h * way} for name, way in along.items() for h in (1e-6, -1e-6)]
    ends = jax.vmap(after)(jax.tree.map(lambda *x: jnp.stack(x), *moved)).reshape(len(along), 2, -1)
    for (name, way), (above, below) in zip(along.items(), ends, strict=True):
        slope = forward({**still, name: way})
        assert_close(slope, (above - below) / 2e-6, 1e-5, name)
        np.testing.assert_allclose(jnp.vdot(reverse[name], way), slope @ weights, rtol=1e-7, atol=1e-9)
        assert jnp.max(jnp.abs(slope)) > 1e-4


def test_second_derivatives_of_places():
    model, contacts, q = rod_on_a_shape()

    def height(d):
        state = contact_state(model, contacts, jaxcfa.integrate(model, q, d), jnp.zeros(model.nv))
        return jnp.sum(state.position * jnp.array([[1.0, 2, 3], [-1, 1, 2], [1, -1, 3]]))

    found = second_derivatives(height, jnp.zeros(model.nv), jnp.cos(jnp.arange(model.nv)))
    assert jnp.abs(found[-1]) > 0.1
    np.testing.assert_allclose(found[:-1], [found[-1]] * 4, rtol=1e-5)


def test_grounds_close_over_what_is_traced():
    """Waves that move the place at which a limb touches them."""
    model, q = free(1.0, 0.01), jnp.array([0.1, 0.2, 0.3, 0.8, 0.6, 0.0, 0.0])

    def place(phase):
        waves = lambda p: p[2] - 0.05 * jnp.sin(3 * p[1] + phase)  # noqa: E731
        contacts = ground_contacts(model, "body", radius=0.02, segments=[[0.0, 0.0, 0.2]], ground=waves)
        state = contact_state(model, contacts, q, jnp.zeros(model.nv))
        return state.gap[0] + state.position[0, 1]

    phase, h = jnp.array(0.7), 1e-5
    around = jax.jit(jax.vmap(place))(phase + jnp.array([h, -h]))
    np.testing.assert_allclose(jax.jit(place)(phase), jnp.mean(around), rtol=1e-9)
    np.testing.assert_allclose(jax.jit(jax.grad(place))(phase), (around[0] - around[1]) / (2 * h), rtol=1e-6)


def test_batches_and_single_precision_are_as_single_states():
    def after(model, contacts, q, shift):
        v = jnp.zeros(model.nv, q.dtype)
        return jaxcfa.step(model, q.at[2].add(shift), v, v, 2e-3, contacts=contacts).v

    shifts = np.array([-2e-3, 0.0, 2e-3], np.float32)
    expected = jnp.stack([after(*rod_on_a_shape(), x) for x in shifts.astype(float)])
    for dtype, rtol in ((jnp.float32, 1e-3), (jnp.float64, 1e-9)):
        own = cast(rod_on_a_shape(), dtype)
        found = jax.vmap(lambda x, own=own: after(*own, x))(jnp.asarray(shifts, dtype))
        assert found.dtype == dtype
        assert_close(found, expected, rtol)


def test_what_cannot_be_is_refused():
    model = free(1.0, 0.1)
    for name in "segments", "rims":
        with pytest.raises(ValueError, match=rf"{name} must have shape \(n, 3\) = \(1, 3\), one for each frame, got"):
            ground_contacts(model, "body", **{name: [0.1]})
        with pytest.raises(ValueError, match=f"{name} must be finite"):
            ground_contacts(model, "body", **{name: [0.1, np.nan, 0.0]})
        assert getattr(ground_contacts(model, "body", **{name: np.zeros(3)}), name) is None
        wrong = dataclasses.replace(ground_contacts(model, "body"), **{name: jnp.zeros((2, 3))})
        with pytest.raises(ValueError, match=rf"{name} of contacts must have shape \(1, 3\), got \(2, 3\)"):
            contact_state(model, wrong, jaxcfa.neutral(model), jnp.zeros(6))
