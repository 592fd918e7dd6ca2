"""Derivatives of forward dynamics come from the law of motion, whatever the algorithm."""

import equinox as eqx
import jax
import jax.numpy as jnp

import jaxcfa
from helpers import assert_close
from jaxcfa.dynamics import ABA, AbstractForwardDynamics
from mechanisms import mechanism, random_state


def test_derivatives_equal_those_through_the_algorithm():
    """With respect to the model and all arguments, in reverse mode."""
    model = jaxcfa.combine([mechanism("humanoid-like"), mechanism("straight chain")])
    q, v, tau, f_ext = random_state(model)
    weights = jnp.arange(1.0, 1.0 + model.nv)

    def implicit(*arguments):
        return jaxcfa.forward_dynamics(*arguments) @ weights

    def through(*arguments):
        return ABA().solve(*arguments) @ weights

    gradients = [jax.jit(jax.grad(f, argnums=(0, 1, 2, 3, 4)))(model, q, v, tau, f_ext) for f in (implicit, through)]
    assert_close(*gradients, 1e-10)
    inertia = gradients[0][0].inertia
    assert_close(inertia, jnp.swapaxes(inertia, 1, 2), 1e-12)


def test_second_derivatives():
    model = mechanism("straight chain")
    q, v, tau, f_ext = random_state(model)

    def hessian(function):
        hessian = jax.hessian(lambda q: jnp.sum(jnp.sin(function(model, q, v, tau, f_ext))))
        return jax.jit(hessian)(q)

    assert_close(hessian(jaxcfa.forward_dynamics), hessian(ABA().solve), 1e-10)


class Dense(AbstractForwardDynamics):
    """A user's own method that has no derivative itself."""

    def solve(self, model, q, v, tau, f_ext):
        mass_matrix = jax.lax.stop_gradient(jaxcfa.mass_matrix(model, q))
        bias = jax.lax.stop_gradient(jaxcfa.bias_forces(model, q, v, f_ext))
        return jnp.linalg.solve(mass_matrix, tau - bias)


def test_methods_need_no_derivatives_of_their_own():
    model = mechanism("straight chain")
    q, v, tau, f_ext = random_state(model)

    def loss(method, armature):
        changed = eqx.tree_at(lambda m: m.armature, model, armature)
        return jnp.sum(jnp.cos(jaxcfa.forward_dynamics(changed, q, v, tau, f_ext, method)))

    gradients = [jax.grad(loss, argnums=1)(method, model.armature) for method in (Dense(), ABA())]
    assert_close(*gradients, 1e-10)


def test_derivatives_are_differences():
    """Forward and reverse mode agree with differences, also at zero angles, unit quaternions and straight chains."""
    model = mechanism("all together")
    state, direction = random_state(model), random_state(model, 7)
    weights = jnp.arange(1.0, 1.0 + model.nv)

    def along(t, q, v):
        moved = jaxcfa.integrate(model, q, direction.v, t)
        heavier = eqx.tree_at(lambda m: (m.mass, m.com), model, (model.mass * (1 + t), model.com + t))
        arguments = moved, v + t * direction.qdd, state.qdd + t, state.f_ext + t * direction.f_ext
        return jaxcfa.forward_dynamics(heavier, *arguments)

    @jax.jit
    def both_modes(q, v):
        forward = jax.jvp(lambda t: along(t, q, v), (0.0,), (1.0,))[1]
        return forward, jax.grad(lambda t: along(t, q, v) @ weights)(0.0)

    value, h = jax.jit(along), 1e-4
    for q, v in ((state.q, state.v), (jaxcfa.neutral(model), 0 * state.v)):
        forward, reverse = both_modes(q, v)
        # Fourth-order central differences.
        near, far = (value(k * h, q, v) - value(-k * h, q, v) for k in (1, 2))
        assert_close(forward, (8 * near - far) / (12 * h), 1e-7)
        assert_close(reverse, forward @ weights, 1e-9)
