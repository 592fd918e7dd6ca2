"""Finds the masses of an arm's links from noisy torques at random states, by the Gauss-Newton method.

A model is a pytree, so the derivative of all torques with respect to its masses is one call of `jax.jacfwd`. Run:

    python examples/identify_masses.py
"""

from importlib import resources

import equinox as eqx
import jax
import jax.numpy as jnp

import jaxcfa

STEPS = 8
NOISE = 2e-3  # N m


def with_masses(model: jaxcfa.Model, log_masses: jax.Array) -> jaxcfa.Model:
    """The model with other masses, which stay positive; inertias scale along, as for bodies of the same shape."""
    scale = jnp.exp(log_masses) / model.mass
    return eqx.tree_at(lambda m: (m.mass, m.inertia), model, (model.mass * scale, model.inertia * scale[:, None, None]))


def main() -> None:
    truth = jaxcfa.load_model(resources.files("jaxcfa") / "data" / "arm7.urdf")
    keys = jax.random.split(jax.random.key(0), 4)
    q = jax.vmap(lambda key: jaxcfa.random_configuration(truth, key))(jax.random.split(keys[0], 256))
    v, qdd = (jax.random.normal(key, (256, truth.nv)) for key in keys[1:3])

    def torques(model: jaxcfa.Model) -> jax.Array:
        return jax.vmap(lambda *state: jaxcfa.inverse_dynamics(model, *state))(q, v, qdd)

    exact = torques(truth)
    measured = exact + NOISE * jax.random.normal(keys[3], exact.shape)

    @jax.jit
    def step(log_masses):
        def residual(x):
            return (torques(with_masses(truth, x)) - measured).ravel()

        update, *_ = jnp.linalg.lstsq(jax.jacfwd(residual)(log_masses), residual(log_masses))
        return log_masses - update, jnp.std(residual(log_masses))

    guess = jnp.log(jnp.full_like(truth.mass, 2.0))
    for i in range(STEPS):
        error = jnp.max(jnp.abs(jnp.exp(guess) / truth.mass - 1))
        guess, deviation = step(guess)
        print(f"step {i}: torques off by {deviation:8.4f} N m, the worst mass by {error:7.2%}")


if __name__ == "__main__":
    main()
