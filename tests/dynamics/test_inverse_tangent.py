"""Derivatives of inverse dynamics in closed form equal those of the recursions as they stand."""

import functools
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa.dynamics import _inverse
from jaxcfa.joints import Revolute, Universal
from jaxcfa.structured import AncestorMask, Doubling, Sequential
from mechanisms import mechanism, random_state, trees


def closed_form(model, q, v, qdd, f_ext, schedule):
    motions = jaxcfa.body_motions(model, q, v, schedule)
    torques = jaxcfa.inverse_dynamics(model, q, v, qdd, f_ext, schedule)
    return torques, _inverse.joint_wrenches_of_motions(model, motions, qdd, f_ext)


def newton_euler(model, q, v, qdd, f_ext, schedule):
    return _inverse.newton_euler(model, jaxcfa.body_motions(model, q, v, schedule), qdd, f_ext)


def directions(arguments, key):
    keys = jax.random.split(key, len(arguments))
    return tuple(jax.random.normal(k, x.shape, x.dtype) for k, x in zip(keys, arguments, strict=True))


@jax.jit
def tangents(model, arguments, along, schedules):
    """Values and tangents, in closed form with each schedule, and of the recursions."""

    def of(function, schedule):
        return jax.jvp(lambda *x: function(model, *x, schedule), arguments, along)

    return [of(closed_form, schedule) for schedule in schedules], of(newton_euler, schedules[0])


LARGE = "70 bodies: "


@functools.cache
def forest():
    """All mechanisms and a larger one, together more bodies than are summed by products."""
    small = mechanism("all together")
    joints, options = [Revolute, Universal], {"branching": 0.3, "floating_base": True, "gravity": small.gravity}
    return jaxcfa.combine([small, jaxcfa.random_tree(70, jax.random.key(20_240_229), joints, **options)], ["", LARGE])


CASES = [
    pytest.param("forest", (Sequential(), Doubling()), marks=pytest.mark.slow),
    ("all together", (AncestorMask(),)),
    pytest.param("humanoid-like", (Sequential(),), marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "schedules"), CASES, ids=str)
def test_tangents(name, schedules, key):
    """Along directions of everything, with quaternions that are not of unit length, and that leave their sphere."""
    model = forest() if name == "forest" else mechanism(name)
    q, *others = random_state(model)
    arguments = (1.1 * q, *others)
    every, expected = tangents(model, arguments, directions(arguments, key), schedules)
    for found, tree in itertools.product(every, trees(model)):
        for x, y in zip(found, expected, strict=True):  # values and tangents, of torques and wrenches
            own = (x[0][tree.dofs], x[1][tree.bodies]), (y[0][tree.dofs], y[1][tree.bodies])
            assert_close(*own, 1e-11 if tree.name.startswith(LARGE) else 1e-12, tree.name)


def test_single_precision(key):
    model = mechanism("ball joints", "float32")
    arguments = tuple(random_state(model))
    (found,), expected = tangents(model, arguments, directions(arguments, key), (Sequential(),))
    assert_close(found, expected)
    assert all(x.dtype == jnp.float32 for x in jax.tree.leaves(found))


@pytest.mark.slow
def test_each_argument_alone():
    """Reverse mode with respect to one argument, the others being constants, against forward mode."""
    model = mechanism("ball joints")
    arguments = random_state(model)
    weights = jnp.cos(jnp.arange(model.nv)), jnp.sin(jnp.arange(6 * model.nb)).reshape(-1, 6)

    @jax.jit
    def gradients(arguments):
        def scalar(function, *arguments):
            torques, wrenches = function(model, *arguments, Sequential())
            return jnp.vdot(weights[0], torques) + jnp.vdot(weights[1], wrenches)

        alone = [jax.grad(scalar, number)(closed_form, *arguments) for number in range(1, 5)]
        return alone, jax.jacfwd(scalar, (1, 2, 3, 4))(newton_euler, *arguments)

    for name, found, expected in zip(arguments._fields, *gradients(arguments), strict=True):
        assert_close(found, expected, 1e-12, name)


@pytest.mark.slow
def test_models_and_states_together():
    """With respect to some leaves of the model besides the state, and batched over models."""
    model = mechanism("ball joints")
    arguments = random_state(model)

    def scalar(function, mass, q):
        changed = eqx.tree_at(lambda m: m.mass, model, mass)
        return jnp.sum(jnp.sin(function(changed, q, *arguments[1:], Sequential())[0]))

    @jax.jit
    def gradients(masses, q):
        def gradient(mode, function):
            return jax.vmap(mode(lambda *x: scalar(function, *x), (0, 1)), (0, None))(masses, q)

        return gradient(jax.grad, closed_form), gradient(jax.jacfwd, newton_euler)

    masses = model.mass * jnp.array([[1.0], [1.5]])
    assert_close(*gradients(masses, arguments[0]), 1e-12)


@pytest.mark.slow
def test_second_derivatives():
    model = mechanism("ball joints")
    q, v, qdd, f_ext = random_state(model)
    along = jnp.cos(jnp.arange(model.nq))

    @jax.jit
    def products(q):
        def product(mode, function):
            gradient = mode(lambda q: jnp.sum(jnp.sin(function(model, q, v, qdd, f_ext, Sequential())[0])))
            return jax.jvp(gradient, (q,), (along,))[1]

        return product(jax.grad, closed_form), product(jax.jacfwd, newton_euler)

    assert_close(*products(q), 1e-11)


def test_at_rest_and_at_zero():
    """Derivatives at the neutral configuration, without motion, are finite, the second ones too."""
    model = mechanism("mixed tree")
    q, rest, f_ext = jaxcfa.neutral(model), jnp.zeros(model.nv), jnp.zeros((model.nb, 6))

    @jax.jit
    def derivatives(q):
        def squares(q):
            return jnp.sum(jaxcfa.inverse_dynamics(model, q, rest, rest, f_ext) ** 2)

        # Whatever is not finite stays so when it is multiplied or added.
        return jax.jvp(jax.grad(squares), (q,), (jnp.ones(model.nq),))

    assert all(bool(jnp.all(jnp.isfinite(x))) for x in derivatives(q))
