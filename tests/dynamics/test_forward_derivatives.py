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
