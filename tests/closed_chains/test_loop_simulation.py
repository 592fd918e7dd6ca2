"""Ten seconds of mechanisms with loops: they stay closed, and keep their energy as the integrator's order says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from jaxcfa.closed_chains import constrained_forward_dynamics
from jaxcfa.simulation import RungeKutta4, step
from loops import loop


def energy(model, q, v):
    return jaxcfa.kinetic_energy(model, q, v) + jaxcfa.potential_energy(model, q)


@jax.jit
def simulate(model, constraints, q, v, dt, steps):
    """Largest opening and change of energy, looked at every tenth of a second."""
    tau, before = jnp.zeros_like(v), energy(model, q, v)

    def advance(_, state):
        return step(model, *state, tau, dt, RungeKutta4(), passive_forces=False, constraints=constraints)

    def stretch(_, carry):
        state, worst, change = carry
        state = jax.lax.fori_loop(0, steps // 100, advance, state)
        opening = constrained_forward_dynamics(model, constraints, *state, tau).motion.residual
        now = jnp.abs(energy(model, *state) - before)
        return state, jnp.maximum(worst, jnp.max(jnp.abs(opening))), jnp.maximum(change, now)

    zero = jnp.zeros(())
    return jax.lax.fori_loop(0, 100, stretch, (jaxcfa.simulation.State(q, v), zero, zero))[1:]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["four-bar", "spatial four-bar", "delta", "bricard"])
def test_ten_seconds(name):
    (model, constraints, *_), (q, v, _) = loop(name)
    # Slow enough for the parallel robot not to run into a singular configuration.
    state = jnp.asarray(q), jnp.asarray(v) * (0.1 if name == "delta" else 1.0)
    opening, change = simulate(model, constraints, *state, 2e-3, 5000)
    assert opening < 1e-6
    finer_opening, finer_change = simulate(model, constraints, *state, 1e-3, 10000)
    assert finer_opening < 1e-7
    # Order four: a sixteenth, or rounding.
    assert np.log2(change / finer_change) > 3.5 or change < 1e-10
