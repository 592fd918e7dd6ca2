"""Springs, damping and friction."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close
from jaxcfa.joints import Free, Revolute, Spherical

REFERENCE = np.array([np.cos(0.2), 0.0, np.sin(0.2), 0.0])


@pytest.fixture(scope="module")
def model():
    """A hinge and a ball, with all kinds of passive forces."""
    builder = jaxcfa.ModelBuilder()
    options = {"stiffness": 4.0, "spring_reference": 0.5, "damping": 0.3, "friction_loss": 0.2}
    builder.add_body("hinge", joint=Revolute((0, 0, 1)), mass=1.0, **options)
    options = {"stiffness": 2.0, "spring_reference": REFERENCE, "damping": (0.1, 0.2, 0.3), "friction_loss": 0.4}
    builder.add_body("ball", "hinge", Spherical(), mass=1.0, **options)
    return builder.build()


def reference(model):
    return jnp.append(0.5, REFERENCE)


def test_at_rest_in_the_reference_there_are_none(model):
    assert_close(jaxcfa.passive_forces(model, reference(model), np.zeros(4)), np.zeros(4), 1e-15)


def test_their_type_is_that_of_the_state(model):
    single = model.astype("float32")
    q, v = reference(single).astype("float32"), np.ones(4, "float32")
    assert jaxcfa.passive_forces(single, q, v, friction_velocity=np.float64(1e-2)).dtype == np.float32


def test_springs(model):
    """A hinge's by its angle, a ball's by the rotation vector; neither sign of a quaternion matters."""
    turned = jnp.array([0.1, -0.2, 0.3])
    q = jaxcfa.integrate(model, reference(model), jnp.append(0.7, turned))
    expected = -np.append(4 * 0.7, 2 * turned)
    assert_close(jaxcfa.passive_forces(model, q, np.zeros(4)), expected, 1e-14)
    assert_close(jaxcfa.passive_forces(model, q.at[1:].multiply(-1), np.zeros(4)), expected, 1e-14)


def test_springs_conserve_energy(model):
    """Their power is minus the rate of the energy, `k |difference|^2 / 2`."""
    q = jaxcfa.random_configuration(model, jax.random.key(1))
    v = jnp.array([0.3, -1.0, 0.4, 0.8])

    def energy(t):
        return jaxcfa.elastic_energy(model, jaxcfa.integrate(model, q, v, t))

    stretch = jaxcfa.difference(model, reference(model), q)
    assert_close(energy(0.0), np.sum(np.asarray(model.stiffness * stretch**2)) / 2, 1e-14)
    assert float(jaxcfa.elastic_energy(model, reference(model))) < 1e-30
    rate = jax.jit(lambda t: jax.jvp(energy, (t,), (1.0,))[1])(0.0)
    assert_close(jaxcfa.passive_forces(model, q, np.zeros(4)) @ v, -np.asarray(rate), 1e-13)


def test_damping_and_friction(model):
    v = np.array([2.0, -1.0, 0.5, 1e-4])
    expected = -np.asarray(model.damping) * v - np.asarray(model.friction_loss) * np.tanh(v / 1e-3)
    assert_close(jaxcfa.passive_forces(model, reference(model), v), expected, 1e-14)
    slow = -np.asarray(model.damping) * v - np.asarray(model.friction_loss) * np.tanh(v / 0.5)
    assert_close(jaxcfa.passive_forces(model, reference(model), v, friction_velocity=0.5), slow, 1e-14)
    # Far beyond the velocity of creep, friction is what the joint was given.
    assert_close(expected[:3] + np.asarray(model.damping[:3]) * v[:3], [-0.2, 0.4, -0.4], 1e-12)


def test_damping_and_friction_dissipate(model):
    speeds = jax.random.normal(jax.random.key(0), (50, 4)) * 10.0 ** jnp.linspace(-6, 2, 50)[:, None]
    forces = jax.jit(jax.vmap(lambda v: jaxcfa.passive_forces(model, reference(model), v)))(speeds)
    assert np.all(forces * speeds < 0)


@pytest.mark.parametrize("argument", ["q", "v"])
def test_derivatives_at_rest_in_the_reference(model, argument):
    """Finite and those of the formula: at the reference the logarithm, at zero velocity the friction is smooth."""
    q, zero = reference(model), jnp.zeros(4)

    def forces(x):
        if argument == "v":
            return jaxcfa.passive_forces(model, q, x)
        return jaxcfa.passive_forces(model, jaxcfa.integrate(model, q, x), zero)

    slopes = {"q": [4, 2, 2, 2], "v": np.asarray(model.damping + model.friction_loss / 1e-3)}
    both_modes = jax.jit(lambda x: [derivative(forces)(x) for derivative in (jax.jacfwd, jax.jacrev)])
    for found in both_modes(zero):
        assert_close(found, -np.diag(np.asarray(slopes[argument])), 1e-13)


def test_single_precision(model):
    v = np.array([2.0, -1.0, 0.5, 1e-4], np.float32)
    single = jaxcfa.passive_forces(model.astype("float32"), reference(model).astype("float32"), v)
    assert single.dtype == jnp.float32
    assert_close(single, np.asarray(jaxcfa.passive_forces(model, reference(model), v)), 1e-6)


@pytest.mark.parametrize("value", [0.0, -1e-3, np.nan, None])
def test_friction_velocity_is_positive(model, value):
    with pytest.raises(ValueError, match="friction_velocity must be positive and finite"):
        jaxcfa.passive_forces(model, reference(model), np.zeros(4), friction_velocity=value)


def test_joints_without_springs_need_no_reference():
    """Zeros are no quaternion: nothing becomes NaN where no spring needs it, and a spring that does is refused."""
    builder = jaxcfa.ModelBuilder()
    builder.add_body("free", joint=Free(), mass=1.0, damping=0.5, spring_reference=0.0)
    builder.add_body("hinge", "free", Revolute((0, 0, 1)), stiffness=2.0)
    with pytest.raises(ValueError, match="spring_reference of body 'ball' has a zero quaternion: "):
        builder.add_body("ball", "hinge", Spherical(), stiffness=2.0, spring_reference=0.0)
    model = builder.build()
    with pytest.raises(ValueError, match="spring_reference of joint 'free_joint' has a zero quaternion: "):
        jaxcfa.with_joint(model, "free_joint", stiffness=1.0)
    q, v = jnp.append(jaxcfa.neutral(model)[:-1], 0.3), jnp.ones(7)
    assert_close(jaxcfa.passive_forces(model, q, v), np.array([-0.5] * 6 + [-0.6]), 1e-15)
    slopes = jax.grad(lambda m, q: jnp.sum(jaxcfa.passive_forces(m, q, v)), (0, 1))(model, q)
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(slopes))


def test_springs_of_mechanisms_are_at_rest_in_the_neutral_configuration():
    for model in (jaxcfa.random_tree(9, jax.random.key(0)), jaxcfa.chain(3, Spherical(), floating_base=True)):
        assert np.array_equal(model.spring_reference, jaxcfa.neutral(model))
