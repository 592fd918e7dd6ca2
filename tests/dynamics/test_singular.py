"""Mechanisms whose mass matrix is singular, and the choice of the algorithm."""

import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa import ABA, AbstractForwardDynamics, forward_dynamics
from jaxcfa.joints import Composite, Revolute

Q, V, TAU = jnp.array([0.3, -0.7]), jnp.array([0.5, 0.2]), jnp.array([1.0, 2.0])
REFUSAL = "invertible mass matrix, but body 'hand' and all that it carries have no inertia"


def arm(axis=(0.0, 1.0, 0.0), **hand) -> jaxcfa.Model:
    """Two links; the second is massless unless it is given something."""
    builder = jaxcfa.ModelBuilder()
    builder.add_body("arm", joint=Revolute((0, 1, 0)), mass=1.0, com=(0.5, 0, 0), inertia=0.1)
    builder.add_body("hand", "arm", Revolute(axis), (1.0, 0, 0), **hand)
    return builder.build()


@pytest.fixture(scope="module")
def massless():
    return arm()


def test_massless_end_link_is_named(massless):
    with pytest.raises(ValueError, match=REFUSAL):
        forward_dynamics(massless, Q, V, TAU)


@pytest.mark.parametrize("transform", [jax.jit, jax.jacfwd, jax.grad, jax.vmap])
def test_massless_end_link_is_named_while_tracing(massless, transform):
    """The model is known even where the state is not."""
    batch = 4 if transform is jax.vmap else ()

    def first(tau):
        return forward_dynamics(massless, Q, V, tau)[0]

    with pytest.raises(ValueError, match=REFUSAL):
        transform(first)(jnp.broadcast_to(TAU, (4, 2)) if batch else TAU)


def test_a_traced_model_gives_nan(massless):
    """Nothing that is finite and wrong, for the singular robot of a batch; the other is as it should be."""
    models = jax.tree.map(lambda *x: jnp.stack(x), massless, arm(mass=1.0, com=(0.5, 0, 0), inertia=0.1))
    singular, regular = jax.jit(jax.vmap(forward_dynamics, (0, None, None, None)))(models, Q, V, TAU)
    assert np.all(np.isnan(singular))
    model = jax.tree.map(lambda x: x[1], models)
    assert_close(jaxcfa.inverse_dynamics(model, Q, V, regular), np.asarray(TAU))


@pytest.mark.parametrize(
    "hand",
    [{"armature": 0.1}, {"mass": 1.0, "com": (0.1, 0.0, 0.0)}, {"inertia": 0.01}],
    ids=["armature", "mass", "inertia"],
)
def test_what_the_message_recommends_helps(hand):
    model = arm(**hand)
    qdd = forward_dynamics(model, Q, V, TAU)
    assert_close(jaxcfa.inverse_dynamics(model, Q, V, qdd), np.asarray(TAU))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [(1.0, 0.0, 0.0), (1.0, 2.0, -3.0)])
def test_point_mass_on_the_axis(axis, dtype):
    """Not massless, yet its joint moves no inertia; rounding must not hide it."""
    along = np.array(axis) / np.linalg.norm(axis)
    model = arm(axis, mass=1.0, com=0.3 * along).astype(dtype)
    with pytest.raises(ValueError, match="singular at this configuration: some joint moves no inertia"):
        forward_dynamics(model, *(x.astype(dtype) for x in (Q, V, TAU)))


@pytest.fixture(scope="module")
def gimbals():
    """Three axes on one body, and the configuration in which the first is the last."""
    builder = jaxcfa.ModelBuilder()
    axes = Composite([Revolute((0, 0, 1)), Revolute((0, 1, 0)), Revolute((1, 0, 0))])
    builder.add_body("ball", joint=axes, mass=1.0, com=(0.1, 0, 0), inertia=0.1, joint_name="gimbals")
    return builder.build(), jnp.array([0.0, np.pi / 2, 0.0])


LOCKED = "the axes of joint 'gimbals' are dependent there .gimbal lock.*Use Spherical or Free"


def test_gimbal_lock_is_called_so(gimbals):
    model, q = gimbals
    with pytest.raises(ValueError, match=LOCKED):
        forward_dynamics(model, q, jnp.zeros(3), jnp.zeros(3))
    geared = eqx.tree_at(lambda m: m.armature, model, jnp.full(3, 0.1))
    assert np.all(np.isfinite(forward_dynamics(geared, q, jnp.zeros(3), jnp.zeros(3))))


def test_inverses_at_gimbal_lock_are_refused(gimbals):
    """As forward dynamics is, except where the configuration is traced."""
    model, q = gimbals
    for function in (
        lambda q: jaxcfa.mass_operator(model, q),
        lambda q: jaxcfa.operational_space_inertia(model, q, "ball"),
        lambda q: jaxcfa.linearize(model, q, jnp.zeros(3), jnp.zeros(3), 0.01),
    ):
        with pytest.raises(ValueError, match=LOCKED):
            function(q)
    assert np.isnan(jax.jit(lambda q: jaxcfa.mass_operator(model, q).logdet())(q))
    assert np.isnan(jaxcfa.mass_operator(model, q * jnp.nan).logdet())


@pytest.mark.parametrize("argument", range(3))
def test_nan_is_not_explained_away(argument):
    """It comes from the arguments, not from the mechanism."""
    arguments = [Q, V, TAU]
    arguments[argument] = arguments[argument].at[0].set(jnp.nan)
    assert np.any(np.isnan(forward_dynamics(arm(inertia=0.1), *arguments)))
    bad = eqx.tree_at(lambda m: m.mass, arm(inertia=0.1), jnp.array([jnp.nan, 1.0]))
    assert np.any(np.isnan(forward_dynamics(bad, Q, V, TAU)))


def test_only_singular_mass_matrices_are_called_so():
    """Not NaN anywhere in the mechanism, whose limits may well be infinite, nor velocities whose squares overflow."""
    model = arm(inertia=0.1)
    for part in (lambda m: m.placement.translation, lambda m: m.joints[0].axis, lambda m: m.gravity):
        bad = eqx.tree_at(part, model, replace_fn=lambda x: x * jnp.nan)
        assert np.any(np.isnan(forward_dynamics(bad, Q, V, TAU)))
    with pytest.raises(ValueError, match="accelerations are too large for float64"):
        forward_dynamics(model, Q, V * 1e200, TAU)


@pytest.mark.parametrize("method", [ABA, "aba", jaxcfa.aba])
def test_method_is_an_algorithm(method):
    # Without the checks of types that the tests switch on, as users have it.
    solve = inspect.unwrap(forward_dynamics)
    with pytest.raises(ValueError, match="method must be an algorithm for forward dynamics, such as ABA"):
        solve(arm(inertia=0.1), Q, V, TAU, method=method)


class Dense(AbstractForwardDynamics):
    """A user's own algorithm, with an option."""

    regularisation: jax.Array

    def solve(self, model, motions, loads):
        mass_matrix = jaxcfa.mass_matrix(model, motions.q) + self.regularisation * jnp.eye(model.nv)
        bias = jaxcfa.bias_forces(model, motions.q, motions.v, loads.f_ext)
        return jnp.linalg.solve(mass_matrix, loads.tau - bias)


def test_own_algorithm():
    model, f_ext = arm(inertia=0.1), jnp.arange(12.0).reshape(2, 6)
    mass_matrix = np.asarray(jaxcfa.mass_matrix(model, Q))
    expected = jaxcfa.aba(model, Q, V, TAU, f_ext)

    def own(tau, regularisation=0.0):
        return forward_dynamics(model, Q, V, tau, f_ext, method=Dense(jnp.array(regularisation)))

    assert_close(own(TAU), np.asarray(expected))
    assert_close(jax.jit(jax.jacrev(own))(TAU), np.linalg.inv(mass_matrix))
    torques = mass_matrix @ expected
    assert_close(own(TAU, 0.5), np.linalg.solve(mass_matrix + 0.5 * np.eye(2), torques))


def test_own_algorithms_are_refused_a_singular_model(massless):
    with pytest.raises(ValueError, match=REFUSAL):
        forward_dynamics(massless, Q, V, TAU, method=Dense(jnp.array(0.0)))
