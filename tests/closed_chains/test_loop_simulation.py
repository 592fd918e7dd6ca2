"""Ten seconds of mechanisms with loops: they stay closed, and keep their energy as the integrator's order says."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxcfa
from jaxcfa.closed_chains import Baumgarte, constrained_forward_dynamics
from jaxcfa.simulation import RungeKutta4
from loops import loop


class Equation(eqx.Module):
    """The equation of motion of a mechanism with loops, without torques."""

    model: jaxcfa.Model
    constraints: tuple

    def acceleration(self, q, v, tau, f_ext):
        return self._solution(q, v, tau, f_ext).qdd

    def opening(self, q, v):
        """The largest residual."""
        zero = jnp.zeros_like(v)
        return jnp.max(jnp.abs(self._solution(q, v, zero, jnp.zeros((self.model.nb, 6))).motion.residual))

    def energy(self, q, v):
        return jaxcfa.kinetic_energy(self.model, q, v) + jaxcfa.potential_energy(self.model, q)

    def _solution(self, q, v, tau, f_ext):
        return constrained_forward_dynamics(
            self.model, self.constraints, q, v, tau, f_ext, stabilization=Baumgarte(20.0)
        )


@jax.jit
def simulate(equation, q, v, dt, steps):
    """Largest opening and change of energy, looked at every tenth of a second."""
    tau, f_ext, before = jnp.zeros_like(v), jnp.zeros((equation.model.nb, 6)), equation.energy(q, v)

    def step(_, state):
        return RungeKutta4().step(equation, *state, tau, f_ext, dt)

    def stretch(_, carry):
        state, worst, change = carry
        state = jax.lax.fori_loop(0, steps // 100, step, state)
        now = jnp.abs(equation.energy(*state) - before)
        return state, jnp.maximum(worst, equation.opening(*state)), jnp.maximum(change, now)

    zero = jnp.zeros(())
    return jax.lax.fori_loop(0, 100, stretch, ((q, v), zero, zero))[1:]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["four-bar", "spatial four-bar", "delta", "bricard"])
def test_ten_seconds(name):
    (model, constraints, *_), (q, v, _) = loop(name)
    # Slow enough for the parallel robot not to run into a singular configuration.
    state = jnp.asarray(q), jnp.asarray(v) * (0.1 if name == "delta" else 1.0)
    equation = Equation(model, constraints)
    opening, change = simulate(equation, *state, 2e-3, 5000)
    assert opening < 1e-6
    finer_opening, finer_change = simulate(equation, *state, 1e-3, 10000)
    assert finer_opening < 1e-7
    # Order four: a sixteenth, or rounding.
    assert np.log2(change / finer_change) > 3.5 or change < 1e-10
