"""Laws of the configuration manifold."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import jaxcfa
from helpers import assert_close
from jaxcfa.joints import Cylindrical, Free, Planar, Prismatic, Revolute, Spherical
from mechanisms import mechanism


@functools.cache
def mixed(dtype: str) -> jaxcfa.Model:
    """A tree with joints of all types."""
    model = jaxcfa.random_tree(30, jax.random.key(0), floating_base=True, dtype=dtype)
    assert len(model.joints) == 8
    return model


class Setting(NamedTuple):
    """A model, its functions compiled for batches of three, and batches of configurations and velocities."""

    model: jaxcfa.Model
    integrate: Callable
    difference: Callable
    poses: Callable
    q: Array
    p: Array
    v: Array


@functools.cache
def setting(dtype: str) -> Setting:
    model = mixed(dtype)

    def batched(function):
        return jax.jit(jax.vmap(functools.partial(function, model)))

    draw = batched(jaxcfa.random_configuration)
    q, p = (draw(jax.random.split(jax.random.key(seed), 3)) for seed in (0, 1))
    v = jax.random.uniform(jax.random.key(2), (3, model.nv), model.dtype, -1.0, 1.0)
    functions = (jaxcfa.integrate, jaxcfa.difference, jaxcfa.forward_kinematics)
    return Setting(model, *map(batched, functions), q, p, v)


def small(dtype) -> float:
    return 100 * float(jnp.finfo(dtype).eps)


def test_difference_is_undone_by_integrate(dtype):
    """The configurations are equal as poses, for quaternions have two signs."""
    s = setting(str(dtype))
    d = s.difference(s.q, s.p)
    again = s.integrate(s.q, d)
    assert s.q.dtype == d.dtype == again.dtype == dtype
    assert_close(s.poses(again), jax.device_get(s.poses(s.p)), small(dtype))
    assert_close(s.poses(s.integrate(s.q, 0 * d)), jax.device_get(s.poses(s.q)), small(dtype))
    assert_close(s.difference(s.p, s.q), -np.asarray(d), small(dtype))
    assert_close(s.difference(s.q, s.integrate(s.q, s.v)), np.asarray(s.v), small(dtype))


def test_displacements_are_geodesics(dtype):
    """Half the way is half the displacement; two steps are one of twice the length."""
    s = setting(str(dtype))
    d = s.difference(s.q, s.p)
    half = s.integrate(s.q, d / 2)
    assert_close(s.difference(s.q, half), np.asarray(d / 2), small(dtype))
    assert_close(s.poses(s.integrate(half, d / 2)), jax.device_get(s.poses(s.p)), small(dtype))


def test_derivatives_at_zero(dtype):
    """The derivative of a displacement by the velocity is the identity, also where nothing moves."""
    s = setting(str(dtype))
    weights = jnp.arange(1.0, 1.0 + s.model.nv, dtype=dtype)

    def reached(q, v):
        return jaxcfa.difference(s.model, q, jaxcfa.integrate(s.model, q, v))

    @jax.jit
    def derivatives(q, v):
        zero = jnp.zeros_like(v)
        _, forward = jax.linearize(lambda v: reached(q, v), zero)
        return forward(v), jax.linear_transpose(forward, zero)(weights)[0]

    forward, reverse = derivatives(s.q[0], s.v[0])
    assert_close(forward, np.asarray(s.v[0]), small(dtype))
    assert_close(reverse, np.asarray(weights), small(dtype))


def test_neutral(dtype):
    """All angles and displacements vanish: poses are the placements."""
    model = mixed(str(dtype))
    q = jaxcfa.neutral(model)
    assert q.dtype == dtype
    local, poses = np.asarray(model.placement.as_matrix()), {-1: np.eye(4)}
    for body, parent in enumerate(model.topology.parents):
        poses[body] = poses[int(parent)] @ local[body]
    expected = np.stack([poses[i] for i in range(model.nb)])
    assert_close(jaxcfa.forward_kinematics(model, q).as_matrix(), expected, small(dtype))


def limited():
    builder = jaxcfa.ModelBuilder()
    builder.add_body("a", joint=Revolute((0, 0, 1)), lower=-0.2, upper=0.1)
    builder.add_body("b", "a", Prismatic((0, 0, 1)), lower=3.0)
    builder.add_body("c", "b", Free(), lower=[-0.1] * 3 + [-np.inf] * 4, upper=[0.3] * 3 + [np.inf] * 4)
    builder.add_body("d", "c", Revolute((1, 0, 0)))
    builder.add_body("e", "d", Spherical())
    return builder.build()


def test_random_configurations_keep_to_the_limits(key):
    model = limited()
    q = jax.vmap(lambda k: jaxcfa.random_configuration(model, k))(jax.random.split(key, 300))
    assert np.all((q >= model.limits.lower) & (q <= model.limits.upper))
    spread = np.ptp(q, axis=0)
    # Nearly all of every interval is used; where there is no limit, that is a turn or some metres.
    width = np.array([0.3, 1.0, 0.4, 0.4, 0.4, 1, 1, 1, 1, 2 * np.pi, 1, 1, 1, 1])
    assert np.all(spread > 0.9 * width)
    assert_close(np.linalg.norm(q[:, 5:9], axis=1), np.ones(300), 1e-14)
    assert np.all(np.abs(q[:, 9]) <= np.pi)


@pytest.mark.parametrize("far", [1e9, 1e16, 1e308])
def test_limits_that_are_far_away_count_as_none_in_random_configurations(far, key):
    """Many files write them for "none"; ranges that are far from zero themselves are kept to."""
    builder = jaxcfa.ModelBuilder()
    last = builder.add_body("a", joint=Revolute((0, 0, 1)), lower=-far, upper=far)
    last = builder.add_body("b", last, Prismatic((0, 0, 1)), lower=2.0, upper=far)
    last = builder.add_body("c", last, Planar((0, 0, 1)), lower=-far, upper=[far, 1, 1])
    builder.add_body("d", last, Cylindrical((0, 0, 1)), lower=[100.0, -5e3], upper=[101.0, -4.9e3])
    model = builder.build()
    q = jax.vmap(lambda k: jaxcfa.random_configuration(model, k))(jax.random.split(key, 100))
    low, high = [-np.pi, 2, -1, -1, -np.pi, 100, -5e3], [np.pi, 3, 1, 1, 1, 101, -4.9e3]
    assert np.all((q >= np.array(low)) & (q <= np.array(high)))
    assert np.all(np.ptp(q, axis=0) > 0.8 * np.subtract(high, low))


def test_bodies_draw_on_their_own(key):
    """One key gives different bodies different values, and a body the same whatever others there are."""
    long, short = (jaxcfa.random_configuration(jaxcfa.chain(n), key) for n in (4, 2))
    assert len(set(long.tolist())) == 4
    assert np.array_equal(long[:2], short)


def test_steps_may_be_traced_and_batched():
    model = mixed("float64")
    q, v = jaxcfa.neutral(model), jnp.ones(model.nv)
    steps = jnp.array([0.0, 0.1, 0.2])
    path = jax.jit(jax.vmap(lambda dt: jaxcfa.integrate(model, q, v, dt)))(steps)
    for i, dt in enumerate((0, 0.1, 0.2)):
        assert_close(path[i], np.asarray(jaxcfa.integrate(model, q, v, dt)), 1e-14)


def test_wrong_steps_and_keys_are_explained(key):
    model, x = jaxcfa.chain(2), jnp.ones(2)
    with pytest.raises(ValueError, match=r"dt must be one number, got shape \(2,\). Batch with jax.vmap"):
        jaxcfa.integrate(model, x, x, [0.1, 0.2])
    with pytest.raises(ValueError, match="key must be a random key"):
        jaxcfa.random_configuration(model, 0)
    with pytest.raises(ValueError, match=r"key must be one key, got shape \(3,\)"):
        jaxcfa.random_configuration(model, jax.random.split(key, 3))


def test_free_bodies_keep_velocity_in_the_worlds_axes():
    """Position and orientation integrate on their own."""
    model = mechanism("free body")
    q = jaxcfa.random_configuration(model, jax.random.key(0))
    moved = jaxcfa.integrate(model, q, jnp.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 0.1)
    assert_close(moved[:3] - q[:3], np.array([0.1, 0.2, 0.3]), 1e-14)
