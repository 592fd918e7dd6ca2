"""Laws that tie the dynamics functions together, on mechanisms of every kind."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from helpers import assert_close, optimised, tolerance
from mechanisms import TOGETHER, mechanism, random_state, random_states, trees

pytestmark = pytest.mark.parametrize("name", [TOGETHER[0], pytest.param(TOGETHER[1], marks=pytest.mark.slow)])


def test_forward_inverts_inverse_dynamics(name, dtype):
    model = mechanism(name, str(dtype))
    q, v, qdd, f_ext = random_state(model)
    tau = jaxcfa.inverse_dynamics(model, q, v, qdd, f_ext)
    compiled = optimised if dtype == np.float32 else jax.jit  # rounding is to be that which users have
    again = compiled(jaxcfa.forward_dynamics)(model, q, v, tau, f_ext)
    assert tau.dtype == again.dtype == dtype
    # The error of the accelerations grows with the condition of the mass matrix, which float32 feels.
    mass_matrix = np.asarray(jaxcfa.mass_matrix(model, q))
    for tree in trees(model):
        condition = np.linalg.cond(mass_matrix[np.ix_(tree.dofs, tree.dofs)])
        rtol = max(tolerance(dtype) / 100, 20 * condition * float(jnp.finfo(dtype).eps))
        assert_close(again[tree.dofs], qdd[tree.dofs], rtol, tree.name)


def test_mass_matrix_and_bias_make_up_inverse_dynamics(name, dtype):
    model = mechanism(name, str(dtype))
    q, v, qdd, f_ext = random_state(model)
    mass_matrix = jaxcfa.mass_matrix(model, q)
    tau = jaxcfa.inverse_dynamics(model, q, v, qdd, f_ext)
    assert mass_matrix.dtype == dtype
    assert_close(mass_matrix @ qdd + jaxcfa.bias_forces(model, q, v, f_ext), tau, tolerance(dtype) / 10)


def test_mass_matrix_is_symmetric_and_positive_definite(name):
    model = mechanism(name)
    mass_matrix = np.asarray(jaxcfa.mass_matrix(model, random_state(model).q))
    assert np.array_equal(mass_matrix, mass_matrix.T)
    assert np.linalg.eigvalsh(mass_matrix).min() > 0


def test_kinetic_energy_is_that_of_the_mass_matrix(name):
    model = mechanism(name)
    q, v, *_ = random_state(model)
    assert_close(jaxcfa.kinetic_energy(model, q, v), v @ jaxcfa.mass_matrix(model, q) @ v / 2)


def test_power_balance(name):
    """The energy grows by the power of the joint torques and of the external wrenches."""
    model = mechanism(name)
    q, v, qdd, f_ext = random_state(model)

    def energy(t):
        moved, speed = jaxcfa.integrate(model, q, v, t), v + t * qdd
        return jaxcfa.kinetic_energy(model, moved, speed) + jaxcfa.potential_energy(model, moved)

    tau = jaxcfa.inverse_dynamics(model, q, v, qdd, f_ext)
    power = tau @ v + jnp.sum(f_ext * jaxcfa.body_velocities(model, q, v))
    assert_close(jax.jit(lambda t: jax.jvp(energy, (t,), (1.0,))[1])(0.0), power)


def test_linear_momentum_is_that_of_the_centre_of_mass(name):
    model = mechanism(name)
    q, v, *_ = random_state(model)

    def center(t):
        return jaxcfa.center_of_mass(model, jaxcfa.integrate(model, q, v, t))

    rate = jax.jit(lambda t: jax.jvp(center, (t,), (1.0,))[1])(0.0)
    assert_close(jaxcfa.momentum(model, q, v)[3:], jnp.sum(model.mass) * rate)


def test_external_wrenches_act_through_jacobians(name):
    model = mechanism(name)
    q, v, qdd, f_ext = random_state(model)
    through = sum(jaxcfa.jacobian(model, q, body).T @ f_ext[body] for body in range(model.nb))  # compiled once
    without = jaxcfa.inverse_dynamics(model, q, v, qdd)
    assert_close(jaxcfa.inverse_dynamics(model, q, v, qdd, f_ext), without - through)


def test_gravity_is_minus_the_gradient_of_potential_energy(name):
    model = mechanism(name)
    q, v, *_ = random_state(model)
    zero = jnp.zeros_like(v)

    def potential(dv):
        return jaxcfa.potential_energy(model, jaxcfa.integrate(model, q, dv))

    assert_close(jaxcfa.bias_forces(model, q, zero), jax.grad(potential)(zero))


def test_batches_and_single_states_agree(name):
    model = mechanism(name)
    batch = random_states(model, 3)
    taus = jax.jit(jax.vmap(lambda s: jaxcfa.inverse_dynamics(model, *s)))(batch)
    qdds = jax.jit(jax.vmap(lambda s, tau: jaxcfa.forward_dynamics(model, s.q, s.v, tau, s.f_ext)))(batch, taus)
    matrices = jax.jit(jax.vmap(lambda s: jaxcfa.mass_matrix(model, s.q)))(batch)
    assert_close(qdds, batch.qdd)
    for i in range(3):
        state = jax.tree.map(lambda x, i=i: x[i], batch)
        assert_close(taus[i], jaxcfa.inverse_dynamics(model, *state), 1e-12)
        assert_close(matrices[i], jaxcfa.mass_matrix(model, state.q), 1e-12)


def test_models_can_be_batched(name):
    """Domain randomisation: one state, several masses."""
    model = mechanism(name)
    q, v, qdd, _ = random_state(model)
    factors = jnp.array([0.5, 1.0, 2.0])

    def scaled(factor):
        return eqx.tree_at(lambda m: (m.mass, m.inertia, m.armature), model, replace_fn=lambda x: factor * x)

    models = jax.vmap(scaled)(factors)
    taus = jax.vmap(lambda m: jaxcfa.inverse_dynamics(m, q, v, qdd))(models)
    assert_close(taus, factors[:, None] * jaxcfa.inverse_dynamics(model, q, v, qdd))
